"""The verbs, as a shell sees them: what they print, what they exit with."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import projseg
from projseg.cli import main
from projseg.segment_format.indexes.index_kinds import KINDS

ROWS = [
    {"time": "2015-09-12T00:47:08.770Z", "channel": "#en", "added": 10},
    {"time": "2015-09-12T13:00:00Z", "channel": "#de", "added": 5},
    {"time": "2015-09-13T01:00:00Z", "channel": "#en", "added": None},
]
FIRST = dt.datetime(2015, 9, 12, tzinfo=dt.UTC)
DAILY = "daily=SELECT date_trunc('DAY', time) AS day, channel, sum(added) AS added GROUP BY ALL"


class Shell:
    """Runs `projseg ...` in this process."""

    def __init__(self, monkeypatch, capsys):
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words, exits=0):
        self.monkeypatch.setattr(sys, "argv", ["projseg", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
        printed = self.capsys.readouterr()
        assert code == exits, printed.err
        self.error, self.output = printed.err, printed.out
        return [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")]


@pytest.fixture
def shell(monkeypatch, capsys):
    return Shell(monkeypatch, capsys)


@pytest.fixture
def location(tmp_path, shell):
    file = tmp_path / "edits.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    table = str(tmp_path / "table")
    imported = shell(
        "import", table, file, "--time-column", "time", "--segment-granularity", "day",
        "--cluster-by", "channel", "-p", DAILY,
    )  # fmt: skip
    assert imported[0]["rows"] == 3
    assert imported[0]["segments"] == 2
    return table


def test_import_makes_a_table_and_appends_to_it(tmp_path, shell, location):
    again = shell("import", location, tmp_path / "edits.json")
    assert again[0]["rows"] == 3
    assert shell("describe", location)[0]["rows"] == 6


def test_describing_verbs(shell, location):
    described = shell("describe", location)[0]
    assert (described["rows"], described["segments"]) == (3, 2)
    columns = {row["column"]: row["type"] for row in shell("schema", location)}
    assert columns == {"time": "timestamp", "channel": "string", "added": "bigint"}
    assert [row["rows"] for row in shell("segments", location)] == [2, 1]
    assert [row["name"] for row in shell("projections", location)] == ["daily"]
    assert [row["operation"] for row in shell("history", location)] == ["create"]


def test_query_and_explain(shell, location):
    asked = ("-g", "channel", "-a", "sum(added) AS added, count(*) AS edits")
    answer = {row["channel"]: row for row in shell("query", location, *asked)}
    assert answer["#en"] == {"channel": "#en", "added": 10, "edits": 2}
    assert shell("query", location, *asked, "--order-by", "added DESC", "--limit", "1") == [
        answer["#en"]
    ]
    assert len(shell("query", location, "--columns", "channel", "-f", "added > 5")) == 1
    plan = shell("explain", location, "-g", "channel", "-a", "sum(added) AS added")
    assert {row["source"] for row in plan} <= {"daily", "base"}
    based = shell(
        "explain", location, "-g", "channel", "-a", "sum(added) AS added", "--no-projections"
    )
    assert {row["source"] for row in based} == {"base"}


def test_explain_on_a_terminal_is_a_tree(shell, location, capsys, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["projseg", "explain", location, "-a", "count(*)", "-o", "table"]
    )
    with pytest.raises(SystemExit):
        main()
    assert "SELECT" in capsys.readouterr().out


def test_projections_are_added_and_dropped_with_yes_only(shell, location):
    added = shell("add-projection", location, "total=SELECT sum(added) AS added GROUP BY ALL")
    assert added[0]["projections"] == ["daily", "total"]
    told = shell("drop-projection", location, "total")
    assert told[0]["would_drop"] == "total"
    assert len(shell("projections", location)) == 2
    assert shell("drop-projection", location, "total", "--yes")[0]["projections"] == ["daily"]
    shell("drop-projection", location, "dayly", "--yes", exits=1)
    assert "did you mean 'daily'?" in shell.error


def test_columns_are_changed_and_dropped_with_yes_only(shell, location):
    assert shell("add-column", location, "note", "int")[0]["columns"]["note"] == "int"
    assert shell("widen-column", location, "note", "bigint")[0]["columns"]["note"] == "bigint"
    assert "remark" in shell("rename-column", location, "note", "remark")[0]["columns"]
    assert shell("drop-column", location, "remark")[0]["would_drop"] == "remark"
    assert "remark" in projseg.Table(location).schema.names
    assert "remark" not in shell("drop-column", location, "remark", "--yes")[0]["columns"]
    shell("drop-column", location, "added", exits=1)
    assert "PROJSEG_COLUMN_IN_USE" in shell.error
    assert "'daily'" in shell.error


def test_a_projection_is_built_in_older_segments_with_its_scope(shell, location):
    total = "total=SELECT sum(added) AS added GROUP BY ALL"
    shell("add-projection", location, total, "--materialize", "--interval", "2015-09-12/P1D")
    stats = projseg.Table(location).projection_stats().to_pylist()[1]
    assert [stats[key] for key in ("built", "missing", "skipped")] == [1, 0, 1]
    shell("drop-projection", location, "total", "--yes")
    shell("add-projection", location, total, "--build", "deferred", "--max-row-ratio", "2")
    made = shell("materialize-projection", location, "total", "--interval", "2015-09-13/P1D")
    assert (made[0]["segments"], made[0]["rows"]) == (1, 1)
    # The other segment still holds what was built for the first declaration.
    assert shell("materialize-projection", location)[0]["segments"] == 0
    shell("materialize-projection", location, "totel", exits=1)
    assert "did you mean 'total'?" in shell.error


def test_small_segments_are_merged(shell, location, tmp_path):
    shell("import", location, tmp_path / "edits.json")
    planned = shell("compact", location, "--dry-run")
    assert [(row["segments"], row["rows"]) for row in planned] == [(2, 4), (2, 2)]
    assert len(shell("segments", location)) == 4
    made = shell("compact", location, "--interval", "2015-09-12/P1D")
    assert (made[0]["segments"], made[0]["rows"]) == (1, 4)
    assert shell("compact", location, "--target-segment-rows", "1")[0]["segments"] == 0
    assert shell("compact", location)[0]["segments"] == 1
    shell("compact", location, "--target-segment-rows", "0", exits=1)
    assert "PROJSEG_BAD_ARGUMENT" in shell.error


def test_inspect_describes_each_part_of_a_segment(shell, location):
    segment = shell("segments", location)[0]["segment"]
    parts = shell("inspect", f"{location}/{segment}")
    by_part = {part: [row for row in parts if row["part"] == part] for part in
               ("segment", "tables", "columns", "dictionaries")}  # fmt: skip
    assert by_part["segment"][0]["rows"] == 2
    assert [row["table"] for row in by_part["tables"]] == ["base rows", "daily"]
    base = {row["column"] for row in by_part["columns"] if row["table"] == "base rows"}
    assert base == {"time", "channel", "added"}
    channel = next(row for row in by_part["dictionaries"] if row["dictionary"] == "channel")
    assert (channel["values"], channel["tables"]) == (2, 2)
    assert channel["bytes_saved"] > 0


def test_inspect_fits_a_terminal_and_gives_columns_as_csv(location, capsys, monkeypatch):
    segment = projseg.Table(location).segments()["segment"][0].as_py()
    for chosen, told in (
        ("table", "bytes_saved_by_shared_dictionaries"),
        ("csv", "base rows,base"),
    ):
        words = ["projseg", "inspect", f"{location}/{segment}", "-o", chosen]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit):
            main()
        printed = capsys.readouterr().out
        assert told in printed
        assert max(map(len, printed.splitlines())) <= 120 or chosen == "csv"


def test_inspect_describes_a_bloom_file(shell, location, tmp_path, capsys, monkeypatch):
    shell("add-index", location, "words", "--column", "channel", "--kind", "token", "--materialize")
    (listed,) = projseg.Table(location).snapshot.bloom_files
    path = Path(location, listed.name)
    file, band, segment, other = shell("inspect", path)
    assert (file["kind"], file["column"], file["type"]) == ("token", "channel", "string")
    assert (file["segments"], file["keys"], file["bytes"]) == (2, 3, path.stat().st_size)
    assert (band["part"], band["blocks"], band["segments"]) == ("bands", 1, 2)
    listed = {row["segment"] for row in shell("segments", location)}
    assert {segment["segment"], other["segment"]} == listed
    assert (segment["status"], segment["keys"], other["slot"]) == ("built", 2, 1)
    for chosen, told in (("table", "bits_per_key"), ("csv", f"{segment['segment']},built,2,0,0")):
        monkeypatch.setattr(sys, "argv", ["projseg", "inspect", str(path), "-o", chosen])
        with pytest.raises(SystemExit):
            main()
        assert told in capsys.readouterr().out
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(content))
    shell("inspect", path, exits=1)
    assert "band of 1 blocks, page 0" in shell.error
    assert shell("verify", location, exits=3)[0]["segment"] == f"data/{path.name}"


def test_verify_passes_and_finds_damage(shell, location, tmp_path):
    assert shell("verify", location, "--deep")[0]["problems"] == 0
    segment = shell("segments", location)[0]["segment"]
    path = tmp_path / "table" / segment
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(content))
    found = shell("verify", location, exits=3)
    assert found[0]["segment"] == segment


def test_verify_checks_every_version_that_is_kept(shell, location, tmp_path):
    shell("tag", location, "first")
    shell("import", location, tmp_path / "edits.json")
    shell("truncate", location, "--yes")
    shell("verify", location, "--all-versions", "--tag", "first", exits=1)
    assert "PROJSEG_BAD_ARGUMENT" in shell.error
    (told,) = shell("verify", location, "--all-versions")
    assert (told["versions"], told["segments"], told["problems"]) == (4, 0, 0)
    segment = shell("segments", location, "--tag", "first")[0]["segment"]
    path = tmp_path / "table" / segment
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    assert shell("verify", location)[0]["problems"] == 0
    assert shell("verify", location, "--all-versions", exits=3)[0]["segment"] == segment
    shell("restore", location, "--tag", "first", "--yes", exits=1)
    assert "nothing was committed" in shell.error


def test_removed_values_leave_when_asked(shell, location):
    shell("drop-projection", location, "daily", "--yes")
    shell("drop-column", location, "added", "--yes")
    told = shell("describe", location)[0]
    assert told["still_stored"][0]["dropped_projections"] == ["daily"]
    assert told["dead_bytes"] > 0
    assert told["still_stored"][0]["dropped_columns"] == ["added"]
    assert len(shell("compact", location, "--purge", "--dry-run")) == 2
    assert shell("compact", location, "--purge")[0]["segments"] == 2
    would = shell("vacuum", location)[0]
    assert would["still_stored"][0]["versions"] == "0 to 2"
    assert shell("describe", location)[0]["dead_bytes"] == 0


def test_rows_are_erased_when_confirmed(shell, location):
    german = ("--filter", "channel = :c", "--arg", "c=#de")
    shell("tag", location, "before")
    would = shell("erase", location, *german)[0]
    assert (would["would_erase_rows"], would["tags_that_are_kept"]) == (1, ["before"])
    done = shell("erase", location, *german, "--yes", exits=3)[0]
    assert done["deleted_rows"] == 1
    assert {tag for one in done["found"] for tag in one["tags"]} == {"before"}
    shell("drop-tag", location, "before", "--yes")
    assert shell("erase", location, *german, "--yes")[0]["found"] == []


def test_errors_are_one_line_and_exit_with_1(shell, tmp_path):
    shell("describe", tmp_path / "none", exits=1)
    assert shell.error.startswith("[PROJSEG_NOT_A_TABLE]")
    assert shell.error.count("\n") == 1


def test_a_command_that_is_not_understood_exits_with_2(shell):
    shell("describe", exits=2)
    shell("descrive", exits=2)


def test_csv_and_table_on_request(shell, location, capsys, monkeypatch):
    for chosen, start in (("csv", "column,type"), ("table", "┏")):
        monkeypatch.setattr(sys, "argv", ["projseg", "schema", location, "-o", chosen])
        with pytest.raises(SystemExit):
            main()
        assert capsys.readouterr().out.startswith(start)


def test_the_benchmarks_verbs_are_mounted(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["projseg", "bench", "--help"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    assert "compare" in capsys.readouterr().out


def test_doctor_names_a_broken_module(shell, tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    (tmp_path / "pyspark_broken.py").write_text("raise RuntimeError('out of order')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = {row["check"]: row for row in shell("doctor", "-o", "json", exits=1)}
    assert found["pyspark_broken"]["verdict"] == "problem"
    assert "out of order" in found["pyspark_broken"]["found"]
    assert found["pyspark_projseg"]["found"] == "projseg"


def test_demo_agrees_with_itself(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = shell("demo", "--rows", 20_000)
    assert all(row["same answer"] for row in results)
    assert any(row["rows read"] < row["base rows"] for row in results)


def test_demo_keeps_its_table_and_replaces_only_that(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell("demo", "--rows", 1000, "-o", "table")
    assert "█" in shell.output
    assert "projseg sql projseg-demo" in shell.error
    assert projseg.Table("projseg-demo").query(aggregators="count(*) AS n")["n"][0].as_py() == 1000
    shell("demo", "--rows", 2000)
    assert projseg.Table("projseg-demo").snapshot.row_count == 2000
    shutil.rmtree("projseg-demo")
    for make in (
        lambda: os.mkdir("projseg-demo"),
        lambda: projseg.Table.create("projseg-demo", {"a": "int"}),
        lambda: os.symlink(tmp_path, "projseg-demo"),
    ):
        make()
        shell("demo", "--rows", 1000, exits=1)
        assert "PROJSEG_TABLE_EXISTS" in shell.error
        place = tmp_path / "projseg-demo"
        assert place.exists()
        place.unlink() if place.is_symlink() else shutil.rmtree(place)


def test_demo_fails_where_answers_differ(shell, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("projseg.cli.demo.same_answer", lambda *_: False)
    shell("demo", "--rows", 1000, exits=1)
    assert "this is a bug" in shell.error


def test_rows_written_by_import_are_those_of_the_file(location):
    rows = projseg.Table(location).query(columns="channel, added")
    assert sorted(rows.to_pylist(), key=str) == sorted(
        ({"channel": row["channel"], "added": row["added"]} for row in ROWS), key=str
    )
    assert rows.schema.field("added").type == pa.int64()


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_through_spark_agrees_with_itself():
    command = [sys.executable, "-m", "projseg", "demo", "--spark", "--rows", "20000", "-o", "json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in told.stdout.splitlines()]
    assert results
    assert all(row["same answer"] for row in results)


def test_a_reader_that_goes_away_ends_the_output_quietly(location):
    command = f"{sys.executable} -m projseg query {location} -o json | head -n 1"
    told = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("{")
    assert "Traceback" not in told.stderr


def test_inspect_and_verify_say_what_is_wrong_with_a_place(tmp_path, shell, location):
    for place, words in [
        (location, "is a directory; inspect one of the segment files"),
        (tmp_path / "none.pseg", "does not exist"),
    ]:
        shell("inspect", place, exits=1)
        assert shell.error.startswith("[PROJSEG_BAD_INPUT_FILE]")
        assert words in shell.error
    shell("import", location, tmp_path / "edits.json")
    shell("verify", location)
    assert "note:" not in shell.error
    Path(location, "_projseg", f"{1:020d}.json").unlink()
    assert shell("verify", location)[0]["version"] == 0
    assert "1 manifests are later than version 0" in shell.error


def test_a_whole_query_as_json(shell, location, tmp_path):
    query = projseg.Query("channel", "sum(added) AS added", order_by="added DESC", limit=1)
    expected = projseg.Table(location).query(query).to_pylist()
    assert shell("query", location, "--query", query.to_json()) == expected
    (tmp_path / "query.json").write_text(query.to_json())
    assert shell("query", location, "--query", f"@{tmp_path / 'query.json'}") == expected


def test_a_statement_as_text_or_from_a_file(shell, location, tmp_path):
    statement = "SELECT channel, sum(added) AS added FROM edits GROUP BY 1 ORDER BY 2 DESC LIMIT 1"
    assert shell("sql", location, statement) == [{"channel": "#en", "added": 10}]
    (tmp_path / "query.sql").write_text(statement)
    (line,) = shell("sql", location, f"@{tmp_path / 'query.sql'}", "--version", "0")
    assert line == {"channel": "#en", "added": 10}
    sources = {line["source"] for line in shell("sql", location, statement, "--explain")}
    assert sources == {"daily"}
    shell("sql", location, "SELECT a FROM t JOIN u", exits=1)
    assert shell.error.startswith("[PROJSEG_UNSUPPORTED_SQL] SQL has a join at character 17")
    shell("sql", location, "@absent.sql", exits=1)
    assert "the statement cannot be read: absent.sql: No such file" in shell.error


def test_parts_beside_a_whole_query_are_refused(shell, location):
    whole = projseg.Query("channel").to_json()
    shell("query", location, "--query", whole, "--limit", "2", exits=1)
    assert "limit is given beside --query" in shell.error
    shell("query", location, "--query", "@absent.json", exits=1)
    assert "[PROJSEG_STORAGE_FAILED] --query @absent.json cannot be read" in shell.error


def test_errors_are_told_as_json_where_asked(shell, location):
    shell("--errors", "json", "query", location, "-g", "absent", exits=1)
    assert json.loads(shell.error)["code"] == "PROJSEG_UNKNOWN_COLUMN"
    shell("query", location, "-g", "absent", exits=1)
    assert shell.error.startswith("[PROJSEG_UNKNOWN_COLUMN]")
    for words in (["query"], ["query", location, "--no-such"], ["no-such"], ["--no-such"], ["tag"]):
        for form in (["--errors", "json"], ["--errors=json"]):
            shell(*form, *words, exits=2)
            told = json.loads(shell.error)
            assert told["code"] == "PROJSEG_BAD_ARGUMENT"
            assert "no-such" in told["message"] or "Missing argument" in told["message"]
        shell(*words, exits=2)
        assert not shell.error.startswith("{")
    assert shell("--errors", "json", "schema", location)
    shell("--errors", "json", "import", location, "absent.csv", exits=1)
    assert json.loads(shell.error)["code"].startswith("PROJSEG_")
    shell("--errors", "json", "--help")
    shell("--errors", "json", "verify", location)


def test_views_are_steered_as_in_python(shell, location):
    table = projseg.Table(location)
    table.create_view("v", "SELECT channel, count(*) AS r FROM t GROUP BY channel")
    asked = ("query", location, "-g", "channel", "-a", "count(*) AS r")
    answer = shell(*asked)
    explained = ("explain", *asked[1:], "-o", "json")
    assert {line["source"] for line in shell(*explained)} == {"view:v"}
    for options in (["--use-view", "v"], ["--force-views"]):
        assert shell(*asked, *options) == answer
    for options in (["--no-views"], ["--exclude-views", "v, v"]):
        assert shell(*asked, *options) == answer
        statement = "SELECT channel, count(*) AS r FROM t GROUP BY channel"
        told = shell("sql", location, statement, "--explain", "-o", "json", *options)
        assert "view:v" not in {line["source"] for line in told}
        assert "view:v" not in {line["source"] for line in shell(*explained, *options)}
    shell(*asked, "--exclude-views", "v", "--force-views", exits=1)
    assert "PROJSEG_VIEW_NOT_USABLE" in shell.error
    shell(*asked, "--use-view", "w", exits=1)
    assert "PROJSEG_UNKNOWN_VIEW" in shell.error


def test_help_of_an_index_names_every_kind(shell, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["projseg", "add-index", "--help"])
    with pytest.raises(SystemExit):
        main()
    printed = capsys.readouterr().out
    assert [kind for kind in KINDS if kind not in printed] == []


def test_a_version_is_chosen_by_time(shell, location):
    committed = shell("history", location)[0]["timestamp"]
    for verb in ("describe", "schema", "segments", "projections", "query", "explain", "verify"):
        assert shell(verb, location, "--timestamp", committed)
        shell(verb, location, "--timestamp", "2001-01-01", exits=1)
        assert "its oldest is version 0 of" in shell.error


def test_tags_and_vacuum(shell, location, tmp_path):
    file = tmp_path / "edits.json"
    assert shell("tag", location, "first") == [{"tag": "first", "version": 0}]
    shell("import", location, file)
    for verb in ("describe", "schema", "segments", "projections", "query", "explain", "verify"):
        assert shell(verb, location, "--tag", "first")
    assert shell("describe", location, "--tag", "first")[0]["rows"] == 3
    assert shell("drop-tag", location, "first")[0]["would_drop"] == "first"
    assert shell("tags", location) == [{"tag": "first", "version": 0}]
    hours = ("--retention-hours", 0, "--force")
    shell("vacuum", location, "--retention-hours", 0, exits=1)
    assert "PROJSEG_RETENTION_TOO_SHORT" in shell.error
    would = shell("vacuum", location, *hours)[0]
    files = shell("vacuum", location, *hours, "--files")
    assert would["would_remove_files"] == len(files)
    assert shell("describe", location)[0]["version"] == 2
    done = shell("vacuum", location, *hours, "--yes")[0]
    assert (done["version"], done["removed_versions"]) == (3, 1)
    assert done["removed_bytes"] == would["would_remove_bytes"] == sum(f["bytes"] for f in files)
    assert shell("describe", location, "--tag", "first")[0]["rows"] == 3
    assert shell("drop-tag", location, "first", "--yes") == []
    assert shell("restore", location, "--version", 2, "--yes")[0]["restored_segments"] == 0


def test_a_version_is_restored_when_confirmed(shell, location, tmp_path):
    file = tmp_path / "edits.json"
    shell("import", location, file)
    assert shell("describe", location)[0]["rows"] == 6
    assert shell("restore", location, "--version", 0)[0]["would_restore"] == 0
    assert shell("describe", location)[0]["rows"] == 6
    restored = shell("restore", location, "--version", 0, "--yes")[0]
    assert (restored["version"], restored["restored_rows"]) == (2, 0)
    assert shell("describe", location)[0]["rows"] == 3
    shell("restore", location, exits=1)
    assert "no version" in shell.error


def test_rows_are_changed_when_confirmed(shell, location, tmp_path):
    shell("delete", location, exits=1)
    assert "PROJSEG_BAD_ARGUMENT" in shell.error
    german = ("--filter", "channel = '#de'")
    assert shell("delete", location, *german)[0]["would_delete_rows"] == 1
    assert shell("describe", location)[0]["rows"] == 3
    done = shell("delete", location, *german, "--yes")[0]
    assert (done["version"], done["deleted_rows"]) == (1, 1)
    day = ("--interval", "2015-09-13/P1D")
    values = ("--set", "added=coalesce(added, 0) + 7", "--set", "channel='#fr'")
    assert shell("update", location, *values, *day)[0]["would_update_rows"] == 1
    assert shell("update", location, *values, *day, "--yes")[0]["updated_rows"] == 1
    shell("update", location, "--set", "added", exits=1)
    assert "COLUMN=EXPRESSION" in shell.error
    file = tmp_path / "merge.json"
    file.write_text('{"channel": "#fr", "added": 8}\n')
    merge = ("merge", location, file, "--on", "channel", "--when-not-matched", "ignore")
    assert shell(*merge)[0]["would_merge_rows"] == 1
    assert shell(*merge, "--yes")[0]["updated_rows"] == 1
    found = shell("query", location, "--columns", "channel, added")
    assert found == [{"channel": "#en", "added": 10}, {"channel": "#fr", "added": 8}]
    assert shell("truncate", location)[0]["would_delete_rows"] == 2
    assert shell("truncate", location, "--yes")[0]["deleted_rows"] == 2
    assert shell("describe", location)[0]["rows"] == 0


def test_an_old_answer_of_a_view_is_asked_for(shell, location):
    select = "v=SELECT channel, sum(added) AS added FROM t GROUP BY channel"
    shell("create-view", location, select, "--deferred")
    shell("refresh-view", location, "v")
    projseg.Table(location).append([{"time": FIRST, "channel": "#de", "added": 100}])
    asked = ["-g", "channel", "-a", "sum(added) AS n", "--order-by", "channel"]
    new, old = ([{"channel": "#de", "n": n}, {"channel": "#en", "n": 10}] for n in (105, 5))
    assert shell("query", location, *asked) == new
    assert shell("query", location, *asked, "--max-staleness", "15 minutes") == old
    text = "SELECT channel, sum(added) AS n FROM t GROUP BY channel ORDER BY channel"
    assert shell("sql", location, text, "--max-staleness", "1 day") == old
    assert shell("sql", location, text) == new
    shell("sql", location, text, "--max-staleness", "soon", exits=1)
    assert "PROJSEG_BAD_CONTEXT_VALUE" in shell.error


def test_views_are_made_refreshed_and_dropped(shell, location):
    select = "by_channel=SELECT channel, sum(added) AS added FROM t GROUP BY channel"
    (made,) = shell("create-view", location, select, "--chunk", "month", "--cluster-by", "channel")
    assert (
        shell("explain-view", location, "by_channel")[0]["options"]["cluster_by"] == '["channel"]'
    )
    assert (made["name"], made["state"]) == ("by_channel", "fresh")
    (listed,) = shell("views", location)
    assert listed["segments_covered"] == listed["segments"]
    assert shell("refresh-view", location, "--all")[0]["version"] is None
    assert shell("refresh-view", location, "by_channel", "--full", "--dry-run")[0]["added"] == 1
    assert shell("alter-view", location, "by_channel", "--disable")[0]["status"] == "DISABLED"
    assert shell("alter-view", location, "by_channel", "--rename", "v")[0]["name"] == "v"
    assert shell("explain-view", location, "v")[0]["aggregators"][0] == "sum(added)"
    assert shell("drop-view", location, "v")[0]["would_drop"] == "v"
    assert shell("drop-view", location, "v", "--yes")[0]["dropped"] is True
    shell("explain-view", location, "v", exits=1)
    assert "PROJSEG_UNKNOWN_VIEW" in shell.error
    shell("create-view", location, "SELECT 1", exits=1)
    shell("refresh-view", location, exits=1)
    shell("alter-view", location, "v", exits=1)


def test_a_view_that_fails_stops_no_other(shell, location, tmp_path):
    names = projseg.Table.create(
        tmp_path / "names", {"key": "string", "name": "string"}, data=[{"key": "#en", "name": "e"}]
    )
    star = "bad=SELECT name, sum(added) FROM t JOIN names n ON channel = n.key GROUP BY name"
    shell("create-view", location, star, "--deferred", "--table", f"names={tmp_path / 'names'}")
    good = "good=SELECT channel, count(*) AS n FROM t GROUP BY channel"
    shell("create-view", location, good, "--deferred")
    names.append([{"key": "#en", "name": "twice"}])
    projseg.Table(location).append([{"time": FIRST, "channel": "#de", "added": 100}])
    shell("refresh-view", location, "--all", exits=1)
    assert "PROJSEG_JOIN_KEY_NOT_UNIQUE" in shell.error
    states = {one["name"]: one["state"] for one in shell("views", location)}
    assert states == {"bad": "behind", "good": "fresh"}


def test_verify_checks_views(shell, location, tmp_path):
    shell(
        "create-view", location, "by_channel=SELECT channel, count(*) AS n FROM t GROUP BY channel"
    )
    assert shell("verify", location, "--deep")[0]["problems"] == 0
    (part,) = (Path(location) / "views/data").glob("*.pseg")
    part.write_bytes(part.read_bytes()[:-9])
    for options in ([], ["--deep"], ["--all-versions"]):
        assert shell("verify", location, *options, exits=3)
