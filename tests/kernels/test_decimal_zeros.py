"""The zeros that integers end with, against their digits."""

import decimal_zeros as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.integer_codes import ZEROS_MAX, common_zeros
from projseg.segment_format.arrow_arrays import as_wide, halves

EDGE = 1 << 127


@given(
    st.lists(
        st.tuples(st.integers(-(10**19), 10**19) | st.integers(-9, 9), st.integers(0, 19)),
        max_size=8,
    )
)
@settings(max_examples=tries(400), deadline=None)
def test_the_fewest_zeros_are_found(parts):
    numbers = [number * 10**zeros for number, zeros in parts]
    numbers = [number for number in numbers if -EDGE <= number < EDGE]
    found = common_zeros(halves(as_wide(np.array(numbers, object))))
    assert found == min((oracle.zeros_of(n, ZEROS_MAX) for n in numbers), default=ZEROS_MAX)


def test_what_are_no_halves_is_refused():
    with pytest.raises(InvalidInputError, match="no halves"):
        common_zeros(np.zeros((2, 3), np.int64))
