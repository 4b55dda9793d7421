"""Aggregates of CASE as aggregates with FILTER: `sum(CASE WHEN p THEN x END)` is a sum where p.

An aggregate that passes over nulls sees of such a CASE the rows where the condition is true, and
computes the value for them alone, which is what FILTER does. So both spellings are one state. A sum
of any CASE is the sum over its branches, each with FILTER.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as replace_fields
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.canonical import canonical, conjunction, not_null
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.literals import TRUE
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal

_BRANCHES_MAX: Final = 16
_ARITHMETIC: Final = ("+", "-", "*", "negative", "cast")

_Aggregate = TypeVar("_Aggregate", AggregateCall, Primitive)


class Conditional(msgspec.Struct, frozen=True):
    """CASE WHEN condition THEN value ELSE otherwise END."""

    condition: Expression
    value: Expression
    otherwise: Expression


def conditional_of(arguments: Sequence[Expression]) -> Conditional | None:
    """Return the CASE of one condition that is the only argument; None if there is none."""
    if len(arguments) != 1:
        return None
    (argument,) = arguments
    if not isinstance(argument, Call) or argument.function != "case":
        return None
    if len(argument.arguments) != 3:
        return None
    return Conditional(*argument.arguments)


def with_filter(aggregate: _Aggregate) -> _Aggregate:
    """Return an equal aggregate with FILTER for each CASE that is null where it does not hold.

    An aggregate of a value and a time is returned as it is: it counts rows whose value is null. So
    is one whose own FILTER may fail, since that has to be computed for every row.

    Parameters
    ----------
    aggregate : AggregateCall or Primitive
        What may have a CASE as its only argument.
    """
    found = conditional_of(aggregate.arguments)
    if found is None or not is_null(found.otherwise):
        return aggregate
    conditions = [_as_filter(found.condition)]
    if aggregate.filter is not None:
        if may_fail(aggregate.filter):
            return aggregate
        conditions.insert(0, aggregate.filter)
    is_counted = aggregate.function == "count" and is_value(found.value)
    arguments = () if is_counted else (found.value,)
    return with_filter(replace(aggregate, arguments=arguments, filter=conjunction(conditions)))


class Branch(msgspec.Struct, frozen=True):
    """The value of an expression in the rows where a condition is true."""

    condition: Expression
    value: Expression


def branches_of(expression: Expression) -> tuple[Branch, ...]:
    """Return the branches of the first CASE or COALESCE in arithmetic; () if there is none.

    Of each row, one of the conditions is true, and the others are not.
    """
    found = _choice_in(expression)
    if found is None:
        return ()
    branches = tuple(_coalesced(found) if found.function == "coalesce" else _cases(found))
    if len(branches) > _BRANCHES_MAX:
        return ()
    return tuple(
        Branch(branch.condition, canonical(_with(expression, found, branch.value)))
        for branch in branches
    )


def values_by_branch(expression: Expression) -> Iterator[Expression]:
    """Yield an expression, and the values of its branches, and so on."""
    yield expression
    for branch in branches_of(expression):
        yield from values_by_branch(branch.value)


def values_of_choice(call: Call) -> tuple[Expression, ...]:
    """Return the values among which a CASE or COALESCE chooses."""
    if call.function == "coalesce":
        return call.arguments
    return (*call.arguments[1::2], call.arguments[-1])


def opposite_of(condition: Expression) -> Expression:
    """Return the condition that is true of the rows where another is not, and of no others."""
    if isinstance(condition, Call):
        if condition.function == "is_null":
            return not_null(condition.arguments[0])
        inner = condition.arguments[0]
        if condition.function == "not" and isinstance(inner, Call):
            if inner.function == "is_null":
                return inner
            if inner.function == "<=>" and inner.arguments[1] == TRUE:
                return inner.arguments[0]
    is_true = Call(pa.bool_(), "<=>", (condition, TRUE))
    return canonical(Call(pa.bool_(), "not", (is_true,)))


def _choice_in(expression: Expression) -> Call | None:
    if not isinstance(expression, Call):
        return None
    if expression.function in ("case", "coalesce"):
        return expression
    if expression.function not in _ARITHMETIC:
        return None
    found = map(_choice_in, expression.arguments)
    return next((choice for choice in found if choice is not None), None)


def _cases(call: Call) -> Iterator[Branch]:
    *pairs, otherwise = call.arguments
    before: list[Expression] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        yield Branch(conjunction((*before, _as_filter(condition))) or TRUE, value)
        before.append(opposite_of(_as_filter(condition)))
    yield Branch(conjunction(before) or TRUE, otherwise)


def _coalesced(call: Call) -> Iterator[Branch]:
    before: list[Expression] = []
    for argument in call.arguments[:-1]:
        yield Branch(conjunction((*before, not_null(argument))) or TRUE, argument)
        before.append(opposite_of(not_null(argument)))
    yield Branch(conjunction(before) or TRUE, call.arguments[-1])


def _with(expression: Expression, old: Expression, new: Expression) -> Expression:
    if expression == old:
        return new
    if not isinstance(expression, Call) or expression.function not in _ARITHMETIC:
        return expression
    arguments = tuple(_with(argument, old, new) for argument in expression.arguments)
    return replace_fields(expression, arguments=arguments)


def is_null(expression: Expression) -> bool:
    """Whether an expression is the constant null."""
    return isinstance(expression, Literal) and expression.value is None


def _as_filter(condition: Expression) -> Expression:
    """Return a condition as FILTER has it: a boolean column stands alone there."""
    is_equality = isinstance(condition, Call) and condition.function == "="
    if is_equality and isinstance(condition.children[0], Column) and condition.children[1] == TRUE:
        return condition.children[0]
    return condition


def is_value(expression: Expression) -> bool:
    """Whether an expression is a constant that is not null."""
    return isinstance(expression, Literal) and expression.value is not None
