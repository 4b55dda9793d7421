import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.reader.threads import Workers
from projseg.segment_format.dictionary import Dictionary

ROWS = 150_000
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def rows():
    n = np.arange(ROWS)
    return pa.table(
        {
            "time": pa.array(
                n * 1_000_000 + int(START.timestamp() * 1e6), pa.timestamp("us", "UTC")
            ),
            "page": pa.array([None if i % 11 == 0 else f"page {i % 997}" for i in range(ROWS)]),
            "robot": pa.array([(None, True, False)[i % 3] for i in range(ROWS)]),
            "tiny": pa.array((n % 255 - 127).astype(np.int8)),
            "added": pa.array((n * 7919 % 4_000_000_000 - 2_000_000_000).astype(np.int32)),
            "price": pa.array(n / 100),
            "day": pa.array((n % 400 - 200).astype(np.int32)).cast(pa.date32()),
            "tags": pa.array([[str(i % 3)] for i in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    made = projseg.Table.create(
        tmp_path_factory.mktemp("scan") / "t",
        rows.schema,
        time_column="time",
        target_segment_rows=70_000,
    )
    made.append(rows)
    return made


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_scan_streams_all_rows_in_order(table, rows, threads):
    stream = table.scan(context={"threads": threads})
    assert isinstance(stream, pa.RecordBatchReader)
    found = stream.read_all()
    assert found.schema == table.schema
    assert found.equals(rows.cast(table.schema))


@pytest.mark.parametrize(
    "question",
    [
        {"columns": ["page", "added + 1 AS more"], "filter": "robot"},
        {"filter": "page = 'page 7'"},
        {"filter": "page IS NULL AND tiny > 0"},
        {"interval": "2024-05-01T00:01:00/2024-05-01T20:00:00", "columns": "time, price"},
        {"interval": "2024-05-01T10:00:00/2024-05-01T10:00:05"},
        {"interval": "2031-01-01/2031-01-02"},
        {"limit": 0},
        {"limit": 70_001, "columns": "added"},
        {"limit": 3, "filter": "added > 1000000", "columns": "added"},
    ],
)
def test_a_scan_is_the_row_query(table, question):
    expected = table.query(**question)
    assert table.scan(**question).read_all().equals(expected)
    assert table.scan(**question, context={"threads": 1}).read_all().equals(expected)


def test_batches_are_made_on_demand_and_a_scan_may_be_left(table):
    stream = table.scan(columns="page")
    first = stream.read_next_batch()
    assert 0 < first.num_rows <= 131_072
    del stream
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": ROWS}]


def test_an_error_in_a_thread_reaches_the_reader(table):
    stream = table.scan(columns="tiny / 0 AS broken")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        stream.read_all()


@given(st.lists(st.integers()), st.integers(1, 4), st.integers(0, 9))
def test_mapping_ahead_keeps_the_order(items, threads, ahead):
    results = Workers(threads).map_ahead(lambda one: one * 2, items, ahead=ahead)
    assert list(results) == [one * 2 for one in items]


def test_mapping_ahead_is_bounded():
    asked = []

    def count():
        for one in range(1000):
            asked.append(one)
            yield one

    results = Workers(2).map_ahead(lambda one: one, count(), ahead=5)
    assert next(results) == 0
    assert len(asked) == 6
    results.close()
    assert len(asked) == 6


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, "a", "bb", "c" * 50]),
        pa.array(["", "a", "bb"]),
        pa.array(["skipped", "a", "bb", "ccc"]).slice(1),
        pa.array([None, b"a", b"\xff"], pa.binary()),
        pa.array([None, False, True]),
        pa.array([False, True]),
        pa.array([None], pa.string()),
        pa.array([None, 1, 2**40]),
        pa.array([], pa.string()),
    ],
)
def test_values_of_ids_are_the_dictionarys(values):
    dictionary = Dictionary(values)
    ids = np.arange(3 * len(values), dtype=np.uint8) % max(len(values), 1)
    found = dictionary.values_of(ids)
    found.validate(full=True)
    assert found.to_pylist() == [values[int(one)].as_py() for one in ids]
    assert found.type == values.type
