"""HyperLogLog states: equal to the oracle, to the datasketches library, and whatever the path."""

from __future__ import annotations

from decimal import Decimal

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import hll as oracle
from scale import tries
from support.state_cases import folded, rows_of

from projseg.aggregation.hash_sketches import hashes_of
from projseg.aggregation.state import Groups, ids_of
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import CorruptSegmentError
from projseg.kernels.sketches import hll_registers
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Ids, Numbers, Opaque

COUNTS = [0, 1, 7, 8, 24, 25, 384, 385, 3000, 9000, 40_000, 300_000]


def primitive(value_type: pa.DataType, lg_k: int = 12) -> Primitive:
    return Primitive("hll", (Column(value_type, "x"),), None, (lg_k,))


def numbers(start: int, end: int) -> Numbers:
    return Numbers(np.arange(start, end, dtype=np.int64), pa.int64())


def sketch_of(start: int, end: int, lg_k: int = 12) -> bytes:
    state = new_state(primitive(pa.int64(), lg_k), 1)
    state.add(Groups(None, 1, end - start), [numbers(start, end)])
    return state.finish()[0].as_py()


def library_sketch(start: int, end: int, lg_k: int = 12) -> datasketches.hll_sketch:
    sketch = datasketches.hll_sketch(lg_k, datasketches.tgt_hll_type.HLL_8)
    for value in range(start, end):
        sketch.update(value)
    return sketch


def composite(sketch: datasketches.hll_sketch | datasketches.hll_union) -> float:
    """Return the library's estimate when it may not use the order of arrival."""
    if isinstance(sketch, datasketches.hll_union):
        sketch = sketch.get_result(datasketches.tgt_hll_type.HLL_8)
    image = bytearray(sketch.serialize_compact())
    image[5] |= 16
    return datasketches.hll_sketch.deserialize(bytes(image)).get_estimate()


def coupons_of(values: list, value_type: pa.DataType) -> list[int]:
    _, hashes = hashes_of(Opaque(pa.array(values, value_type)))
    return (hashes >> np.uint64(32)).tolist()


def test_few_rows_of_a_large_dictionary_have_a_hash_each():
    """A question of few rows does no work for each value that the dictionary has."""
    texts = [None, "", *(f"v{number:04}" for number in range(5000))]
    dictionary = Dictionary(pa.array(texts))
    chosen = np.array([4000, 0, 1, 4000, 7], np.uint32)
    value_ids, hashes = hashes_of(Ids(chosen, dictionary))
    assert value_ids is None
    _, expected = hashes_of(Opaque(pa.array([texts[number] for number in chosen])))
    assert hashes.tolist() == expected.tolist()
    assert hashes[1] == hashes[2] == 0
    every = np.tile(np.arange(len(texts), dtype=np.uint32), 2)
    value_ids, hashes = hashes_of(Ids(every, dictionary))
    assert value_ids is every
    assert hashes is hashes_of(Ids(every, dictionary))[1]


@settings(deadline=None, max_examples=tries(40))
@given(st.data())
def test_every_path_makes_the_oracles_sketch(data):
    value_type = data.draw(st.sampled_from([pa.int32(), pa.int64(), pa.string(), pa.binary()]))
    lg_k = data.draw(st.sampled_from([4, 8, 12]))
    rows = data.draw(rows_of(value_type))
    state = folded(primitive(value_type, lg_k), rows, lambda o: data.draw(st.sampled_from(o)))
    coupons = coupons_of(rows.values(), value_type)
    sets = [set() for _ in range(rows.group_count)]
    for pair in oracle.pairs(rows.groups, coupons):
        sets[pair >> 32].add(pair & 0xFFFFFFFF)
    assert state.finish().to_pylist() == [oracle.sketch(found, lg_k) for found in sets]


@pytest.mark.parametrize("group_count", [1, 3, 9000])
@pytest.mark.parametrize("lg_k", [4, 7, 8, 12])
def test_large_states_are_the_oracles_by_any_path(group_count, lg_k):
    random = np.random.default_rng(lg_k)
    row_count = 6000
    ids = np.minimum(random.zipf(1.3, row_count) - 1, group_count - 1).astype(np.uint16)
    values = random.integers(0, 5000, row_count)
    whole = new_state(primitive(pa.int64(), lg_k), group_count)
    whole.add(Groups(ids, group_count, row_count), [Numbers(values, pa.int64())])
    merged = new_state(primitive(pa.int64(), lg_k), group_count)
    every = np.arange(group_count, dtype=np.uint32)
    for start in range(0, row_count, 1500):
        rows = slice(start, start + 1500)
        part = new_state(primitive(pa.int64(), lg_k), group_count)
        vector = ids_of(Numbers(values[rows], pa.int64()))
        part.add(Groups(ids[rows], group_count, 1500), [vector])
        merged.merge(Groups(every, group_count, group_count), part.columns())
        merged.add(Groups(ids[rows], group_count, 1500), [vector])
    coupons = coupons_of(values.tolist(), pa.int64())
    sets = [set() for _ in range(group_count)]
    for group, coupon in zip(ids.tolist(), coupons, strict=True):
        sets[group].add(coupon)
    expected = [oracle.sketch(found, lg_k) for found in sets]
    assert whole.finish().to_pylist() == expected
    assert merged.finish().to_pylist() == expected
    some = np.arange(group_count)[::-2]
    assert merged.finish(some).to_pylist() == [expected[i] for i in some]


@pytest.mark.parametrize("lg_k", [4, 12])
@pytest.mark.parametrize("kind", ["few values", "one large group", "small groups", "large late"])
def test_rows_of_any_shape_make_the_oracles_sketches(kind, lg_k):
    """Few pairs go by a map; groups known to be large to registers; the others to buckets."""
    random = np.random.default_rng(5)
    row_count, group_count = 40_000, 20
    ids = random.integers(0, group_count, row_count).astype(np.uint8)
    values = random.integers(0, 3, row_count) + 1000 * ids.astype(np.int64)
    if kind == "few values":
        values = random.integers(0, 150, row_count)
    elif kind == "one large group":
        values[ids == 7] = random.integers(0, 50_000, (ids == 7).sum())
    elif kind == "large late":
        values[row_count // 2 :] = random.integers(0, 30_000, row_count - row_count // 2)
    state = new_state(primitive(pa.int64(), lg_k), group_count)
    expected = [set() for _ in range(group_count)]
    for start in (0, row_count // 4):  # the second time some groups have registers
        rows = slice(start, None)
        vector = ids_of(Numbers(values[rows], pa.int64()))
        state.add(Groups(ids[rows], group_count, row_count - start), [vector])
    for group, coupon in zip(ids.tolist(), coupons_of(values.tolist(), pa.int64()), strict=True):
        expected[group].add(coupon)
    assert state.finish().to_pylist() == [oracle.sketch(found, lg_k) for found in expected]


@pytest.mark.parametrize("count", COUNTS)
def test_library_reads_our_sketches_and_estimates_the_same(count):
    state = new_state(primitive(pa.int64()), 1)
    state.add(Groups(None, 1, count), [numbers(0, count)])
    ours = datasketches.hll_sketch.deserialize(state.finish()[0].as_py())
    theirs = library_sketch(0, count)
    assert composite(ours) == composite(theirs)
    assert ours.get_estimate() == pytest.approx(composite(theirs), rel=1e-9)
    union = datasketches.hll_union(12)
    union.update(theirs)
    union.update(ours)
    assert composite(union) == pytest.approx(composite(theirs), 1e-9)
    assert state.estimates().to_pylist() == [round(composite(theirs))]


@pytest.mark.parametrize("count", COUNTS[:-2])
def test_estimates_equal_the_librarys_and_the_oracles(count):
    coupons = set(coupons_of(list(range(count)), pa.int64()))
    expected = composite(library_sketch(0, count))
    knots = hll_registers._KNOTS.tolist()
    assert oracle.estimate(coupons, knots) == pytest.approx(expected, rel=1e-9)
    if count <= 384:
        ours = hll_registers.coupon_estimates(np.array([count]))
    else:
        registers = np.array([oracle.registers(coupons, 12)], np.uint8)
        ours = hll_registers.register_estimates(registers)
    assert ours[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [0, 5, 100, 385, 20_000])
def test_strings_hash_as_in_the_library(count):
    texts = [f"ünï-{i}" for i in range(count)]
    state = new_state(primitive(pa.string()), 1)
    state.add(Groups(None, 1, count + 2), [Opaque(pa.array([*texts, "", None], pa.string()))])
    sketch = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)
    for text in texts:
        sketch.update(text)
    ours = datasketches.hll_sketch.deserialize(state.finish()[0].as_py())
    assert composite(ours) == composite(sketch)


@pytest.mark.parametrize("count", [3, 100, 400, 2000, 30_000])
@pytest.mark.parametrize("lg_k", [4, 9, 11])
def test_stored_sketches_are_folded_down_never_up(count, lg_k):
    stored = Opaque(pa.array([sketch_of(0, count)], pa.binary()))
    state = new_state(primitive(pa.int64(), lg_k), 1)
    state.merge(Groups(None, 1, 1), {"sketch": stored})
    assert state.finish()[0].as_py() == sketch_of(0, count, lg_k)
    higher = new_state(primitive(pa.int64(), 13), 1)
    with pytest.raises(CorruptSegmentError, match="lgK"):
        higher.merge(Groups(None, 1, 1), {"sketch": stored})


@pytest.mark.parametrize("counts", [[3, 50, 400], [400, 50], [0, 9, 380, 380]])
def test_sketches_merge_whatever_the_order_of_their_groups(counts):
    """One sketch a group in order is the quick way; other orders, and foreign ones, the long."""
    group_count = len(counts)
    sketches = Opaque(pa.array([sketch_of(10 * count, 11 * count) for count in counts]))
    larger = Opaque(pa.array([sketch_of(0, 2 * count) for count in counts]))
    reordered = Opaque(pa.array([_reversed_coupons(s.as_py()) for s in larger.to_arrow()]))
    for group_ids in (range(group_count), reversed(range(group_count)), [0] * group_count):
        ids = np.array(list(group_ids), np.uint8)
        state = new_state(primitive(pa.int64()), group_count)
        expected = [set() for _ in counts]
        for column in (sketches, reordered):
            state.merge(Groups(ids, group_count, group_count), {"sketch": column})
        for group, count in zip(ids.tolist(), counts, strict=True):
            values = [*range(10 * count, 11 * count), *range(2 * count)]
            expected[group].update(coupons_of(values, pa.int64()))
        assert state.finish().to_pylist() == [oracle.sketch(found, 12) for found in expected]


def _reversed_coupons(sketch: bytes) -> bytes:
    header = {8: 8, 9: 12, 10: len(sketch)}[sketch[7]]
    words = np.frombuffer(sketch[header:], "<u4")[::-1]
    return sketch[:header] + words.tobytes()


def test_a_value_hashes_alike_beside_any_other():
    """A dictionary with a decimal beyond 64 bits once gave all its values another hash."""
    value_type = pa.decimal128(38, 0)
    small = [Decimal(n) for n in range(5)]
    state = new_state(primitive(value_type), 1)
    for values in (small, [*small, Decimal(10**30)]):
        vector = ids_of(Opaque(pa.array(values, value_type)))
        state.add(Groups(None, 1, len(values)), [vector])
    assert state.estimates().to_pylist() == [6]


def test_null_sketch_is_no_value():
    state = new_state(primitive(pa.int64()), 2)
    column = Opaque(pa.array([None, sketch_of(0, 3)], pa.binary()))
    state.merge(Groups(np.array([0, 1], np.uint8), 2, 2), {"sketch": column})
    assert state.estimates().to_pylist() == [0, 3]


@settings(deadline=None, max_examples=tries(300))
@given(st.sampled_from([0, 5, 50, 500]), st.data())
def test_damaged_sketches_are_refused_or_read(count, data):
    sketch = bytearray(sketch_of(0, count))
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(st.sampled_from(["byte", "cut", "grow"]))
        if change == "byte" and sketch:
            near = st.integers(0, min(60, len(sketch) - 1)) | st.integers(0, len(sketch) - 1)
            sketch[data.draw(near)] = data.draw(st.integers(0, 255))
        elif change == "cut":
            sketch = sketch[: data.draw(st.integers(0, len(sketch)))]
        else:
            sketch += data.draw(st.binary(max_size=9))
    state = new_state(primitive(pa.int64()), 1)
    try:
        state.merge(Groups(None, 1, 1), {"sketch": Opaque(pa.array([bytes(sketch)], pa.binary()))})
    except CorruptSegmentError:
        return
    state.estimates()
    state.finish()
