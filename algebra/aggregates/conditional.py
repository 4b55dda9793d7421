"""Aggregates of CASE as aggregates with FILTER: `sum(CASE WHEN p THEN x END)` is a sum where p.

An aggregate that passes over nulls sees of such a CASE the rows where the condition is true, and
computes the value for them alone, which is what FILTER does. So both spellings are one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.fallible import may_fail
from projseg.algebra.expressions.literals import TRUE
from projseg.algebra.expressions.predicates import conjunction
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal

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
    if found is None or not _is_null(found.otherwise):
        return aggregate
    conditions = [_as_filter(found.condition)]
    if aggregate.filter is not None:
        if may_fail(aggregate.filter):
            return aggregate
        conditions.insert(0, aggregate.filter)
    is_counted = aggregate.function == "count" and is_value(found.value)
    arguments = () if is_counted else (found.value,)
    return with_filter(replace(aggregate, arguments=arguments, filter=conjunction(conditions)))


def _as_filter(condition: Expression) -> Expression:
    """Return a condition as FILTER has it: a boolean column stands alone there."""
    is_equality = isinstance(condition, Call) and condition.function == "="
    if is_equality and isinstance(condition.children[0], Column) and condition.children[1] == TRUE:
        return condition.children[0]
    return condition


def is_value(expression: Expression) -> bool:
    """Whether an expression is a constant that is not null."""
    return isinstance(expression, Literal) and expression.value is not None


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None
