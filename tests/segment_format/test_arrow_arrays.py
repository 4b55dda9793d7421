"""Buffers read and written by hand against what pyarrow makes of the same values."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from projseg.segment_format.arrow_arrays import (
    array_of,
    filled_values,
    primitive_array,
    primitive_values,
    scalar_of,
    valid_values,
)

PRIMITIVES = [pa.bool_(), pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32()]
VALUES = [
    (pa.bool_(), [True, None, False]),
    (pa.int8(), [1, None, -128]),
    (pa.int64(), [1 << 62, None]),
    (pa.float32(), [0.5, None]),
    (pa.float64(), [0.1, float("inf"), None]),
    (pa.string(), ["a", None, "", "é" * 9]),
    (pa.binary(), [b"\xff", None, b""]),
    (pa.decimal128(9, 3), [Decimal("1.250"), None, Decimal("-1E+2")]),
    (pa.decimal256(50, 0), [Decimal(10**45)]),
    (pa.date32(), [date(1969, 12, 31), None]),
    (pa.list_(pa.int64()), [[1], None]),
    (pa.null(), [None]),
]


@pytest.mark.parametrize("arrow_type", PRIMITIVES)
@pytest.mark.parametrize("start", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("length", [0, 1, 9, 30])
def test_values_are_numpys_at_any_offset(arrow_type, start, length):
    array = pa.array([row % 3 % 2 for row in range(50)]).cast(arrow_type).slice(start, length)
    expected = array.to_numpy(zero_copy_only=False)
    found = primitive_values(array)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()
    assert primitive_array(found).equals(array)


@pytest.mark.parametrize("arrow_type", PRIMITIVES)
def test_nulls_are_filled(arrow_type):
    array = pa.array([1, None, 0, None, 1]).cast(arrow_type).slice(1)
    assert filled_values(array, 1).tolist() == [1, 0, 1, 1]
    assert valid_values(array).tolist() == [False, True, False, True]


def test_numbers_are_shared_and_read_only():
    array = pa.array([1, 2, 3])
    found = primitive_values(array)
    assert not found.flags.writeable
    assert found.__array_interface__["data"][0] == array.buffers()[1].address
    assert primitive_values(pa.nulls(0, pa.bool_())).dtype == np.bool_


@pytest.mark.parametrize(("arrow_type", "values"), VALUES)
def test_python_values_are_pyarrows(arrow_type, values):
    expected = pa.array(values, arrow_type)
    found = array_of(values, arrow_type)
    found.validate(full=True)
    assert found.equals(expected)
    assert array_of([], arrow_type).equals(expected.slice(0, 0))
    assert [scalar_of(value, arrow_type) for value in values] == list(expected)


@pytest.mark.parametrize(
    ("arrow_type", "value"),
    [
        (pa.int8(), 128),
        (pa.decimal128(4, 2), Decimal("1.234")),
        (pa.decimal128(3, 1), Decimal(100)),
    ],
)
def test_a_value_that_does_not_fit_is_refused(arrow_type, value):
    with pytest.raises((OverflowError, pa.ArrowInvalid)):
        array_of([value], arrow_type)
