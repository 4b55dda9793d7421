"""Definitions in SQLite, in PostgreSQL and behind a server: one suite for all."""

import contextlib
import json
import pickle
import sqlite3
import time
from pathlib import Path

import pyarrow as pa
import pytest
from race import run_and_die, run_processes

import projseg
from projseg.catalog.store.table_metadata import parse_name
from projseg.errors import (
    CatalogConflictError,
    CatalogError,
    CatalogUnavailableError,
    InvalidInputError,
)

COLUMNS = {"columns": [{"name": "a", "sqlType": "int"}, {"name": "b"}]}


def code(error):
    return pytest.raises(InvalidInputError, match=error)


def test_a_definition_is_made_read_replaced_and_dropped(catalog):
    first = catalog.create("edits", COLUMNS)
    assert catalog.spec("EDITS").to_dict() == {"type": "table", "properties": {}, **COLUMNS}
    found = catalog.metadata("default.edits")
    assert (found.version, found.state, found.managed, found.name) == (
        first,
        "ACTIVE",
        True,
        "edits",
    )
    assert found.location.endswith(f"/default/edits-{found.id[:8]}")
    assert json.loads(found.to_json())["version"] == first
    with code("PROJSEG_TABLE_EXISTS"):
        catalog.create("Edits", {})
    assert catalog.create("edits", {}, "ifNew") == 0
    assert catalog.create("edits", COLUMNS, "force") == first, "what changes nothing"
    second = catalog.create("edits", {}, "replace", version=first)
    assert second > first
    with pytest.raises(CatalogConflictError, match=f"version {second}, and .* {first}"):
        catalog.create("edits", COLUMNS, "replace", version=first)
    with code("PROJSEG_UNKNOWN_TABLE.*did you mean 'default.edits'"):
        catalog.create("edit", {}, "replace")
    with code("PROJSEG_UNKNOWN_NAMESPACE"):
        catalog.create("sales.edits", {})
    with code("PROJSEG_BAD_ARGUMENT.*did you mean 'force'"):
        catalog.create("edits", {}, "forse")
    assert catalog.drop("edits")
    assert not catalog.exists("edits")
    assert not catalog.drop("edits", if_exists=True)
    with code("PROJSEG_UNKNOWN_TABLE"):
        catalog.drop("edits")


@pytest.mark.parametrize(
    "name",
    ["a/b", "..", ".a", "a%2e", "a:b", "a#b", "a\\b", "a\0b", "", "a.b.c", "x" * 300, 3, "\ud800"],
)
def test_a_name_that_could_leave_its_folder_is_refused(house, name):
    with code("PROJSEG_BAD_NAME"):
        house.create((name, "t") if isinstance(name, str) and name.count(".") < 2 else name, {})
    with code("PROJSEG_BAD_NAME"):
        parse_name(("information_schema", "t"))


def test_merges_and_column_verbs_apply_to_the_newest_spec(open_catalog):
    one, other = open_catalog(user="ada"), open_catalog(user="bob")
    version = one.create("t", COLUMNS)
    one.merge("t", {"columns": [{"name": "c"}]})
    other.merge("t", {"columns": [{"name": "d"}]})
    assert [c.name for c in one.spec("t").columns] == ["a", "b", "c", "d"]
    other.move_column("t", "d", "first")
    one.hide_columns("t", ["a", "zz"])
    one.unhide_columns("t", ["A"])
    one.drop_columns("t", ["c"])
    with code("PROJSEG_UNKNOWN_COLUMN"):
        other.move_column("t", "a", "after", "c")
    with pytest.raises(CatalogConflictError):
        other.merge("t", {"properties": {"sealed": True}}, version=version)
    spec = other.spec("t")
    assert [c.name for c in spec.columns] == ["d", "a", "b"]
    assert spec.layout.hidden_columns == ("zz",)
    history = one.history("t")
    assert history["kind"].to_pylist() == ["create", "merge", "merge", *["edit"] * 4]
    assert history["by"].to_pylist() == ["ada", "ada", "bob", "bob", "ada", "ada", "ada"]
    assert json.loads(history["spec"][-1].as_py()) == spec.to_dict()
    last = history["version"].to_pylist()[-1]
    assert one.changes(last - 1)["kind"].to_pylist() == ["edit"]
    assert one.metadata("t").updated_by == "ada"


def test_an_edit_that_meets_others_is_repeated(open_catalog):
    one, other = open_catalog(), open_catalog()
    one.create("t", {})
    calls = []

    def function(spec):
        if not calls:
            other.merge("t", {"columns": [{"name": "x"}]})
        calls.append(1)
        return {**spec.to_dict(), "columns": [*spec.to_dict()["columns"], {"name": "y"}]}

    one.edit("t", function)
    assert len(calls) == 2
    assert [c.name for c in one.spec("t").columns] == ["x", "y"]


def test_a_dropped_name_made_again_has_another_version(open_catalog):
    one, other = open_catalog(), open_catalog()
    one.create("t", COLUMNS)
    seen = other.metadata("t")
    one.drop("t")
    one.create("t", COLUMNS)
    with pytest.raises(CatalogConflictError):
        other.create("t", {}, "replace", version=seen.version)
    assert one.metadata("t").location != seen.location


def test_the_trash_gives_back_what_was_dropped(catalog):
    catalog.create("t", COLUMNS)
    before = catalog.metadata("t")
    catalog.drop("t", data="trash")
    assert catalog.trash().select(["id", "removes_files"]).to_pylist() == [
        {"id": before.id, "removes_files": True}
    ]
    catalog.create("t", {})
    with code("PROJSEG_TABLE_EXISTS"):
        catalog.undrop("t")
    catalog.rename("t", "u")
    catalog.undrop("t")
    after = catalog.metadata("t")
    assert (after.id, after.location, after.spec) == (before.id, before.location, before.spec)
    with code("PROJSEG_UNKNOWN_TABLE"):
        catalog.undrop("t")
    assert catalog.gc(dry_run=False).num_rows == 0
    with code("PROJSEG_BAD_ARGUMENT"):
        catalog.drop("t", data="all")


def test_what_is_not_due_by_the_databases_clock_stays(postgres, tmp_path, monkeypatch):
    """A machine whose clock is ahead removes nothing that waits or is being made."""
    with projseg.Catalog(postgres, warehouse=tmp_path, tenant="clocks") as catalog:
        catalog.create("t", COLUMNS)
        staged = catalog.definitions.stage("u", COLUMNS)
        catalog.drop("t", data="trash")
        ahead = time.time_ns() + 40 * 86_400 * 10**9
        with monkeypatch.context() as patched:
            patched.setattr(time, "time_ns", lambda: ahead)
            assert catalog.gc(dry_run=False).num_rows == 0
        catalog.undrop("t")
        catalog.store.publish(staged.id, 0, replace=False)
        assert [one.name for one in catalog.tables()] == ["t", "u"]


def test_a_staged_definition_has_no_name_until_it_is_published(catalog):
    staged = catalog.definitions.stage("t", COLUMNS)
    assert (staged.state, staged.version) == ("STAGED", 0)
    assert not catalog.exists("t")
    assert list(catalog.tables()) == []
    catalog.create("T", {})
    replaced = catalog.metadata("t").id
    with code("PROJSEG_TABLE_EXISTS"):
        catalog.definitions.publish(staged.id, replace=False)
    version = catalog.definitions.publish(staged.id, replace=True)
    found = catalog.metadata("t")
    assert (found.id, found.version, found.location) == (staged.id, version, staged.location)
    assert catalog.history("t")["kind"].to_pylist() == ["create"]
    assert catalog.trash()["id"].to_pylist() == [replaced]
    gone = catalog.definitions.stage("u", {})
    catalog.definitions.abandon(gone)
    for id_ in (gone.id, staged.id):
        with code("PROJSEG_UNKNOWN_TABLE"):
            catalog.definitions.publish(id_, replace=True)
    with code("PROJSEG_UNKNOWN_NAMESPACE"):
        catalog.definitions.stage("none.t", {})


def test_what_was_staged_and_never_finished_goes_after_a_day(house):
    staged = house.definitions.stage("t", COLUMNS)
    projseg.Table.create(staged.location, {"a": "int"})
    assert house.gc(dry_run=False).num_rows == 0
    house.store.database.edit(
        lambda c: c.exec_driver_sql("UPDATE definitions SET created_us = created_us - 86400000001"),
        lambda _: True,
    )
    assert house.gc(dry_run=False)["location"].to_pylist() == [staged.location]
    with code("PROJSEG_NOT_A_TABLE"):
        projseg.Table(staged.location)
    assert house.store.staged() == []


@pytest.mark.parametrize("doors", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("step", ["staged", "written", "published"])
def test_a_kill_while_a_table_of_a_query_is_made_leaves_a_staged_row(doors, step):
    import os
    import signal

    from projseg.catalog.store.tenant_edits import Edit

    catalog = doors.open()
    catalog.create("t", COLUMNS)
    before = catalog.metadata("t")
    catalog.close()

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def dies():
        child = projseg.Catalog(**doors.options())
        staged = child.definitions.stage("t", {"columns": [{"name": "x", "sqlType": "int"}]})
        if step == "staged":
            die()
        projseg.Table.create(staged.location, {"x": "int"})
        if step == "written":
            die()
        Edit.note = die
        child.definitions.publish(staged.id, replace=True)

    assert run_and_die(dies)
    assert catalog.metadata("t") == before, "the old one, whole"
    (left,) = catalog.store.staged()
    assert catalog.trash().num_rows == 0
    catalog.definitions.publish(left.id, replace=True)
    assert catalog.metadata("t").id == left.id, "and nothing is in the way of a repetition"


def test_namespaces(catalog):
    assert catalog.namespaces() == ["default"]
    catalog.create_namespace("Sales", comment="c")
    with code("PROJSEG_NAMESPACE_EXISTS"):
        catalog.create_namespace("sales")
    catalog.create("sales.edits", {})
    assert str(catalog.metadata("SALES.EDITS").full_name) == "Sales.edits"
    with code("PROJSEG_NAMESPACE_NOT_EMPTY"):
        catalog.drop_namespace("sales")
    catalog.drop_namespace("sales", cascade=True)
    assert catalog.namespaces() == ["default"]
    with code("PROJSEG_UNKNOWN_NAMESPACE"):
        catalog.drop_namespace("sales")
    with code("PROJSEG_BAD_NAME"):
        catalog.create_namespace("information_schema")


def test_pages_neither_skip_nor_repeat(catalog):
    names = ["B", "a", "ä", "b2", "Z", "z1", "_", "ß", "c d"]
    for name in names:
        catalog.create(name, {})
    for size in (1, 2, 4, 9, 10):
        found = [one.name for one in catalog.store.listed(page=size)]
        assert found == sorted(names, key=str.casefold)
    catalog.create_namespace("C")
    catalog.create("C.own", {})
    keys = [("c", "own"), *(("default", name) for name in sorted(map(str.casefold, names)))]
    for place, key in enumerate([("", ""), *keys]):
        for size in (1, 3, 20):
            listed = catalog.store.listed(page=size, after=key)
            assert [one.full_name.folded for one in listed] == keys[place:]
            for namespace in ("c", "DEFAULT"):
                left = [one for one in keys[place:] if one[0] == namespace.casefold()]
                found = catalog.store.listed(namespace, page=size, after=key)
                assert [one.full_name.folded for one in found] == left
                first = catalog.store.names(namespace, key, size)
                assert [one.folded for one in first] == left[:size]
        assert [one.folded for one in catalog.store.names(None, key, 2)] == keys[place:][:2]
    catalog.drop("C.own")
    catalog.create("w", {"type": "inline", "properties": {"data": "1", "format": "json"}})
    assert [one.name for one in catalog.tables(type="inline")] == ["w"]
    assert [one.name for one in catalog.tables(like="B*")] == ["B", "b2"]


def test_a_tenant_sees_nothing_of_another(open_catalog):
    one, other = open_catalog(), open_catalog(tenant="other" + str(id(open_catalog)))
    one.create("t", COLUMNS)
    one.create_namespace("mine")
    assert not other.exists("t")
    assert list(other.tables()) == []
    assert other.changes().num_rows == other.trash().num_rows == 0
    assert other.namespaces() == ["default"]
    with code("PROJSEG_UNKNOWN_TABLE") as caught:
        other.spec("t")
    assert "did you mean" not in str(caught.value)
    other.create("t", {})
    assert one.metadata("t").location != other.metadata("t").location


def test_export_and_load_give_equal_definitions(open_catalog, tmp_path):
    one, other = open_catalog(), open_catalog(tenant="copy" + str(id(tmp_path)))
    one.create_namespace("s")
    one.create("s.t", COLUMNS)
    one.register("r", tmp_path / "place", {"properties": {"sealed": True}})
    one.create("w", {"type": "inline", "properties": {"data": "ü", "format": "json"}})
    assert one.export(tmp_path / "out") == 3
    assert other.load(tmp_path / "out") == 3
    for name in ("s.t", "r", "w"):
        assert other.spec(name).to_json() == one.spec(name).to_json()
    assert other.metadata("r").location == str(tmp_path / "place")
    (tmp_path / "out" / "x.json").write_text('{"name": ["a", "b"]}')
    with code("PROJSEG_BAD_SPEC"):
        other.load(tmp_path / "out")


def _edits(options, index, count):
    catalog = projseg.Catalog(**options)
    for number in range(count):
        name = f"c{index}_{number}"
        catalog.edit(
            "t",
            lambda spec, name=name: {"columns": [*spec.to_dict()["columns"], {"name": name}]},
            retries=200,
        )
    catalog.close()
    return count


def test_edits_of_several_processes_are_all_applied(doors, catalog):
    catalog.create("t", {})
    catalog.close()
    run_processes(_edits, [(doors.options(), index, 8) for index in range(3)])
    found = [column.name for column in catalog.spec("t").columns]
    assert sorted(found) == sorted(f"c{i}_{n}" for i in range(3) for n in range(8))
    versions = catalog.history("t")["version"].to_pylist()
    assert versions == sorted(set(versions))
    assert len(versions) == 25


def test_a_catalog_travels_without_its_connections(catalog):
    catalog.create("t", COLUMNS)
    with pickle.loads(pickle.dumps(catalog)) as copy:
        assert copy.spec("t") == catalog.spec("t")


LOST = {
    "create": lambda c: c.create("u", {}),
    "merge": lambda c: c.merge("t", {"columns": [{"name": "x"}]}),
    "rename": lambda c: c.rename("t", "u"),
    "drop": lambda c: c.drop("t"),
    "undrop": lambda c: c.undrop("old"),
    "create namespace": lambda c: c.create_namespace("n"),
    "grant": lambda c: c.admin.grant("ada", "READ", ".*"),
    "token": lambda c: c.admin.create_token("ada"),
}


@pytest.mark.parametrize("verb", LOST)
def test_a_lost_answer_is_looked_up(catalog, monkeypatch, verb):
    import sqlalchemy as sa

    catalog.create("t", {})
    catalog.create("old", {})
    catalog.drop("old")
    catalog.admin.create_principal("ada")
    before = catalog.changes().num_rows
    real, lost = sa.Connection.commit, []

    def cut(connection):
        real(connection)
        if not lost:
            lost.append(1)
            raise sa.exc.OperationalError("COMMIT", {}, ConnectionError("the line was cut"))

    monkeypatch.setattr(sa.Connection, "commit", cut)
    LOST[verb](catalog)
    assert lost
    if verb in ("grant", "token"):
        assert len(getattr(catalog.admin, f"{verb}s")("ada")) == 1, "and not done twice"
    else:
        assert catalog.changes()["kind"].to_pylist()[before:] == [verb], "and not done twice"


@pytest.mark.parametrize("doors", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(
    "verb", ["create", "merge", "rename", "drop", "undrop", "register", "namespace", "hide", "move"]
)
def test_a_kill_before_the_commit_leaves_nothing(doors, verb):
    import os
    import signal

    from projseg.catalog.store.tenant_edits import Edit

    catalog = doors.open()
    catalog.create("t", COLUMNS)
    catalog.create("old", {})
    catalog.drop("old")
    before = [one.to_json() for one in catalog.tables()], catalog.changes().to_pylist()
    catalog.close()
    verbs = {
        "create": lambda c: c.create("u", {}),
        "merge": lambda c: c.merge("t", {"columns": [{"name": "x"}]}),
        "rename": lambda c: c.rename("t", "u"),
        "drop": lambda c: c.drop("t"),
        "undrop": lambda c: c.undrop("old"),
        "register": lambda c: c.register("r", doors.folder / "r"),
        "namespace": lambda c: c.create_namespace("n"),
        "hide": lambda c: c.hide_columns("t", ["a"]),
        "move": lambda c: c.move_column("t", "b", "first"),
    }

    def dies():
        child = projseg.Catalog(**doors.options())
        real = Edit.note

        def note(self, *arguments):
            real(self, *arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        Edit.note = note
        verbs[verb](child)

    assert run_and_die(dies)
    assert ([one.to_json() for one in catalog.tables()], catalog.changes().to_pylist()) == before
    verbs[verb](catalog)
    assert catalog.changes().num_rows == len(before[1]) + 1


def test_files_that_are_no_catalog_or_of_another_schema_are_refused(tmp_path):
    place = tmp_path / "house.db"
    catalog = projseg.Catalog(place)
    with pytest.raises(CatalogUnavailableError, match="there is no catalog at"):
        catalog.exists("t")
    assert not place.exists(), "reading makes no file"
    catalog.create("t", {})
    catalog.close()
    with sqlite3.connect(place) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '999'")
    with pytest.raises(CatalogError, match="PROJSEG_UNSUPPORTED_CATALOG_VERSION"):
        projseg.Catalog(place).exists("t")
    place.write_bytes(b"no database" * 100)
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"house.db{suffix}").unlink(missing_ok=True)
    with pytest.raises(CatalogUnavailableError, match="PROJSEG_CATALOG_UNAVAILABLE"):
        projseg.Catalog(place).exists("t")
    with pytest.raises(CatalogUnavailableError, match="is no folder"):
        projseg.Catalog(tmp_path / "no" / "house.db").create("t", {})
    with pytest.raises(CatalogUnavailableError) as caught:
        projseg.Catalog("postgresql://u:hunter2@127.0.0.1:1/x", timeout=1).exists("t")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_UNSUPPORTED_STORAGE"):
        projseg.Catalog("mysql://x/y")


GOLDEN = Path(__file__).parents[1] / "golden" / "catalogs"


@pytest.mark.parametrize("schema", ["1", "2", "3", "4"])
def test_a_catalog_of_each_schema_is_migrated(tmp_path, schema):
    """Dumps of catalogs that each schema left: older ones say so, are copied, and keep all."""
    path = tmp_path / "house.db"
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.executescript((GOLDEN / f"schema-{schema}.sql").read_text(encoding="utf-8"))
    newest = str(len(list(GOLDEN.glob("*.sql"))))
    with projseg.Catalog(path) as catalog:
        if schema != newest:
            with pytest.raises(CatalogError, match="PROJSEG_CATALOG_NEEDS_MIGRATION"):
                catalog.exists("sales.edits")
        assert catalog.migrate() == (schema != newest)
        copy = tmp_path / f"house.db.before-{newest}"
        assert copy.exists() == (schema != newest)
        found = catalog.metadata("sales.edits")
        assert (str(found.full_name), found.version, found.owner) == ("Sales.Edits", 2, "ada")
        assert (found.table_id, found.stored_version, found.stored_status) == ("t1", 7, None)
        assert found.bindings == {"added": "added_1"}
        assert found.spec.columns[1].comment == "ü"
        assert found.spec.to_json() == catalog.history("sales.edits")["spec"][0].as_py()
        assert catalog.store.namespaces()[1]["properties"] == {"k": "v"}
        if schema > "1":
            assert catalog.admin.grants("ada")[0]["action"] == "READ"
        assert catalog.merge("sales.edits", {"columns": [{"name": "new"}]}) == 3
        catalog.admin.create_principal("eve")
        assert catalog.changes(2).num_rows == 2


def test_a_locked_file_is_busy_and_readers_go_on(tmp_path):
    catalog = projseg.Catalog(tmp_path / "house.db", timeout=0.3)
    catalog.create("t", {})
    holder = sqlite3.connect(tmp_path / "house.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogError, match="PROJSEG_CATALOG_BUSY"):
        catalog.merge("t", {"columns": [{"name": "x"}]})
    assert catalog.exists("t")
    holder.execute("ROLLBACK")
    holder.close()
    catalog.merge("t", {"columns": [{"name": "x"}]})
    catalog.close()


def test_a_backup_is_restored_under_a_new_epoch(tmp_path, house):
    house.create("t", COLUMNS)
    house.backup(tmp_path / "copy.db")
    with code("PROJSEG_BAD_ARGUMENT"):
        house.backup(tmp_path / "copy.db")

    def epoch():
        with sqlite3.connect(tmp_path / "house.db") as raw:
            return raw.execute("SELECT epoch FROM info").fetchone()[0]

    before, head, tag = epoch(), house.store.head(), house.metadata("t").tag
    house.merge("t", {"columns": [{"name": "x"}]})
    house.drop("t")
    gone = house.store.head()
    house.restore(tmp_path / "copy.db")
    assert house.metadata("t").tag == tag
    with code("PROJSEG_UNKNOWN_VERSION"):
        house.changes(gone)
    assert house.changes(head).num_rows == 0
    assert house.spec("t").to_dict()["columns"] == COLUMNS["columns"]
    assert epoch() == house.store.epoch() != before
    house.merge("t", {"columns": [{"name": "y"}]})
    other = house.metadata("t")
    assert other.version < gone
    assert not house.migrate(), "it is of this release"


def test_plain_projseg_imports_no_database():
    import subprocess
    import sys

    script = (
        "import projseg, sys; projseg.Table; "
        "print([m for m in sys.modules if m.startswith(('sqlalchemy', 'alembic'))])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_threads_may_share_a_catalog(catalog):
    from concurrent.futures import ThreadPoolExecutor

    catalog.create("t", {})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: catalog.merge("t", {"columns": [{"name": f"c{n}"}]}), range(12)))
    assert len(catalog.spec("t").columns) == 12
    assert isinstance(catalog.history("t"), pa.Table)
