"""The order of instants and of the starts of their buckets, also near changes of the clock.

Near a change of the clock, a bucket may start after some of its instants, and a later instant may
lie in an earlier bucket. Elsewhere floors keep the order of time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.period import DAY
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_table

_MOVED_MAX: Final = 2 * DAY
"""More than any change of a clock moves a start; the largest known moves it by 24 hours."""


def changes_of_side(granularity: Granularity, start: int) -> list[int]:
    """Return the instants at which instants begin to be, and cease to be, of late buckets.

    A late bucket starts at `start` or later. Instants before the first returned are of early
    buckets, those from the first to the second of late ones, and so on; from the last on they are
    of late ones. There is more than one only if the clock goes back over `start`.
    """
    window = _window(granularity, start)
    if window is None:
        return [_boundary_from(granularity, start)]
    begins, starts = granularity.pieces(*window)
    is_late = np.concatenate([[False], starts >= start, [True]])
    edges = np.append(begins, window[1])
    return [int(edge) for edge in edges[is_late[1:] != is_late[:-1]]]


def is_divided(granularity: Granularity, micros: int) -> bool:
    """Whether the buckets of instants before `micros` start before it, and no others do."""
    return changes_of_side(granularity, micros) == [micros]


@lru_cache(maxsize=256)
def keeps_order(granularity: Granularity) -> bool:
    """Whether the floor never falls as time goes on.

    Only the years in a zone's table are checked; later years repeat their rules.
    """
    if granularity.is_all:
        return True
    zone = zone_table(granularity.timezone)
    changes = zone.starts[1:]
    if np.any(granularity.floor(changes - 1) > granularity.floor(changes)):
        return False
    # While the offset stays, floors rise, except those of buckets whose start the clock skipped.
    skipped = np.diff(zone.offsets)
    is_ahead = (skipped > 0) & (not granularity.by_clock)
    return all(
        _ascends(granularity, change, change + skip + granularity.longest_micros)
        for change, skip in zip(changes[is_ahead].tolist(), skipped[is_ahead].tolist(), strict=True)
    )


def _ascends(granularity: Granularity, low: int, high: int) -> bool:
    return not bool(np.any(np.diff(granularity.pieces(low, high)[1]) < 0))


def _window(granularity: Granularity, micros: int) -> tuple[int, int] | None:
    """Return the interval around `micros` to examine; None if the clock is not changed near it."""
    reach = granularity.longest_micros + _MOVED_MAX
    low, high = max(micros - reach, MIN_MICROS), min(micros + reach, MAX_MICROS)
    zone = zone_table(granularity.timezone, high)
    has_change = bool(((zone.starts > low - reach) & (zone.starts < high)).any())
    return (low, high) if has_change and low < micros < high else None


def _boundary_from(granularity: Granularity, micros: int) -> int:
    is_start = granularity.is_boundary(micros)
    return micros if is_start else granularity.next_boundary(micros)
