"""Positions of the first rows in a sort order, without sorting rows that are not returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.query.result_order import OrderTerm
from projseg.segment_format.arrow_arrays import filled_values, primitive_values
from projseg.segment_format.types import arrow_to_numbers, is_fixed_width
from projseg.segment_format.vectors import Ids, Vector

Positions: TypeAlias = NDArray[np.intp] | None
Ranks: TypeAlias = NDArray[np.int64]
RanksAt: TypeAlias = Callable[[Positions], Ranks]
"""A function from ascending positions (None: all rows) to integers in the rows' sort order."""


def sorted_positions(
    criteria: Sequence[RanksAt], row_count: int, limit: int | None
) -> NDArray[np.intp]:
    """Return the first `limit` row positions in sort order, intp[k]; ties by position.

    Parameters
    ----------
    criteria : sequence of callable
        The most significant first. With a limit, later ones are asked only for rows that the first
        one leaves in question.
    row_count : int
        Number of rows to sort.
    limit : int or None
        How many positions to return at most.
    """
    if not criteria:
        return np.arange(row_count)[:limit]
    first = criteria[0](None)
    candidates: Positions = None
    if limit is not None and 0 < limit < row_count // 4:
        threshold = np.partition(first, limit - 1)[limit - 1]
        candidates = np.flatnonzero(first <= threshold)
        first = first[candidates]
    ranks = [first, *(criterion(candidates) for criterion in criteria[1:])]
    order = np.lexsort(tuple(reversed(ranks)))
    return (order if candidates is None else candidates[order])[:limit]


def term_ranks(column: pa.Array, term: OrderTerm) -> Ranks:
    """Return integers that ascend in the term's order, equal for equal values.

    NaN is the greatest value; nulls come where the term says.
    """
    if column.null_count == 0 and is_fixed_width(column.type):
        values, _ = arrow_to_numbers(column)
        if values.dtype == np.int64:
            return ~values if term.is_descending else values
    order = "descending" if term.is_descending else "ascending"
    ranks = primitive_values(pc.rank(column, sort_keys=order, tiebreaker="dense")).astype(np.int64)
    if column.null_count:
        beyond = len(ranks) + 1
        ranks[primitive_values(column.is_null())] = -beyond if term.nulls_first else beyond
    if pa.types.is_floating(column.type) and column.null_count < len(column):
        ranks = _with_nan_greatest(column, term, ranks)
    return ranks


def key_ranks(vector: Vector, term: OrderTerm) -> Ranks:
    """Return `term_ranks` of a grouping column, whose ids ascend with its values."""
    if isinstance(vector, Ids) and not term.is_descending and term.nulls_first:
        return vector.ids.astype(np.int64)
    return term_ranks(vector.to_arrow(), term)


def _with_nan_greatest(column: pa.Array, term: OrderTerm, ranks: Ranks) -> Ranks:
    """Arrow puts NaN next to the nulls; Spark orders it above all numbers."""
    is_nan = filled_values(pc.is_nan(column), False)
    ranks[is_nan] = -len(ranks) if term.is_descending else len(ranks)
    return ranks
