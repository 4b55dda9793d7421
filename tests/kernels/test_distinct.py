"""Different values in order, beside NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.kernels.sorting import distinct


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.uint32, np.uint64])
@given(st.lists(st.integers(0, 255)))
def test_distinct_values_are_numpys(dtype, values):
    given_values = np.array(values, dtype)
    found = distinct(given_values)
    np.testing.assert_array_equal(found, np.unique(given_values))
    assert found.dtype == dtype
    np.testing.assert_array_equal(given_values, np.array(values, dtype))
