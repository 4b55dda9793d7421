"""Rounding to decimal digits: half to even, down and up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import (
    cast_to,
    is_decimal,
    is_floating,
    is_numeric,
)
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    from_integers,
    overflow,
    require_type,
    valid_mask,
    whole_of,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import to_type
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
)
from projseg.algebra.expressions.tree import PRECISION_MAX, Call, Expression, Literal
from projseg.segment_format.arrow_arrays import array_of
from projseg.segment_format.logical_types import arrow_to_numbers, type_name

_DECIMAL_OF: Final = {
    pa.int8(): pa.decimal128(3, 0),
    pa.int16(): pa.decimal128(5, 0),
    pa.int32(): pa.decimal128(10, 0),
    pa.int64(): pa.decimal128(20, 0),
    pa.float32(): pa.decimal128(14, 7),
    pa.float64(): pa.decimal128(30, 15),
    pa.string(): pa.decimal128(38, 18),
}
"""The decimals to which Spark casts other types for floor and ceil at decimal digits."""
_DIGITS_MAX: Final = 400

_Unscaled = NDArray[Any]
_Divide = Callable[[_Unscaled, int], _Unscaled]
"""(whole numbers, unit) -> how many units each becomes."""


def number_argument(function: str, argument: Expression, zone: str) -> Expression:
    """Return an argument that is a number; a text becomes a double.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    if argument.type in (pa.string(), pa.null()):
        argument = cast_to(argument, pa.float64(), zone)
    require_type(is_numeric(argument.type), function, argument, "a number")
    return argument


def rounded_type(arrow_type: pa.DataType, digits: int) -> pa.DataType:
    """Return the type of a number rounded to decimal digits; only a decimal changes its type."""
    if not is_decimal(arrow_type):
        return arrow_type
    whole = arrow_type.precision - arrow_type.scale + 1
    kept = min(max(digits, 0), arrow_type.scale)
    precision = max(whole, 1 - digits) if digits < 0 else whole + kept
    return pa.decimal128(min(precision, PRECISION_MAX), kept)


def digits_of(function: str, arguments: Sequence[Expression]) -> int:
    """Return the constant that says to how many digits to round, 0 unless given.

    Raises
    ------
    InvalidInputError
        If it is not a constant whole number.
    """
    return whole_of(arguments, 1, f"the digits of {function}") if arguments[1:] else 0


def to_digits(function: str, arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Return the node of `floor(x, digits)` or `ceil(x, digits)`, which is a decimal.

    Raises
    ------
    InvalidInputError
        If the first is no number, or the second no constant.
    """
    number, digits = arguments[0], digits_of(function, arguments)
    if number.type not in _DECIMAL_OF:
        number = number_argument(function, number, zone)
    number = cast_to(number, _DECIMAL_OF.get(number.type, number.type), zone)
    parts = number, Literal(pa.int32(), digits)
    return Call(rounded_type(number.type, digits), f"{function}_to_digits", parts)


def _build_bround(arguments: tuple[Expression, ...], zone: str) -> Expression:
    number, digits = number_argument("bround", arguments[0], zone), digits_of("bround", arguments)
    return Call(rounded_type(number.type, digits), "bround", (number, Literal(pa.int32(), digits)))


def _half_even(numbers: _Unscaled, unit: int) -> _Unscaled:
    whole = numbers // unit
    twice = 2 * (numbers - whole * unit)
    is_up = (twice > unit) | ((twice == unit) & (whole % 2 != 0))
    return whole + np.where(is_up, 1, 0)


def _down(numbers: _Unscaled, unit: int) -> _Unscaled:
    return numbers // unit


def _up(numbers: _Unscaled, unit: int) -> _Unscaled:
    return -(-numbers // unit)


def _rounded(divide: _Divide) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        argument, digits = as_array(arguments[0], row_count), _digits(call)
        if is_floating(argument.type):
            return _round_doubles(argument, digits)
        scale = argument.type.scale if is_decimal(argument.type) else 0
        if digits >= scale:
            return argument if argument.type == call.type else argument.cast(call.type)
        unscaled, _ = arrow_to_numbers(argument)
        unit = 10 ** min(scale - digits, _DIGITS_MAX)
        values = divide(unscaled.astype(object), unit) * unit
        valid = valid_mask(argument, row_count)
        if is_decimal(call.type):
            return to_type(values, scale, call.type, valid)
        limit = 1 << (call.type.bit_width - 1)
        if not np.all(((values >= -limit) & (values < limit)) | ~valid):
            raise overflow(f"{call.function} gives a value outside {type_name(call.type)}")
        return from_integers(np.where(valid, values, 0).astype(np.int64), valid, call.type)

    return evaluate


def _digits(call: Call) -> int:
    digits = call.arguments[1]
    assert isinstance(digits, Literal)
    return int(str(digits.value))


def _round_doubles(argument: pa.Array, digits: int) -> pa.Array:
    """Round the shortest decimal text of each distinct value, as Java's BigDecimal does."""
    encoded = argument.dictionary_encode()
    unit = Decimal(1).scaleb(-max(min(digits, _DIGITS_MAX), -_DIGITS_MAX))
    context = Context(prec=3 * _DIGITS_MAX, rounding=ROUND_HALF_EVEN)
    is_single = argument.type == pa.float32()
    rounded = []
    for value in encoded.dictionary.to_pylist():
        if value is None or not np.isfinite(value):
            rounded.append(value)
            continue
        text = str(np.float32(value)) if is_single else repr(value)
        rounded.append(float(Decimal(text).quantize(unit, context=context)) + 0.0)
    found = array_of(rounded, pa.float64()).cast(argument.type, safe=False)
    return found.take(encoded.indices)


def _order(call: Call) -> tuple[Order, ...]:
    """Rise in an integer or decimal; doubles are left out, as those of round are."""
    first = Order.NONE if is_floating(call.arguments[0].type) else Order.RISES
    return first, Order.NONE


def _to_digits_text(call: Call, write: Writer) -> str:
    name = call.function.removesuffix("_to_digits")
    return f"{name}({', '.join(map(write, call.arguments))})"


def _record(divide: _Divide, *spellings: Spelling, **more: Any) -> ScalarFunction:
    """Return the record of a function that raises where the rounded number does not fit."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=_rounded(divide),
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=_order,
        **more,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "bround": _record(_half_even, Spelling("bround", _build_bround, 1, 2)),
    "floor_to_digits": _record(_down, text=_to_digits_text),
    "ceil_to_digits": _record(_up, text=_to_digits_text),
}
