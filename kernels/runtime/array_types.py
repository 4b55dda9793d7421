"""Arrays as kernels take them: the dtypes they accept, and few rows widened to one of these.

Numba compiles a kernel for each combination of types at its first use on a machine, which takes
longer than thousands of queries over few rows. Widening few rows takes microseconds; many rows stay
narrow, because reading memory would take longer.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Narrow: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]
"""Ids of groups or of a dictionary, or numbers above a base."""

Integers: TypeAlias = Narrow | NDArray[np.int64]
"""Whole numbers, narrow or as wide as they come."""

Words: TypeAlias = Narrow | NDArray[np.uint64]
"""Values of one, two, four or eight bytes, whatever they mean."""


FEW_ROWS = 1 << 14  # tests of narrow kernels set it to 0

_Ids = TypeVar("_Ids", NDArray[np.unsignedinteger[Any]], NDArray[np.unsignedinteger[Any]] | None)


def are_few(row_count: int) -> bool:
    """Whether so many rows are few, so that widening them costs next to nothing."""
    return row_count < FEW_ROWS


def widened_ids(ids: _Ids) -> _Ids:
    """Return few ids as uint32[n], many unchanged."""
    if ids is None or not are_few(len(ids)):
        return ids
    return ids.astype(np.uint32, copy=False)


def widened_values(values: NDArray[Any]) -> NDArray[Any]:
    """Return few unsigned values of at most 32 bits as int64[n], others and many unchanged."""
    is_narrow = values.dtype.kind == "u" and values.dtype.itemsize < 8
    return values.astype(np.int64) if is_narrow and are_few(len(values)) else values
