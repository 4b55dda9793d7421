"""Extreme texts of groups, found by some bytes at a time, against Python's own order."""

import numpy as np
import pyarrow as pa
import pytest
import selecting as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from projseg.aggregation.states import extreme_texts
from projseg.aggregation.states.extreme_texts import extreme_candidates
from projseg.aggregation.states.state import Groups
from projseg.aggregation.states.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import InvalidInputError
from projseg.kernels.texts.text_prefixes import rows_of_best, text_keys
from projseg.segment_format.vectors.vectors import Opaque

PARTS = ["", "a", "\0", "é", "\U0001f600", "abcdefgh", "https://"]
TEXTS = st.none() | st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
EXTREME = {"min": min, "max": max}


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()])
@given(st.lists(st.tuples(TEXTS, st.integers(0, 2)), min_size=1, max_size=30), st.booleans())
@settings(max_examples=30, deadline=None)
def test_extremes_are_those_of_the_bytes(function, arrow_type, rows, is_grouped):
    held = [None if text is None else text.encode() for text, _ in rows]
    # The first row is cut off again: the array has an offset.
    array = pa.array([b"~", *held], pa.binary()).cast(arrow_type).slice(1)
    ids = np.array([group for _, group in rows], np.uint8) if is_grouped else None
    groups = Groups(ids, 3 if is_grouped else 1, len(rows))
    state = new_state(Primitive(function, (Column(arrow_type, "x"),)), groups.count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extreme_texts, "_ROWS_MIN", 0)
        patch.setattr(extreme_texts, "_ROWS_A_GROUP", 0)
        state.add(groups, [Opaque(array)])
    expected = []
    for group in range(groups.count):
        found = [t for t, (_, g) in zip(held, rows, strict=True) if g == group or not is_grouped]
        expected.append(EXTREME[function]((t for t in found if t is not None), default=None))
    assert state.finish().cast(pa.binary()).to_pylist() == expected


def test_few_candidates_are_left():
    texts = pa.array([f"common beginning {n * 7919 % 10_000:05}" for n in range(10_000)])
    ids = (np.arange(10_000) % 3).astype(np.uint8)
    groups, left = extreme_candidates(Groups(ids, 3, 10_000), Opaque(texts), is_min=True)
    assert len(left) == groups.row_count == len(groups.ids) < 100


@given(st.lists(st.binary(max_size=20), min_size=1), st.integers(0, 20))
@settings(deadline=None)
def test_keys_are_their_oracle(texts, start):
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    content = np.frombuffer(b"".join(texts), np.uint8)
    found = text_keys(offsets, content, start).tolist()
    assert found == [oracle.text_key(text, start) for text in texts]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-2, 2), st.booleans())),
    st.lists(st.integers(-2, 2), min_size=3, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_rows_of_the_best_are_those_that_equal_it(rows, best, is_grouped, has_nulls):
    ids = np.array([group for group, _, _ in rows], np.uint16) if is_grouped else None
    keys = np.array([key for _, key, _ in rows], np.int64)
    valid = np.array([known for _, _, known in rows], np.bool_) if has_nulls else None
    of_rows = np.array(best)[ids] if is_grouped else best[0]
    wanted = np.flatnonzero((keys == of_rows) & (True if valid is None else valid))
    assert rows_of_best(ids, keys, valid, np.array(best)).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("offsets", "start"), [([0, 4], 0), ([2, 1], 0), ([-1, 2], 0), ([0, 1], -1)]
)
def test_offsets_outside_are_refused(offsets, start):
    with pytest.raises(InvalidInputError, match="outside"):
        text_keys(np.array(offsets, np.int32), np.zeros(3, np.uint8), start)
