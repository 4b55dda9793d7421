"""Number keys that come in order: equal ones are neighbours, and need no table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import empty


def number_runs(
    keys: NDArray[np.uint32] | NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[Any]] | None:
    """Return the distinct keys, ascending, and the position of each row's among them.

    Parameters
    ----------
    keys : uint32[n] or int64[n]
        The key of each row; n is below 2**32.

    Returns
    -------
    (uint32[n], keys of m) or None
        None if a key is less than the one before it; where that comes early, it is soon found.
    """
    ids, distinct = empty(len(keys), np.uint32), empty(len(keys), keys.dtype)
    count = _number_runs(keys, ids, distinct)
    return None if count < 0 else (ids, distinct[:count].copy())


@kernel(interpretable=True)
def _number_runs(
    keys: NDArray[np.uint32] | NDArray[np.int64],
    ids: NDArray[np.uint32],
    distinct: NDArray[np.uint32] | NDArray[np.int64],
) -> Any:
    """Count up where the key changes; -1 where it falls.

    Shapes: keys, ids, distinct [n].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    if len(keys) == 0:
        return 0
    last = keys[0]
    distinct[0] = last
    count: Any = 1
    for row in range(len(keys)):
        key = keys[row]
        if key != last:
            if key < last:
                return -1
            distinct[count] = key
            count += 1
            last = key
        ids[row] = count - 1
    return count
