"""The closed table of scalar functions: those that nodes call, and those that SQL may contain."""

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
    text_parts,
    text_shapes,
    time_bucket,
    time_fields,
    time_floor,
)
from projseg.algebra.expressions.functions.record import ScalarFunction, Spelling

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    **arithmetic.FUNCTIONS,
    **boolean.FUNCTIONS,
    **calendar.FUNCTIONS,
    **casts.FUNCTIONS,
    **comparison.FUNCTIONS,
    **conditional.FUNCTIONS,
    **numeric.FUNCTIONS,
    **patterns.FUNCTIONS,
    **struct.FUNCTIONS,
    **text.FUNCTIONS,
    **text_parts.FUNCTIONS,
    **text_shapes.FUNCTIONS,
    **time_bucket.FUNCTIONS,
    **time_fields.FUNCTIONS,
    **time_floor.FUNCTIONS,
}
"""From the function of a node to its record."""

SPELLINGS: Final[dict[str, Spelling]] = {
    name: spelling
    for function in FUNCTIONS.values()
    for spelling in function.spellings
    for name in (spelling.name, *spelling.aliases)
}
"""From the name in SQL, lower case, to how a call becomes a node."""
