"""Conversion between a boolean expression and the conditions whose AND it is."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.literals import TRUE
from projseg.algebra.expressions.tree import Call, Column, Expression


def conjuncts(expression: Expression | None) -> tuple[Expression, ...]:
    """Return the conditions whose AND is the expression; None and TRUE have no conditions.

    A boolean column that stands alone becomes `column = TRUE`, which keeps the same rows.
    """
    if expression is None or expression == TRUE:
        return ()
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(_condition(argument) for argument in expression.arguments)
    return (_condition(expression),)


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """Return the AND of conditions in canonical form; None without conditions."""
    conditions = tuple(parts)
    if not conditions:
        return None
    return canonical(Call(pa.bool_(), "and", conditions)) if len(conditions) > 1 else conditions[0]


def not_null(expression: Expression) -> Expression:
    """Return the condition that an expression is not null."""
    return Call(pa.bool_(), "not", (Call(pa.bool_(), "is_null", (expression,)),))


def _condition(expression: Expression) -> Expression:
    if isinstance(expression, Column):
        return Call(pa.bool_(), "=", (expression, TRUE))
    return expression
