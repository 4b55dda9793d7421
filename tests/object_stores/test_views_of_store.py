"""Views on an object store that loses replies: whatever a refresh says, answers are right."""

import pyarrow as pa
import pytest
from results_without_spark import create_result, refresh_result, runs, stored_rows, wanted_rows
from scale import IS_NIGHTLY
from viewed_tables import as_set, check_covers

import projseg

STAR = "SELECT d.region, sum(n) AS n, count(*) AS c FROM t JOIN d ON k = d.code GROUP BY d.region"
TOP = f"{STAR} HAVING count(*) > 1"
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
PLACES = pa.schema([("code", pa.string()), ("region", pa.string())])


def rows(first):
    return pa.table([[*"abcabc"], range(first, first + 6)], schema=SCHEMA)


def answer(tables, **context):
    found = projseg.sql(STAR, tables, context=context)
    return as_set(zip(*(column.to_pylist() for column in found.columns), strict=True))


KINDS = ["cut", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("drop", "500", "twice"))]


@pytest.mark.parametrize("kind", KINDS)
def test_lost_replies_leave_views_right(store_place, options, spoiled, kind):
    fact = projseg.Table.create(store_place / "t", SCHEMA, storage_options=options)
    codes = pa.table([list("ab"), ["x", "y"]], schema=PLACES)
    places = projseg.Table.create(store_place / "d", PLACES, data=codes, storage_options=options)
    tables = {"t": fact, "d": places}
    fact.append(rows(0))
    fact.create_view("v", STAR, tables={"d": places}, refresh="deferred")
    ended = 0
    for step in range(4 if IS_NIGHTLY else 2):
        fact.append(rows(10 * step))
        if step % 2:
            fact.delete(f"n = {10 * step}")
        places.update({"region": f"'{step}'"}, "code = 'b'")
        spoiled(share=0.3, only=["PUT"], kinds=[kind])
        try:
            fact.view("v").refresh()
            ended += 1
        except projseg.errors.ProjsegError:  # it may not know what became of it
            pass
        spoiled()
        fact.refresh()
        places.refresh()
        assert answer(tables) == answer(tables, noViews=True)
        check_covers(fact)
    fact.view("v").refresh()
    assert answer(tables, useView="v", forceViews=True) == answer(tables, noViews=True)
    assert fact.verify(deep=True) == []
    assert ended > 0


@pytest.mark.parametrize("kind", KINDS)
def test_lost_replies_leave_stored_results_right(store_place, options, spoiled, kind):
    fact = projseg.Table.create(store_place / "t", SCHEMA, storage_options=options)
    codes = pa.table([list("ab"), ["x", "y"]], schema=PLACES)
    places = projseg.Table.create(store_place / "d", PLACES, data=codes, storage_options=options)
    tables, run = {"t": fact, "d": places}, runs(options)
    fact.append(rows(0))
    create_result(fact, "v", TOP, tables, run)
    ended = 0
    for step in range(4 if IS_NIGHTLY else 2):
        fact.append(rows(10 * step))
        places.update({"region": f"'{step}'"}, "code = 'b'")
        spoiled(share=0.2, only=["PUT"], kinds=[kind])
        try:
            refresh_result(fact, "v", run)
            ended += 1
        except projseg.errors.ProjsegError:
            pass
        spoiled()
        fact.refresh()
        places.refresh()
        found = stored_rows(fact, TOP, tables)
        assert found in (None, wanted_rows(TOP, tables))
    refresh_result(fact, "v", run)
    assert fact.verify(deep=True) == []
    assert stored_rows(fact, TOP, tables) == wanted_rows(TOP, tables)
    fact.vacuum(0, dry_run=False, force=True)
    left = [one.url for one in store_place.iterdir() if "/views/results/" in one.url]
    assert len({url.partition("/views/results/")[2].partition("/")[0] for url in left}) == 1
    assert stored_rows(fact, TOP, tables) == wanted_rows(TOP, tables)
    assert ended > 0
