"""Which expressions may raise for some value, and so must not be computed where not asked for."""

from __future__ import annotations

from projseg.algebra.expressions.functions.table import FUNCTIONS
from projseg.algebra.expressions.tree import Call, Expression


def may_fail(expression: Expression) -> bool:
    """Whether evaluating it may raise an EvaluationError for some row."""
    calls = (node for node in expression.walk() if isinstance(node, Call))
    return any(FUNCTIONS[call.function].may_fail(call) for call in calls)
