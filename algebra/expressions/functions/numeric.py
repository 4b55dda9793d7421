"""Numbers: absolute value, sign, rounding, the least and greatest of several, bits and roots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks import number_steps as steps
from projseg.algebra.expressions.blocks.block_builder import Form
from projseg.algebra.expressions.catalyst_call import (
    ANY,
    CONSTANT,
    DOUBLE,
    failing_call,
    spark_call,
    spark_call_of_all,
)
from projseg.algebra.expressions.coercion import (
    bounded_decimal,
    cast_to,
    is_decimal,
    is_integral,
    is_numeric,
    unify,
)
from projseg.algebra.expressions.functions.arithmetic import is_exact, is_never_nan
from projseg.algebra.expressions.functions.comparison import less
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    doubles,
    from_integers,
    integers,
    overflow,
    require_type,
    valid_mask,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import rounded
from projseg.algebra.expressions.functions.rounding import (
    digits_of,
    number_argument,
    rounded_type,
    rounding_calls,
    rounding_to_digits,
    to_digits,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Inverse,
    NoBlocks,
    Nulls,
    Order,
    Orders,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    ordered,
    rising,
    unordered,
    written_as_call,
    written_infix,
    written_prefix,
)
from projseg.algebra.expressions.inverses import whole
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.kernels.decimals.wide_arithmetic import Rounding
from projseg.segment_format.arrow_arrays import primitive_array, scalar_of
from projseg.segment_format.logical_types import (
    is_nested,
    type_name,
)


def _build_abs(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = number_argument("abs", arguments[0], zone)
    return Call(argument.type, "abs", (argument,))


def _doubles(function: str, arguments: tuple[Expression, ...], zone: str) -> tuple[Expression, ...]:
    numbers = (number_argument(function, argument, zone) for argument in arguments)
    return tuple(cast_to(number, pa.float64(), zone) for number in numbers)


def _to_double(function: str, count: int = 1, **names: Any) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        numbers = [
            cast_to(number_argument(function, a, zone), pa.float64(), zone) for a in arguments
        ]
        return Call(pa.float64(), function, tuple(numbers))

    return Spelling(function, build, count, count, **names)


def _to_whole(function: str, **names: Any) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        if len(arguments) > 1:
            return to_digits(function, arguments, zone)
        argument = number_argument(function, arguments[0], zone)
        if is_integral(argument.type):
            return cast_to(argument, pa.int64(), zone)
        wanted = pa.int64()
        if is_decimal(argument.type):
            digits = argument.type.precision - argument.type.scale
            wanted = bounded_decimal(digits + (argument.type.scale > 0), 0)
        return Call(wanted, function, (argument,))

    return Spelling(function, build, 1, 2, **names)


def _build_log(arguments: tuple[Expression, ...], zone: str) -> Expression:
    function = "log" if len(arguments) > 1 else "ln"
    return Call(pa.float64(), function, _doubles("log", arguments, zone))


def _build_round(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = number_argument("round", arguments[0], zone)
    digits = digits_of("round", arguments)
    wanted = rounded_type(argument.type, digits)
    return Call(wanted, "round", (argument, Literal(pa.int32(), digits)))


def _of_several(function: str, expression: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        values = unify(arguments, function, zone)
        if values[0].type == pa.null():
            return Literal(pa.null(), None)
        is_ordered = not is_nested(values[0].type)
        require_type(is_ordered, function, values[0], "values of a type with an order")
        return Call(values[0].type, function, values)

    return Spelling(function, build, 2, 1000, catalyst=spark_call_of_all(expression, ANY))


def bitwise(function: str, left: Expression, right: Expression, zone: str) -> Expression:
    """Return the node of `left & right`, `|` or `^` over whole numbers."""
    both = unify((left, right), f"'{function}'", zone)
    require_type(is_integral(both[0].type), f"'{function}'", both[0], "whole numbers")
    return Call(both[0].type, function, both)


def bitwise_not(argument: Expression) -> Expression:
    """Return the node of `~argument`, which is a whole number."""
    require_type(is_integral(argument.type), "'~'", argument, "a whole number")
    return Call(argument.type, "~", (argument,))


def _shift(function: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        for argument in arguments:
            is_number = is_numeric(argument.type) or argument.type in (pa.string(), pa.null())
            require_type(is_number, function, argument, "numbers")
        value, places = arguments
        wanted = pa.int64() if value.type == pa.int64() else pa.int32()
        both = cast_to(value, wanted, zone), cast_to(places, pa.int32(), zone)
        return Call(wanted, function, both)

    return Spelling(function, build, 2, 2)


def _shifted(shift: Callable[..., Any], *, is_signed: bool = True) -> Evaluator:
    """Return an evaluator that takes the places modulo the width of the number, as Java does."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        width = call.type.bit_width
        kind = np.dtype(f"{'i' if is_signed else 'u'}{width // 8}")
        values, places = (integers(argument, row_count) for argument in arguments)
        found = shift(values.astype(kind), (places & (width - 1)).astype(kind))
        valid = all_valid(arguments, row_count)
        return from_integers(found.view(f"i{width // 8}"), valid, call.type)

    return evaluate


def _abs(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    try:
        return pc.abs_checked(arguments[0])
    except pa.ArrowInvalid as error:
        raise overflow(f"abs gives a value outside {type_name(call.type)}") from error


def _whole(is_floor: bool) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        argument = as_array(arguments[0], row_count)
        if is_decimal(call.type):
            return rounded(argument, call.type, Rounding.FLOOR if is_floor else Rounding.CEILING)
        valid = valid_mask(argument, row_count)
        values = doubles(argument, row_count)
        whole = np.nan_to_num(np.floor(values) if is_floor else np.ceil(values), nan=0.0)
        if not np.all(((whole >= -(2.0**63)) & (whole < 2.0**63)) | ~valid):
            raise overflow(f"{call.function} gives a value outside bigint")
        return from_integers(np.where(valid, whole, 0.0).astype(np.int64), valid, call.type)

    return evaluate


def _sign(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return the sign; a zero keeps its own, as in Java."""
    numbers = as_array(arguments[0], row_count)
    is_zero = pc.equal(numbers, scalar_of(0.0, numbers.type))
    return pc.if_else(is_zero, numbers, pc.sign(numbers))


def _extreme(is_least: bool) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        best = as_array(arguments[0], row_count)
        for datum in arguments[1:]:
            other = as_array(datum, row_count)
            is_better = less(other, best) if is_least else less(best, other)
            chosen = pc.if_else(pc.fill_null(is_better, scalar_of(False, pa.bool_())), other, best)
            best = pc.if_else(pc.is_valid(best), chosen, other)
        return best

    return evaluate


def _double_function(compute: Callable[..., Any], domain: Callable[..., Any]) -> Evaluator:
    """Return an evaluator over doubles that is null outside a domain, as Spark's logarithms are."""

    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        columns = [doubles(argument, row_count) for argument in arguments]
        with np.errstate(all="ignore"):
            valid = all_valid(arguments, row_count) & domain(*columns)
            values = compute(*columns)
        return primitive_array(np.where(valid, values, 0.0), valid)

    return evaluate


def _power(base: NDArray[np.float64], exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return powers as Java does: 1 to the power of NaN or an infinity is NaN, where C has 1."""
    is_unknown = np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent))
    return np.where(is_unknown, np.nan, np.power(base, exponent))


def _everywhere(*columns: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.ones(len(columns[0]), dtype=np.bool_)


def _above_zero(*columns: NDArray[np.float64]) -> NDArray[np.bool_]:
    above = [~(column <= 0) for column in columns]
    return np.asarray(np.logical_and.reduce(above), dtype=np.bool_)


def _kernel(kernel: Callable[..., Any]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        return kernel(*arguments)

    return evaluate


def _record(
    evaluate: Evaluator,
    *spellings: Spelling,
    in_blocks: Form | NoBlocks = NoBlocks.COLUMNS,
    null_only_from_null: Callable[[Call], bool] = always,
    may_fail: Callable[[Call], bool] = always,
    order: Orders = unordered,
    text: Callable[[Call, Writer], str] = written_as_call,
) -> ScalarFunction:
    """Return the record of a function of numbers.

    Few of them raise, but stored hashes contain conditions in an order that assumed they may.
    """
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=null_only_from_null,
        may_fail=may_fail,
        order=order,
        text=text,
    )


def _rises_without_nan(call: Call) -> tuple[Order, ...]:
    """Rise in all numbers but NaN, which is above all others and becomes 0."""
    first = Order.RISES if is_never_nan(call.arguments[0]) else Order.NONE
    return (first, *[Order.NONE] * (len(call.arguments) - 1))


def _rounding(
    evaluate: Evaluator, spelling: Spelling, inverse: Inverse | None = None
) -> ScalarFunction:
    """Return the record of a function that raises where the rounded number overflows."""
    record = _record(evaluate, spelling, null_only_from_null=never, order=_rises_without_nan)
    return replace(record, inverse=inverse)


def _extreme_of(is_least: bool, spelling: Spelling) -> ScalarFunction:
    return replace(_record(_extreme(is_least), spelling), nulls=Nulls.OWN)


def _logarithm(compute: Callable[..., Any], spelling: Spelling) -> ScalarFunction:
    """Return the record of a function that is null where it is not defined."""
    evaluate = _double_function(compute, _above_zero)
    return _record(evaluate, spelling, null_only_from_null=never)


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "abs": _record(
        _abs,
        Spelling("abs", _build_abs, 1, 1, druid_names=("abs",)),
        in_blocks=steps.absolute,
        may_fail=is_exact,
    ),
    "sign": _record(
        _sign,
        _to_double("sign", aliases=("signum",), catalyst=spark_call("Signum", DOUBLE)),
        may_fail=never,
        order=rising,
    ),
    "floor": _rounding(
        _whole(True),
        _to_whole(
            "floor",
            druid_names=("floor",),
            catalyst=failing_call("Floor", ANY) + failing_call("RoundFloor", ANY, CONSTANT),
        ),
        whole(is_floor=True),
    ),
    "ceil": _rounding(
        _whole(False),
        _to_whole(
            "ceil",
            aliases=("ceiling",),
            druid_names=("ceil",),
            catalyst=failing_call("Ceil", ANY) + failing_call("RoundCeil", ANY, CONSTANT),
        ),
        whole(is_floor=False),
    ),
    "round": _rounding(
        rounding_to_digits(Rounding.HALF_UP),
        Spelling(
            "round", _build_round, 1, 2, druid_names=("round",), catalyst=rounding_calls("Round")
        ),
    ),
    "least": _extreme_of(True, _of_several("least", "Least")),
    "greatest": _extreme_of(False, _of_several("greatest", "Greatest")),
    "sqrt": _record(
        _double_function(np.sqrt, _everywhere), _to_double("sqrt", catalyst=spark_call("Sqrt", ANY))
    ),
    "exp": _record(_double_function(np.exp, _everywhere), _to_double("exp")),
    "ln": _logarithm(np.log, _to_double("ln")),
    "log10": _logarithm(np.log10, _to_double("log10")),
    "log2": _logarithm(np.log2, _to_double("log2")),
    "log": _logarithm(lambda base, x: np.log(x) / np.log(base), Spelling("log", _build_log, 1, 2)),
    "power": replace(
        _record(_double_function(_power, _everywhere), _to_double("power", 2, aliases=("pow",))),
        parts_zeros=always,
    ),
    "&": _record(_kernel(pc.bit_wise_and), text=written_infix),
    "|": _record(_kernel(pc.bit_wise_or), text=written_infix),
    "^": _record(_kernel(pc.bit_wise_xor), text=written_infix),
    "shiftleft": _record(_shifted(np.left_shift), _shift("shiftleft"), may_fail=never),
    "shiftright": _record(
        _shifted(np.right_shift),
        _shift("shiftright"),
        may_fail=never,
        order=ordered(Order.RISES, Order.NONE),
    ),
    "shiftrightunsigned": _record(
        _shifted(np.right_shift, is_signed=False), _shift("shiftrightunsigned"), may_fail=never
    ),
    "~": _record(_kernel(pc.bit_wise_not), order=ordered(Order.FALLS), text=written_prefix),
}
