"""The order of the starts of buckets, and whether one granularity refines another.

Near a change of the clock, a bucket may start after some of its instants, and a later instant may
lie in an earlier bucket. Elsewhere floors keep the order of time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from projseg.algebra.time.duration import DAY, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, is_fixed, zone_table
from projseg.algebra.time.zoned_buckets import Granularity

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


def always_refines(finer: Granularity, coarser: Granularity) -> bool:
    """Whether `refines` holds at all times, which is decided by the form of both.

    If a zone changes its clock, both must depend on readings only: a start that depends on the
    offset may have moved out of the coarser bucket.
    """
    if coarser.is_all or finer.is_none:
        return True
    if finer.is_all or coarser.is_none:
        return False
    if not (_divides(finer.micros, SECOND) or _cut_one_clock(finer, coarser)):
        return False
    if finer.micros and coarser.micros:
        in_step = (coarser.origin - finer.origin) % finer.micros == 0
        return _divides(finer.micros, coarser.micros) and in_step
    if finer.micros:
        return _divides(finer.micros, DAY) and (coarser.origin - finer.origin) % finer.micros == 0
    is_plain = finer.origin == 0 and coarser.origin == 0
    return is_plain and _divides(finer.months, coarser.months)


def _cut_one_clock(left: Granularity, right: Granularity) -> bool:
    """Whether both depend only on the readings of the same zone's clock."""
    if left.timezone != right.timezone:
        return False
    return is_fixed(left.timezone) or (left.by_clock and right.by_clock)


def _divides(part: int, whole: int) -> bool:
    return part > 0 and whole > 0 and whole % part == 0


@lru_cache(maxsize=65536)  # many segments share an interval
def refines(finer: Granularity, coarser: Granularity, start_us: int, end_us: int) -> bool:
    """Whether the start of each instant's bucket of `finer` lies in its bucket of `coarser`.

    Then rows grouped by `finer` can be grouped again by `coarser`, knowing only buckets' starts.
    Between two changes of either clock a floor is arithmetic, so it is enough that all starts of
    `coarser` are starts of `finer` there. The bucket that contains a change is tested at the
    instant of the change. The result may differ from year to year, so it is for the rows' times,
    UTC microseconds.
    """
    if end_us <= start_us or coarser.is_all or finer.is_none:
        return True
    if finer.is_all or coarser.is_none:
        return False
    ends = np.array([start_us, end_us - 1])
    if not np.array_equal(coarser.floor(finer.floor(ends)), coarser.floor(ends)):
        return False  # what follows would say the same, but takes much longer
    zones = zone_table(finer.timezone, end_us), zone_table(coarser.timezone, end_us)
    changes = np.unique(np.concatenate([zone.starts for zone in zones]))
    inside = changes[(changes > start_us) & (changes < end_us)]
    cuts = np.concatenate([[start_us], inside, [end_us]])
    if not np.array_equal(coarser.floor(finer.floor(cuts[:-1])), coarser.floor(cuts[:-1])):
        return False
    shifts = [zone.offsets[zone.index_of(cuts[:-1])].tolist() for zone in zones]
    pieces = zip(cuts[:-1].tolist(), cuts[1:].tolist(), zip(*shifts, strict=True), strict=True)
    return all(_refines_between(finer, coarser, piece, between) for *piece, between in pieces)


def _refines_between(
    finer: Granularity, coarser: Granularity, piece: Sequence[int], shifts: tuple[int, int]
) -> bool:
    """Whether starts of `coarser` inside a piece of constant offsets are starts of `finer`."""
    (start, end), (shift, coarser_shift) = piece, shifts
    if finer.months and 0 < coarser.micros < 28 * DAY:
        end = min(end, start + 2 * coarser.micros + 1)  # one of two starts is not a month's
    if coarser.months or finer.months:
        local = coarser.cut.starts(start + 1 + coarser_shift, end + coarser_shift)
        clock = local - coarser_shift + shift
        return bool(np.array_equal(finer.cut.floor(clock), clock))
    first = coarser.cut.next_start(start + coarser_shift) - coarser_shift
    if first >= end:
        return True
    if (first + shift - finer.origin) % finer.micros:
        return False
    return coarser.micros % finer.micros == 0 or first + coarser.micros >= end
