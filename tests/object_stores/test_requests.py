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


VISITS = 400


@pytest.fixture(scope="module", params=["bloom", "token", "ngram"])
def indexed(request, store_server):
    """(kind, location) of a table with an index of its kind, in two Bloom files."""
    table = projseg.Table.create(
        f"s3://tables/indexed-{request.param}",
        {"visit": "string", "page": "string", "x": "long"},
        target_segment_rows=20,
        indexes=[projseg.Index("i", "page", kind=request.param)],
        storage_options=store_server.options(),
    )
    for half in range(2):
        numbers = range(half * VISITS // 2, (half + 1) * VISITS // 2)
        pages = [f"page of title {n:04}" for n in numbers]
        table.append({"visit": [f"{n}" for n in numbers], "page": pages, "x": list(numbers)})
    assert len(table.snapshot.bloom_files) == 2
    return request.param, table.location


def condition_on(kind, number):
    return {
        "bloom": f"page = 'page of title {number:04}'",
        "token": f"text_match(page, '\"title {number:04}\"')",
        "ngram": f"page LIKE '%{number:04}%'",
    }[kind]


def requests_of(store_server, location, condition):
    """(answer, requests of Bloom files, of segments, and how many of all else)."""
    query = {"columns": ["x"], "filter": condition, "order_by": ["x"]}
    answer, log = cold(store_server, location, query)
    paths = [one["path"] for one in of_segments(log)]
    blooms = [path for path in paths if path.endswith(".pblm")]
    segments = [path for path in paths if not path.endswith(".pblm")]
    others = len(log) - len(paths)
    return answer["x"].to_pylist(), blooms, segments, others


def test_a_key_takes_two_requests_a_bloom_file(store_server, indexed):
    kind, location = indexed
    for number in (7, 333):
        found, blooms, segments, others = requests_of(
            store_server, location, condition_on(kind, number)
        )
        assert found == [number]
        assert len(blooms) <= 2 * 2
        assert len(segments) == len(set(segments)) <= 2  # they are small, and read at once
        # The listing, the snapshot and its manifests.
        assert others <= 2 + 2


def test_an_absent_key_opens_no_segment_but_false_ones(store_server, indexed):
    kind, location = indexed
    opened = 0
    for number in (5000, 6100, 7200):
        found, blooms, segments, _ = requests_of(store_server, location, condition_on(kind, number))
        assert found == []
        assert len(blooms) <= 2 * 2
        opened += len(segments)
    assert opened <= 2


def test_a_key_takes_few_requests_of_a_large_segment_and_two_of_a_false_one(store_server):
    """Of segments that are too large to be read whole, by an index that is often wrong."""
    noise = np.random.default_rng(28).integers(0, 2**62, (6 * 15_000, 3))
    visits = [f"{a:016x}{b:016x}{c:016x}" for a, b, c in noise.tolist()]
    table = projseg.Table.create(
        "s3://tables/indexed-large",
        {"visit": "string", "x": "long"},
        target_segment_rows=15_000,
        indexes=[projseg.Index("i", "visit", fpp=0.1)],
        storage_options=store_server.options(),
        data={"visit": visits, "x": range(len(visits))},
    )
    assert len(table.snapshot.segments) == 6
    false_count = 0
    for number in range(0, len(visits), 7_001):
        for visit, expected in ((visits[number], [number]), (f"{visits[number]}0", [])):
            found, blooms, segments, _ = requests_of(
                store_server, table.location, f"visit = '{visit}'"
            )
            assert found == expected
            assert len(blooms) == 2
            each = sorted(segments.count(path) for path in set(segments))
            false_count += len(each) - len(expected)
            assert all(count <= 2 for count in each[: len(each) - len(expected)])
            assert all(count <= 5 for count in each)
    assert false_count > 0
