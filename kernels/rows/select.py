"""Find the rows that match, and put the others in a group of their own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.groups.grouping import UnsignedIds, require_ids_below
from projseg.kernels.runtime.array_types import Integers, Narrow, widened_ids
from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import empty

# Comparing with so many ids, several rows at once, is faster than looking each row up.
_COMPARED_IDS_MAX: Final = 8
_BLOCK_ROWS: Final = 1 << 12


def allowed_rows(ids: UnsignedIds, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have an id that is allowed.

    Parameters
    ----------
    ids : uint8[n], uint16[n] or uint32[n]
        Below `len(allowed)`.
    allowed : bool[cardinality]
        By id.

    Returns
    -------
    bool[n]
    """
    kept = np.flatnonzero(allowed)
    if len(kept) and len(kept) == kept[-1] - kept[0] + 1:
        return between(ids, int(kept[0]), int(kept[-1]))
    if len(kept) <= _COMPARED_IDS_MAX:
        ids = widened_ids(ids)
        mask = np.zeros(len(ids), np.bool_)
        _set_where_equal(mask, ids, kept.astype(ids.dtype))
    else:
        require_ids_below(ids, len(allowed))
        mask = empty(len(ids), np.bool_)
        _look_up(widened_ids(ids), allowed, mask)
    return mask


@kernel(interpretable=True)
def _set_where_equal(mask: NDArray[np.bool_], ids: Narrow, wanted: Narrow) -> None:
    """Compare a block with each id in turn.

    Shapes: mask, ids [n]; wanted [m].
    Oracle: tests/oracle/selecting.py::rows_with_allowed_id.
    """
    for start in range(0, len(ids), _BLOCK_ROWS):
        block, found = ids[start : start + _BLOCK_ROWS], mask[start : start + _BLOCK_ROWS]
        for one in wanted:
            for row in range(len(block)):
                found[row] |= block[row] == one


@kernel(interpretable=True)
def _look_up(ids: Narrow, allowed: NDArray[np.bool_], mask: NDArray[np.bool_]) -> None:
    """Look up whether each row's id is allowed.

    Shapes: ids, mask [n]; allowed [d].
    Oracle: tests/oracle/selecting.py::rows_with_allowed_id.
    """
    for row in range(len(ids)):
        mask[row] = allowed[ids[row]]


def with_rest(
    group_ids: UnsignedIds, mask: NDArray[np.bool_], rest: int
) -> NDArray[np.unsignedinteger[Any]]:
    """Return the group ids where `mask` is true, and `rest` elsewhere.

    Parameters
    ----------
    group_ids : uint8[n], uint16[n] or uint32[n]
        The group of each row.
    mask : bool[n]
        Whether the row counts.
    rest : int
        The group of rows that do not count; fits the ids' dtype.
    """
    if len(mask) != len(group_ids):
        raise InvalidInputError(
            "PROJSEG_LENGTH_MISMATCH", f"{len(group_ids)} ids, {len(mask)} rows"
        )
    divided = empty(len(group_ids), group_ids.dtype)
    _with_rest(group_ids, mask, group_ids.dtype.type(rest), divided)
    return divided


@kernel(interpretable=True)
def _with_rest(
    group_ids: Narrow, mask: NDArray[np.bool_], rest: np.unsignedinteger[Any], divided: Narrow
) -> None:
    """Give rows that do not count to the group `rest`; both are read first, so that none branches.

    Shapes: group_ids, mask, divided [n].
    Oracle: numpy.where.
    """
    for row in range(len(group_ids)):
        group, counts = group_ids[row], mask[row]
        divided[row] = group if counts else rest


def between(values: NDArray[Any], low: int, high: int) -> NDArray[np.bool_]:
    """Return where `low <= values <= high`.

    Parameters
    ----------
    values : uint8[n], uint16[n], uint32[n] or int64[n]
        What is compared.
    low, high : int
        Fit the dtype.
    """
    inside = empty(len(values), np.bool_)
    _between(values, values.dtype.type(low), values.dtype.type(high), inside)
    return inside


@kernel(interpretable=True)
def _between(
    values: Integers, low: np.integer[Any], high: np.integer[Any], inside: NDArray[np.bool_]
) -> None:
    """Compare each value with both bounds.

    Shapes: values, inside [n].
    Oracle: numpy.logical_and.
    """
    for row in range(len(values)):
        inside[row] = (low <= values[row]) & (values[row] <= high)
