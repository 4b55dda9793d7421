"""Positions of the first rows in a sort order, without sorting rows that are not returned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.result_order import OrderTerm
from projseg.segment_format.types import arrow_to_numbers, is_fixed_width


def sorted_positions(
    columns: Sequence[pa.Array], keys: Sequence[OrderTerm], limit: int | None
) -> NDArray[np.intp]:
    """Return row positions in sort order, the first `limit` of them; ties by position.

    NaN is the greatest value; nulls come where each key says.
    """
    row_count = len(columns[0])
    candidates = np.arange(row_count)
    if limit is not None and limit < row_count // 4:
        candidates = _candidates(columns[0], keys[0], limit)
        columns = [column.take(pa.array(candidates)) for column in columns]
    ranks = [_rank(column, key) for column, key in zip(columns, keys, strict=True)]
    order = np.lexsort(tuple(reversed(ranks)))
    return candidates[order][:limit]


def _candidates(column: pa.Array, key: OrderTerm, limit: int) -> NDArray[np.intp]:
    """Return a superset of the first `limit` rows, by the first key alone: ties are all kept."""
    rank = _rank(column, key)
    if limit == 0:
        return np.zeros(0, np.intp)
    threshold = np.partition(rank, limit - 1)[limit - 1]
    return np.flatnonzero(rank <= threshold)


def _rank(column: pa.Array, key: OrderTerm) -> NDArray[np.int64]:
    """Return integers that ascend in the key's order, equal for equal values."""
    if column.null_count == 0 and is_fixed_width(column.type):
        values, _ = arrow_to_numbers(column)
        if values.dtype == np.int64:
            return ~values if key.is_descending else values
    order = "descending" if key.is_descending else "ascending"
    ranks = np.asarray(pc.rank(column, sort_keys=order, tiebreaker="dense")).astype(np.int64)
    if column.null_count:
        beyond = len(ranks) + 1
        ranks[np.asarray(column.is_null())] = -beyond if key.nulls_first else beyond
    if pa.types.is_floating(column.type) and column.null_count < len(column):
        ranks = _with_nan_greatest(column, key, ranks)
    return ranks


def _with_nan_greatest(
    column: pa.Array, key: OrderTerm, ranks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Arrow puts NaN next to the nulls; Spark orders it above all numbers."""
    is_nan = np.asarray(pc.is_nan(column).fill_null(False))
    ranks[is_nan] = -len(ranks) if key.is_descending else len(ranks)
    return ranks
