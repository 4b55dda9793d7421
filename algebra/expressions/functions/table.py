"""The closed table of scalar functions: those that nodes call, and those that SQL may contain."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions.functions import (
    arithmetic,
    arrays,
    boolean,
    calendar,
    casts,
    comparison,
    conditional,
    digests,
    distinct_sketches,
    numeric,
    patterns,
    quantile_sketches,
    rounding,
    row_hashes,
    struct,
    text,
    text_changes,
    text_parts,
    text_shapes,
    time_bucket,
    time_construction,
    time_fields,
    time_floor,
    time_texts,
    trying,
)
from projseg.algebra.expressions.functions.record import ScalarFunction, Spelling

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    **arithmetic.FUNCTIONS,
    **arrays.FUNCTIONS,
    **boolean.FUNCTIONS,
    **calendar.FUNCTIONS,
    **casts.FUNCTIONS,
    **comparison.FUNCTIONS,
    **conditional.FUNCTIONS,
    **digests.FUNCTIONS,
    **distinct_sketches.FUNCTIONS,
    **numeric.FUNCTIONS,
    **patterns.FUNCTIONS,
    **quantile_sketches.FUNCTIONS,
    **rounding.FUNCTIONS,
    **row_hashes.FUNCTIONS,
    **struct.FUNCTIONS,
    **text.FUNCTIONS,
    **text_changes.FUNCTIONS,
    **text_parts.FUNCTIONS,
    **text_shapes.FUNCTIONS,
    **time_bucket.FUNCTIONS,
    **time_construction.FUNCTIONS,
    **time_fields.FUNCTIONS,
    **time_floor.FUNCTIONS,
    **time_texts.FUNCTIONS,
    **trying.FUNCTIONS,
}
"""From the function of a node to its record."""

SPELLINGS: Final[dict[str, Spelling]] = {
    name: spelling
    for function in FUNCTIONS.values()
    for spelling in function.spellings
    for name in (spelling.name, *spelling.aliases)
}
"""From the name in SQL, lower case, to how a call becomes a node."""
