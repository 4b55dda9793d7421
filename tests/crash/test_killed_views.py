"""A refresh of a star's view, killed at every call: answers are right, and the next one ends it."""

import shutil
from itertools import count

import pyarrow as pa
import pytest
from race import run_and_die
from recorded_os import DyingOs
from scale import IS_NIGHTLY
from viewed_tables import as_set, check_covers

import projseg
from projseg.memory.cache import KEPT
from projseg.table_layer.storage import local_storage

STEP = 1 if IS_NIGHTLY else 13  # of the calls that are killed, one after the other
STAR = "SELECT d.region, day, sum(n) AS n FROM t JOIN d ON k = d.code GROUP BY d.region, day"
SCHEMA = pa.schema([("day", pa.date32()), ("k", pa.string()), ("n", pa.int64())])
PLACES = pa.schema([("code", pa.string()), ("region", pa.string())])


def rows(days, first=0):
    several = [{"day": day, "k": k, "n": first + day} for day in days for k in "abcdef"]
    columns = {name: [one[name] for one in several] for name in SCHEMA.names}
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def append(table, places):
    table.append(rows([3, 40], 100))


def delete(table, places):
    table.delete("n = 2 AND k = 'a'")


def compact(table, places):
    table.compact()


def change_dimension(table, places):
    places.update({"region": "'other'"}, "code = 'b'")


CHANGES = [append, delete, compact, change_dimension]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A fact with a deferred view of a star, before and after each change."""
    folder = tmp_path_factory.mktemp("stars") / "template"
    table = projseg.Table.create(
        folder / "t", SCHEMA, time_column="day", segment_granularity="day",
        properties={"maxDeletedRatio": "0.5"},
    )  # fmt: skip
    table.append(rows(range(8)))
    table.append(rows(range(4), 50))
    codes = pa.table([list("abcde"), ["x", "x", "y", "y", None]], schema=PLACES)
    places = projseg.Table.create(folder / "d", PLACES, data=codes)
    table.create_view("v", STAR, tables={"d": places}, chunk="month", refresh="deferred")
    for change in CHANGES:  # compiles before anything forks
        copy = folder.parent / change.__name__
        shutil.copytree(folder, copy)
        changed = opened(copy)
        change(*changed.values())
        warm = folder.parent / "warm"
        shutil.copytree(copy, warm)
        opened(warm)["t"].view("v").refresh()
        shutil.rmtree(warm)
    return folder.parent


def opened(folder):
    return {name: projseg.Table(folder / name) for name in "td"}


def check(folder):
    KEPT.clear()
    tables = opened(folder)
    answers = [
        as_set(zip(*(c.to_pylist() for c in found.columns), strict=True))
        for context in ({}, {"noViews": True})
        for found in [projseg.sql(STAR, tables, context=context)]
    ]
    assert answers[0] == answers[1]
    assert tables["t"].verify(deep=True) == []
    check_covers(tables["t"])
    return tables["t"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", CHANGES)
def test_a_killed_refresh_makes_no_answer_wrong(template, tmp_path, monkeypatch, change):
    killed = 0
    for at in count(1, STEP):
        folder = tmp_path / f"t{at}"
        shutil.copytree(template / change.__name__, folder)
        KEPT.clear()
        table = projseg.Table(folder / "t")

        def die(at=at, table=table):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            table.view("v").refresh()

        was_killed = run_and_die(die)
        found = check(folder)
        killed += was_killed
        done = found.view("v").refresh()
        assert found.view("v").detail()["state"] == "fresh"
        assert was_killed or done.version is None, "a refresh that ended left nothing to do"
        check(folder)
        if at == 1 or not was_killed:
            found.vacuum(0, dry_run=False, force=True)
            left = {path.name for path in (folder / "t" / "views" / "data").iterdir()}
            listed = found.view("v").parts().column("file").to_pylist()
            assert left == {name.rpartition("/")[2] for name in listed}
            check(folder)
        shutil.rmtree(folder)
        if not was_killed:
            break
    assert killed * STEP > 5
