"""`projseg catalog`: each verb does what the method of `Catalog` does, and prints it."""

import datetime
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from test_commands import Shell

import projseg

pytest.importorskip("sqlalchemy")

SPEC = {
    "properties": {"timeColumn": "time", "segmentGranularity": "P1D"},
    "columns": [
        {"name": "time", "sqlType": "timestamp"},
        {"name": "channel", "sqlType": "string"},
        {"name": "added", "sqlType": "bigint"},
    ],
}
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs `projseg catalog ...` with a catalog in a new file, which has sales.edits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROJSEG_CATALOG", "house.db")
    shell = Shell(monkeypatch, capsys)

    def catalog(*words, exits=0):
        found = shell("catalog", *words, exits=exits)
        catalog.error = shell.error
        return found

    catalog("create-namespace", "sales", "--comment", "ours")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    assert catalog("create", "sales.edits", "@spec.json") == [{"name": "sales.edits", "version": 2}]
    return catalog


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table(
        {
            "time": [START + datetime.timedelta(hours=13 * n) for n in range(6)],
            "channel": ["#en", "#de", None] * 2,
            "added": pa.array(range(6), pa.int32()),
        }
    )
    pyarrow.parquet.write_table(table, path)
    return path


def test_texts_that_are_too_long_are_refused(run, tmp_path):
    run("create-namespace", "long", "--comment", "x" * 8193, exits=1)
    assert "at most 8192 are kept" in run.error
    spec = {"columns": [{"name": "a", "comment": "x" * 3_000_000}]}
    (tmp_path / "long.json").write_text(json.dumps(spec))
    run("create", "sales.long", "@long.json", exits=1)
    assert "$.columns[0].comment: it has 3000000 bytes" in run.error
    part = json.dumps({"columns": [{"name": "channel", "comment": "x" * 8193}]})
    run("merge", "sales.edits", part, exits=1)
    assert "comment: it has 8193 bytes" in run.error
    assert {"namespace": "long"} not in run("namespaces")


def test_rows_go_in_by_name_and_come_out(run, rows):
    assert run("sql", "SELECT count(*) AS n FROM sales.edits") == [{"n": 0}]
    made = run("insert", "sales.edits", rows, "--commit-as", "first/1")
    assert (made[0]["segments"], made[0]["rows"]) == (3, 6)
    assert run("insert", "sales.edits", rows, "--commit-as", "first/1")[0]["rows"] == 0
    total = "SELECT sum(added) AS n FROM sales.edits WHERE channel = :channel"
    assert run("sql", total, "--arg", "channel=#de") == [{"n": 5}]
    assert run("insert", "sales.edits", rows, "--overwrite")[0]["version"] == 1
    run("insert", "sales.edits", rows, "--overwrite", "--commit-as", "x/1", exits=1)
    assert "PROJSEG_BAD_ARGUMENT" in run.error


def test_definitions_are_edited(run):
    assert (
        run("merge", "sales.edits", '{"properties": {"retention": "90 days"}}')[0]["version"] == 3
    )
    run("merge", "sales.edits", '{"properties": {"sealed": true}}', "--version", "2", exits=1)
    assert "PROJSEG_CATALOG_CONFLICT" in run.error
    run("move-column", "sales.edits", "added", "after", "time")
    run("hide", "sales.edits", "channel", "debug")
    run("unhide", "sales.edits", "debug")
    run("drop-columns", "sales.edits", "ADDED")
    with projseg.Catalog("house.db") as catalog:
        spec = catalog.spec("sales.edits")
        assert [column.name for column in spec.columns] == ["time", "channel"]
        assert spec.layout.hidden_columns == ("channel",)
    run("rename", "sales.edits", "changes")
    assert [row["name"] for row in run("list", "--like", "ch*")] == ["default.changes"]
    kinds = [row["kind"] for row in run("history", "changes")]
    assert kinds == ["create", "merge", "edit", "edit", "edit", "edit", "rename"]
    assert len(run("history", "--since", "7")) == 1


def test_show_prints_what_create_takes(run, capsys, tmp_path):
    from projseg.cli import app

    app(["catalog", "show", "sales.edits", "--spec"], standalone_mode=False)
    (tmp_path / "shown.json").write_text(capsys.readouterr().out)
    assert json.loads((tmp_path / "shown.json").read_text()) == {"type": "table", **SPEC}
    assert run("create", "sales.edits", "@shown.json", "--action", "replace")[0]["version"] == 2
    app(["catalog", "show", "sales.edits"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["id"] == {"schema": "sales", "name": "edits"}


def test_status_is_kept_and_counted(run, rows):
    assert run("status")[0]["status"] is None
    run("insert", "sales.edits", rows)
    kept = run("status", "sales.edits")[0]
    assert (kept["status"], kept["segments"], kept["rows"]) == ("ENABLED", 3, 6)
    counted = run("status", "sales.edits", "--refresh")[0]
    assert counted.pop("at") > kept.pop("at")
    assert counted == kept


def test_a_drop_needs_a_yes_and_is_undone(run, rows):
    run("insert", "sales.edits", rows)
    assert run("drop", "sales.edits")[0]["would_drop"] == "sales.edits"
    assert run("drop", "sales.edits", "--data", "trash", "--yes")[0]["dropped"] is True
    assert run("drop", "sales.edits", "--if-exists", "--yes")[0]["dropped"] is False
    assert run("drop", "sales.edits", "--if-exists")[0]["dropped"] is False
    waiting = run("trash")
    assert [row["name"] for row in waiting] == ["sales.edits"]
    run("undrop", "sales.edits", "--id", waiting[0]["id"])
    assert run("sql", "SELECT count(*) AS n FROM sales.edits") == [{"n": 6}]
    run("drop-namespace", "sales", exits=1)
    run("drop-namespace", "sales", "--cascade")
    assert [row["namespace"] for row in run("namespaces")] == ["default"]
    assert run("gc", "--yes") == []


def test_the_catalog_is_kept_well(run, rows, tmp_path):
    run("insert", "sales.edits", rows)
    assert run("export", "out")[0]["definitions"] == 1
    run("backup", "copy.db")
    run("drop", "sales.edits", "--yes")
    assert run("restore", "copy.db")[0]["would_restore"] == "copy.db"
    assert run("restore", "copy.db", "--yes")[0]["restored"] is True
    assert run("import", "out", "--action", "ifNew")[0]["definitions"] == 1
    assert run("migrate")[0]["migrated"] is False
    assert run("init")[0]["made"] is True
    assert run("check") == []
    location = run("list")[0]["location"]
    run("register", "mine", location, '{"columns": [{"name": "time", "sqlType": "timestamp"}]}')
    assert run("apply", "mine") == []
    assert run("rebind", "mine")[0]["table_version"] >= 0
    run("merge", "sales.edits", '{"properties": {"retention": "90 days"}}')
    assert len(run("expire", "sales.edits")) == 3
    run("expire", "sales.edits", "--yes")
    assert run("sql", "SELECT count(*) AS n FROM mine") == [{"n": 0}]
    projseg.Table.create(tmp_path / "folder/ns/t", pa.schema([("a", pa.int64())]))
    assert run("register-warehouse", "folder")[0]["definitions"] == 1


def test_a_disagreement_exits_with_three(run, rows, tmp_path):
    run("insert", "sales.edits", rows)
    import shutil

    shutil.rmtree(run("list")[0]["location"])
    assert run("check", exits=3)[0]["code"] == "PROJSEG_NOT_A_TABLE"


def test_errors_are_lines(run, monkeypatch):
    run("sql", "SELECT * FROM sales.edit", exits=1)
    assert "PROJSEG_UNKNOWN_TABLE" in run.error
    assert "sales.edits" in run.error
    run("create", "sales.t", '{"columns": [{"nam": "a"}]}', exits=1)
    assert "$.columns[0]" in run.error
    run("create", "sales.t", "@missing.json", exits=1)
    assert "PROJSEG_STORAGE_FAILED" in run.error
    run("create", exits=2)
    monkeypatch.delenv("PROJSEG_CATALOG")
    run("list", exits=1)
    assert "PROJSEG_BAD_ARGUMENT" in run.error


def test_tables_fit_eighty_columns(run, monkeypatch, capsys):
    from projseg.cli import app

    monkeypatch.setattr("projseg.cli.output._PIPED_WIDTH", 80)
    for words in (["list"], ["history"], ["status"], ["trash"], ["namespaces"]):
        app(["catalog", *words, "-o", "table"], standalone_mode=False)
        printed = capsys.readouterr().out
        assert printed or words == ["trash"]
        assert max(map(len, printed.splitlines()), default=0) <= 80
