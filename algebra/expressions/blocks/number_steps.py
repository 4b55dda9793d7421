"""Arithmetic in blocks: exact numbers as scaled integers whose bounds prove that none overflows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.blocks.block_builder import (
    BlockBuilder,
    NotInBlocksError,
    Value,
    is_exact,
    is_wide,
    require_long,
    require_narrow,
)
from projseg.algebra.expressions.blocks.wide_steps import (
    added,
    divided_half_up,
    multiplied,
    product_bounds,
    required,
    rescaled,
    scaled,
    subtracted,
    without_zeros,
)
from projseg.algebra.expressions.coercion import is_datetime, is_decimal, scale_of
from projseg.algebra.expressions.tree import Call
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.kernels.block_operations import Operation
from projseg.segment_format.logical_types import TIMESTAMP, number_limits

_SIGN_BIT: Final = -(1 << 63)


def _exact(
    blocks: BlockBuilder, operation: Operation, left: Value, right: Value, low: int, high: int
) -> Value:
    """Return the value of a step over integers, which lies in [low, high].

    Raises NotInBlocksError if that passes 64 bits, or an operand may.
    """
    require_long(low, high)
    require_narrow(left)
    require_narrow(right)
    register = blocks.emit(operation, left.register, right.register)
    return Value(register, low, high, blocks.both(left.validity, right.validity))


def _fitted(blocks: BlockBuilder, value: Value, arrow_type: pa.DataType) -> Value:
    """Return a value that is required to lie within the limits of a type."""
    return required(blocks, value, *number_limits(arrow_type))


def aligned(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> tuple[Value, Value]:
    """Return two exact operands at the larger of their scales."""
    scales = [scale_of(argument.type) for argument in call.arguments]
    left, right = (
        scaled(blocks, value, 10 ** (max(scales) - scale))
        for value, scale in zip(arguments, scales, strict=True)
    )
    return left, right


def _aligned_scale(call: Call) -> int:
    return max(scale_of(argument.type) for argument in call.arguments)


def _of_doubles(blocks: BlockBuilder, operation: Operation, arguments: Sequence[Value]) -> Value:
    left, right = arguments
    register = blocks.emit(operation, left.register, right.register)
    return Value(register, validity=blocks.both(left.validity, right.validity))


def _result(call: Call, value: Value, scale: int, blocks: BlockBuilder) -> Value:
    return _fitted(blocks, rescaled(blocks, value, scale, scale_of(call.type)), call.type)


def add(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the sum."""
    if not is_exact(call.type):
        return _of_doubles(blocks, Operation.ADD_DOUBLES, arguments)
    left, right = aligned(call, arguments, blocks)
    return _result(call, added(blocks, left, right), _aligned_scale(call), blocks)


def subtract(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the difference."""
    if not is_exact(call.type):
        return _of_doubles(blocks, Operation.SUBTRACT_DOUBLES, arguments)
    left, right = aligned(call, arguments, blocks)
    return _result(call, subtracted(blocks, left, right), _aligned_scale(call), blocks)


def multiply(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the product."""
    if not is_exact(call.type):
        return _of_doubles(blocks, Operation.MULTIPLY_DOUBLES, arguments)
    left, right = arguments
    scale = sum(scale_of(argument.type) for argument in call.arguments)
    if not is_wide(*product_bounds(left, right)):
        scale -= left.zeros + right.zeros
        left, right = without_zeros(blocks, left), without_zeros(blocks, right)
    return _result(call, multiplied(blocks, left, right), scale, blocks)


def negative(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the opposite number."""
    (value,) = arguments
    if not is_exact(call.type):
        sign = blocks.constant(_SIGN_BIT).register
        return replace(value, register=blocks.emit(Operation.XOR, value.register, sign))
    return _fitted(blocks, subtracted(blocks, blocks.constant(0), value), call.type)


def absolute(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the distance from zero."""
    (value,) = arguments
    if not is_exact(call.type):
        rest = blocks.constant(~_SIGN_BIT).register
        return replace(value, register=blocks.emit(Operation.AND, value.register, rest))
    zero = blocks.constant(0)
    opposite = _exact(blocks, Operation.SUBTRACT, zero, value, -value.high, -value.low)
    is_negative = blocks.emit(Operation.LESS, value.register, zero.register)
    register = blocks.emit(Operation.SELECT, is_negative, opposite.register, value.register)
    high = max(-value.low, value.high)
    low = 0 if value.low < 0 < value.high else min(abs(value.low), abs(value.high))
    return _fitted(blocks, Value(register, low, high, value.validity), call.type)


def _require_not_zero(blocks: BlockBuilder, left: Value, right: Value, *, exact: bool) -> None:
    if exact and (right.low > 0 or right.high < 0):
        return
    operation = Operation.EQUAL if exact else Operation.EQUAL_DOUBLES
    zero = blocks.constant(0).register  # whose bits are those of 0.0
    is_zero = blocks.emit(operation, right.register, zero)
    validity = blocks.both(left.validity, right.validity)
    blocks.required(Value(is_zero, 0, 1, validity), 0, 0)


def divide(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the quotient."""
    if is_exact(call.type):
        return _divide_decimals(call, arguments, blocks)
    _require_not_zero(blocks, *arguments, exact=False)
    return _of_doubles(blocks, Operation.DIVIDE_DOUBLES, arguments)


def _divide_decimals(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    left, right = arguments
    if right.low != right.high or right.low <= 0:
        raise NotInBlocksError("quotients of decimals by other than one positive number")
    left_scale, right_scale = (scale_of(argument.type) for argument in call.arguments)
    digits = scale_of(call.type) - left_scale + right_scale
    divisor = right.low * 10 ** max(-digits, 0)
    quotient = divided_half_up(blocks, scaled(blocks, left, 10 ** max(digits, 0)), divisor)
    validity = blocks.both(left.validity, right.validity)
    return _fitted(blocks, replace(quotient, validity=validity), call.type)


def whole_divide(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the quotient without its fraction."""
    left, right = aligned(call, arguments, blocks)
    _require_not_zero(blocks, left, right, exact=True)
    high = max(abs(left.low), abs(left.high))
    return _fitted(blocks, _exact(blocks, Operation.DIVIDE, left, right, -high, high), call.type)


def remainder(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the remainder, which has the dividend's sign."""
    if not is_exact(call.type):
        raise NotInBlocksError("remainders of doubles")
    left, right = aligned(call, arguments, blocks)
    _require_not_zero(blocks, left, right, exact=True)
    high = max(abs(right.low), abs(right.high)) - 1
    low = -min(high, -left.low) if left.low < 0 else 0
    high = min(high, left.high) if left.high > 0 else 0
    rest = _exact(blocks, Operation.REMAINDER, left, right, low, max(high, 0))
    return _result(call, rest, _aligned_scale(call), blocks)


def positive_remainder(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the remainder by a positive divisor, which is never negative."""
    rest = remainder(call, arguments, blocks)
    _, right = aligned(call, arguments, blocks)
    if right.low <= 0 or _aligned_scale(call) != scale_of(call.type):
        raise NotInBlocksError("a divisor that may be negative")
    moved = _exact(blocks, Operation.ADD, rest, right, rest.low + right.low, rest.high + right.high)
    zero = blocks.constant(0).register
    is_negative = blocks.emit(Operation.LESS, rest.register, zero)
    register = blocks.emit(Operation.SELECT, is_negative, moved.register, rest.register)
    high = right.high - 1 if rest.low < 0 else rest.high
    return _fitted(blocks, replace(rest, register=register, low=0, high=high), call.type)


def days_between(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the days from the second date to the first."""
    left, right = arguments
    bounds = left.low - right.high, left.high - right.low
    return _fitted(blocks, _exact(blocks, Operation.SUBTRACT, left, right, *bounds), call.type)


def later_date(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return the date that lies a number of days after or before a date."""
    date, days = arguments
    if call.function == "date_add":
        bounds = date.low + days.low, date.high + days.high
        moved = _exact(blocks, Operation.ADD, date, days, *bounds)
    else:
        bounds = date.low - days.high, date.high - days.low
        moved = _exact(blocks, Operation.SUBTRACT, date, days, *bounds)
    return blocks.required(moved, MIN_MICROS // DAY, MAX_MICROS // DAY - 1)


# Quotients of integers up to here are rounded once.
_EXACT_DOUBLE_MAX: Final = 1 << 53
_LONG_DIGITS_MAX: Final = 18


def cast(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return a number, a date or a truth value as one of another type."""
    (value,), source, wanted = arguments, call.arguments[0].type, call.type
    if pa.types.is_boolean(wanted):
        return _to_boolean(value, source, blocks)
    if is_datetime(source) or is_datetime(wanted):
        return _to_timestamp(call, value, blocks)
    if wanted == pa.float64():
        return _to_double(value, source, blocks)
    if not is_exact(source):
        raise NotInBlocksError("doubles to whole numbers")
    if is_decimal(wanted):
        found = rescaled(blocks, value, scale_of(source), scale_of(wanted))
        return _fitted(blocks, found, wanted)
    if is_decimal(source):
        return _to_whole(value, source, wanted, blocks)
    return _fitted(blocks, value, wanted)


def _to_boolean(value: Value, source: pa.DataType, blocks: BlockBuilder) -> Value:
    operation = Operation.EQUAL if is_exact(source) else Operation.EQUAL_DOUBLES
    require_narrow(value)
    is_zero = blocks.emit(operation, value.register, blocks.constant(0).register)
    return Value(blocks.opposite(is_zero), 0, 1, value.validity)


def _to_timestamp(call: Call, value: Value, blocks: BlockBuilder) -> Value:
    source, wanted = call.arguments[0].type, call.type
    zone = call.parameters[0] if call.parameters else "UTC"
    is_utc = wanted != TIMESTAMP or zone == "UTC"
    if not (pa.types.is_date32(source) and pa.types.is_timestamp(wanted) and is_utc):
        raise NotInBlocksError("a cast that reads a clock")
    return scaled(blocks, value, DAY)


def _to_double(value: Value, source: pa.DataType, blocks: BlockBuilder) -> Value:
    if source == pa.float64():
        return value
    divisor = 10 ** scale_of(source)
    if is_decimal(source) and max(divisor, -value.low, value.high) > _EXACT_DOUBLE_MAX:
        raise NotInBlocksError("a decimal of many digits")
    register = blocks.emit(Operation.TO_DOUBLE, value.register, low=divisor)
    return Value(register, validity=value.validity)


def _to_whole(
    value: Value, source: pa.DataType, wanted: pa.DataType, blocks: BlockBuilder
) -> Value:
    """Drop the fraction; Spark casts a wide decimal to int by way of its nearest double."""
    if source.precision > _LONG_DIGITS_MAX and wanted != pa.int64():
        raise NotInBlocksError("a wide decimal to int")
    if source.scale == 0:
        return _fitted(blocks, value, wanted)
    high = max(abs(value.low), abs(value.high))
    divisor = blocks.constant(10**source.scale)
    return _fitted(blocks, _exact(blocks, Operation.DIVIDE, value, divisor, -high, high), wanted)
