"""Arithmetic in blocks over exact numbers of 64 or 128 bits; the bounds of values tell which.

Modulo 2**64, the lower half of a sum, a difference or a product is that of the operands' lower
halves. So a result that fits 64 bits needs no upper halves, whatever it was computed from.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from projseg.algebra.expressions.blocks.block_builder import (
    BlockBuilder,
    NotInBlocksError,
    Value,
    is_long,
    require_narrow,
    require_wide,
)
from projseg.kernels.block_operations import Operation
from projseg.kernels.integer_codes import ZEROS_MAX

_DIGITS_A_STEP: Final = 9
_DROPPED: Final = 10**_DIGITS_A_STEP
_DIVISOR_MAX: Final = (1 << 31) - 1
_HALF: Final = 64


def upper_of(blocks: BlockBuilder, value: Value) -> int:
    """Return the register of a value's upper half; that of 64 bits repeats the sign."""
    if value.upper is not None:
        return value.upper
    if value.low >= 0:
        return blocks.constant(0).register
    if value.high < 0:
        return blocks.constant(-1).register
    zero = blocks.constant(0).register
    is_negative = blocks.emit(Operation.LESS, value.register, zero)
    return blocks.emit(Operation.SUBTRACT, zero, is_negative)


def constant(blocks: BlockBuilder, value: int) -> Value:
    """Return a constant of at most 128 bits."""
    zeros = zeros_of(value)
    if is_long(value, value):
        return replace(blocks.constant(value), zeros=zeros)
    require_wide(value, value)
    lower = (value + (1 << _HALF - 1)) % (1 << _HALF) - (1 << _HALF - 1)
    register = blocks.constant(lower).register
    upper = blocks.constant(value >> _HALF).register
    return Value(register, value, value, upper=upper, zeros=zeros)


def zeros_of(value: int) -> int:
    """Return how many decimal zeros a number ends with."""
    if value == 0:
        return ZEROS_MAX
    digits = str(value)
    return len(digits) - len(digits.rstrip("0"))


def added(blocks: BlockBuilder, left: Value, right: Value) -> Value:
    """Return left + right."""
    return _carried(
        blocks, Operation.ADD, left, right, left.low + right.low, left.high + right.high
    )


def subtracted(blocks: BlockBuilder, left: Value, right: Value) -> Value:
    """Return left - right."""
    low, high = left.low - right.high, left.high - right.low
    return _carried(blocks, Operation.SUBTRACT, left, right, low, high)


def _carried(
    blocks: BlockBuilder, operation: Operation, left: Value, right: Value, low: int, high: int
) -> Value:
    """Return a sum or a difference, whose lower half may carry to the upper or borrow from it."""
    register = blocks.emit(operation, left.register, right.register)
    validity, zeros = blocks.both(left.validity, right.validity), min(left.zeros, right.zeros)
    found = Value(register, low, high, validity, zeros=zeros)
    if is_long(low, high):
        return found
    require_wide(low, high)
    is_sum = operation == Operation.ADD
    compared = (register, left.register) if is_sum else (left.register, right.register)
    carry = blocks.emit(Operation.LESS_UNSIGNED, *compared)
    uppers = blocks.emit(operation, upper_of(blocks, left), upper_of(blocks, right))
    return replace(found, upper=blocks.emit(operation, uppers, carry))


def product_bounds(left: Value, right: Value) -> tuple[int, int]:
    """Return bounds of left * right."""
    edges = [x * y for x in (left.low, left.high) for y in (right.low, right.high)]
    return min(edges), max(edges)


def multiplied(blocks: BlockBuilder, left: Value, right: Value) -> Value:
    """Return left * right."""
    low, high = product_bounds(left, right)
    register = blocks.emit(Operation.MULTIPLY, left.register, right.register)
    validity, zeros = blocks.both(left.validity, right.validity), left.zeros + right.zeros
    product = Value(register, low, high, validity, zeros=zeros)
    if is_long(low, high):
        return product
    require_wide(low, high)
    if right.upper is not None:
        left, right = right, left
    require_narrow(right)
    return replace(product, upper=_upper_of_product(blocks, left, right))


def _upper_of_product(blocks: BlockBuilder, left: Value, right: Value) -> int:
    """Return the upper half of the product with a right operand of 64 bits.

    The step takes the left one's lower half as signed. Where that is negative, it is 2**64 less
    than it should be.
    """
    upper = blocks.emit(Operation.MULTIPLY_HIGH, left.register, right.register)
    if left.upper is None:
        return upper
    zero = blocks.constant(0).register
    is_less = blocks.emit(Operation.LESS, left.register, zero)
    missing = blocks.emit(Operation.SELECT, is_less, right.register, zero)
    above = blocks.emit(Operation.MULTIPLY, left.upper, right.register)
    return blocks.emit(Operation.ADD, blocks.emit(Operation.ADD, upper, missing), above)


def scaled(blocks: BlockBuilder, value: Value, factor: int) -> Value:
    """Return a value times a positive constant."""
    if factor == 1:
        return value
    if value.low == value.high == 0:  # also of a null, whose factor may be any
        return value
    return multiplied(blocks, value, constant(blocks, factor))


def rescaled(blocks: BlockBuilder, value: Value, scale: int, wanted: int) -> Value:
    """Return an unscaled number at another scale, rounded half away from zero."""
    if wanted >= scale:
        return scaled(blocks, value, 10 ** (wanted - scale))
    zeros = max(0, value.zeros - (scale - wanted))
    return replace(divided_half_up(blocks, value, 10 ** (scale - wanted)), zeros=zeros)


def divided_half_up(blocks: BlockBuilder, value: Value, divisor: int) -> Value:
    """Return a value divided by a positive constant, rounded half away from zero.

    Raises NotInBlocksError if the divisor has many digits and few of them are zeros at its end.
    """
    if value.upper is None and is_long(divisor, divisor):
        low, high = value.low // divisor, -(-value.high // divisor)
        register = blocks.emit(Operation.DIVIDE_HALF_UP, value.register, low=divisor)
        return Value(register, low, high, value.validity)
    while divisor > _DIVISOR_MAX:
        # Half of what is left of the divisor is whole, so no dropped digit changes the rounding.
        if divisor % (10 * _DROPPED):
            raise NotInBlocksError("a divisor of many digits")
        value = _divided(blocks, value, _DROPPED, is_half_up=False)
        divisor //= _DROPPED
    return _divided(blocks, value, divisor, is_half_up=True)


def without_zeros(blocks: BlockBuilder, value: Value) -> Value:
    """Return a value without the zeros that it is known to end with."""
    left = value.zeros
    while left > 0:
        digits = min(left, _DIGITS_A_STEP)
        value = _divided(blocks, value, 10**digits, is_half_up=False)
        left -= digits
    return value


def _divided(blocks: BlockBuilder, value: Value, divisor: int, *, is_half_up: bool) -> Value:
    """Return a value divided by a positive constant below 2**31."""
    low, high = value.low // divisor, -(-value.high // divisor)
    operands = value.register, upper_of(blocks, value)
    how = {"low": divisor, "high": int(is_half_up)}
    register = blocks.emit(Operation.DIVIDE_HALVES, *operands, **how)
    upper = None
    if not is_long(low, high):
        upper = blocks.emit(Operation.DIVIDE_HALVES_HIGH, *operands, **how)
    return Value(register, low, high, value.validity, upper)


def required(blocks: BlockBuilder, value: Value, low: int, high: int) -> Value:
    """Return a value that is required to lie in [low, high]; see `BlockBuilder.required`."""
    if value.upper is None or (low <= value.low and value.high <= high):
        return blocks.required(value, low, high)
    edges = constant(blocks, low), constant(blocks, high)
    outside = blocks.emit(
        Operation.OR, less(blocks, value, edges[0]), less(blocks, edges[1], value)
    )
    blocks.required(Value(outside, 0, 1, value.validity), 0, 0)
    # Where no value can lie inside, none is wanted, and any bounds inside do.
    value = replace(value, low=min(max(low, value.low), high), high=max(min(high, value.high), low))
    return replace(value, upper=None) if is_long(value.low, value.high) else value


def equal(blocks: BlockBuilder, left: Value, right: Value) -> int:
    """Return the register that holds 1 where two values are equal."""
    lower = blocks.emit(Operation.EQUAL, left.register, right.register)
    if left.upper is None and right.upper is None:
        return lower
    uppers = upper_of(blocks, left), upper_of(blocks, right)
    return blocks.emit(Operation.AND, lower, blocks.emit(Operation.EQUAL, *uppers))


def less(blocks: BlockBuilder, left: Value, right: Value) -> int:
    """Return the register that holds 1 where the left value is less."""
    if left.upper is None and right.upper is None:
        return blocks.emit(Operation.LESS, left.register, right.register)
    uppers = upper_of(blocks, left), upper_of(blocks, right)
    lower = blocks.emit(Operation.LESS_UNSIGNED, left.register, right.register)
    is_tie = blocks.emit(Operation.EQUAL, *uppers)
    tied = blocks.emit(Operation.AND, is_tie, lower)
    return blocks.emit(Operation.OR, blocks.emit(Operation.LESS, *uppers), tied)
