"""Decimal arithmetic over unscaled integers: exact, then rounded half up to the result type.

Values are int64[n] where their bounds prove that 64 bits are enough, else Python integers as
object[n]; that holds for every array of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import is_decimal
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    divide_by_zero,
    from_integers,
    overflow,
)
from projseg.algebra.expressions.tree import Call
from projseg.segment_format.logical_types import (
    arrow_to_numbers,
    numbers_to_arrow,
    type_name,
)

Operation: TypeAlias = Callable[["DecimalOperands"], tuple[NDArray[Any], int]]
"""(operands) -> (unscaled values, int64[n] or object[n], and their scale), not yet rounded."""


class DecimalOperands:
    """Two decimal columns as unscaled integers; in a row with a null, both hold 1.

    Parameters
    ----------
    call : Call
        The node, for its types and messages.
    left, right : int64[n] or object[n]
        Unscaled values.
    """

    def __init__(self, call: Call, left: NDArray[Any], right: NDArray[Any]) -> None:
        self.call, self.left, self.right = call, left, right
        self.left_scale, self.right_scale = (a.type.scale for a in call.arguments)

    def aligned(self) -> tuple[NDArray[Any], NDArray[Any], int]:
        """Return both columns at the larger of their scales, and that scale."""
        scale = max(self.left_scale, self.right_scale)
        left = scaled(self.left, scale - self.left_scale)
        right = scaled(self.right, scale - self.right_scale)
        return left, right, scale

    def refuse_zero(self) -> None:
        """Raise PROJSEG_EVALUATION_DIVIDE_BY_ZERO if a right operand is zero."""
        if np.any(self.right == 0):
            raise divide_by_zero(self.call)


def evaluate_decimals(
    call: Call, arguments: Sequence[Datum], row_count: int, operation: Operation
) -> pa.Array:
    """Return the operation's result in the call's type.

    Raises
    ------
    EvaluationError
        If a result has too many digits for the type, or a divisor is zero.
    """
    valid = all_valid(arguments, row_count)
    columns = []
    for argument in arguments:
        values, _ = arrow_to_numbers(as_array(argument, row_count))
        if min(bounds(values)) < -(1 << 62):
            values = values.astype(object)  # int64 does not hold the absolute value of its minimum
        columns.append(values if valid.all() else np.where(valid, values, 1))
    unscaled, scale = operation(DecimalOperands(call, *columns))
    return to_type(unscaled, scale, call.type, valid)


def to_type(
    unscaled: NDArray[Any], scale: int, arrow_type: pa.DataType, valid: NDArray[np.bool_]
) -> pa.Array:
    """Return unscaled values, int64[n] or object[n], as a decimal or bigint, rounded half up.

    Raises
    ------
    EvaluationError
        If a value that is not null does not fit.
    """
    wanted_scale = arrow_type.scale if is_decimal(arrow_type) else 0
    values = rescaled(unscaled, scale, wanted_scale)
    values = np.where(valid, values, 0)
    limit = 10**arrow_type.precision if is_decimal(arrow_type) else 1 << 63
    low, high = bounds(values)
    if high >= limit or low <= -limit:
        raise overflow(f"a value does not fit {type_name(arrow_type)}; cast to a wider type")
    if not is_decimal(arrow_type):
        return from_integers(values.astype(np.int64), valid, arrow_type)
    return numbers_to_arrow(values, arrow_type, None if valid.all() else valid)


def bounds(values: NDArray[Any]) -> tuple[int, int]:
    """Return the smallest and the largest value; (0, 0) if there are none."""
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def widened(values: NDArray[Any], factor: int) -> NDArray[Any]:
    """Return the values as Python integers if their products with `factor` may exceed 64 bits."""
    largest = max(1, *map(abs, bounds(values)))
    if values.dtype != object and largest * abs(factor) < 1 << 62:
        return values
    return values.astype(object)


def scaled(values: NDArray[Any], digits: int) -> NDArray[Any]:
    """Return values times ten to the power of `digits`."""
    if digits == 0:
        return values
    return np.asarray(widened(values, 10**digits) * 10**digits)


def rescaled(values: NDArray[Any], scale: int, wanted: int) -> NDArray[Any]:
    """Return unscaled values at another scale, rounded half away from zero."""
    if wanted >= scale:
        return scaled(values, wanted - scale)
    return divided_half_up(values, 10 ** (scale - wanted))


def divided_half_up(values: NDArray[Any], divisor: Any) -> NDArray[Any]:
    """Return values divided by a positive divisor (or divisors), rounded half away from zero."""
    if isinstance(divisor, int) and divisor >= 1 << 62:
        values = values.astype(object)
    sizes = abs(values)
    quotient = sizes // divisor
    rounded = quotient + (sizes - quotient * divisor >= divisor - divisor // 2)
    return np.asarray(np.where(values < 0, -rounded, rounded))


def without_fraction(values: NDArray[Any], scale: int) -> NDArray[Any]:
    """Return the whole part of unscaled values, rounded towards zero."""
    values = values.astype(object) if scale > 18 else values
    sizes = abs(values) // 10**scale
    return np.asarray(np.where(values < 0, -sizes, sizes))


def _pairable(left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    largest = max(*map(abs, bounds(left)), *map(abs, bounds(right)))
    if object in (left.dtype, right.dtype) or largest >= 1 << 62:
        return left.astype(object), right.astype(object)
    return left, right


def add(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return left + right."""
    left, right, scale = operands.aligned()
    left, right = _pairable(left, right)
    return left + right, scale


def subtract(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return left - right."""
    left, right, scale = operands.aligned()
    left, right = _pairable(left, right)
    return left - right, scale


def multiply(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return left * right."""
    factor = max(map(abs, bounds(operands.right)))
    left = widened(operands.left, factor)
    return left * operands.right, operands.left_scale + operands.right_scale


def divide(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return left / right, at the scale of the result."""
    operands.refuse_zero()
    scale = operands.call.type.scale
    digits = scale - operands.left_scale + operands.right_scale
    left, right = _pairable(
        scaled(operands.left, max(digits, 0)), scaled(operands.right, max(-digits, 0))
    )
    signs = np.where(right < 0, -1, 1)
    return divided_half_up(left * signs, right * signs), scale


def remainder(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return the remainder of left divided by right, with the sign of left."""
    operands.refuse_zero()
    left, right, scale = operands.aligned()
    rest = abs(left) % abs(right)
    return np.where(left < 0, -rest, rest), scale


def positive_remainder(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return pmod: the remainder of left divided by right, with right added if it is negative."""
    rest, scale = remainder(operands)
    right = operands.aligned()[1]
    moved = rest + right
    again = np.where(moved < 0, -(abs(moved) % abs(right)), abs(moved) % abs(right))
    return np.where(rest < 0, again, rest), scale


def whole_divide(operands: DecimalOperands) -> tuple[NDArray[Any], int]:
    """Return left / right without its fraction."""
    operands.refuse_zero()
    left, right, _ = operands.aligned()
    quotient = abs(left) // abs(right)
    return np.where((left < 0) != (right < 0), -quotient, quotient), 0
