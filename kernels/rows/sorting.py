"""The order of rows: floats as doubles and as integers of the same order, row ids sorted by ids.

Keys of floats have NaN greatest, all NaN equal, and -0.0 equal to 0.0. Row ids are sorted stably,
with one counting pass for each key.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.groups.grouping import UnsignedIds, require_ids_below
from projseg.kernels.runtime.array_types import Narrow, widened_ids
from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import empty

# Floats as doubles, by IEEE 754: what overflows is infinite and what is invalid is NaN.
#
# NumPy warns of both, even if a signalling NaN is only copied. The warnings are switched off, since
# a file may hold any values.


def as_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers as float64[n]: the same array, if it has that dtype."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64, copy=False)


def plain_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return floats as a new float64[n] in which equal values have equal bits: one NaN, no -0.0."""
    with np.errstate(invalid="ignore"):
        doubles = values.astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles


_MAGNITUDE: Final = (1 << 63) - 1


def float_order_keys(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return an int64 key for each float, ordered as Spark orders the floats.

    Parameters
    ----------
    values : float32[n] or float64[n]
        Any values.

    Returns
    -------
    int64[n]
        Equal keys for equal values; `float_of_order_keys` is the inverse up to the sign of zero
        and the bits of NaN.
    """
    keys = empty(len(values), np.int64)
    _float_order_keys(as_doubles(values), keys.view(np.float64), keys)
    return keys


def float_of_order_keys(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats of keys made by `float_order_keys`."""
    return np.where(keys >= 0, keys, keys ^ _MAGNITUDE).view(np.float64)


@kernel(interpretable=True)
def _float_order_keys(
    values: NDArray[np.float64], as_floats: NDArray[np.float64], keys: NDArray[np.int64]
) -> None:
    """Write the keys; `as_floats` is the same memory.

    Shapes: values, as_floats, keys [n].
    Oracle: tests/oracle/folds.py::order_key.
    """
    for row in range(len(values)):
        value = values[row]
        as_floats[row] = np.nan if np.isnan(value) else value + 0.0
        if keys[row] < 0:
            keys[row] ^= _MAGNITUDE


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
