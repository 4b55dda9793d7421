"""Spark's implicit casts in ANSI mode: common types, decimal result types, which casts exist."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.tree import (
    PRECISION_MAX,
    Call,
    Expression,
    Literal,
    decimal_literal,
    is_timestamp,
)
from projseg.algebra.time.time_zones import zone_table
from projseg.errors import InvalidInputError
from projseg.segment_format.logical_types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    is_nested,
    type_name,
)

_INTEGRAL: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_NUMBERS: Final = (*_INTEGRAL, pa.float32(), pa.float64())
_DIGITS: Final = dict(zip(_INTEGRAL, (3, 5, 10, 20), strict=True))


def bad_expression(message: str) -> InvalidInputError:
    """Return the error of an expression that has no meaning."""
    return InvalidInputError("PROJSEG_BAD_EXPRESSION", message)


def is_integral(arrow_type: pa.DataType) -> bool:
    """Whether it is tinyint, smallint, int or bigint."""
    return arrow_type in _INTEGRAL


def is_decimal(arrow_type: pa.DataType) -> bool:
    """Whether it is a decimal."""
    return bool(pa.types.is_decimal128(arrow_type))


def scale_of(arrow_type: pa.DataType) -> int:
    """Return how many digits an exact number has after the point."""
    return int(arrow_type.scale) if is_decimal(arrow_type) else 0


def is_floating(arrow_type: pa.DataType) -> bool:
    """Whether it is float or double."""
    return arrow_type in (pa.float32(), pa.float64())


def is_numeric(arrow_type: pa.DataType) -> bool:
    """Whether it is a number of any kind."""
    return arrow_type in _NUMBERS or is_decimal(arrow_type)


def is_datetime(arrow_type: pa.DataType) -> bool:
    """Whether it is date, timestamp or timestamp_ntz."""
    return arrow_type == pa.date32() or is_timestamp(arrow_type)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type cut to 38 digits: fraction digits go first, down to 6 of them."""
    if precision <= PRECISION_MAX:
        return pa.decimal128(max(precision, 1), scale)
    whole = precision - scale
    kept = max(PRECISION_MAX - whole, min(scale, 6))
    return pa.decimal128(PRECISION_MAX, kept)


def decimal_for(expression: Expression) -> pa.DataType:
    """Return the decimal type to which Spark casts an integer or decimal in decimal arithmetic."""
    if isinstance(expression, Literal) and isinstance(expression.value, int):
        return decimal_literal(Decimal(expression.value)).type
    if is_integral(expression.type):
        return pa.decimal128(_DIGITS[expression.type], 0)
    return expression.type


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type to which Spark casts both operands, or None if there is none."""
    if left == right or right == pa.null():
        return left
    if left == pa.null():
        return right
    for one, other in ((left, right), (right, left)):
        if one == pa.string():
            return _promoted_text(other)
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if is_datetime(left) and is_datetime(right):
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    return None


def _promoted_text(other: pa.DataType) -> pa.DataType | None:
    if is_integral(other):
        return pa.int64()
    if is_numeric(other):
        return pa.float64()
    return None if is_nested(other) else other


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_floating(left) or is_floating(right):
        return pa.float64()
    if not is_decimal(left) and not is_decimal(right):
        return max(left, right, key=_INTEGRAL.index)
    pairs = [(t.precision, t.scale) if is_decimal(t) else (_DIGITS[t], 0) for t in (left, right)]
    scale = max(s for _, s in pairs)
    precision = max(p - s for p, s in pairs) + scale
    surplus = max(precision - PRECISION_MAX, 0)
    return pa.decimal128(precision - surplus, max(scale - surplus, 0))


def unify(arguments: Sequence[Expression], what: str, zone: str) -> tuple[Expression, ...]:
    """Return the arguments cast to their common type; InvalidInputError if there is none."""
    wanted = arguments[0].type
    for argument in arguments[1:]:
        found = common_type(wanted, argument.type)
        if found is None:
            raise bad_expression(
                f"{what} cannot mix {type_name(wanted)} and {type_name(argument.type)}; cast one"
            )
        wanted = found
    return tuple(cast_to(argument, wanted, zone) for argument in arguments)


def cast_to(expression: Expression, wanted: pa.DataType, zone: str) -> Expression:
    """Return the expression cast to a type; unchanged if it has that type already.

    Raises InvalidInputError if Spark's ANSI mode has no such cast.
    """
    source = expression.type
    if source == wanted:
        return expression
    if source == pa.null() or (isinstance(expression, Literal) and expression.value is None):
        return Literal(wanted, None)
    if not _can_cast(source, wanted):
        raise bad_expression(f"cannot cast {type_name(source)} to {type_name(wanted)}")
    parameters = (zone,) if _needs_zone(source, wanted) else ()
    return Call(wanted, "cast", (expression,), parameters)


def _can_cast(source: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark's ANSI mode casts between the types."""
    if pa.string() in (source, wanted):
        return not is_nested(source) and not is_nested(wanted)
    if is_nested(source) or is_nested(wanted) or pa.binary() in (source, wanted):
        return False
    if is_datetime(source) and is_datetime(wanted):
        return True
    plain = (pa.bool_(),)
    if (is_numeric(source) or source in plain) and (is_numeric(wanted) or wanted in plain):
        return True
    return (source == TIMESTAMP and is_numeric(wanted)) or (
        is_numeric(source) and wanted == TIMESTAMP
    )


def _needs_zone(source: pa.DataType, wanted: pa.DataType) -> bool:
    local = (pa.string(), pa.date32(), TIMESTAMP_NTZ)
    return (source == TIMESTAMP and wanted in local) or (wanted == TIMESTAMP and source in local)


def dates_of(cast: Call, times: Expression) -> Expression | None:
    """Return the dates that a cast made times of, from those times; None if it is none or may not.

    A zone that skips a day makes one time of two dates.
    """
    (inner,) = cast.arguments
    if not (pa.types.is_date32(inner.type) and pa.types.is_timestamp(cast.type)):
        return None
    zone = str(cast.parameters[0]) if cast.parameters else "UTC"
    return cast_to(times, inner.type, zone) if zone_table(zone).has_plain_midnights else None


def is_lossless(source: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps every value and the order of values; such a cast cannot fail."""
    if is_integral(source) and is_integral(wanted):
        return _INTEGRAL.index(source) <= _INTEGRAL.index(wanted)
    if is_floating(source) and is_floating(wanted):
        return bool(source == pa.float32() or wanted == pa.float64())
    if is_integral(source) and is_decimal(wanted):
        digits = (3, 5, 10, 19)[_INTEGRAL.index(source)]
        return bool(wanted.precision - wanted.scale >= digits)
    if is_integral(source) and is_floating(wanted):
        return source in _INTEGRAL[:2] or (source == pa.int32() and wanted == pa.float64())
    if is_decimal(source) and is_decimal(wanted):
        whole = wanted.precision - wanted.scale >= source.precision - source.scale
        return bool(whole and wanted.scale >= source.scale)
    return False
