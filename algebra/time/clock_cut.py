"""Buckets of a clock's readings, independent of any time zone."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.algebra.time.period import DAY

_FEW: Final = 256
"""Up to so many readings, months are computed for each; beyond, looked up among their starts."""


class ClockCut(msgspec.Struct, frozen=True):
    """Buckets of equal length on a clock that is never changed.

    Parameters
    ----------
    months : int
        Length in calendar months, or 0.
    micros : int
        Length in microseconds, or 0; one of the two is positive.
    origin : int
        A reading at which some bucket starts, microseconds since 1970-01-01T00:00.
    """

    months: int
    micros: int
    origin: int

    def floor(self, local: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the start of the bucket of each reading: int64[n] from int64[n]."""
        if self.micros:
            # NumPy divides by a constant much faster than it takes remainders.
            return (local - self.origin) // self.micros * self.micros + self.origin
        if len(local) > _FEW:
            low = int(self.floor(local.min(keepdims=True))[0])
            starts = np.append(low, self.starts(low + 1, int(local.max()) + 1))
            found: NDArray[np.int64] = starts[np.searchsorted(starts, local, side="right") - 1]
            return found
        first, within = self._month_origin()
        months = months_of(local - within)
        return months_to_micros(months - np.mod(months - first, self.months)) + within

    def next_start(self, local: int) -> int:
        """Return the first start of a bucket after a reading."""
        floor = int(self.floor(np.array([local]))[0])
        if self.micros:
            return floor + self.micros
        _, within = self._month_origin()
        month = months_of(np.array([floor - within])) + self.months
        return int(months_to_micros(month)[0]) + within

    def starts(self, start: int, end: int) -> NDArray[np.int64]:
        """Return the readings in `[start, end)` at which buckets start, ascending."""
        first = self.next_start(start - 1)
        if self.micros:
            return np.arange(first, end, self.micros, dtype=np.int64)
        if first >= end:
            return np.zeros(0, dtype=np.int64)
        _, within = self._month_origin()
        edges = months_of(np.array([first - within, end - within]))
        starts = months_to_micros(np.arange(edges[0], edges[1] + 1, self.months)) + within
        return starts[starts < end]

    def _month_origin(self) -> tuple[int, int]:
        month = months_of(np.array([self.origin]))
        return int(month[0]), self.origin - int(months_to_micros(month)[0])


def months_of(local: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of months from 1970-01 to each reading: int64[n] from int64[n]."""
    days = np.floor_divide(local, DAY).astype("datetime64[D]")
    return days.astype("datetime64[M]").astype(np.int64)


def months_to_micros(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the reading at the start of each month since 1970-01: int64[n] from int64[n]."""
    days = months.astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(days.astype(np.int64) * DAY, dtype=np.int64)
