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


def as_wide(values: NDArray[Any]) -> NDArray[Any]:
    """Return int64[n], WIDE[n], or Python integers of at most 128 bits, object[n], as WIDE[n]."""
    if values.dtype == WIDE:
        return np.ascontiguousarray(values)
    wide = np.empty(len(values), WIDE)
    if values.dtype == object:
        wide["low"] = (values & (_HALF - 1)).astype(np.uint64).view(np.int64)
        wide["high"] = (values >> 64).astype(np.int64)
    else:
        wide["low"] = values
        wide["high"] = wide["low"] >> 63
    return wide


def to_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return WIDE[n] as Python integers, object[n]."""
    low = np.ascontiguousarray(values["low"]).view(np.uint64)
    return np.asarray(values["high"].astype(object) * _HALF + low.astype(object), dtype=object)


def limits(values: NDArray[Any]) -> tuple[int, int]:
    """Return the least and the greatest of integers of any width; (0, 0) if there are none.

    `values` is integer[n], WIDE[n] or object[n].
    """
    if len(values) == 0:
        return 0, 0
    if values.dtype != WIDE:
        return int(values.min()), int(values.max())
    ends = []
    for is_greatest in (False, True):
        high = values["high"].max() if is_greatest else values["high"].min()
        low = values["low"][values["high"] == high].view(np.uint64)
        ends.append(int(high) * _HALF + int(low.max() if is_greatest else low.min()))
    return ends[0], ends[1]


def are_at_least(values: NDArray[Any], least: int) -> NDArray[np.bool_]:
    """Return which of WIDE[n] are no less than a number, bool[n]."""
    high, low = values["high"], values["low"].view(np.uint64)
    upper, lower = least >> 64, least & (_HALF - 1)
    if not -(1 << 63) <= upper < 1 << 63:
        return np.full(len(values), upper < 0)
    inside: NDArray[np.bool_] = (high > upper) | ((high == upper) & (low >= np.uint64(lower)))
    return inside
