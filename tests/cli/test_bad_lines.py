"""Imports of files with bad lines, each of which is named by its number; previews; `--arg`."""

import gzip
import io
import json
import random
import sys

import pytest
from scale import tries
from typer.main import get_command

import projseg
from projseg.catalog.external import text_blocks
from projseg.cli import app, main

FAULTS = {
    "csv": ("a,b", "x,1,2,3,4", "t,1.5,2015-09-12T00:00:00Z", "t,7,never", 't,"8,2015-09-12'),
    "json": ("{", "[1]", '"text"', '{"k": 1, "n": 2}', '{"k": "a", "n": "many"}', "nul", "{}}"),
}
TIME = "2015-09-12T00:00:00Z"


def run(monkeypatch, capsys, *words):
    """Run the command line in this process; return its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["projseg", *map(str, words)])
    try:
        main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    return code, *capsys.readouterr()


def written(kind, random_, count):
    """Return the lines of a file, the numbers of bad ones, and the values of the good ones."""
    lines, bad, good = [], [], []
    if kind == "csv":
        lines.append("k,n,t")
    for n in range(count):
        if n and random_.random() < 0.1:
            lines.append(random_.choice(FAULTS[kind]))
            bad.append(len(lines))
            continue
        good.append(n)
        key = random_.choice(["a", "é", ":x", "5in"])
        row = {"k": key, "n": n, "t": TIME}
        lines.append(f"{key},{n},{TIME}" if kind == "csv" else json.dumps(row))
    return lines, bad, good


@pytest.mark.parametrize("kind", FAULTS)
def test_good_lines_are_rows_and_bad_ones_are_told_by_number(tmp_path, monkeypatch, capsys, kind):
    for seed in range(tries(8)):
        random_ = random.Random(seed)
        monkeypatch.setattr(text_blocks, "BLOCK_BYTES", random_.choice([64, 1000, 1 << 20]))
        lines, bad, good = written(kind, random_, random_.randrange(30, 200))
        text = random_.choice(["\n", "\r\n"]).join(lines) + random_.choice(["", "\n"])
        path = tmp_path / f"{seed}.{kind}"
        if seed % 2:
            path = path.with_suffix(f".{kind}.gz")
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_bytes(text.encode())
        table, kept = tmp_path / f"t{seed}", tmp_path / "bad.jsonl"
        common = ("import", table, path, "--type", "n=int", "--type", "t=timestamp")
        if bad:
            code, _, error = run(monkeypatch, capsys, *common)
            assert (code, f"line {bad[0]}: " in error) == (1, True), error
            assert not projseg.is_table(table)
        fewer = ("--on-error", "skip", "--max-errors", len(bad) - 1)
        if bad:
            assert run(monkeypatch, capsys, *common, *fewer)[0] == 1
            assert not projseg.is_table(table)
        code, out, error = run(monkeypatch, capsys, *common, "--on-error", kept, "-o", "json")
        assert code == 0, error
        assert json.loads(out)["bad_lines"] == len(bad)
        told = [json.loads(line) for line in kept.read_text().splitlines()]
        assert [one["line"] for one in told] == bad
        assert [one["text"] for one in told] == [lines[number - 1] for number in bad]
        assert all(one["reason"] for one in told)
        assert sorted(projseg.Table(table).query()["n"].to_pylist()) == good


def test_null_names_no_file_of_bad_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("n\n1\nx\n")
    asked = ("import", "t", "a.csv", "--type", "n=int", "--on-error")
    code, _, error = run(monkeypatch, capsys, *asked, "null")
    assert (code, "say fail, skip, or a file" in error) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv"]
    assert run(monkeypatch, capsys, *asked, "./null")[0] == 0


def test_text_is_taken_as_it_is_said_to_be(tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.txt"
    path.write_text("007;'a;b';-\n008;-;9\n")
    form = ("--format", "csv", "--delimiter", ";", "--no-header", "--quote", "'", "--null", "-")
    types = ("--type", "f0=string", "--type", "f2=bigint")
    assert run(monkeypatch, capsys, "import", tmp_path / "t", path, *form, *types)[0] == 0
    found = projseg.Table(tmp_path / "t").query().to_pylist()
    assert found == [{"f0": "007", "f1": "a;b", "f2": None}, {"f0": "008", "f1": None, "f2": 9}]


def test_arrays_standard_input_samples_and_new_columns(tmp_path, monkeypatch, capsys):
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows, indent=1))
    table = tmp_path / "t"
    code, out, _ = run(monkeypatch, capsys, "import", table, path, "--sample", 1, "-o", "json")
    assert (code, projseg.is_table(table)) == (0, False)
    assert [json.loads(line) for line in out.splitlines()][2:] == rows[:1]
    for _ in range(2):  # the second changes nothing
        assert run(monkeypatch, capsys, "import", table, path, "--commit-as", "one")[0] == 0
    assert projseg.Table(table).query().to_pylist() == rows
    piped = io.TextIOWrapper(io.BytesIO(b'{"a": 3, "c": 1.5}\n'))
    monkeypatch.setattr(sys, "stdin", piped)
    words = ("import", table, "-", "--format", "json")
    assert run(monkeypatch, capsys, *words)[0] == 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 3, "c": 1.5}\n')))
    assert run(monkeypatch, capsys, *words, "--merge-schema")[0] == 0
    added = projseg.Table(table).query(filter="a = 3").to_pylist()
    assert added == [{"a": 3, "b": None, "c": 1.5}]


@pytest.fixture
def small(tmp_path):
    rows = {"a": [1, 2, 3], "b": ["x", "'", None]}
    return projseg.Table.create(tmp_path / "small", {"a": "int", "b": "string"}, data=rows)


def test_previews_refuse_what_the_act_would_refuse(small, monkeypatch, capsys):
    here = small.location
    for words, refused in [
        (("update", here, "--set", "nosuch = 1"), "PROJSEG_UNKNOWN_COLUMN"),
        (("update", here, "--set", "a = nosuch"), "PROJSEG_UNKNOWN_COLUMN"),
        (("update", here, "--set", "a = 'x'"), "PROJSEG_SCHEMA_MISMATCH"),
        (("update", here, "--set", "a = 1 / (a - 2)"), "PROJSEG_EVALUATION"),
        (("delete", here, "--filter", "now() > current_date()"), "PROJSEG_UNSUPPORTED_FUNCTION"),
        (("delete", here, "--filter", " "), "PROJSEG_BAD_QUERY"),
        (("delete", here, "--filter", "a = :x"), "PROJSEG_BAD_ARGUMENT"),
        (("delete", here, "--filter", "a = :x", "--arg", "x:int=many"), "PROJSEG_BAD_ARGUMENT"),
        (("delete", here, "--filter", "a = 1", "--dry-run", "--yes"), "PROJSEG_BAD_ARGUMENT"),
    ]:
        acts = (
            [words] if "--dry-run" in words else [words, (*words, "--dry-run"), (*words, "--yes")]
        )
        for act in acts:
            code, _, error = run(monkeypatch, capsys, *act)
            assert (code, refused in error) == (1, True), (act, error)
    assert projseg.Table(here).version == 0


def test_previews_count_and_acts_do_it(small, tmp_path, monkeypatch, capsys):
    here = small.location
    changes = tmp_path / "rows.json"
    changes.write_text('{"a": 3, "b": "new"}\n{"a": 4, "b": "newer"}\n')
    for words, would, done in [
        (("update", here, "--set", "b = :new", "--filter", "a IN (:many)", "--arg", "new=q'",
          "--arg", "many:int=1", "--arg", "many:int=2"), {"would_update_rows": 2},
         {"updated_rows": 2}),
        (("merge", here, changes, "--on", "a"),
         {"would_merge_rows": 2, "would_update_rows": 1, "would_insert_rows": 1},
         {"updated_rows": 1, "inserted_rows": 1}),
        (("merge", here, changes, "--on", "a", "--when-matched", "ignore"),
         {"would_merge_rows": 0}, {"updated_rows": 0}),
        (("delete", here, "--filter", "b = :b", "--arg", "b=q'"), {"would_delete_rows": 2},
         {"deleted_rows": 2}),
        (("truncate", here), {"would_delete_rows": 2}, {"deleted_rows": 2}),
    ]:  # fmt: skip
        for preview in ((), ("--dry-run",)):
            code, out, error = run(monkeypatch, capsys, *words, *preview, "-o", "json")
            assert code == 0, error
            assert would.items() <= json.loads(out).items()
        code, out, error = run(monkeypatch, capsys, *words, "--yes", "-o", "json")
        assert code == 0, error
        assert done.items() <= json.loads(out).items()


def test_the_shell_takes_values(small, monkeypatch, capsys):
    here = small.location
    asked = (
        "SELECT a FROM t WHERE b = :b OR a = :n ORDER BY a",
        "--arg",
        "b='",
        "--arg",
        "n:int=1",
    )
    code, out, error = run(monkeypatch, capsys, "sql", here, *asked, "-o", "json")
    assert (code, out) == (0, '{"a": 1}\n{"a": 2}\n'), error
    words = ("query", here, "-c", "a", "-f", "b = :b", "--arg", "b=\\' OR true -- ", "-o", "json")
    assert run(monkeypatch, capsys, *words)[:2] == (0, "")
    for bad in ("x", "=1", "a b=1", "b:nosuch=1", "b:date=2024-13-01"):
        code, _, error = run(monkeypatch, capsys, "query", here, "-f", "b = :b", "--arg", bad)
        assert (code, "PROJSEG_BAD_ARGUMENT" in error) == (1, True)


def test_every_verb_has_help_and_those_that_need_yes_a_preview(monkeypatch, capsys):
    verbs = get_command(app).commands
    for name, verb in verbs.items():
        options = {option for one in verb.params for option in one.opts}
        assert ("--yes" in options) <= ("--dry-run" in options), name
    for name in verbs:
        code, out, _ = run(monkeypatch, capsys, name, "-h")
        assert (code, "Usage" in out) == (0, True)
