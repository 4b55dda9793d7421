"""Find the rows whose dictionary id is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.grouping import UnsignedIds, require_ids_below
from projseg.kernels.memory import empty


def rows_with_allowed_id(ids: UnsignedIds, allowed: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the positions of ids that are allowed, ascending.

    Parameters
    ----------
    ids : uint8[n], uint16[n] or uint32[n]
        Below `len(allowed)`; n is below 2**32.
    allowed : bool[cardinality]
        By id.

    Returns
    -------
    uint32[m]
    """
    require_ids_below(ids, len(allowed))
    found = empty(len(ids) + 1, np.uint32)  # a row is written before it is counted
    return found[: _rows_with_allowed_id(ids, allowed, found)].copy()


@njit(nogil=True, cache=True)
def _rows_with_allowed_id(ids: Any, allowed: Any, found: Any) -> Any:
    """Oracle: tests/oracle/selecting.py::rows_with_allowed_id."""
    count = 0
    for row in range(len(ids)):
        found[count] = row
        count += allowed[ids[row]]
    return count


def set_where_allowed(
    mask: NDArray[np.bool_], ids: UnsignedIds, allowed: NDArray[np.bool_]
) -> None:
    """Set `mask` where an id is allowed, in place.

    Parameters
    ----------
    mask : bool[n]
        Changed in place.
    ids : uint8[n], uint16[n] or uint32[n]
        Below `len(allowed)`.
    allowed : bool[cardinality]
        By id.
    """
    if len(mask) != len(ids):
        raise InvalidInputError("PROJSEG_LENGTH_MISMATCH", f"{len(ids)} ids, {len(mask)} rows")
    require_ids_below(ids, len(allowed))
    _set_where_allowed(mask, ids, allowed)


@njit(nogil=True, cache=True)
def _set_where_allowed(mask: Any, ids: Any, allowed: Any) -> None:
    """Oracle: tests/oracle/selecting.py::rows_with_allowed_id."""
    for row in range(len(ids)):
        mask[row] |= allowed[ids[row]]
