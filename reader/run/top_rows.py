"""Positions of the first rows in a sort order, without sorting rows that are not returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.query.result_order import OrderTerm
from projseg.kernels.folds.fold_extremum import INT64_MAX, INT64_MIN
from projseg.kernels.rows.sorting import float_order_keys
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_fixed_width
from projseg.segment_format.vectors.arrow_arrays import primitive_values
from projseg.segment_format.vectors.vectors import Ids, Vector
from projseg.segment_format.vectors.wide_integers import WIDE

Positions: TypeAlias = NDArray[np.intp] | None
Ranks: TypeAlias = NDArray[np.int64]
RanksAt: TypeAlias = Callable[[Positions], Ranks]
"""A function from ascending positions (None: all rows) to integers in the rows' sort order."""

_SAMPLE_FACTOR: Final = 64  # rows in a sample for each that is wanted, at least


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
        candidates = _first_ranks(first, limit)
        first = first[candidates]
    ranks = [first, *(criterion(candidates) for criterion in criteria[1:])]
    order = np.lexsort(tuple(reversed(ranks)))
    return (order if candidates is None else candidates[order])[:limit]


def _first_ranks(ranks: Ranks, limit: int) -> NDArray[np.intp]:
    """Return where the `limit` lowest ranks stand, and all that equal the last of them; ascending.

    A sample tells most of the others apart by one comparison.
    """
    sample = ranks[:: max(1, len(ranks) // (_SAMPLE_FACTOR * limit))]
    highest = np.partition(sample, limit - 1)[limit - 1]
    candidates = np.flatnonzero(ranks <= highest)
    found = ranks[candidates]
    is_first = found <= np.partition(found, limit - 1)[limit - 1]
    return np.asarray(candidates[is_first], np.intp)


def term_ranks(column: pa.Array, term: OrderTerm) -> Ranks:
    """Return integers that ascend in the term's order, equal for equal values.

    NaN is the greatest value; nulls come where the term says.
    """
    if is_fixed_width(column.type):
        ranks = number_ranks(*arrow_to_numbers(column), term)
        if ranks is not None:
            return ranks
    order = "descending" if term.is_descending else "ascending"
    ranks = primitive_values(pc.rank(column, sort_keys=order, tiebreaker="dense")).astype(np.int64)
    if column.null_count:
        beyond = len(ranks) + 1
        ranks[primitive_values(column.is_null())] = -beyond if term.nulls_first else beyond
    return ranks


def number_ranks(
    values: NDArray[Any], validity: NDArray[np.bool_] | None, term: OrderTerm
) -> Ranks | None:
    """Return `term_ranks` of numbers; None if 64 bits do not hold them and a place for nulls.

    Parameters
    ----------
    values : int64[n], float32[n], float64[n], WIDE[n] or object[n]
        The numbers.
    validity : bool[n] or None
        True where there is one; None means everywhere.
    term : OrderTerm
        The order.
    """
    if values.dtype in (object, WIDE):
        return None
    ascending = float_order_keys(values) if values.dtype.kind == "f" else values
    ranks = ~ascending if term.is_descending else ascending
    if validity is None or validity.all():
        return ranks
    if ranks.min() == INT64_MIN or ranks.max() == INT64_MAX:
        return None
    return np.where(validity, ranks, INT64_MIN if term.nulls_first else INT64_MAX)


def key_ranks(vector: Vector, term: OrderTerm) -> Ranks:
    """Return `term_ranks` of a grouping column, whose ids ascend with its values."""
    if isinstance(vector, Ids) and not term.is_descending and term.nulls_first:
        return vector.ids.astype(np.int64)
    return term_ranks(vector.to_arrow(), term)
