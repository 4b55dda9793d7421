"""What is written is what is read: every kind and type, nulls everywhere, every edge of a page."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries
from segment_bytes import build_segment, open_segment, read_everything, same_bits
from segment_columns import TYPES, arrays, ids_of, vector_of

from projseg.errors import InvalidInputError
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import dictionary_hashes
from projseg.segment_format.vectors import Ids, Numbers, Opaque

EDGE_COUNTS = [0, 1, 2, 65_535, 65_536, 65_537, 131_073]
ORDERED = [t for t in TYPES if not pa.types.is_nested(t) and not pa.types.is_floating(t)]


@pytest.mark.parametrize("arrow_type", TYPES, ids=str)
@settings(max_examples=tries(1_000, 20))
@given(data=st.data())
def test_any_column_comes_back(arrow_type, data):
    array = data.draw(arrays(arrow_type))
    found = read_everything(build_segment({"x": vector_of(array)}))["__base", "base", "x"]
    assert found.type == arrow_type
    assert same_bits(found, array)


@pytest.mark.parametrize("arrow_type", ORDERED, ids=str)
@settings(max_examples=tries(500, 10))
@given(data=st.data())
def test_any_column_of_ids_comes_back(arrow_type, data):
    array = data.draw(arrays(arrow_type))
    content = build_segment({"x": ids_of(array)})
    found = read_everything(content)["__base", "base", "x"]
    assert found.equals(array)
    dictionary = open_segment(content).dictionary("x")
    if len(dictionary):
        recomputed = dictionary_hashes(Dictionary(dictionary.values))
        np.testing.assert_array_equal(dictionary.stored_hashes, recomputed)


def edge_columns(row_count):
    rng = np.random.default_rng(row_count)
    valid = rng.random(row_count) < 0.9
    words = Dictionary(pa.array([None, *sorted(f"w{i:05d}" for i in range(70_000))]))
    text = [None if i % 7 == 0 else f"{i % 100}" * (i % 5) for i in range(row_count)]
    lists = [None if i % 5 == 0 else list(range(i % 4)) for i in range(row_count)]
    return {
        "narrow": Ids((np.arange(row_count) % 3).astype(np.uint32), words),
        "wide": Ids(rng.integers(0, len(words), row_count).astype(np.uint32), words),
        "sorted": Ids(np.sort(rng.integers(0, 99, row_count)).astype(np.uint32), words),
        "time": Numbers(np.cumsum(rng.integers(0, 10**6, row_count)), pa.timestamp("us", "UTC")),
        "based": Numbers(
            np.where(valid, rng.integers(0, 200, row_count), 0).astype(np.uint8),
            pa.int64(),
            -(2**63),
            valid,
        ),
        "any": Numbers(rng.integers(-(2**63), 2**63 - 1, row_count), pa.int64()),
        "price": Numbers(rng.integers(0, 10**5, row_count) / 100, pa.float64()),
        "noise": Numbers(rng.normal(size=row_count), pa.float64()),
        "short": Numbers(rng.normal(size=row_count).astype(np.float32), pa.float32()),
        "sum": Numbers(
            np.array([int(i) * 10**30 for i in rng.integers(-9, 9, row_count)], object),
            pa.decimal128(38, 0),
        ),
        "text": Opaque(pa.array(text, pa.string())),
        "list": Opaque(pa.array(lists, pa.list_(pa.int32()))),
    }


@pytest.mark.parametrize("row_count", EDGE_COUNTS)
def test_every_edge_of_a_page_comes_back(row_count):
    columns = edge_columns(row_count)
    found = read_everything(build_segment(columns))
    for name, vector in columns.items():
        assert same_bits(found["__base", "base", name], vector.to_arrow()), name


def test_a_range_of_pages_is_those_rows():
    columns = edge_columns(150_000)
    segment = open_segment(build_segment(columns))
    for name, vector in columns.items():
        starts = segment.page_zones("__base", "base", name).row_starts
        for first, end in [(0, 1), (1, 3), (len(starts) - 2, len(starts) - 1), (2, 2)]:
            found = segment.column("__base", "base", name, first, end).to_arrow()
            expected = vector.slice(int(starts[first]), int(starts[end])).to_arrow()
            assert same_bits(found, expected), (name, first, end)


def test_integers_are_as_narrow_as_the_pages_read():
    values = np.concatenate([np.arange(65_536) % 200 + 5_000, np.arange(65_536) + 2**40])
    content = build_segment({"x": Numbers(values, pa.int64())})
    segment = open_segment(content)
    narrow = segment.column("__base", "base", "x", 0, 1)
    assert (narrow.values.dtype, narrow.base) == (np.uint8, 5_000)
    assert segment.column("__base", "base", "x", 1, 2).values.dtype == np.uint16
    assert segment.column("__base", "base", "x").values.dtype == np.int64


def test_null_rows_hold_zero():
    valid = np.arange(1000) % 3 > 0
    content = build_segment({"x": Numbers(np.where(valid, 77, 0), pa.int64(), 0, valid)})
    found = open_segment(content).column("__base", "base", "x")
    assert not found.values[~valid].any()
    np.testing.assert_array_equal(found.validity, valid)


def test_tables_share_a_dictionary():
    dictionary = Dictionary(pa.array(["a", "b", "c"]))
    base = Ids(np.array([0, 1, 2, 1], np.uint8), dictionary)
    state = Numbers(np.array([3, 4]), pa.int64())
    projections = {
        "p": {("grouping", "x"): base.slice(0, 2), ("state", "x"): state, ("state", "sum"): state}
    }
    segment = open_segment(build_segment({"x": base}, projections=projections))
    grouped = segment.column("p", "grouping", "x")
    assert grouped.dictionary is segment.column("__base", "base", "x").dictionary
    assert grouped.to_arrow().to_pylist() == ["a", "b"]
    assert segment.column("p", "state", "x").to_arrow().to_pylist() == [3, 4]
    assert len(segment.footer.dictionaries) == 1


def test_an_unknown_column_is_named_with_its_nearest():
    segment = open_segment(build_segment({"channel": Opaque(pa.array(["a"]))}))
    with pytest.raises(InvalidInputError, match="did you mean 'channel'"):
        segment.column("__base", "base", "chanel")
