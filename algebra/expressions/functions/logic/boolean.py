"""Three-valued logic: operands that may fail are computed only for rows still undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import Datum
from projseg.algebra.expressions.functions.logic.comparison import membership_text
from projseg.algebra.expressions.functions.scalar_function import (
    Lazy,
    Nulls,
    Operands,
    Order,
    ScalarFunction,
    Writer,
    always,
    never,
    ordered,
    unordered,
    written_infix,
)
from projseg.algebra.expressions.tree import Call, Expression
from projseg.segment_format.vectors.arrow_arrays import filled_values, scalar_of


def logical(function: str, arguments: Sequence[Expression], zone: str) -> Expression:
    """Return the node of AND, OR or NOT over operands cast to boolean.

    Raises
    ------
    InvalidInputError
        If an operand cannot be cast to boolean.
    """
    return Call(pa.bool_(), function, tuple(cast_to(a, pa.bool_(), zone) for a in arguments))


def _all_or_any(call: Call, operands: Operands) -> pa.Array:
    is_and = call.function == "and"
    combine = pc.and_kleene if is_and else pc.or_kleene
    result = pa.repeat(scalar_of(is_and, pa.bool_()), operands.row_count)
    for operand in call.arguments:
        if operands.may_fail(operand):
            decided = filled_values(result, is_and) != is_and
            value = operands.value_where(operand, ~decided)
        else:
            value = operands.value(operand)
        result = combine(result, value)
    return result


def _not(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    return pc.invert(arguments[0])


def _not_text(call: Call, write: Writer) -> str:
    inner = call.arguments[0]
    if isinstance(inner, Call) and inner.function == "is_null":
        return f"({write(inner.arguments[0])} IS NOT NULL)"
    if isinstance(inner, Call) and inner.function == "in":
        return membership_text(inner, write, " NOT IN ")
    return f"(NOT {write(inner)})"


_CONNECTIVE: Final = ScalarFunction(
    evaluate=Lazy(_all_or_any),
    nulls=Nulls.OWN,
    null_only_from_null=always,
    may_fail=never,
    order=unordered,
    text=written_infix,
)

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "and": _CONNECTIVE,
    "or": _CONNECTIVE,
    "not": ScalarFunction(
        evaluate=_not,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=ordered(Order.FALLS),
        text=_not_text,
    ),
}
