"""The order of a segment's rows: the cluster columns, then time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.sorting import stable_order_by_ids
from projseg.segment_format.vectors import Ids, Numbers, Vector


def sort_columns(cluster_by: Sequence[str], time_column: str | None) -> tuple[str, ...]:
    """Return the columns rows are sorted by: as declared, time last unless declared earlier."""
    if time_column is None or time_column in cluster_by:
        return tuple(cluster_by)
    return (*cluster_by, time_column)


def sorted_row_ids(
    vectors: Mapping[str, Vector], columns: Sequence[str], row_count: int
) -> NDArray[np.uint32] | None:
    """Return row ids, uint32[n], in sorted order; None if the rows are in order already.

    Ascending, nulls first, as dictionary ids ascend; equal rows stay in arrival order. Columns
    without order (text that has no dictionary, nested values) must not be asked for.
    """
    order: NDArray[np.uint32] | None = None
    for name in reversed(columns):
        order = _refined(vectors[name], order, row_count)
    return order


def _refined(
    vector: Vector, order: NDArray[np.uint32] | None, row_count: int
) -> NDArray[np.uint32] | None:
    assert isinstance(vector, Ids | Numbers), "nothing else has an order"
    if isinstance(vector, Ids):
        if order is None and _is_ascending(vector.ids):
            return None
        return stable_order_by_ids(vector.ids, len(vector.dictionary), order)
    values = sort_values(vector)
    if order is None:
        if _is_ascending(values):
            return None
        return np.argsort(values, kind="stable").astype(np.uint32)
    refined: NDArray[np.uint32] = order[np.argsort(values[order], kind="stable")]
    return refined


def sort_values(vector: Ids | Numbers) -> NDArray[Any]:
    """Return the sort keys of n rows: ids, or numbers with the lowest value for nulls; dtype[n]."""
    if isinstance(vector, Ids):
        return vector.ids
    values = vector.wide()
    return values if vector.validity is None else np.where(vector.validity, values, _lowest(values))


def _is_ascending(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _lowest(values: NDArray[Any]) -> Any:
    """Return a value that sorts no later than any other, for nulls."""
    if values.dtype == object:
        return -(10**39)
    return -np.inf if values.dtype.kind == "f" else np.iinfo(np.int64).min
