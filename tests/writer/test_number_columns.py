from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from projseg.writer import column_vectors
from projseg.writer.column_vectors import numbers_of

INT64 = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-(2**62), 2**62).flatmap(
    lambda base: st.sampled_from([1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32]).flatmap(
        lambda span: st.lists(st.one_of(st.none(), st.integers(base, base + span)), max_size=12)
    )
)
ANY = st.lists(st.one_of(st.none(), INT64, st.integers(-200, 200)), max_size=12)


@given(st.lists(st.one_of(NEAR, ANY), max_size=3), st.integers(1, 5))
@example([[None], [2**63 - 1], [-(2**63), None]], 1)
@example([[2**62, 2**62 + 255], [None, None]], 2)
def test_integers_keep_their_values_in_as_few_bytes_as_their_range_takes(chunks, rows):
    column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks], pa.int64())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_vectors, "_ROWS", rows)
        found = numbers_of(column)
    assert found.to_arrow().to_pylist() == column.to_pylist()
    known = [value for value in column.to_pylist() if value is not None]
    span = max(known, default=0) - min(known, default=0)
    assert found.values.dtype.itemsize == next(
        size for size in (1, 2, 4, 8) if span < 1 << (8 * size) or size == 8
    )
    assert (found.validity is None) == (len(known) == len(column))
    if found.validity is not None:
        assert not found.values[~found.validity].any()
    low, high = found.limits()
    assert all(low <= value <= high for value in known)
    lowest, highest = found.bounds
    assert all(lowest <= item <= highest for item in found.values.tolist())


@pytest.mark.parametrize("wide", [0, 1, 2])
def test_decimals_that_pass_64_bits_in_some_stretch_stay_exact(wide):
    texts = [["1.5", None], ["-0.1"], [None, "7.0"]]
    texts[wide].append("123456789012345678901234567.8")
    chunks = [[None if text is None else Decimal(text) for text in chunk] for chunk in texts]
    column = pa.chunked_array(chunks, pa.decimal128(38, 1))
    found = numbers_of(column)
    assert found.values.dtype == object
    assert found.to_arrow().to_pylist() == column.to_pylist()


@pytest.mark.parametrize("arrow_type", [pa.float32(), pa.float64()])
def test_floats_stay_bit_for_bit(arrow_type):
    column = pa.chunked_array([[1.5, None], [], [-0.0, float("nan")]], arrow_type)
    found = numbers_of(column)
    expected = np.array([1.5, 0.0, -0.0, np.nan], found.values.dtype)
    assert found.values.tobytes() == expected.tobytes()
    assert found.validity.tolist() == [True, False, True, True]
