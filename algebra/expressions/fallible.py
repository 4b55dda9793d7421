"""Which expressions may fail for some value; they are computed only for rows that need them."""

from __future__ import annotations

from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.tree import Call, Expression


def may_fail(expression: Expression) -> bool:
    """Whether evaluating it may raise an EvaluationError for some row."""
    calls = (node for node in expression.walk() if isinstance(node, Call))
    return any(FUNCTIONS[call.function].may_fail(call) for call in calls)
