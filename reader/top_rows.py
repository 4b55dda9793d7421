"""Positions of the first rows in a sort order, without sorting rows that are not returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.result_order import OrderTerm
from projseg.segment_format.arrow_arrays import filled_values, primitive_values
from projseg.segment_format.types import arrow_to_numbers, is_fixed_width

Positions = NDArray[np.intp] | None


def sorted_positions(
    column_of: Callable[[OrderTerm, Positions], pa.Array],
    terms: Sequence[OrderTerm],
    row_count: int,
    limit: int | None,
) -> NDArray[np.intp]:
    """Return row positions in sort order, the first `limit` of them; ties by position.

    NaN is the greatest value; nulls come where each term says.

    Parameters
    ----------
    column_of : callable
        From a term and ascending positions (None: all rows) to its values there. With a limit,
        later terms are asked only for rows that the first one leaves in question.
    terms : sequence of OrderTerm
        At least one.
    row_count : int
        Number of rows to sort.
    limit : int or None
        How many positions to return at most.
    """
    first = _rank(column_of(terms[0], None), terms[0])
    candidates: Positions = None
    if limit is not None and 0 < limit < row_count // 4:
        threshold = np.partition(first, limit - 1)[limit - 1]
        candidates = np.flatnonzero(first <= threshold)
        first = first[candidates]
    ranks = [first, *(_rank(column_of(term, candidates), term) for term in terms[1:])]
    order = np.lexsort(tuple(reversed(ranks)))
    return (order if candidates is None else candidates[order])[:limit]


def _rank(column: pa.Array, term: OrderTerm) -> NDArray[np.int64]:
    """Return integers that ascend in the term's order, equal for equal values."""
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


def _with_nan_greatest(
    column: pa.Array, term: OrderTerm, ranks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Arrow puts NaN next to the nulls; Spark orders it above all numbers."""
    is_nan = filled_values(pc.is_nan(column), False)
    ranks[is_nan] = -len(ranks) if term.is_descending else len(ranks)
    return ranks
