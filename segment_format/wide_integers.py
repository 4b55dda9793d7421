"""Integers of 128 bits, as decimals of many digits need them: two halves of 64 bits a row.

The value is `high * 2**64 + low`, where `low` counts as unsigned: two's complement, as in Arrow.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WIDE: Final = np.dtype([("low", np.int64), ("high", np.int64)])

_HALF: Final = 1 << 64


def halves(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return WIDE[n], contiguous, as int64[n, 2]; the memory is the same."""
    return values.view(np.int64).reshape(-1, 2)


def widened(values: NDArray[np.int64]) -> NDArray[Any]:
    """Return int64[n] as WIDE[n]."""
    wide = np.empty(len(values), WIDE)
    wide["low"] = values
    wide["high"] = values >> 63
    return wide


def to_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return WIDE[n] as Python integers, object[n]."""
    low = np.ascontiguousarray(values["low"]).view(np.uint64)
    return np.asarray(values["high"].astype(object) * _HALF + low.astype(object), dtype=object)


def from_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return Python integers of at most 128 bits, object[n], as WIDE[n]."""
    wide = np.empty(len(values), WIDE)
    wide["low"] = (values & (_HALF - 1)).astype(np.uint64).view(np.int64)
    wide["high"] = (values >> 64).astype(np.int64)
    return wide


def limits(values: NDArray[Any]) -> tuple[int, int]:
    """Return bounds (low, high) of WIDE[n], n >= 1: multiples of 2**64 around the values."""
    high = values["high"]
    return int(high.min()) * _HALF, (int(high.max()) + 1) * _HALF - 1
