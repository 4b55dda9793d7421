"""`projseg shell`: statements in a file, in the command, and typed at a terminal's prompt."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import projseg
from projseg.cli import app
from projseg.cli.output import OutputFormat, print_rows
from projseg.cli.shell import _TerminalText
from projseg.errors import InvalidInputError, ProjsegError, place_in

ROWS = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of ten days, one of names, and one in a folder within."""
    path = tmp_path_factory.mktemp("shell")
    times = pa.array([h * 3_600_000_000 for h in range(ROWS)]).cast(pa.timestamp("us", "UTC"))
    rows = {"time": times, "country": [f"c{h % 5}" for h in range(ROWS)], "added": [*range(ROWS)]}
    projseg.Table.create(
        path / "edits", time_column="time", segment_granularity="day", data=pa.table(rows)
    )
    codes = {"code": ["c0", "c1"], "full name": ["Chad", "Cuba"]}
    projseg.Table.create(path / "places", data=pa.table(codes))
    projseg.Table.create(path / "old" / "edits", data=pa.table({"n": [7]}))
    return path


def run(*words, input=None, exit_code=0):
    found = CliRunner().invoke(app, ["shell", *map(str, words)], input=input)
    if exit_code == 0:
        assert found.exit_code == 0, (found.output, found.exception)
    else:
        assert isinstance(found.exception, ProjsegError), found.exception
    return found


def test_statements_of_a_command_are_answered_in_order(folder):
    found = run(
        folder, "-c", "SELECT count(*) AS n FROM edits; SELECT ';' AS t FROM places LIMIT 1"
    )
    assert found.stdout == '{"n": 240}\n{"t": ";"}\n'


def test_a_file_has_statements_over_lines_and_commands(folder):
    text = (
        ".tables\n.mode csv\n-- the names; all of them\nSELECT `full name`, count(*) AS n\n"
        "FROM edits JOIN places ON country = code\nGROUP BY ALL ORDER BY 1; SHOW COLUMNS FROM edits"
        ";\n.mode json\nSELECT n FROM old.edits;;\n\n-- over\n"
    )
    assert run(folder, input=text).stdout.splitlines() == [
        '{"table": "edits"}', '{"table": "old.edits"}', '{"table": "places"}',
        "full name,n", "Chad,48", "Cuba,48", "col_name", "time", "country", "added", '{"n": 7}',
    ]  # fmt: skip


def test_the_first_error_ends_a_file(folder):
    text = "SELECT n FROM old.edits;\nSELECT m FROM old.edits;\nSELECT n FROM old.edits;"
    found = run(folder, input=text, exit_code=1)
    assert found.stdout == '{"n": 7}\n'
    assert found.exception.code == "PROJSEG_UNKNOWN_COLUMN"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT n FROM old.edits", "PROJSEG_BAD_SQL"),
        ("SELECT 'n FROM old.edits;", "PROJSEG_BAD_EXPRESSION"),
        ("DELETE FROM edits;", "PROJSEG_BAD_SQL"),
        (".mood table\n", "PROJSEG_BAD_ARGUMENT"),
        (".mode xml\n", "PROJSEG_BAD_ARGUMENT"),
        ("SELECT * FROM nosuch;", "PROJSEG_BAD_SQL"),
        ("DESCRIBE nosuch;", "PROJSEG_BAD_SQL"),
    ],
)
def test_what_is_no_whole_statement_is_refused(folder, text, code):
    assert run(folder, input=text, exit_code=1).exception.code == code


def test_a_name_is_no_part_of_another_word(folder, tmp_path):
    for name in ("edits", "zed", "ro"):
        projseg.Table.create(tmp_path / name, data={"n": [1]})
    found = run(tmp_path, "-c", "SELECT * FROM nosuch", exit_code=1).exception
    assert "edits, ro, zed" in found.message
    assert (
        ".mode and one of table, json"
        in run(tmp_path, "-c", ".mode no", exit_code=1).exception.message
    )


def test_a_damaged_table_breaks_only_what_names_it(tmp_path):
    projseg.Table.create(tmp_path / "edits", data={"n": [1]})
    projseg.Table.create(tmp_path / "ed", data={"n": [2]})
    (tmp_path / "it" / "_projseg").mkdir(parents=True)
    (tmp_path / "it" / "_projseg" / "00000000000000000000.json").write_text("{")
    assert run(tmp_path, "-c", "SELECT n FROM edits").stdout == '{"n": 1}\n'
    assert len(run(tmp_path, "-c", ".tables").stdout.splitlines()) == 3
    unknown = run(tmp_path, "-c", "SELECT n FROM nosuch", exit_code=1).exception
    assert (unknown.code, "'nosuch'" in unknown.message) == ("PROJSEG_BAD_SQL", True)
    assert run(tmp_path, "-c", "SELECT n FROM it", exit_code=1).exception.code != "PROJSEG_BAD_SQL"


def test_a_table_is_listed_once_wherever_links_lead(tmp_path):
    projseg.Table.create(tmp_path / "all" / "edits", data={"n": [1]})
    (tmp_path / "all" / "loop").symlink_to(tmp_path / "all")
    (tmp_path / "all" / "inner").mkdir()
    (tmp_path / "all" / "inner" / "up").symlink_to(tmp_path)
    assert run(tmp_path / "all", "-c", ".tables").stdout == '{"table": "edits"}\n'
    edits = tmp_path / "all" / "edits"
    assert run(edits, f"{edits}/", "-c", ".tables").stdout == '{"table": "edits"}\n'


def test_a_command_may_begin_with_a_mark_of_unicode_or_a_dot(folder):
    assert run(folder, "-c", ".mode csv\nSELECT n\nFROM old.edits;").stdout == "n\n7\n"
    assert run(folder, input="\ufeffSELECT n FROM old.edits;").stdout == '{"n": 7}\n'
    assert run(folder, input="\ufeff.mode csv\nSELECT n FROM old.edits;").stdout == "n\n7\n"


@pytest.mark.parametrize("mode", ["table", "csv", "markdown"])
def test_stored_text_does_not_steer_a_terminal(mode, monkeypatch, capsys):
    rows = pa.table({"a\x1b]0;b\x07": ["x\x1b[2Jy"]})
    print_rows(rows, OutputFormat(mode))
    assert mode == "table" or "x\x1b[2Jy" in capsys.readouterr().out
    text = _TerminalText()
    monkeypatch.setattr("sys.stdout", text)
    print_rows(rows, OutputFormat(mode))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue()).replace("\\\\", "\\")
    assert "x\\x1b[2Jy" in shown
    assert "a\\x1b]0;b\\x07" in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", shown)


def test_help_breaks_no_word_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "markdown" in CliRunner().invoke(app, ["shell", "--help"]).stdout


def test_one_table_has_any_name_and_a_catalogs_tables_have_theirs(folder, tmp_path):
    assert run(folder / "places", "-c", "SELECT count(*) AS n FROM t").stdout == '{"n": 2}\n'
    pytest.importorskip("sqlalchemy")
    with projseg.Catalog(tmp_path / "house.db") as catalog:
        catalog.register("edits", str(folder / "edits"))
        catalog.create_namespace("geo")
        catalog.register("geo.places", str(folder / "places"))
    statements = (
        "SELECT count(*) AS n FROM edits JOIN geo.places ON country = code;"
        "SELECT count(*) AS n FROM information_schema.tables"
    )
    assert run(tmp_path / "house.db", "-c", statements).stdout == '{"n": 96}\n{"n": 2}\n'


def test_places_of_one_name_and_none_are_refused(folder):
    twice = run(folder / "edits", folder / "old/edits", "-c", "", exit_code=1)
    assert twice.exception.code == "PROJSEG_BAD_ARGUMENT"
    named = run(folder / "edits", f"old={folder}/old/edits", "-c", "SELECT n FROM old")
    assert named.stdout == '{"n": 7}\n'
    assert run(folder / "no", "-c", "", exit_code=1).exception.code == "PROJSEG_NOT_A_TABLE"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT conutry\nFROM edits", "conutry"),
        ("SELECT added +\nFROM edits WHERE", "WHERE"),
        ("SELECT sum(added) OVER () FROM edits", "OVER"),
        ("SELECT added FROM edtis", "edtis"),
        ("SELECT conutry, conutry FROM edits", None),
    ],
)
def test_an_error_names_its_place_in_the_statement(folder, text, shown):
    tables = {name: projseg.Table(folder / name) for name in ("edits", "places")}
    with pytest.raises(ProjsegError) as refused:
        projseg.sql(text, tables)
    place = place_in(text, refused.value)
    assert place is None if shown is None else text[place:].startswith(shown)


def test_a_place_beyond_the_statement_is_none():
    assert place_in("SELECT", InvalidInputError("PROJSEG_BAD_SQL", "at character 7")) is None


class Prompt:
    """A shell on a terminal of 80 columns."""

    def __init__(self, *words, home):
        pytest.importorskip("prompt_toolkit")
        self.terminal, theirs = pty.openpty()
        self.unread = ""
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        environment |= {"TERM": "xterm", "XDG_STATE_HOME": str(home), "PAGER": "tail -n 3"}
        environment |= {"PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "projseg", "shell", *map(str, words)],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self):
        self.read_until("projseg>")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)

    def type(self, text, until):
        """Type a text, and return what is shown until something is."""
        os.write(self.terminal, text.encode())
        return self.read_until(until)

    def answer(self, text, until="rows, "):
        """Type a statement, and return what is shown until the next prompt."""
        return self.type(f"{text}\r", until) + self.read_until("projseg>")

    def read_until(self, until):
        found, end = self.unread, time.monotonic() + 30
        while until not in found:
            assert time.monotonic() < end, found
            if select.select([self.terminal], [], [], 0.1)[0]:
                found += os.read(self.terminal, 65536).decode()
                found = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", found).replace("\r", "")
        end = found.index(until) + len(until)
        self.unread = found[end:]
        return found[:end]


def test_a_prompt_completes_answers_points_at_errors_and_goes_on(folder, tmp_path):
    with Prompt(folder, home=tmp_path) as prompt:
        prompt.type("SELECT count(*) AS n FROM pla\t", "places")
        assert "│ 2 │" in prompt.answer(";")
        prompt.type("SELECT max(adde\t", "added")
        prompt.type(") AS m\r", "...>")
        assert "239" in prompt.answer("FROM edits;")
        found = prompt.answer("SELECT conutry FROM edits;", "did you mean")
        assert "\nSELECT conutry FROM edits\n       ^\n[PROJSEG_UNKNOWN_COLUMN]" in found
        # Behind the pager's three lines; the head of the answer is on none of them.
        found = prompt.answer("SELECT time FROM edits ORDER BY time;")
        assert "1970-01-10T23" in found
        assert "1970-01-01T00" not in found
        prompt.type("\x1b[A", "BY time;")  # the history
        prompt.type("\x03", "projseg>")
        os.write(prompt.terminal, b".quit\r")
        assert prompt.process.wait(30) == 0
    history = tmp_path / "projseg" / "shell_history"
    assert "SELECT conutry FROM edits;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


SLOW = "SELECT count(DISTINCT sha2(concat(t, cast(n as string)), 512)) AS c FROM slow;\r"


def test_an_interrupt_ends_a_question_and_not_the_shell(tmp_path):
    count = 1_000_000
    rows = {"n": pa.array(range(count)), "t": pa.array(["word"] * count)}
    projseg.Table.create(tmp_path / "slow", target_segment_rows=100_000, data=pa.table(rows))
    with Prompt(tmp_path / "slow", home=tmp_path) as prompt:
        os.write(prompt.terminal, SLOW.encode())
        time.sleep(0.7)
        prompt.process.send_signal(signal.SIGINT)
        assert "cancelled" in prompt.read_until("cancelled")
        prompt.read_until("projseg>")
        assert "1,000,000" in prompt.answer("SELECT count(*) AS n FROM slow;")
        os.write(prompt.terminal, b"\x04")
        assert prompt.process.wait(30) == 0
