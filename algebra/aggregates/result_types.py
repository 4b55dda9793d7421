"""The types of sums and averages, which are Spark's."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

DECIMAL_DIGITS_MAX: Final = 38
SUM_DIGITS: Final = 10  # by which the type of a sum is longer, enough for 10^10 rows


def sum_type(input_type: pa.DataType) -> pa.DataType:
    """Return the type of Spark's sum over values of `input_type`."""
    if pa.types.is_decimal(input_type):
        digits = min(DECIMAL_DIGITS_MAX, input_type.precision + SUM_DIGITS)
        return pa.decimal128(digits, input_type.scale)
    return pa.float64() if pa.types.is_floating(input_type) else pa.int64()


def average_type(input_type: pa.DataType) -> pa.DataType:
    """Return the type of Spark's avg over values of `input_type`."""
    if pa.types.is_decimal(input_type):
        digits = min(DECIMAL_DIGITS_MAX, input_type.precision + 4)
        return pa.decimal128(digits, min(DECIMAL_DIGITS_MAX, input_type.scale + 4))
    return pa.float64()
