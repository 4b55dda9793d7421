"""Arithmetic with Spark's result types; integers and decimals raise an error on overflow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.blocks import number_steps as steps
from projseg.algebra.expressions.blocks.block_builder import Form
from projseg.algebra.expressions.catalyst_call import ANY, failing_call
from projseg.algebra.expressions.coercion import (
    bounded_decimal,
    cast_to,
    common_type,
    decimal_for,
    is_decimal,
    is_floating,
    is_integral,
    is_numeric,
)
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    divide_by_zero,
    doubles,
    from_integers,
    integers,
    overflow,
    require_type,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import evaluate_decimals
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Nulls,
    Order,
    Orders,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    unordered,
    written_as_call,
    written_infix,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.segment_format.arrow_arrays import primitive_array, scalar_of
from projseg.segment_format.logical_types import type_name

_BIGINT_LEAST: Final = -(1 << 63)


def arithmetic(function: str, left: Expression, right: Expression, zone: str) -> Expression:
    """Return the node of `left function right` over numbers, with Spark's result type."""
    left, right = _as_numbers(function, left, right, zone)
    decimals = is_decimal(left.type) or is_decimal(right.type)
    if decimals and not (is_floating(left.type) or is_floating(right.type)):
        return _decimal_node(function, left, right, zone)
    operands = _operand_type(function, left, right)
    if function == "div":
        require_type(not is_floating(left.type), "'div'", left, "whole numbers or decimals")
        require_type(not is_floating(right.type), "'div'", right, "whole numbers or decimals")
    both = (cast_to(left, operands, zone), cast_to(right, operands, zone))
    return Call(operands, function, both)


def _as_numbers(
    function: str, left: Expression, right: Expression, zone: str
) -> tuple[Expression, Expression]:
    sides = []
    for side, other in ((left, right), (right, left)):
        if side.type in (pa.string(), pa.null()):
            other_type = other.type if is_numeric(other.type) else pa.float64()
            wanted = common_type(side.type, other_type) or pa.float64()
            sides.append(cast_to(side, wanted, zone))
        else:
            require_type(is_numeric(side.type), f"'{function}'", side, "numbers")
            sides.append(side)
    return sides[0], sides[1]


def _operand_type(function: str, left: Expression, right: Expression) -> pa.DataType:
    if function == "/":
        return pa.float64()
    return pa.int64() if function == "div" else common_type(left.type, right.type)


def _decimal_node(function: str, left: Expression, right: Expression, zone: str) -> Expression:
    types = decimal_for(left), decimal_for(right)
    both = tuple(cast_to(s, t, zone) for s, t in zip((left, right), types, strict=True))
    if function == "div":
        return Call(pa.int64(), function, both)
    return Call(_decimal_result(function, *types), function, both)


def _decimal_result(function: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of arithmetic over two decimals (Spark's DecimalPrecision rules)."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if function in ("+", "-"):
        return bounded_decimal(whole + scale + 1, scale)
    if function == "*":
        return bounded_decimal(left.precision + right.precision + 1, left.scale + right.scale)
    if function == "/":
        digits = max(6, left.scale + right.precision + 1)
        return bounded_decimal(left.precision - left.scale + right.scale + digits, digits)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale, scale)


def negative(argument: Expression, zone: str) -> Expression:
    """Return the node of `-argument`, which is a number."""
    if argument.type in (pa.string(), pa.null()):
        argument = cast_to(argument, pa.float64(), zone)
    require_type(is_numeric(argument.type), "negative", argument, "a number")
    return Call(argument.type, "negative", (argument,))


def _exact(kernel: Callable[[Any, Any], Any]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        if is_decimal(call.type):
            return evaluate_decimals(call, arguments, row_count)
        try:
            return kernel(arguments[0], arguments[1])
        except pa.ArrowInvalid as error:
            raise _left_type(call) from error

    return evaluate


def _left_type(call: Call) -> Exception:
    return overflow(
        f"'{call.function}' gives a value outside {type_name(call.type)}; cast to a wider type"
    )


def _divide(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    if is_decimal(call.type):
        return evaluate_decimals(call, arguments, row_count)
    left, right = arguments
    _refuse_zero(call, left, right)
    return pc.divide(left, right)


def _refuse_zero(call: Call, left: Datum, right: Datum) -> None:
    zero = pc.and_(pc.equal(right, scalar_of(0, right.type)), pc.is_valid(left))
    if zero.as_py() if isinstance(zero, pa.Scalar) else pc.any(zero).as_py():
        raise divide_by_zero(call)


def _whole_divide(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    if is_decimal(arguments[0].type):
        return evaluate_decimals(call, arguments, row_count)
    _refuse_zero(call, *arguments)
    left, right = (integers(argument, row_count) for argument in arguments)
    valid = all_valid(arguments, row_count)
    if np.any(valid & (left == _BIGINT_LEAST) & (right == -1)):
        raise _left_type(call)
    right = np.where(valid, right, 1)
    quotient = np.floor_divide(left, right)
    inexact = (quotient * right != left) & (quotient < 0)
    return from_integers(quotient + inexact, valid, pa.int64())


def _remainder(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    if is_decimal(call.type):
        return evaluate_decimals(call, arguments, row_count)
    _refuse_zero(call, *arguments)
    valid = all_valid(arguments, row_count)
    convert: Callable[[Datum, int], Any] = doubles if is_floating(call.type) else integers
    left, right = (convert(argument, row_count) for argument in arguments)
    right = np.where(valid, right, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        rest = np.fmod(left, right)
        if call.function == "pmod":
            moved = rest + right
            if call.type == pa.int32():
                moved = moved.astype(np.int32)  # wraps, as Java's sum of two ints does
            rest = np.where(rest < 0, np.fmod(moved, right), rest)
    if is_integral(call.type):
        return from_integers(rest, valid, call.type)
    return primitive_array(rest, valid).cast(call.type)


def _negate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    try:
        return pc.negate_checked(arguments[0])
    except pa.ArrowInvalid as error:
        raise _left_type(call) from error


def _sign(operand: Expression) -> int:
    """Return the sign of a finite constant that is not zero, else 0."""
    value = operand.value if isinstance(operand, Literal) else None
    if not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return 0
    return (value > 0) - (value < 0)


def _is_monotone_beside(operand: Expression) -> bool:
    """Whether x + operand rises in x. For doubles inf + -inf is NaN, which is above all numbers."""
    is_finite = _sign(operand) != 0 or (isinstance(operand, Literal) and operand.value == 0)
    return is_finite or not is_floating(operand.type)


def is_never_nan(number: Expression) -> bool:
    """Whether a number is exact, or made in double of exact ones and finite constants."""
    if not isinstance(number, Call):
        return _is_exact_type(number.type) or _sign(number) != 0
    if number.function == "cast":
        return all(map(is_never_nan, number.arguments))
    if number.function in ("+", "-", "*", "/") and is_floating(number.type):
        left, right = number.arguments
        return _sign(right) != 0 and is_never_nan(left)
    return _is_exact_type(number.type)


def _is_exact_type(type_: pa.DataType) -> bool:
    kinds = pa.types.is_integer, pa.types.is_decimal, pa.types.is_timestamp
    return any(is_of(type_) for is_of in kinds)


def _sum_order(call: Call) -> tuple[Order, ...]:
    left, right = call.arguments
    beside = (right, left)
    return tuple(Order.RISES if _is_monotone_beside(other) else Order.NONE for other in beside)


def _difference_order(call: Call) -> tuple[Order, ...]:
    left = Order.RISES if _is_monotone_beside(call.arguments[1]) else Order.NONE
    return left, Order.NONE if is_floating(call.type) else Order.FALLS


def _scaled_order(argument: Expression, factor: Expression) -> Order:
    """Return the order in an argument that a constant multiplies or divides."""
    sign = _sign(factor)
    if sign > 0:
        return Order.RISES
    return Order.FALLS if sign < 0 and not is_floating(argument.type) else Order.NONE


def _product_order(call: Call) -> tuple[Order, ...]:
    left, right = call.arguments
    return _scaled_order(left, right), _scaled_order(right, left)


def _quotient_order(call: Call) -> tuple[Order, ...]:
    return _scaled_order(*call.arguments), Order.NONE


def _negative_order(call: Call) -> tuple[Order, ...]:
    return (Order.NONE if is_floating(call.type) else Order.FALLS,)


def is_exact(call: Call) -> bool:
    """Whether its values are integers or decimals, which may overflow."""
    return not is_floating(call.type)


def _checked(evaluate: Evaluator, in_blocks: Form, order: Orders) -> ScalarFunction:
    """Return the record of an operation that raises where its exact value overflows."""
    return ScalarFunction(
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=is_exact,
        order=order,
        canonical_folds_null=True,
        text=written_infix,
    )


def _division(
    evaluate: Evaluator,
    in_blocks: Form,
    order: Orders,
    text: Callable[[Call, Writer], str],
    *spellings: Spelling,
) -> ScalarFunction:
    """Return the record of an operation that raises where the right operand is zero."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=order,
        canonical_folds_null=True,
        text=text,
    )


def _pair(name: str, function: str, **names: Any) -> Spelling:
    return Spelling(name, lambda a, z: arithmetic(function, a[0], a[1], z), 2, 2, **names)


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "+": _checked(_exact(pc.add_checked), steps.add, _sum_order),
    "-": _checked(_exact(pc.subtract_checked), steps.subtract, _difference_order),
    "*": _checked(_exact(pc.multiply_checked), steps.multiply, _product_order),
    "/": _division(_divide, steps.divide, _quotient_order, written_infix),
    "div": _division(
        _whole_divide,
        steps.whole_divide,
        _quotient_order,
        written_infix,
        _pair("div", "div"),
    ),
    "%": _division(_remainder, steps.remainder, unordered, written_infix, _pair("mod", "%")),
    "pmod": _division(
        _remainder,
        steps.positive_remainder,
        unordered,
        written_as_call,
        _pair("pmod", "pmod", catalyst=failing_call("Pmod", ANY, ANY, evalMode="ANSI")),
    ),
    "negative": ScalarFunction(
        spellings=(
            Spelling("negative", lambda a, z: negative(a[0], z), 1, 1),
            Spelling("positive", lambda a, z: negative(a[0], z).children[0], 1, 1),
        ),
        evaluate=_negate,
        in_blocks=steps.negative,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=is_exact,
        order=_negative_order,
    ),
}
