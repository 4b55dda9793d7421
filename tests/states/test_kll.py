"""KLL states: equal to the oracle, read by the datasketches library, as exact as is stated."""

from __future__ import annotations

import math
import struct

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import quantiles as oracle
from scale import one_of, tries
from support.state_cases import folded, rows_of

from projseg.aggregation.kll import KllState, sketches_apart
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import CorruptSegmentError
from projseg.kernels.sketches.kll_bytes import level_capacity, parse_klls
from projseg.kernels.weighted_values import keys_by_group
from projseg.segment_format.vectors import Numbers, Opaque

ITEMS = {pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double"}


def primitive(value_type: pa.DataType, k: int = 200) -> Primitive:
    return Primitive("kll", (Column(value_type, "x"),), None, (k,))


def state_of(values, k=200, value_type=None):
    array = np.asarray(values)
    value_type = value_type or pa.from_numpy_dtype(array.dtype)
    state = new_state(primitive(value_type, k), 1)
    state.add(Groups(None, 1, len(array)), [Numbers(array, value_type)])
    assert isinstance(state, KllState)
    return state


def distribution(values):
    known = sorted(v + 0 for v in values if v is not None and not math.isnan(v))
    return [(value, 1) for value in known]


def in_memory(values, k):
    """Return what is kept of a batch of rows: four times as many blocks as are stored."""
    if len(values) <= 4 * k:
        return values
    blocks = [(key, 1 << level) for key, level in oracle.thinned(values, 4 * k)]
    return [(values[0][0], 0), *blocks, (values[-1][0], 0)]


@settings(deadline=None, max_examples=tries(400, 8))
@given(st.data())
def test_every_path_makes_the_oracles_sketch_of_few_values(data):
    value_type = data.draw(st.sampled_from([*ITEMS, pa.int32()]))
    rows = data.draw(rows_of(value_type))
    state = folded(primitive(value_type, 60), rows, lambda o: data.draw(st.sampled_from(o)))
    lists = [[] for _ in range(rows.group_count)]
    for group, value in zip(rows.groups, rows.values(), strict=True):
        lists[group].append(value)
    item = ITEMS.get(value_type, "bigint")
    expected = [oracle.sketch(distribution(values), 60, item) for values in lists]
    assert state.finish().to_pylist() == expected
    nan_counts = [sum(v is not None and v != v for v in values) for values in lists]
    assert state.columns()["nan_count"].to_arrow().to_pylist() == nan_counts


@pytest.mark.parametrize("count", one_of(3, [9, 8, 15, 1001, 16, 17, 4099, 100]))
@pytest.mark.parametrize("value_type", ITEMS, ids=str)
def test_large_sketches_are_the_oracles_and_are_read_back(count, value_type):
    values = np.random.default_rng(count).normal(size=count) * 1e6
    values = values.astype(pa.array([], value_type).to_numpy().dtype)
    state = state_of(values, k=8 if count < 1000 else 500)
    item = ITEMS[value_type]
    sketch = state.finish()[0].as_py()
    expected = oracle.sketch(in_memory(distribution(values.tolist()), state.size), state.size, item)
    assert sketch == expected
    again = new_state(primitive(value_type, state.size), 1)
    column = Opaque(pa.array([sketch], pa.binary()))
    nan_count = Numbers(np.zeros(1, np.int64), pa.int64())
    again.merge(Groups(None, 1, 1), {"sketch": column, "nan_count": nan_count})
    assert again.finish()[0].as_py() == sketch
    content = np.frombuffer(sketch, np.uint8)
    bounds = np.array([0, len(sketch)], np.int64)
    _, words, weights = parse_klls(bounds, content, 4 if item == "float" else 8, 8)
    narrow = words.astype(np.uint32) if item == "float" else words
    read = narrow.view(values.dtype).tolist()
    assert [*zip(read, weights.tolist(), strict=True)] == oracle.read(sketch, item)


@pytest.mark.parametrize("group_count", [1, 3, 300, 70_000])
def test_keys_are_sorted_by_group(group_count):
    random = np.random.default_rng(group_count)
    dtype = np.uint8 if group_count < 256 else np.uint16 if group_count < 65_536 else np.uint32
    ids = random.integers(0, group_count, 5000).astype(dtype)
    keys = random.integers(-(1 << 62), 1 << 62, 5000)
    starts, found = keys_by_group(ids, group_count, keys)
    lists = oracle.by_group(ids.tolist(), keys.tolist(), group_count)
    assert [part.tolist() for part in np.split(found, starts[1:-1])] == [*map(sorted, lists)]


@pytest.mark.parametrize("k", [8, 33, 200, 65_535])
def test_capacities_of_levels_are_two_thirds_of_the_next(k):
    for depth in range(61):
        exact = k * (2 / 3) ** depth
        assert abs(level_capacity(k, depth) - max(8, exact)) <= (0.5 if depth <= 30 else 1.0)


@pytest.mark.parametrize("count", [0, 1, 2, 200, 201, 50_000])
@pytest.mark.parametrize("value_type", [pa.float32(), pa.float64()], ids=str)
def test_the_library_reads_and_continues_a_sketch(count, value_type):
    values = np.random.default_rng(count).permutation(count).astype(value_type.to_pandas_dtype())
    kind = "floats" if value_type == pa.float32() else "doubles"
    theirs = getattr(datasketches, f"kll_{kind}_sketch")
    read = theirs.deserialize(state_of(values, value_type=value_type).finish()[0].as_py())
    assert read.n == count
    if count == 0:
        return
    assert (read.get_min_value(), read.get_max_value()) == (0, count - 1)
    for share in (0.1, 0.5, 0.9):
        assert abs(read.get_quantile(share, inclusive=True) - share * count) <= count / 200 + 1
    for value in range(count, count + 1000):
        read.update(value)
    other = theirs(200)
    other.update(values)
    read.merge(other)
    assert read.n == 2 * count + 1000
    assert abs(read.get_rank((count - 1) / 2) * read.n - count) <= 0.0133 * 2 * read.n + 1


@pytest.mark.parametrize(("k", "batches"), [(8, 1), (8, 7), (50, 1), (50, 30), (1000, 3)])
def test_ranks_are_never_wrong_by_more_than_stated(k, batches):
    random = np.random.default_rng(k + batches)
    parts = [random.permutation(random.integers(1, 40_000)) * 1.0 for _ in range(batches)]
    every = np.sort(np.concatenate(parts))
    from_rows, from_sketches = (new_state(primitive(pa.float64(), k), 1) for _ in range(2))
    for part in parts:
        rows = [Numbers(part, pa.float64())]
        from_rows.add(Groups(None, 1, len(part)), rows)
        columns = state_of(part, k).columns()
        stored = {name: columns[name] for name in ("sketch", "nan_count")}
        from_sketches.merge(Groups(None, 1, 1), stored)
    shares = [i / 40 for i in range(41)]
    for state, stated in ((from_rows, 0.25 / k), (from_sketches, 1.25 / k)):
        found = state.percentiles(shares, None).to_numpy()
        wanted = np.maximum(np.ceil(np.array(shares) * len(every)), 1)
        low, high = np.searchsorted(every, found) + 1, np.searchsorted(every, found, "right")
        wrong = np.maximum(np.maximum(low - wanted, wanted - high), 0)
        assert wrong.max() <= stated * len(every) + 1
    written = from_sketches.finish()[0].as_py()
    theirs = datasketches.kll_doubles_sketch.deserialize(written)
    ranks = np.array(theirs.get_quantiles(np.array(shares[1:-1])))
    places = np.searchsorted(every, ranks, "right") / len(every)
    assert np.abs(places - np.array(shares[1:-1])).max() <= 2.296 / k**0.9723 + 1 / len(every)


def test_a_greater_k_serves_a_smaller_and_a_smaller_is_refused():
    columns = state_of(np.arange(1000.0), k=400).columns()
    stored = {name: columns[name] for name in ("sketch", "nan_count")}
    state = new_state(primitive(pa.float64(), 100), 1)
    state.merge(Groups(None, 1, 1), stored)
    assert len(state.finish()[0].as_py()) < len(columns["sketch"].to_arrow()[0].as_py())
    with pytest.raises(CorruptSegmentError, match="smaller k than is wanted"):
        new_state(primitive(pa.float64(), 401), 1).merge(Groups(None, 1, 1), stored)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.3, 0.5, 0.7, 0.95, 1.0])
def test_nan_is_the_greatest_value(share):
    values = [math.nan, 3.0, -0.0, math.inf, 1.0, math.nan, -math.inf, 2.0]
    (found,) = state_of(values).percentiles([share], None).to_pylist()
    expected = oracle.percentile([(1, 0) if v != v else (0, v) for v in values], share)
    assert math.isnan(found) if expected[0] else found == expected[1]


def test_verification_allows_what_thinning_may_change_and_no_more():
    values = np.random.default_rng(0).normal(size=30_000)
    whole, batches = state_of(values, 100), new_state(primitive(pa.float64(), 100), 1)
    for part in np.array_split(values, 7):
        batches.add(Groups(None, 1, len(part)), [Numbers(part, pa.float64())])
    assert whole.finish() != batches.finish()
    wanted = primitive(pa.float64(), 100)
    stored, exact = whole.columns(), batches.columns()
    first = {name: stored[name] for name in ("sketch", "nan_count")}
    assert [*sketches_apart(wanted, 1, first, exact)] == []
    for other in (values + 0.05, values[:-1], np.append(values, [9.0])):
        columns = state_of(other, 100).columns()
        changed = {name: columns[name] for name in ("sketch", "nan_count")}
        assert [group for group, _, _ in sketches_apart(wanted, 1, changed, exact)] == [0]


def merged(sketch, value_type=None, k=8):
    state = new_state(primitive(value_type or pa.float64(), k), 1)
    column = Opaque(pa.array([bytes(sketch)], pa.binary()))
    nan_count = Numbers(np.zeros(1, np.int64), pa.int64())
    state.merge(Groups(None, 1, 1), {"sketch": column, "nan_count": nan_count})
    return state


@settings(deadline=None, max_examples=tries(2_000, 30))
@given(st.sampled_from([0, 1, 2, 8, 50]), st.sampled_from([*ITEMS]), st.data())
def test_damaged_sketches_are_refused_or_read(count, value_type, data):
    values = np.arange(count).astype(pa.array([], value_type).to_numpy().dtype)
    sketch = bytearray(state_of(values, 8).finish()[0].as_py())
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(st.sampled_from(["byte", "cut", "grow"]))
        if change == "byte" and sketch:
            sketch[data.draw(st.integers(0, len(sketch) - 1))] = data.draw(st.integers(0, 255))
        elif change == "cut":
            sketch = sketch[: data.draw(st.integers(0, len(sketch)))]
        else:
            sketch += data.draw(st.binary(max_size=9))
    try:
        state = merged(sketch, value_type)
    except CorruptSegmentError:
        return
    assert len(state.finish()) == 1


@pytest.mark.parametrize(
    ("at", "content", "problem"),
    [
        (0, b"\x05", "shorter than its header"),
        (1, b"\x03", "does not start as"),
        (2, b"\x10", "does not start as"),
        (6, b"\x09", "does not start as"),
        (4, b"\x07\x00", "smaller k"),
        (8, struct.pack("<Q", 51), "levels"),
        (8, struct.pack("<Q", 1 << 63), "levels"),
        (18, b"\x00", "levels"),
        (18, b"\x3e", "levels"),
        (24, struct.pack("<I", 0), "levels"),
        (24, struct.pack("<I", 1 << 31), "levels"),
        (-8, struct.pack("<d", 99.0), "beyond its least and greatest"),
        (-8, struct.pack("<d", math.nan), "NaN"),
    ],
)
def test_each_damage_is_named(at, content, problem):
    sketch = bytearray(state_of(np.arange(50.0), 8).finish()[0].as_py())
    end = at + len(content)
    sketch[at : end or None] = content
    with pytest.raises(CorruptSegmentError, match=problem):
        merged(sketch if problem != "shorter than its header" else sketch[:19])
