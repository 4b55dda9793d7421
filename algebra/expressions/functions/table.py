"""The closed table of functions: what may be written, and how each node is evaluated."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions.functions import (
    arithmetic,
    boolean,
    calendar,
    casts,
    comparison,
    conditional,
    numeric,
    patterns,
    struct,
    text,
    text_shapes,
    time_bucket,
    time_fields,
    time_floor,
)
from projseg.algebra.expressions.functions.rule import Evaluator, Rule

RULES: Final[dict[str, Rule]] = {
    **arithmetic.RULES,
    **calendar.RULES,
    **comparison.RULES,
    **conditional.RULES,
    **numeric.RULES,
    **patterns.RULES,
    **text.RULES,
    **text_shapes.RULES,
    **time_fields.RULES,
    **time_bucket.RULES,
    **time_floor.RULES,
}
"""Name as written, lower case -> its type rule."""

EVALUATORS: Final[dict[str, Evaluator]] = {
    **arithmetic.EVALUATORS,
    **boolean.EVALUATORS,
    **calendar.EVALUATORS,
    **casts.EVALUATORS,
    **comparison.EVALUATORS,
    **numeric.EVALUATORS,
    **patterns.EVALUATORS,
    **struct.EVALUATORS,
    **text.EVALUATORS,
    **text_shapes.EVALUATORS,
    **time_fields.EVALUATORS,
    **time_bucket.EVALUATORS,
    **time_floor.EVALUATORS,
}
"""Node's function -> its evaluation; `lazy` adds those that choose what they compute."""
