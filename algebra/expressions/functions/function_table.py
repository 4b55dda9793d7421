"""The closed table of scalar functions: those that nodes call, and those that SQL may contain."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions import joined_values
from projseg.algebra.expressions.coercion import is_floating
from projseg.algebra.expressions.functions import (
    arithmetic,
    arrays,
    casts,
    comparison,
    conditional,
    digit_texts,
    numeric,
    pattern_functions,
    rounding,
    row_hashes,
    strings,
    text_changes,
    text_match,
    text_parts,
    trying,
)
from projseg.algebra.expressions.functions.scalar_function import ScalarFunction, Spelling
from projseg.algebra.expressions.functions.time import (
    calendar,
    time_construction,
    time_fields,
    time_floor,
    time_texts,
)
from projseg.algebra.expressions.tree import Call, Column

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    **arithmetic.FUNCTIONS,
    **arrays.FUNCTIONS,
    **conditional.FUNCTIONS,
    **calendar.FUNCTIONS,
    **casts.FUNCTIONS,
    **comparison.FUNCTIONS,
    **digit_texts.FUNCTIONS,
    **row_hashes.FUNCTIONS,
    **joined_values.FUNCTIONS,
    **numeric.FUNCTIONS,
    **pattern_functions.FUNCTIONS,
    **rounding.FUNCTIONS,
    **strings.FUNCTIONS,
    **text_changes.FUNCTIONS,
    **text_match.FUNCTIONS,
    **text_parts.FUNCTIONS,
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


def parts_zeros(call: Call) -> bool:
    """Whether a call itself may differ for a double of 0.0 and of -0.0, which are one group."""
    return FUNCTIONS[call.function].parts_zeros(call) and any(
        isinstance(node, Column) and is_floating(node.type) for node in call.walk()
    )
