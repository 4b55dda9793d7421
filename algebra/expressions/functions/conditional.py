"""Three-valued logic, CASE, IF, COALESCE, NULLIF and NVL: arguments only for rows in need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.blocks import logic_steps as steps
from projseg.algebra.expressions.blocks.block_builder import LazyForm
from projseg.algebra.expressions.catalyst_call import ANY, spark_call, spark_call_of_all
from projseg.algebra.expressions.coercion import cast_to, unify
from projseg.algebra.expressions.functions.comparison import comparison, membership_text
from projseg.algebra.expressions.functions.datum import Datum, as_array, true_mask, valid_mask
from projseg.algebra.expressions.functions.scalar_function import (
    Lazy,
    Nulls,
    Operands,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    ordered,
    unordered,
    written_infix,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.segment_format.arrow_arrays import filled_values, primitive_array, scalar_of


def logical(function: str, arguments: Sequence[Expression], zone: str) -> Expression:
    """Return the node of AND, OR or NOT over operands cast to boolean."""
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


def _connective(in_blocks: LazyForm) -> ScalarFunction:
    return ScalarFunction(
        evaluate=Lazy(_all_or_any),
        in_blocks=in_blocks,
        nulls=Nulls.OWN,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=written_infix,
    )


def case_when(
    branches: Sequence[tuple[Expression, Expression]], default: Expression | None, zone: str
) -> Expression:
    """Return the node of CASE, whose arguments are condition, value, ..., and the default."""
    last = default if default is not None else Literal(pa.null(), None)
    *values, otherwise = unify([*(value for _, value in branches), last], "CASE", zone)
    arguments: list[Expression] = []
    for (condition, _), value in zip(branches, values, strict=True):
        arguments += [cast_to(condition, pa.bool_(), zone), value]
    return Call(otherwise.type, "case", (*arguments, otherwise))


def _build_if(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return case_when([(arguments[0], arguments[1])], arguments[2], zone)


def _build_coalesce(arguments: tuple[Expression, ...], zone: str) -> Expression:
    first, *others = unify(arguments, "COALESCE", zone)
    return Call(first.type, "coalesce", (first, *others))


def _build_nullif(arguments: tuple[Expression, ...], zone: str) -> Expression:
    left, right = arguments
    null = Literal(left.type, None)
    return case_when([(comparison("=", left, right, zone), null)], left, zone)


def _build_nvl2(arguments: tuple[Expression, ...], zone: str) -> Expression:
    tested, present, absent = arguments
    is_null = Call(pa.bool_(), "is_null", (tested,))
    return case_when([(is_null, absent)], present, zone)


def _case(call: Call, operands: Operands) -> pa.Array:
    *pairs, default = call.arguments
    open_rows = np.ones(operands.row_count, dtype=np.bool_)
    conditions, values = [], []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        found = operands.value_where(condition, open_rows)
        taken = true_mask(found, operands.row_count) & open_rows
        conditions.append(primitive_array(taken))
        values.append(operands.value_where(value, taken))
        open_rows &= ~taken
    otherwise = operands.value_where(default, open_rows)
    names = [f"condition_{index}" for index in range(len(conditions))]
    chosen = pa.StructArray.from_arrays(conditions, names)
    return pc.case_when(chosen, *values, otherwise)


def _case_text(call: Call, write: Writer) -> str:
    *pairs, default = map(write, call.arguments)
    whens = [f"WHEN {c} THEN {v}" for c, v in zip(pairs[::2], pairs[1::2], strict=True)]
    return f"CASE {' '.join(whens)} ELSE {default} END"


def _coalesce(call: Call, operands: Operands) -> pa.Array:
    first, *others = call.arguments
    result = as_array(operands.value(first), operands.row_count)
    for argument in others:
        missing = ~valid_mask(result, operands.row_count)
        if not missing.any():
            break
        result = pc.coalesce(result, operands.value_where(argument, missing))
    return result


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "and": _connective(steps.all_of),
    "or": _connective(steps.any_of),
    "not": ScalarFunction(
        evaluate=_not,
        in_blocks=steps.is_not,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=ordered(Order.FALLS),
        text=_not_text,
    ),
    "case": ScalarFunction(
        spellings=(
            Spelling(
                "if", _build_if, 3, 3, druid_names=("if",), catalyst=spark_call("If", ANY, ANY, ANY)
            ),
            Spelling("nullif", _build_nullif, 2, 2),
            Spelling("nvl2", _build_nvl2, 3, 3),
        ),
        evaluate=Lazy(_case),
        in_blocks=steps.case,
        nulls=Nulls.OWN,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=_case_text,
    ),
    "coalesce": ScalarFunction(
        spellings=(
            Spelling(
                "coalesce",
                _build_coalesce,
                1,
                1000,
                druid_names=("coalesce", "nvl"),
                catalyst=spark_call_of_all("Coalesce", ANY),
            ),
            Spelling("nvl", _build_coalesce, 2, 2, aliases=("ifnull",)),
        ),
        evaluate=Lazy(_coalesce),
        in_blocks=steps.coalesce,
        nulls=Nulls.OWN,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
    ),
}
