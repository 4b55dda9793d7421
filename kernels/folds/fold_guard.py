"""The check of the arrays of every fold kernel.

Numba does not check array bounds: an id out of range would write outside the accumulators. So
lengths and ids are checked here, once for each call, before a kernel runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError

GroupIds = NDArray[np.unsignedinteger[Any]]
Validity = NDArray[np.bool_] | None

_ID_DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def check_rows(
    group_ids: GroupIds | None, group_count: int, row_count: int, *columns: NDArray[Any] | None
) -> None:
    """Check that every column has `row_count` rows and every group id is below `group_count`.

    Parameters
    ----------
    group_ids : uint8[n], uint16[n], uint32[n] or None
        None puts every row in group 0.
    group_count : int
        Length of the accumulators.
    row_count : int
        n.
    *columns : array[n] or None
        The other columns that the kernel reads.

    Raises
    ------
    InvalidInputError
        If a length differs, an id is out of range or the ids are of another type.
    """
    for column in columns:
        if column is not None and len(column) != row_count:
            raise _bad(f"a column of {len(column)} rows was given for {row_count} rows")
    if group_ids is None:
        if row_count and group_count < 1:
            raise _bad(f"{row_count} rows were given for no group")
        return
    if group_ids.dtype not in _ID_DTYPES:
        raise _bad(f"group ids are {group_ids.dtype}, not uint8, uint16 or uint32")
    if len(group_ids) != row_count:
        raise _bad(f"{len(group_ids)} group ids were given for {row_count} rows")
    if row_count and int(np.maximum.reduce(group_ids)) >= group_count:
        raise _bad(f"group id {group_ids.max()} is not below the group count {group_count}")


def _bad(message: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_GROUP_IDS", message)
