"""Sort row ids by dictionary ids, stably, with one counting pass for each key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.groups.grouping import UnsignedIds, require_ids_below
from projseg.kernels.runtime.array_types import Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.runtime.widen_small import widened_ids


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different values, ascending; none of them is NaN.

    `numpy.unique` first imports modules that take longer than most first queries should.
    """
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def stable_order_by_ids(
    ids: UnsignedIds, cardinality: int, order: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return the row ids sorted by `ids`, ties in the order given.

    Sorting by several keys is calling this once for each, the least significant first.

    Parameters
    ----------
    ids : uint8[n], uint16[n] or uint32[n]
        The key of each row, below `cardinality`.
    cardinality : int
        Number of key values; memory is 8 bytes for each.
    order : uint32[n] or None
        The order to refine; None: rows as they stand.

    Returns
    -------
    uint32[n]
    """
    if order is None:
        order = np.arange(len(ids), dtype=np.uint32)
    if len(order) != len(ids):
        raise InvalidInputError("PROJSEG_LENGTH_MISMATCH", f"{len(order)} rows, {len(ids)} ids")
    require_ids_below(ids, cardinality)
    require_ids_below(order, len(ids))
    starts = np.zeros(cardinality + 1, np.int64)
    sorted_order = np.empty(len(order), np.uint32)
    _counting_sort(widened_ids(ids), order, starts, sorted_order)
    return sorted_order


@kernel
def _counting_sort(
    ids: Narrow,
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    sorted_order: NDArray[np.uint32],
) -> None:
    """Sort rows by id, keeping their order within an id.

    Shapes: ids, order, sorted_order [n]; starts [d + 1].
    Oracle: numpy.argsort.
    """
    for row in range(len(ids)):
        starts[ids[row] + 1] += 1
    for value in range(1, len(starts)):
        starts[value] += starts[value - 1]
    for position in range(len(order)):
        row_id = order[position]
        value = ids[row_id]
        sorted_order[starts[value]] = row_id
        starts[value] += 1
