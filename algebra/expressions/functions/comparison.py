"""Comparisons in Spark's order: NaN is greatest and equals itself, -0.0 is 0.0, text by bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.blocks import logic_steps as steps
from projseg.algebra.expressions.blocks.block_builder import Form
from projseg.algebra.expressions.catalyst_call import ANY, spark_call
from projseg.algebra.expressions.coercion import (
    bad_expression,
    cast_to,
    common_type,
    decimal_for,
    is_decimal,
    is_floating,
    is_numeric,
    unify,
)
from projseg.algebra.expressions.functions.datum import (
    SEARCHED_TEXTS_MIN,
    Datum,
    plain_floats,
    searched,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    ordered,
    unordered,
    written_as_call,
    written_infix,
)
from projseg.algebra.expressions.tree import (
    TRUE,
    UNKNOWN,
    Call,
    Expression,
    Literal,
    literal_scalar,
)
from projseg.segment_format.arrow_arrays import scalar_of
from projseg.segment_format.logical_types import is_nested, is_text, type_name

_SEARCHED_OPTIONS_MAX: Final = 3  # a search of more takes longer than to hash every text

OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The comparison that is true where the key is false; both are null together."""
SWAPPED: Final = {"=": "=", "!=": "!=", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that means the same with its operands exchanged."""


def comparison(function: str, left: Expression, right: Expression, zone: str) -> Expression:
    """Return the node of a comparison of two operands, not nested, cast to their common type."""
    for side in (left, right):
        if is_nested(side.type):
            raise bad_expression(f"'{function}' cannot compare {type_name(side.type)}")
    if is_decimal(left.type) or is_decimal(right.type):
        both = _as_decimals(left, right)
        if both is not None:
            return Call(pa.bool_(), function, both)
    both = unify((left, right), f"'{function}'", zone)
    if both[0].type == pa.null():
        both = (UNKNOWN, UNKNOWN)
    return Call(pa.bool_(), function, both)


def _as_decimals(left: Expression, right: Expression) -> tuple[Expression, ...] | None:
    """Return both as decimals of their own precision, which compare exactly; None for other types.

    If no decimal type of 38 digits holds both, Spark rounds both to one that keeps whole digits.
    """
    if not (is_numeric(left.type) and is_numeric(right.type)):
        return None
    if is_floating(left.type) or is_floating(right.type):
        return None
    exact = [cast_to(side, decimal_for(side), "UTC") for side in (left, right)]
    common = common_type(exact[0].type, exact[1].type)
    assert common is not None  # of two decimals
    if common.scale < max(side.type.scale for side in exact):
        exact = [cast_to(side, common, "UTC") for side in exact]
    return tuple(exact)


def membership(value: Expression, options: Sequence[Expression], zone: str) -> Expression:
    """Return the node of `value IN (options)`, none nested, all cast to their common type."""
    if any(is_nested(side.type) for side in (value, *options)):
        raise bad_expression("IN cannot compare arrays, structs or maps")
    arguments = unify((value, *options), "IN", zone)
    return Call(pa.bool_(), "in", arguments)


def _compare(test: Callable[[Any, Any], Any]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        left, right = map(_comparable, arguments)
        return test(left, right)

    return evaluate


def _comparable(datum: Datum) -> Datum:
    """Return booleans as numbers, which Arrow can order, and other types unchanged."""
    return datum.cast(pa.int8()) if pa.types.is_boolean(datum.type) else datum


def equal(left: Datum, right: Datum) -> Any:
    """Return where the values are equal; null where one is null."""
    if _are_searched(left) and isinstance(right, pa.Scalar) and right.is_valid:
        return searched(left, list(right.as_buffer()))
    same = pc.equal(left, right)
    if is_floating(left.type) and _may_be_nan(left) and _may_be_nan(right):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same


def _are_searched(datum: Datum) -> bool:
    return isinstance(datum, pa.Array) and is_text(datum.type) and len(datum) >= SEARCHED_TEXTS_MIN


def less(left: Datum, right: Datum) -> Any:
    """Return where the left value sorts before the right one; null where one is null."""
    before = pc.less(left, right)
    if is_floating(left.type) and _may_be_nan(right):
        before = pc.or_(before, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return before


def _may_be_nan(datum: Datum) -> bool:
    return not isinstance(datum, pa.Scalar) or datum.as_py() != datum.as_py()


def _evaluate_null_safe(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return, as bool[row_count], where both are null, or neither is null and they are equal."""
    left, right = map(_comparable, arguments)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(pc.fill_null(equal(left, right), scalar_of(False, pa.bool_())), both_null)


def _evaluate_in(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return, as bool[row_count], where the value is one of the constants; null where it is null.

    As in SQL, a null among the constants makes the result null where it would be false.
    """
    value = arguments[0]
    constants = [option for option in call.arguments[1:] if isinstance(option, Literal)]
    options = [literal_scalar(constant) for constant in constants if constant.value is not None]
    has_null = len(options) < len(constants)
    none = pa.nulls(0, call.arguments[0].type)
    option_values = pa.concat_arrays([none, *(pa.repeat(option, 1) for option in options)])
    if 0 < len(options) <= _SEARCHED_OPTIONS_MAX and _are_searched(value):
        found = reduce(pc.or_, (equal(value, option) for option in options))
    else:
        found = pc.is_in(plain_floats(value), value_set=plain_floats(option_values))
    if has_null:
        found = pc.or_kleene(found, scalar_of(None, pa.bool_()))
    return pc.if_else(pc.is_valid(value), found, scalar_of(None, pa.bool_()))


def _is_null(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.is_null(arguments[0])


def _is_nan(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.fill_null(pc.is_nan(arguments[0]), scalar_of(False, pa.bool_()))


def _build_null_test(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return Call(pa.bool_(), "is_null", arguments)


def _build_nan_test(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = arguments[0]
    wanted = argument.type if is_floating(argument.type) else pa.float64()
    return Call(pa.bool_(), "isnan", (cast_to(argument, wanted, zone),))


def is_true(argument: Expression, zone: str) -> Expression:
    """Return the node of `argument IS TRUE`."""
    return Call(pa.bool_(), "<=>", (cast_to(argument, pa.bool_(), zone), TRUE))


def membership_text(call: Call, write: Writer, joint: str = " IN ") -> str:
    """Return the text of IN; of NOT IN if `joint` is that."""
    value, *options = map(write, call.arguments)
    return f"({value}{joint}({', '.join(options)}))"


def _null_test_text(call: Call, write: Writer) -> str:
    return f"({write(call.arguments[0])} IS NULL)"


def _comparing(evaluate: Evaluator, in_blocks: Form, *orders: Order) -> ScalarFunction:
    return ScalarFunction(
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=ordered(*orders),
        canonical_folds_null=True,
        text=written_infix,
    )


def _never_null(
    evaluate: Evaluator,
    in_blocks: Form,
    text: Callable[[Call, Writer], str],
    *spellings: Spelling,
) -> ScalarFunction:
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.NEVER,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=text,
    )


_NONE, _RISES, _FALLS = Order.NONE, Order.RISES, Order.FALLS

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "=": _comparing(_compare(equal), steps.equal, _NONE, _NONE),
    "!=": _comparing(
        _compare(lambda a, b: pc.invert(equal(a, b))),
        steps.different,
        _NONE,
        _NONE,
    ),
    "<": _comparing(_compare(less), steps.less, _FALLS, _RISES),
    ">": _comparing(_compare(lambda a, b: less(b, a)), steps.greater, _RISES, _FALLS),
    "<=": _comparing(
        _compare(lambda a, b: pc.invert(less(b, a))),
        steps.not_greater,
        _FALLS,
        _RISES,
    ),
    ">=": _comparing(
        _compare(lambda a, b: pc.invert(less(a, b))),
        steps.not_less,
        _RISES,
        _FALLS,
    ),
    "<=>": _never_null(
        _evaluate_null_safe,
        steps.equal_or_both_null,
        written_infix,
        Spelling("equal_null", lambda a, z: comparison("<=>", a[0], a[1], z), 2, 2),
    ),
    "in": ScalarFunction(
        evaluate=_evaluate_in,
        in_blocks=steps.is_in,
        nulls=Nulls.OWN,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=membership_text,
    ),
    "is_null": _never_null(
        _is_null,
        steps.is_null,
        _null_test_text,
        Spelling("isnull", _build_null_test, 1, 1),
        Spelling(
            "isnotnull", lambda a, z: Call(pa.bool_(), "not", (_build_null_test(a, z),)), 1, 1
        ),
    ),
    "isnan": _never_null(
        _is_nan,
        steps.is_nan,
        written_as_call,
        Spelling("isnan", _build_nan_test, 1, 1, catalyst=spark_call("IsNaN", ANY)),
    ),
}
