"""Integers of 128 bits as halves, against Python's integers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.segment_format.arrow_arrays import (
    WIDE,
    are_at_least,
    as_wide,
    halves,
    limits,
    to_objects,
)

EDGE = 1 << 127
EDGES = [0, 1, -1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**64), EDGE - 1, -EDGE]
NUMBERS = st.sampled_from(EDGES) | st.integers(-EDGE, EDGE - 1) | st.integers(-9, 9)


@given(st.lists(NUMBERS, max_size=8), st.sampled_from(EDGES) | st.integers(-2 * EDGE, 2 * EDGE))
@settings(max_examples=tries(400), deadline=None)
def test_halves_are_the_numbers(numbers, least):
    wide = as_wide(np.array(numbers, object))
    assert wide.dtype == WIDE
    assert to_objects(wide).tolist() == numbers
    assert to_objects(wide[::2]).tolist() == numbers[::2]
    assert to_objects(as_wide(wide[::2])).tolist() == numbers[::2]
    assert halves(wide).shape == (len(numbers), 2)
    assert limits(wide) == ((min(numbers), max(numbers)) if numbers else (0, 0))
    assert are_at_least(wide, least).tolist() == [number >= least for number in numbers]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
@settings(max_examples=tries(40), deadline=None)
def test_numbers_of_64_bits_are_widened(numbers):
    narrow = np.array(numbers, np.int64)
    assert to_objects(as_wide(narrow)).tolist() == numbers
    assert limits(narrow) == ((min(numbers), max(numbers)) if numbers else (0, 0))
