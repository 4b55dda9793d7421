"""The types of aggregates: those that arguments may have, and those of sums and averages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.segment_format.logical_types import DECIMAL_DIGITS_MAX, is_nested

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


_INT64_DIGITS: Final = 18


class TypeClass(msgspec.Struct, frozen=True):
    """The types that an argument may have; `name` completes "needs ..."."""

    name: str
    accepts: Callable[[pa.DataType], bool]


def _is_numeric(value_type: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(value_type) or t.is_floating(value_type) or t.is_decimal(value_type))


def _is_orderable(value_type: pa.DataType) -> bool:
    return not is_nested(value_type) and value_type != pa.null()


def is_anything(value_type: pa.DataType) -> bool:
    """Whether a value may have the type: always."""
    del value_type
    return True


ANY: Final = TypeClass("a value", is_anything)
NUMERIC: Final = TypeClass("a number", _is_numeric)
INTEGRAL: Final = TypeClass("tinyint, smallint, int or bigint", pa.types.is_integer)
BOOLEAN: Final = TypeClass("a boolean", pa.types.is_boolean)
ORDERABLE: Final = TypeClass("a type with an order (no array, map or struct)", _is_orderable)
PRINTABLE: Final = TypeClass(
    "a value that is no array, map, struct or binary",
    lambda value_type: _is_orderable(value_type) and value_type != pa.binary(),
)
HLL: Final = TypeClass(
    "int, bigint, string or binary",
    {pa.int32(), pa.int64(), pa.string(), pa.binary()}.__contains__,
)
THETA: Final = TypeClass(
    "int, bigint, float, double, string or binary",
    {
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
    }.__contains__,
)


def _is_measurable(value_type: pa.DataType) -> bool:
    if pa.types.is_decimal(value_type):
        return bool(value_type.precision <= _INT64_DIGITS)
    return _is_numeric(value_type) or pa.types.is_temporal(value_type)


FLOAT: Final = TypeClass("a float", pa.types.is_float32)
FLOATING: Final = TypeClass("a float or double", pa.types.is_floating)
MEASURABLE: Final = TypeClass(
    "a number (decimals of at most 18 digits; cast others to double), a date or a timestamp",
    _is_measurable,
)
MEASURABLE_NUMBER: Final = TypeClass(
    "a number (decimals of at most 18 digits; cast others to double)",
    lambda value_type: _is_numeric(value_type) and _is_measurable(value_type),
)
