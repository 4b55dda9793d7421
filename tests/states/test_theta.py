"""Theta states: equal to the oracle, to the datasketches library, and whatever the path."""

from __future__ import annotations

import struct
import tracemalloc

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import theta as oracle
from scale import tries
from support.state_cases import folded, rows_of

import projseg
from projseg.aggregation.state import Groups, ids_of
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import CorruptSegmentError
from projseg.segment_format.vectors import Numbers, Opaque

# What Spark 4.3 returns for theta_sketch_agg(cast(id as string), 4) over range(n).
FROM_SPARK = {
    0: "01030300001e0000",
    1: "01030300003acc9363424f08aa0a4276",
    2: "0104033f011acc930213864298760fa6abb1fba577351dbc38",
    17: (
        "0204033e011acc93576b95d52278ad7c10270c8530ec1f4d545ce65b462d6a884008edd04a870a34"
        "2cbd18568cc6d5f307baff5a205ebbccb61f24018255c5d07aa7b0ad83cbb580aa748882c0ba1c05"
        "035a0b2bea282d2a5ebbee00b2e96181a8490a110503c10b0cfca81284520a544c6bc907599ca1b2"
        "c6b38dc93380904fb1cd018639039aeb7f3beae281"
    ),
}


def primitive(value_type: pa.DataType, lg_k: int = 12) -> Primitive:
    return Primitive("theta", (Column(value_type, "x"),), None, (lg_k,))


def content_of(value: object) -> bytes:
    if isinstance(value, float):
        return struct.pack("<d", float("nan") if value != value else value + 0.0)
    if isinstance(value, int):
        return struct.pack("<q", value)
    return value.encode() if isinstance(value, str) else value


def hashes_by_group(groups, values, group_count) -> list[set[int]]:
    sets = [set() for _ in range(group_count)]
    for group, value in zip(groups, values, strict=True):
        if value is not None and value not in ("", b""):
            sets[group].add(oracle.theta_hash(content_of(value)))
    return sets


@settings(deadline=None, max_examples=tries(40))
@given(st.data())
def test_every_path_makes_the_oracles_sketch(data):
    types = [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary()]
    value_type = data.draw(st.sampled_from(types))
    rows = data.draw(rows_of(value_type))
    state = folded(primitive(value_type, 4), rows, lambda o: data.draw(st.sampled_from(o)))
    sets = hashes_by_group(rows.groups, rows.values(), rows.group_count)
    assert state.finish().to_pylist() == [oracle.sketch(found, 16) for found in sets]


@pytest.mark.parametrize("group_count", [1, 3, 2000])
def test_large_states_are_the_oracles_by_any_path(group_count):
    random = np.random.default_rng(group_count)
    row_count = 8000
    ids = np.minimum(random.zipf(1.2, row_count) - 1, group_count - 1).astype(np.uint16)
    values = random.integers(0, 5000, row_count)
    whole, merged = (new_state(primitive(pa.int64(), 5), group_count) for _ in range(2))
    whole.add(Groups(ids, group_count, row_count), [Numbers(values, pa.int64())])
    every = np.arange(group_count, dtype=np.uint32)
    for start in range(0, row_count, 2000):
        rows = slice(start, start + 2000)
        part = new_state(primitive(pa.int64(), 7), group_count)
        vector = ids_of(Numbers(values[rows], pa.int64()))
        part.add(Groups(ids[rows], group_count, 2000), [vector])
        merged.merge(Groups(every, group_count, group_count), part.columns())
    sets = hashes_by_group(ids.tolist(), values.tolist(), group_count)
    expected = [oracle.sketch(found, 32) for found in sets]
    assert whole.finish().to_pylist() == expected
    assert merged.finish().to_pylist() == expected
    some = np.arange(group_count)[::-2]
    assert whole.finish(some).to_pylist() == [expected[i] for i in some]


@pytest.mark.parametrize("count", [0, 1, 2, 100, 4096, 4097, 70_000])
def test_library_agrees(count):
    texts = [f"ünï-{i}" for i in range(count)]
    state = new_state(primitive(pa.string()), 1)
    state.add(Groups(None, 1, count + 2), [Opaque(pa.array([*texts, "", None], pa.string()))])
    ours = datasketches.compact_theta_sketch.deserialize(state.finish()[0].as_py())
    theirs = datasketches.update_theta_sketch(12)
    for text in texts:
        theirs.update(text)
    theirs.trim()
    assert ours.get_estimate() == theirs.get_estimate()
    assert ours.theta64 == theirs.theta64
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("count", FROM_SPARK)
def test_bytes_are_sparks(count):
    state = new_state(primitive(pa.string(), 4), 1)
    texts = pa.array([str(i) for i in range(count)], pa.string())
    state.add(Groups(None, 1, count), [Opaque(texts)])
    assert state.finish()[0].as_py().hex() == FROM_SPARK[count]


@settings(deadline=None, max_examples=tries(300))
@given(st.sampled_from([0, 1, 5, 50]), st.data())
def test_damaged_sketches_are_refused_or_read(count, data):
    state = new_state(primitive(pa.int64(), 4), 1)
    state.add(Groups(None, 1, count), [Numbers(np.arange(count), pa.int64())])
    sketch = bytearray(state.finish()[0].as_py())
    for _ in range(data.draw(st.integers(1, 3))):
        change = data.draw(st.sampled_from(["byte", "cut", "grow"]))
        if change == "byte" and sketch:
            sketch[data.draw(st.integers(0, len(sketch) - 1))] = data.draw(st.integers(0, 255))
        elif change == "cut":
            sketch = sketch[: data.draw(st.integers(0, len(sketch)))]
        else:
            sketch += data.draw(st.binary(max_size=9))
    column = Opaque(pa.array([bytes(sketch)], pa.binary()))
    try:
        state.merge(Groups(None, 1, 1), {"sketch": column})
    except CorruptSegmentError:
        return
    assert len(state.finish()) == 1


def peak_bytes_of_merging(sketch, lg_k):
    """Return (the error or None, the most bytes that NumPy held meanwhile)."""
    column = Opaque(pa.array([sketch], pa.binary()))
    state = new_state(primitive(pa.int64(), lg_k), 1)
    state.merge(Groups(None, 1, 1), {"sketch": Opaque(pa.array([b""], pa.binary()))})  # compiled
    tracemalloc.start()
    try:
        state.merge(Groups(None, 1, 1), {"sketch": column})
    except CorruptSegmentError as error:
        return error, tracemalloc.get_traced_memory()[1]
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return None, peak


@pytest.mark.parametrize("count", [1, 2**16, 2**26, 2**32 - 1])
def test_entries_of_no_bits_are_refused_before_anything_is_allocated(count):
    error, peak = peak_bytes_of_merging(
        bytes([1, 4, 3, 0, 4, 0x1A, 0xCC, 0x93]) + struct.pack("<I", count), 12
    )
    assert isinstance(error, CorruptSegmentError)
    assert peak < 1 << 20


def test_no_more_entries_are_held_than_the_state_keeps():
    count = 1 << 24  # entries of one bit each: 1, 2, 3 and so on
    header = bytes([1, 4, 3, 1, 4, 0x1A, 0xCC, 0x93]) + struct.pack("<I", count)
    error, peak = peak_bytes_of_merging(header + b"\xff" * (count // 8), 4)
    assert error is None
    assert peak < 1 << 20


def test_a_sketch_is_cut_down_to_the_smallest_entries_and_the_next_is_theta():
    count = 100
    header = bytes([1, 4, 3, 1, 1, 0x1A, 0xCC, 0x93, count])
    sketch = header + b"\xff" * 12 + b"\xf0"
    state = new_state(primitive(pa.int64(), 4), 1)
    state.merge(Groups(None, 1, 1), {"sketch": Opaque(pa.array([sketch], pa.binary()))})
    assert state.finish()[0].as_py() == oracle.sketch(set(range(1, 101)), 16)


@pytest.mark.parametrize("function", ["theta_sketch_agg", "hll_sketch_agg"])
@pytest.mark.parametrize("texts", [["a", None, "b"], ["a", "", "b"], ["", None, "a"], [None], [""]])
def test_null_and_empty_texts_of_a_dictionary_are_no_values(tmp_path, function, texts):
    def sketch(name, values):
        rows = pa.table({"u": pa.array(values, pa.string())})
        table = projseg.Table.create(tmp_path / name, rows.schema)
        table.append(rows)
        return table.query(aggregators=f"{function}(u) AS s")["s"].to_pylist()

    assert sketch("with", texts) == sketch("without", [text for text in texts if text])
