"""A refresh that fails at any operation, writers that meet, and files that a stranger changed."""

import shutil
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from fault_storage import FaultStorage
from scale import IS_NIGHTLY
from viewed_tables import answer, check_covers, in_duckdb, new_viewed_table, row, rows

from projseg import Table
from projseg.errors import CommitError, CorruptTableError, InvalidInputError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.table.table_version import reader_of, state_of
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.table_layer.metadata.checksummed_json import seal
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.refresh_view import refresh_view
from projseg.views.refresh_work import Work
from projseg.views.view_records import CoverFile
from projseg.views.view_store import open_store

BY_K = "SELECT k, sum(n) AS n FROM t GROUP BY k"
STEP = 1 if IS_NIGHTLY else 15
"""Between the operations that fail."""
TOTAL = "SELECT sum(n) AS n, count(*) AS c FROM t"


def some_rows(hours):
    return [row(h, 3 * k, "ab"[(h + k) % 2], k, h + k, None) for h in hours for k in range(2)]


def files_of(location):
    return {path for path in (Path(location) / "views").rglob("*") if path.is_file()}


def behind(tmp_path):
    """Return a table whose view stands for some of its segments, of which some changed."""
    table = new_viewed_table(tmp_path / "t", some_rows(range(4)))
    table.create_view("v", BY_K, chunk="day", refresh="deferred")
    table.append(rows(some_rows([3, 25])))
    table.delete("n = 3")
    return table


def refreshed(table, storage):
    snapshot = Snapshot(storage, table.snapshot.file)
    store = open_store(table.snapshot)
    (view_id,) = store.views
    return refresh_view(snapshot, view_id, Work(), NO_NOTE)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", [{}, {"forever": True}, {"after": True}, {"unsure": True}])
def test_a_refresh_that_fails_at_any_operation_harms_nothing(tmp_path, how):
    behind(tmp_path)
    wanted = in_duckdb(TOTAL, Table(tmp_path / "t").sql("SELECT * FROM t"))
    for at in count(1 + len(how), STEP):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "t", tmp_path / "copy")
        KEPT.clear()
        table = Table(tmp_path / "copy")
        storage = FaultStorage(table.snapshot.storage, at, **how)
        with suppress(ProjsegError):
            refreshed(table, storage)
        if not storage.was_reached:
            break
        KEPT.clear()
        table = Table(tmp_path / "copy")
        assert answer(table, TOTAL) == wanted, storage.log[-1]
        check_covers(table)
        assert table.view("v").verify() == [], storage.log[-1]
        table.view("v").refresh()
        assert table.views().column("state").to_pylist() == ["fresh"]
        assert answer(table, TOTAL, forceViews=True) == wanted
    assert at > 20
    table.vacuum(0, dry_run=False, force=True)
    store = reader_of(table).view_store()
    (view,) = store.views.values()
    parts = store.parts(view)
    listed = 1 + len(store.file.lists) + len(view.manifests) + 2 * len(parts)
    assert len(files_of(table.location)) - listed <= 1  # the version before the vacuum's own


def test_a_creation_that_fails_at_any_operation_leaves_no_half_made_view(tmp_path):
    new_viewed_table(tmp_path / "t", some_rows(range(4)), properties={"views": "on"})
    for at in count(1, STEP):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "t", tmp_path / "copy")
        KEPT.clear()
        table = Table(tmp_path / "copy")
        storage = FaultStorage(table.snapshot.storage, at, forever=True)
        state_of(table).storage = storage
        state_of(table).move_to(Snapshot(storage, table.snapshot.file))
        with suppress(ProjsegError):
            table.create_view("v", BY_K)
        if not storage.was_reached:
            break
        KEPT.clear()
        table = Table(tmp_path / "copy")
        wanted = in_duckdb(TOTAL, table.sql("SELECT * FROM t", context={"noViews": True}))
        assert answer(table, TOTAL) == wanted
        assert table.views().num_rows in (0, 1)
        table.create_view("v", BY_K, if_not_exists=True)
        assert answer(table, TOTAL, forceViews=True) == wanted
    assert at > 20


def test_who_refreshes_a_view_that_another_refreshed_plans_again(tmp_path):
    first = behind(tmp_path)
    second = Table(first.location)
    assert second.view("v").refresh().version is not None
    done = first.view("v").refresh()
    assert done.version is None
    check_covers(first)


def test_who_knows_an_older_version_than_a_view_plans_again(tmp_path):
    table = behind(tmp_path)
    older = table.snapshot
    table.append(rows(some_rows([50])))
    table.view("v").refresh()
    (view_id,) = reader_of(table).view_store().views
    assert refresh_view(older, view_id, Work(), NO_NOTE)[1].version is None
    assert table.view("v").detail()["state"] == "fresh"


def append_some(one, number):
    one.append(rows(some_rows(range(number, number + 2))))


def refresh_both(one, _):
    for name in ("v", "total"):
        one.view(name).refresh()


def ask_for_the_total(one, _):
    assert answer(one, TOTAL) == answer(one, TOTAL, noViews=True)


def test_many_writers_and_refreshers_never_count_twice(tmp_path):
    table = new_viewed_table(tmp_path / "t", some_rows(range(6)))
    table.create_view("v", BY_K, chunk="day")
    table.create_view("total", TOTAL, chunk="month", refresh="deferred")
    errors = []

    def act(work):
        try:
            with suppress(CommitError):
                for number in range(3):
                    work(Table(table.location), number)
        except Exception as error:  # noqa: BLE001 -- whatever a thread meets is the test's
            errors.append(error)

    works = (append_some, append_some, refresh_both, refresh_both, ask_for_the_total)
    threads = [threading.Thread(target=act, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    refresh_both(table.refresh(), 0)
    assert [table.view(name).verify(deep=True) for name in ("v", "total")] == [[], []]
    check_covers(table)
    wanted = in_duckdb(TOTAL, table.sql("SELECT * FROM t"))
    assert answer(table, TOTAL, forceViews=True) == wanted


def test_of_two_creations_of_one_name_one_wins(tmp_path):
    table = new_viewed_table(tmp_path / "t", some_rows(range(24)))
    other = Table(table.location)
    table.create_view("v", BY_K)
    with pytest.raises(InvalidInputError, match="PROJSEG_VIEW_EXISTS"):
        other.create_view("V", TOTAL)
    with pytest.raises(InvalidInputError, match="PROJSEG_VIEW_EXISTS"):
        other.create_view("same", "SELECT k AS key, sum(n) FROM t GROUP BY 1")
    before = files_of(table.location)
    with pytest.raises(ProjsegError, match="PROJSEG_VIEW_NEEDS_SPARK"):
        other.create_view("w", "SELECT k, sum(n) FROM t GROUP BY k HAVING sum(n) > 1")
    assert files_of(table.location) == before
    assert other.create_view("w", TOTAL, replace=True).name == "w"


def test_a_cover_that_a_stranger_changed_is_not_used(tmp_path):
    table = behind(tmp_path)
    store = reader_of(table).view_store()
    (view,) = store.views.values()
    for part in store.parts(view):
        names = tuple(name for name in store.cover(part)[:-1])
        forged = seal(CoverFile(kind="view_cover", name=part.cover.file, segments=names))
        (Path(table.location) / "views" / part.cover.file).write_bytes(forged)
    KEPT.clear()
    table = Table(table.location)
    with pytest.raises(CorruptTableError, match="not the cover"):
        reader_of(table).view_store().cover(part)
    wanted = in_duckdb(TOTAL, table.sql("SELECT * FROM t"))
    assert answer(table, TOTAL) == wanted
    assert table.explain(TOTAL).views[0]["reason"].startswith("VIEW_BROKEN")
    assert len(table.view("v").verify()) == len(store.parts(view))


def test_another_part_in_the_place_of_one_is_refused(tmp_path):
    table = new_viewed_table(tmp_path / "t", some_rows(range(48)))
    table.create_view("v", BY_K, chunk="day")
    one, other, *_ = sorted((Path(table.location) / "views/data").iterdir())
    other.write_bytes(one.read_bytes())
    KEPT.clear()
    table = Table(table.location)
    wanted = in_duckdb(TOTAL, table.sql("SELECT * FROM t"))
    assert answer(table, TOTAL) == wanted
    with pytest.raises(ProjsegError):
        table.sql(TOTAL, context={"forceViews": True})


def test_a_chunk_that_cannot_be_built_answers_for_itself(tmp_path):
    table = new_viewed_table(tmp_path / "t", some_rows(range(40)))
    view = table.create_view("v", "SELECT k, sum(100 / n) AS q FROM t WHERE n > 0 GROUP BY k")
    table.append(rows([row(60, 0, "0x", 1, 0, None)]))
    bad = "SELECT cast(k AS int) AS k, count(*) AS c FROM t WHERE k <> 'a' GROUP BY 1"
    with pytest.raises(ProjsegError):
        table.create_view("bad", bad)
    assert table.views().column("name").to_pylist() == [view.name]


def test_steering(tmp_path):
    table = new_viewed_table(tmp_path / "t", some_rows(range(40)))
    table.create_view("v", BY_K, chunk="day", refresh="deferred")

    def sources(**context):
        return set(table.explain(BY_K, context=context or None).sources)

    assert sources() == {"view:v"} == sources(useView="v", forceViews=True)
    for off in ({"noViews": True}, {"noProjections": True}, {"excludeViews": "v"}):
        assert sources(**off) == {"base"}
    assert sources(noViews=True, forceViews=True) == {"base"}
    for wrong in ({"useView": "vv"}, {"excludeViews": "w"}):
        with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VIEW"):
            sources(**wrong)
    with pytest.raises(InvalidInputError, match="MISSING_GROUPING_COLUMN g"):
        table.sql("SELECT g, sum(n) FROM t GROUP BY g", context={"useView": "v"})
    table.append(rows(some_rows([50])))
    assert sources() == {"view:v", "base"}
    with pytest.raises(InvalidInputError, match="NOT_COVERED 1"):
        sources(forceViews=True)
    table.view("v").disable()
    assert table.explain(BY_K).views[0]["reason"] == "VIEW_DISABLED"
    with pytest.raises(InvalidInputError, match="disabled"):
        table.view("v").refresh()


def test_a_covered_question_decodes_no_entry_of_the_table(tmp_path, monkeypatch):
    table = new_viewed_table(tmp_path / "t", some_rows(range(60)))
    table.create_view("v", BY_K, chunk="day")
    KEPT.clear()
    opened = Table(table.location)

    def refused(self, index):
        raise AssertionError("an entry was decoded")

    monkeypatch.setattr("projseg.table_layer.metadata.manifest.Manifest.entry", refused)
    assert len(answer(opened, BY_K)) == 2
