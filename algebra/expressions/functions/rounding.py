"""Rounding to decimal digits: half to even, down and up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.expressions.catalyst_call import (
    ANY,
    CONSTANT,
    NO_WHOLE_NUMBER,
    CatalystCall,
    failing_call,
)
from projseg.algebra.expressions.coercion import (
    cast_to,
    is_decimal,
    is_floating,
    is_numeric,
)
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    require_type,
    whole_of,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import rounded, scale_of
from projseg.algebra.expressions.functions.double_digits import rounded_doubles
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
from projseg.kernels.decimals.wide_arithmetic import Rounding

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


def number_argument(function: str, argument: Expression, zone: str) -> Expression:
    """Return an argument that is a number; a text becomes a double."""
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
    """Return the constant that says to how many digits to round, 0 unless given."""
    return whole_of(arguments, 1, f"the digits of {function}") if arguments[1:] else 0


def to_digits(function: str, arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Return the node of `floor(x, digits)` or `ceil(x, digits)`, which is a decimal.

    The digits are a constant.
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


def rounding_to_digits(rounding: Rounding) -> Evaluator:
    """Return the evaluator of a function that rounds a number to constant digits."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        argument, digits = as_array(arguments[0], row_count), _digits(call)
        if is_floating(argument.type):
            return rounded_doubles(argument, digits, rounding)
        if digits >= scale_of(argument.type):
            return argument.cast(call.type)
        return rounded(argument, call.type, rounding, digits)

    return evaluate


def _digits(call: Call) -> int:
    digits = call.arguments[1]
    assert isinstance(digits, Literal)
    return int(str(digits.value))


def _order(call: Call) -> tuple[Order, ...]:
    """Rise in an integer or decimal; doubles are left out, as those of round are."""
    first = Order.NONE if is_floating(call.arguments[0].type) else Order.RISES
    return first, Order.NONE


def rounding_calls(expression: str) -> tuple[CatalystCall, ...]:
    """Return how Spark rounds; outside of ANSI mode it wraps whole numbers around."""
    in_ansi_mode = failing_call(expression, ANY, CONSTANT, ansiEnabled="true")
    return in_ansi_mode + failing_call(expression, NO_WHOLE_NUMBER, CONSTANT)


def _to_digits_text(call: Call, write: Writer) -> str:
    name = call.function.removesuffix("_to_digits")
    return f"{name}({', '.join(map(write, call.arguments))})"


def _record(rounding: Rounding, *spellings: Spelling, **more: Any) -> ScalarFunction:
    """Return the record of a function that raises where the rounded number does not fit."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=rounding_to_digits(rounding),
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=_order,
        **more,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "bround": _record(
        Rounding.HALF_EVEN,
        Spelling("bround", _build_bround, 1, 2, catalyst=rounding_calls("BRound")),
    ),
    "floor_to_digits": _record(Rounding.FLOOR, text=_to_digits_text),
    "ceil_to_digits": _record(Rounding.CEILING, text=_to_digits_text),
}
