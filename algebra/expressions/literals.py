"""Constants: their Arrow scalars, and the types that Spark gives to written numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.tree import Literal
from projseg.errors import EvaluationError, InvalidInputError
from projseg.segment_format.layout.logical_types import TIMESTAMP, TIMESTAMP_NTZ
from projseg.segment_format.vectors.arrow_arrays import array_of, scalar_of

TRUE: Final = Literal(pa.bool_(), True)
FALSE: Final = Literal(pa.bool_(), False)
UNKNOWN: Final = Literal(pa.bool_(), None)

PRECISION_MAX: Final = 38
"""The most digits of a decimal."""
_EPOCH: Final = datetime(1970, 1, 1)
_INTEGERS: Final = ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))


def literal_scalar(literal: Literal) -> pa.Scalar:
    """Return the Arrow scalar of a constant."""
    value = literal.value
    if isinstance(value, datetime):
        return scalar_of(datetime_micros(value), pa.int64()).cast(literal.type)
    return scalar_of(value, literal.type)


def literal_array(values: Sequence[object], arrow_type: pa.DataType) -> pa.Array:
    """Return values, each as in a `Literal` of the type, as an array."""
    if not pa.types.is_timestamp(arrow_type):
        return array_of(values, arrow_type)
    micros = [datetime_micros(one) if isinstance(one, datetime) else None for one in values]
    return array_of(micros, pa.int64()).cast(arrow_type)


def scalar_literal(scalar: pa.Scalar) -> Literal:
    """Return the constant of an Arrow scalar.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_OVERFLOW for a time outside years 1 to 9999, which a clock may show and
        no constant names.
    """
    if not scalar.is_valid:
        return literal(None, scalar.type)
    is_time = pa.types.is_timestamp(scalar.type)
    try:
        if is_time:
            value: object = micros_datetime(scalar.cast(pa.int64()).as_py(), scalar.type)
        else:
            value = scalar.as_py()
    except OverflowError as error:
        kind, unit = (pa.int64(), "microsecond") if is_time else (pa.int32(), "day")
        raise EvaluationError(
            "PROJSEG_EVALUATION_OVERFLOW",
            f"{unit} {scalar.cast(kind).as_py()} since 1970 lies outside years 1 to 9999",
        ) from error
    return literal(value, scalar.type)


def literal(value: object, arrow_type: pa.DataType) -> Literal:
    """Return a constant; every NaN becomes the same NaN."""
    if isinstance(value, float) and math.isnan(value):
        value = math.nan
    return Literal(arrow_type, value)


def without_negative_zero(constant: Literal) -> Literal:
    """Return the constant with 0.0 for -0.0; the two are equal only where values are compared."""
    is_zero = isinstance(constant.value, float) and constant.value == 0
    return Literal(constant.type, 0.0) if is_zero else constant


def integer_literal(value: int) -> Literal:
    """Return a whole number as Spark types it: int, else bigint, else decimal."""
    for width, arrow_type in _INTEGERS[2:]:
        if -(1 << (width - 1)) <= value < 1 << (width - 1):
            return Literal(arrow_type, value)
    return decimal_literal(Decimal(value))


def decimal_literal(value: Decimal) -> Literal:
    """Return a decimal constant of the smallest type that holds it; -0 becomes 0.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if no decimal type has so many digits.
    """
    if value.is_zero():
        value = value.copy_abs()
    sign_digits_exponent = value.as_tuple()
    exponent = int(sign_digits_exponent.exponent)
    if exponent > 0:
        value = value.quantize(Decimal(1))
    scale = max(-exponent, 0)
    precision = max(len(value.as_tuple().digits), scale, 1)
    if precision > PRECISION_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_EXPRESSION",
            f"a constant has {precision} digits, but a decimal has up to {PRECISION_MAX};"
            " write it as a double, such as 1.5e40",
        )
    return Literal(pa.decimal128(precision, scale), value)


def datetime_micros(value: datetime) -> int:
    """Return microseconds since 1970; the reading of a naive datetime counts as UTC."""
    naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return (naive - _EPOCH) // timedelta(microseconds=1)


def micros_datetime(micros: int, arrow_type: pa.DataType) -> datetime:
    """Return the datetime of a timestamp (aware, UTC) or timestamp_ntz (naive)."""
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.replace(tzinfo=UTC) if arrow_type == TIMESTAMP else moment


def is_timestamp(arrow_type: pa.DataType) -> bool:
    """Whether it is timestamp or timestamp_ntz."""
    return arrow_type in (TIMESTAMP, TIMESTAMP_NTZ)
