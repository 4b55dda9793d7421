"""Extreme texts of groups against Python's own order of bytes."""

import numpy as np
import pyarrow as pa
import pytest
import selecting as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from projseg.aggregation import extremum
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.errors import InvalidInputError
from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.kernels.sorting import extreme_texts, text_keys
from projseg.segment_format.vectors import Opaque

PARTS = ["", "a", "\0", "é", "\U0001f600", "abcdefgh", "https://"]
TEXTS = st.none() | st.lists(st.sampled_from(PARTS), max_size=12).map("".join)
EXTREME = {"min": min, "max": max}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()])
@given(
    st.lists(
        st.lists(st.tuples(TEXTS, st.integers(0, 2)), min_size=1, max_size=20),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.booleans(),
    st.integers(0, 20),
)
@settings(max_examples=40, deadline=None)
def test_extremes_are_those_of_the_bytes(function, arrow_type, parts, are_ids, is_grouped, few):
    """Rows come with a dictionary or without, and the states of some are merged into others'."""
    count = 3 if is_grouped else 1
    primitive = Primitive(function, (Column(arrow_type, "x"),))
    state, other = new_state(primitive, count), new_state(primitive, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extremum, "_WAITING_MIN", few)
        for rows, has_ids in zip(parts, are_ids, strict=False):
            held = [None if text is None else text.encode() for text, _ in rows]
            # The first row is cut off again: the array has an offset.
            array = pa.array([b"~", *held], pa.binary()).cast(arrow_type).slice(1)
            ids = np.array([group for _, group in rows], np.uint8) if is_grouped else None
            groups = Groups(ids, count, len(rows))
            vector = encode_sorted(array, with_null=True) if has_ids else Opaque(array)
            (other if few % 2 else state).add(groups, [vector])
        state.merge(Groups(np.arange(count, dtype=np.uint8), count, count), other.columns())
    every = [row for rows in parts for row in rows]
    expected = []
    for group in range(count):
        found = [t for t, g in every if t is not None and (g == group or not is_grouped)]
        expected.append(EXTREME[function]((t.encode() for t in found), default=None))
    assert state.finish().cast(pa.binary()).to_pylist() == expected


@given(st.lists(st.tuples(TEXTS, st.integers(0, 2))), st.booleans(), st.booleans(), st.booleans())
@settings(deadline=None)
def test_extreme_rows_are_their_oracle(rows, is_grouped, is_min, says_validity):
    texts = [None if text is None else text.encode() for text, _ in rows]
    if not says_validity:
        texts = [text or b"" for text in texts]
    ids = [group if is_grouped else 0 for _, group in rows]
    offsets = np.cumsum([0, *(len(text or b"") for text in texts)]).astype(np.int32)
    found = extreme_texts(
        np.array(ids, np.uint16) if is_grouped else None,
        3,
        offsets,
        np.frombuffer(b"".join(text or b"" for text in texts), np.uint8),
        np.array([text is not None for text in texts], np.bool_) if says_validity else None,
        is_min=is_min,
    )
    wanted = [oracle.extreme_text(texts, ids, group, is_min=is_min) for group in range(3)]
    assert found.tolist() == wanted


@given(st.lists(st.binary(max_size=20), min_size=1), st.integers(0, 20))
@settings(deadline=None)
def test_keys_are_their_oracle(texts, start):
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    content = np.frombuffer(b"".join(texts), np.uint8)
    found = text_keys(offsets, content, start).tolist()
    assert found == [oracle.text_key(text, start) for text in texts]


@pytest.mark.parametrize(
    ("offsets", "start"), [([0, 4], 0), ([2, 1], 0), ([-1, 2], 0), ([0, 1], -1)]
)
def test_offsets_outside_are_refused(offsets, start):
    with pytest.raises(InvalidInputError, match="outside"):
        text_keys(np.array(offsets, np.int32), np.zeros(3, np.uint8), start)
