"""Memory that kernels fill: from Arrow's pool, which keeps what is freed for the next taker.

The C library gives large blocks back to the system at once, so the next query would fault every
page in again; at a few bytes a row that costs more than the kernel that fills them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

# Smaller blocks are kept by the C library too, and cost less there.
_POOLED_BYTES_MIN: Final = 1 << 16
_HUGE_BYTES_MIN: Final = 1 << 22


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of undefined content, dtype[count].

    Parameters
    ----------
    count : int
        Not negative.
    dtype : dtype
        Anything; objects are NumPy's to hold.

    Raises
    ------
    MemoryError
        If there is none left.
    """
    wanted = np.dtype(dtype)
    byte_count = count * wanted.itemsize
    if byte_count < _POOLED_BYTES_MIN or wanted.hasobject:
        return np.empty(count, wanted)
    return np.frombuffer(pa.allocate_buffer(byte_count), wanted)


def zeros(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros, dtype[count]."""
    array = empty(count, dtype)
    array.fill(0)
    return array


def empty_to_keep(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of undefined content, dtype[count], for data that outlives the query.

    NumPy asks the system for huge pages where an array is large, which random look-ups gain from.
    """
    wanted = np.dtype(dtype)
    if count * wanted.itemsize >= _HUGE_BYTES_MIN:
        return np.empty(count, wanted)
    return empty(count, wanted)
