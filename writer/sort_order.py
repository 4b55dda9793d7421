"""The order of a segment's rows: the cluster columns, then time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.keys import make_key
from projseg.kernels.sorting import stable_order_by_ids
from projseg.segment_format.vectors import Ids, Numbers, Vector


def sort_columns(cluster_by: Sequence[str], time_column: str | None) -> tuple[str, ...]:
    """Return the columns rows are sorted by: as declared, time last unless declared earlier."""
    if time_column is None or time_column in cluster_by:
        return tuple(cluster_by)
    return (*cluster_by, time_column)


def sorted_row_ids(
    vectors: Mapping[str, Vector], columns: Sequence[str]
) -> NDArray[np.uint32] | None:
    """Return row ids, uint32[n], in sorted order; None if the rows are in order already.

    Ascending, nulls first, as dictionary ids ascend; equal rows stay in arrival order. Columns
    without order (text that has no dictionary, nested values) must not be asked for.
    """
    order: NDArray[np.uint32] | None = None
    for name in reversed(columns):
        order = _refined(vectors[name], order)
    return order


def _refined(vector: Vector, order: NDArray[np.uint32] | None) -> NDArray[np.uint32] | None:
    assert isinstance(vector, Ids | Numbers), "nothing else has an order"
    if isinstance(vector, Ids):
        if order is None and _is_ascending(vector.ids):
            return None
        return stable_order_by_ids(vector.ids, len(vector.dictionary), order)
    if order is None and _is_in_order(vector):
        return None
    if _is_narrow(vector):
        key = make_key(vector)
        return stable_order_by_ids(key.ids, key.cardinality, order)
    values = sort_keys(vector)[-1]
    if order is None:
        return _nulls_first(np.argsort(values, kind="stable").astype(np.uint32), vector)
    refined: NDArray[np.uint32] = order[np.argsort(values[order], kind="stable")]
    return _nulls_first(refined, vector)


def _is_narrow(vector: Numbers) -> bool:
    """Whether values lie so close together that counting them sorts them."""
    if vector.values.dtype.kind in "fOV":
        return False
    low, high = vector.limits()
    return high - low < len(vector)


def _nulls_first(order: NDArray[np.uint32], vector: Numbers) -> NDArray[np.uint32]:
    """Return an order with the nulls before all values, otherwise as it was."""
    if vector.validity is None:
        return order
    is_value = vector.validity[order]
    return np.concatenate([order[~is_value], order[is_value]])


def sort_keys(vector: Ids | Numbers) -> list[NDArray[Any]]:
    """Return the sort keys of n rows, first key first, dtype[n] each.

    That is ids; or whether there is a number, and then the number, 0 for nulls.
    """
    if isinstance(vector, Ids):
        return [vector.ids]
    if vector.validity is None:
        return [np.ones(len(vector), np.bool_), vector.wide()]
    return [vector.validity, np.where(vector.validity, vector.wide(), 0)]


def _is_in_order(vector: Numbers) -> bool:
    if vector.validity is None:
        return _is_ascending(vector.values)
    null_count = len(vector) - int(np.count_nonzero(vector.validity))
    nulls_lead = not vector.validity[:null_count].any()
    return nulls_lead and _is_ascending(vector.values[null_count:])


def _is_ascending(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))
