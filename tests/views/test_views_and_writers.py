"""Appenders, refreshers and readers at the same time: each total is that of its version."""

import threading
import time

import pyarrow as pa
import pytest
from scale import IS_NIGHTLY
from viewed_tables import check_covers

from projseg import Table
from projseg.errors import CommitConflictError, InvalidInputError, ProjsegError
from projseg.table.table_version import reader_of

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
SQL = "SELECT k, sum(n) AS n, count(*) AS c FROM t GROUP BY k"
APPENDERS, REFRESHERS = (8, 3) if IS_NIGHTLY else (3, 2)
SECONDS = 60 if IS_NIGHTLY else 3


def test_totals_at_pinned_versions_while_others_write(tmp_path):
    location = str(tmp_path / "t")
    first = Table.create(location, SCHEMA)
    first.append(pa.table([["a"], [1]], schema=SCHEMA))
    first.create_view("v", SQL, refresh="deferred")
    end = time.monotonic() + SECONDS
    errors, counts = [], {"appends": 0, "refreshes": 0, "reads": 0}

    def repeated(what, act):
        table = Table(location)
        while time.monotonic() < end:
            try:
                act(table.refresh())
                counts[what] += 1
            except CommitConflictError:
                pass
            except Exception as error:  # noqa: BLE001 - any is a failure of the test
                errors.append(error)
                return

    def append(table):
        table.append(pa.table([["a", "b"], [counts["appends"], 1]], schema=SCHEMA))

    def read(table):
        answers = [
            sorted(map(repr, table.sql(SQL, context=context).to_pylist()))
            for context in ({}, {"noViews": True})
        ]
        assert answers[0] == answers[1], table.version
        check_covers(table)

    work = [("appends", append)] * APPENDERS
    work += [("refreshes", lambda table: table.view("v").refresh())] * REFRESHERS
    work += [("reads", read)]
    threads = [threading.Thread(target=repeated, args=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    table = Table(location)
    table.view("v").refresh()
    read(table.refresh())
    assert table.view("v").detail()["state"] == "fresh"
    assert table.view("v").verify(deep=True) == []
    assert min(counts.values()) > 0, counts


def test_of_two_that_make_a_view_one_wins(tmp_path):
    location = str(tmp_path / "t")
    Table.create(location, SCHEMA).append(pa.table([["a"], [1]], schema=SCHEMA))
    outcomes, barrier = [], threading.Barrier(4)

    def make():
        table = Table(location)
        barrier.wait()
        try:
            table.create_view("v", SQL)
            outcomes.append("made")
        except ProjsegError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("made") == 1
    assert set(outcomes) <= {"made", "PROJSEG_VIEW_EXISTS", "PROJSEG_COMMIT_CONFLICT"}, outcomes
    table = Table(location)
    assert table.views().column("name").to_pylist() == ["v"]
    table.vacuum(0, dry_run=False, force=True)
    left = {path.name for path in (tmp_path / "t" / "views" / "data").iterdir()}
    listed = {name.rpartition("/")[2] for name in table.view("v").parts()["file"].to_pylist()}
    assert left == listed, "no file of a loser stays"
    with pytest.raises(ProjsegError):
        table.create_view("v", SQL)


def test_who_makes_and_who_drops_one_name_at_once(tmp_path):
    """Of creations and drops of one name each is whole, and the last of them is what is there."""
    location = str(tmp_path / "t")
    table = Table.create(location, SCHEMA)
    table.append(pa.table([["a", "b"], [1, 2]], schema=SCHEMA))
    table.create_view("w", "SELECT sum(n) AS n FROM t")
    end = time.monotonic() + SECONDS / 2
    errors, counts = [], {"made": 0, "dropped": 0}
    expected = ("PROJSEG_VIEW_EXISTS", "PROJSEG_UNKNOWN_VIEW", "PROJSEG_COMMIT_CONFLICT")

    def repeated(what, act):
        while time.monotonic() < end:
            try:
                act(Table(location))
                counts[what] += 1
            except ProjsegError as error:
                if error.code not in expected:
                    errors.append(error)
                    return

    def check():
        table = Table(location)
        store = reader_of(table).view_store()
        names = [view.name for view in store.views.values()]
        assert sorted(names) in (["w"], ["v", "w"]), names
        listed = {p.segment.file for view in store.views.values() for p in store.parts(view)}
        for name in listed:
            assert (tmp_path / "t" / "views" / name).exists()
        assert table.sql(SQL).num_rows == 2

    work = [("made", lambda table: table.create_view("v", SQL))] * 3
    work += [("dropped", lambda table: table.view("v").drop())] * 2
    threads = [threading.Thread(target=repeated, args=one) for one in work]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        check()
    for thread in threads:
        thread.join()
    assert errors == []
    assert counts["made"] - counts["dropped"] in (0, 1), counts
    assert min(counts.values()) > 0, counts
    table = Table(location)
    left = set(table.views().column("name").to_pylist())
    assert (left == {"v", "w"}) == (counts["made"] > counts["dropped"])
    table.vacuum(0, dry_run=False, force=True)
    parts = [part for name in left for part in table.view(name).parts()["file"].to_pylist()]
    kept = {path.name for path in (tmp_path / "t" / "views" / "data").iterdir()}
    assert kept == {name.rpartition("/")[2] for name in parts}, "no file of a loser stays"
    assert table.verify(deep=True) == []


@pytest.mark.parametrize("sql", [SQL, "SELECT max(n) AS n FROM t"])
def test_if_not_exists_takes_a_view_that_came_while_it_was_built(tmp_path, sql):
    first = Table.create(str(tmp_path / "t"), SCHEMA)
    first.append(pa.table([["a"], [1]], schema=SCHEMA))
    made = []

    def come_between(_done, _of):
        made.append(Table(first.location).create_view("V", SQL))

    view = first.create_view("v", sql, if_not_exists=True, on_progress=come_between)
    assert [one.detail()["view_id"] for one in made] == [view.detail()["view_id"]]
    assert first.views()["name"].to_pylist() == ["V"]
    with pytest.raises(InvalidInputError, match=r"PROJSEG_VIEW_EXISTS.*there is a view 'V'"):
        first.create_view("v", sql)
    with pytest.raises(InvalidInputError, match=r"PROJSEG_VIEW_EXISTS.*use that one"):
        first.create_view("other", SQL, if_not_exists=True)
