"""The values that a sum of integer columns can have, and casts that only widen."""

from __future__ import annotations

import pyarrow as pa

from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.proofs.value_set import ANY_VALUE, ANYTHING, NULL_ONLY, ValueSet


def without_widening(expression: Expression) -> Expression:
    """Strip integer-widening casts from the outside of an expression."""
    while isinstance(expression, Call) and expression.function == "cast":
        (inner,) = expression.arguments
        both = (inner.type, expression.type)
        if not all(map(pa.types.is_integer, both)) or both[0].bit_width > both[1].bit_width:
            break
        expression = inner
    return expression


def values_of_sum(parts: tuple[ValueSet, ...], arrow_type: pa.DataType) -> ValueSet:
    """Return a set that holds every sum of one value from each part, computed without overflow."""
    if not pa.types.is_integer(arrow_type):
        return ANYTHING
    has_null = any(part.has_null for part in parts)
    if any(not part.cuts for part in parts):
        return NULL_ONLY if has_null else ValueSet(())
    if any(len(cut) == 1 for part in parts for cut in (part.cuts[0], part.cuts[-1])):
        return ValueSet(ANY_VALUE.cuts, has_null)
    low = sum(part.cuts[0][1] for part in parts)
    high = sum(part.cuts[-1][1] - 1 for part in parts)
    return ValueSet(((1, low, 0), (1, high + 1, 0)), has_null)
