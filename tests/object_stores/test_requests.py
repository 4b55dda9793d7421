"""How many requests a query takes, and how many bytes: only what it needs, in few trips."""

import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.memory.cache import KEPT

SCHEMA = {"time": "timestamp", "k": "string", "x": "long", "text": "string"}
BY_KEY = projseg.Projection("by_key", ["k"], ["sum(x) AS x", "count(*) AS n"])
SEGMENTS, ROWS = 12, 2_000
COVERED = {"group_by": "k", "aggregators": "sum(x) AS x", "order_by": "k"}
SCAN = {"columns": "k, x", "filter": "x % 500 = 0", "order_by": "x, k"}
FIRST = {"columns": "k, x", "filter": "x % 500 = 0", "order_by": "k DESC, x", "limit": 5}


def rows_of(number):
    base = number * 86_400_000_000
    return {
        "time": pa.array([base + n for n in range(ROWS)], pa.timestamp("us", "UTC")),
        "k": [f"key {n % 7}" for n in range(ROWS)],
        "x": [number * ROWS + n for n in range(ROWS)],
        "text": [f"{number} and {n} and {n * n}" for n in range(ROWS)],
    }


@pytest.fixture(scope="module")
def location(store_server):
    table = projseg.Table.create(
        "s3://tables/requests",
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        projections=[BY_KEY],
        storage_options=store_server.options(),
    )
    for number in range(SEGMENTS):
        table.append(rows_of(number))
    return table.location


def cold(store_server, location, query):
    """Return the answer and the requests of a query with nothing in memory."""
    KEPT.clear()
    store_server.log()
    answer = projseg.Table(
        location, storage_options=store_server.options(through_proxy=True)
    ).query(**query)
    return answer, store_server.log()


def of_segments(log):
    return [one for one in log if "/data/" in one["path"]]


def test_a_covered_query_takes_a_request_a_small_segment(store_server, location):
    answer, log = cold(store_server, location, COVERED)
    assert sum(answer.column("x").to_pylist()) == sum(range(SEGMENTS * ROWS))
    # Beside the segments' ends, the listing, the snapshot, and its manifests.
    assert len(log) == SEGMENTS + 2 + SEGMENTS
    assert {one["method"] for one in log} == {"GET"}
    table = projseg.Table(location, storage_options=store_server.options())
    assert sum(one["bytes"] for one in of_segments(log)) <= table.snapshot.data_bytes
    again = projseg.Table(location, storage_options=store_server.options(through_proxy=True))
    store_server.log()
    again.query(**COVERED)
    assert of_segments(store_server.log()) == []


def test_a_covered_query_reads_the_end_of_a_segment_and_its_own_parts(store_server, store_place):
    rows = {"k": [f"key {n % 7}" for n in range(100_000)], "x": range(100_000)}
    noise = np.random.default_rng(1).integers(0, 2**62, 100_000)
    table = projseg.Table.create(
        store_place,
        {"k": "string", "x": "long", "noise": "long"},
        data=pa.table({**rows, "noise": noise}),
        projections=[BY_KEY],
        storage_options=store_server.options(),
    )
    _, log = cold(store_server, table.location, COVERED)
    assert len(of_segments(log)) <= 2
    read = sum(one["bytes"] for one in of_segments(log))
    assert 0 < read < 200_000 < 700_000 < table.snapshot.data_bytes


@pytest.mark.parametrize("query", [COVERED, SCAN, FIRST, {"aggregators": "count(*) AS n"}])
def test_answers_are_those_of_a_folder(store_server, location, tmp_path, query):
    local = projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="time", segment_granularity="day", projections=[BY_KEY]
    )
    for number in range(SEGMENTS):
        local.append(rows_of(number))
    answer, log = cold(store_server, location, query)
    assert answer.equals(local.query(**query))
    assert len(of_segments(log)) <= SEGMENTS * (3 if query is FIRST else 1)


def test_requests_are_made_side_by_side(store_server, location, spoiled):
    spoiled(delay=0.05)
    _, log = cold(store_server, location, COVERED)
    assert max(one["beside"] for one in of_segments(log)) >= SEGMENTS // 2


def test_segments_that_may_have_first_rows_are_opened_side_by_side(store_server, location, spoiled):
    spoiled(delay=0.05)
    _, log = cold(store_server, location, FIRST)
    assert max(one["beside"] for one in of_segments(log)) >= 3


def test_segments_behind_the_first_rows_are_not_opened(store_server, location):
    query = {"columns": "time, x", "order_by": "time DESC", "limit": 5}
    answer, log = cold(store_server, location, query)
    assert answer.column("x").to_pylist() == [SEGMENTS * ROWS - 1 - n for n in range(5)]
    assert len({one["path"] for one in of_segments(log)}) < SEGMENTS
