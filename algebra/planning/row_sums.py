"""Fold sums over rows as sums of columns: `sum(2 * x - y + 1)` as `sum(x)`, `sum(y)` and a count.

No row's value is computed, and other sums over the same rows share those of the columns.
"""

from __future__ import annotations

from projseg.algebra.aggregates.linear import multiple_of, products_of
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Call, Column
from projseg.algebra.planning.source_plan import AddRows, FoldMultiple, FoldSeveral
from projseg.algebra.proofs.exact_values import is_operation


def sum_by_columns(primitive: Primitive, feed: AddRows) -> FoldSeveral | None:
    """Return how a sum over all rows is made of sums of columns; None if it is not.

    It is exact where `has_exact_sum` proves that of the argument, and no column of it has nulls.
    """
    if primitive.function != "sum" or feed.filter is not None:
        return None
    (argument,) = feed.arguments
    if not isinstance(argument, Call):
        return None
    products = products_of(argument, lambda part: not is_operation(part))
    parts = []
    for factors, constant in (products or {}).items():
        whole = multiple_of(constant, factors, primitive)
        if len(factors) > 1 or not all(isinstance(f, Column) for f in factors) or whole is None:
            return None
        inner = Primitive("sum" if factors else "count", factors)
        parts.append(FoldMultiple(inner, AddRows(factors), whole))
    return FoldSeveral(tuple(parts)) if parts else None
