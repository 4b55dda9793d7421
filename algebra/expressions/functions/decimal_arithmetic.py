"""Decimal arithmetic over unscaled integers of 128 bits: exact, then rounded to the result type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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
    integers,
    overflow,
    valid_mask,
)
from projseg.algebra.expressions.tree import Call
from projseg.errors import EvaluationError
from projseg.kernels.decimals.wide_arithmetic import (
    DecimalFailure,
    DecimalOperation,
    Rounding,
    operate,
    rescale,
)
from projseg.segment_format.arrow_arrays import as_wide, halves, validity_bitmap
from projseg.segment_format.logical_types import type_name

_OPERATIONS: Final = {
    "+": DecimalOperation.ADD,
    "-": DecimalOperation.SUBTRACT,
    "*": DecimalOperation.MULTIPLY,
    "/": DecimalOperation.DIVIDE,
    "div": DecimalOperation.WHOLE_DIVIDE,
    "%": DecimalOperation.REMAINDER,
    "pmod": DecimalOperation.POSITIVE_REMAINDER,
}
_BIGINT_SIZES: Final = 1 << 63
_POWER_MAX: Final = 90
"""Divided by ten to this power, and multiplied by it again, every decimal is 0 or does not fit."""


def evaluate_decimals(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return the result of arithmetic over two decimals, in the call's type.

    Raises EvaluationError if a result has too many digits for the type, or a divisor is zero.
    """
    valid = all_valid(arguments, row_count)
    operation = _OPERATIONS[call.function]
    limit = 10**call.type.precision if is_decimal(call.type) else _BIGINT_SIZES
    left, right = (unscaled(as_array(argument, row_count)) for argument in arguments)
    values, failures = operate(operation, left, right, _powers(call, operation), limit, valid)
    if failures.any():
        is_zero = np.any(failures == DecimalFailure.ZERO)
        raise _failed(failures, divide_by_zero(call) if is_zero else _too_large(call.type))
    if is_decimal(call.type):
        return decimals(values, call.type, valid)
    return from_integers(values[:, 0], valid, call.type)


def _powers(call: Call, operation: DecimalOperation) -> tuple[int, int, int]:
    """Return the powers of ten that both operands are multiplied by, and the result divided by."""
    left, right = (argument.type.scale for argument in call.arguments)
    if operation == DecimalOperation.DIVIDE:
        digits = call.type.scale - left + right
        return max(digits, 0), max(-digits, 0), 0
    if operation == DecimalOperation.MULTIPLY:
        return 0, 0, left + right - call.type.scale
    scale = max(left, right)
    result = 0 if operation == DecimalOperation.WHOLE_DIVIDE else scale - call.type.scale
    return scale - left, scale - right, result


def rounded(
    array: pa.Array,
    arrow_type: pa.DataType,
    rounding: Rounding = Rounding.HALF_UP,
    digits: int | None = None,
) -> pa.Array:
    """Return decimals or whole numbers, rounded, in a type of decimals or whole numbers.

    They are rounded to `digits` decimal digits, by default those of the type. Raises
    PROJSEG_EVALUATION_OVERFLOW if a value that is not null does not fit.
    """
    valid = valid_mask(array, len(array))
    scale, wanted = scale_of(array.type), scale_of(arrow_type)
    kept = min(wanted if digits is None else digits, scale)
    powers = min(scale - kept, _POWER_MAX), min(wanted - kept, _POWER_MAX)
    limit = 10**arrow_type.precision if is_decimal(arrow_type) else _BIGINT_SIZES + 1
    values, failures = rescale(unscaled(array), rounding, powers, limit, valid)
    if not is_decimal(arrow_type):
        least = -(1 << (arrow_type.bit_width - 1))
        low = values[:, 0]
        is_outside = (low < least) | (low > -1 - least) | (values[:, 1] != low >> 63)
        failures |= is_outside.view(np.uint8)
    if failures.any():
        raise _failed(failures, _too_large(arrow_type))
    if is_decimal(arrow_type):
        return decimals(values, arrow_type, valid)
    return from_integers(values[:, 0], valid, arrow_type)


def _failed(failures: NDArray[np.uint8], error: EvaluationError) -> EvaluationError:
    error.rows = failures != 0
    return error


def _too_large(arrow_type: pa.DataType) -> EvaluationError:
    return overflow(f"a value does not fit {type_name(arrow_type)}; cast to a wider type")


def scale_of(arrow_type: pa.DataType) -> int:
    """Return how many digits of a number stand after the point: none of a whole number."""
    return int(arrow_type.scale) if is_decimal(arrow_type) else 0


def unscaled(array: pa.Array) -> NDArray[np.int64]:
    """Return decimals without points, or whole numbers, as int64[n, 2]; nulls hold anything."""
    if not is_decimal(array.type):
        return halves(as_wide(integers(array, len(array))))
    values = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)
    return values[array.offset : array.offset + len(array)]


def decimals(
    values: NDArray[Any], arrow_type: pa.DataType, valid: NDArray[np.bool_] | None
) -> pa.Array:
    """Return unscaled values, int64[n, 2], which fit a type, as decimals of the type."""
    bitmap, null_count = validity_bitmap(None if valid is None or valid.all() else valid)
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, null_count)
