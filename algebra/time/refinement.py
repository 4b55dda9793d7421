"""Whether buckets of one granularity can be computed from the starts of another's buckets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.period import DAY, SECOND
from projseg.algebra.time.time_zones import is_fixed, zone_table


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


def refines(finer: Granularity, coarser: Granularity, start_us: int, end_us: int) -> bool:
    """Whether the start of each instant's bucket of `finer` lies in its bucket of `coarser`.

    Then rows grouped by `finer` can be grouped again by `coarser`, knowing only buckets' starts.
    Between two changes of either clock a floor is arithmetic, so it is enough that all starts of
    `coarser` are starts of `finer` there. The bucket that contains a change is tested at the
    instant of the change.

    Parameters
    ----------
    finer, coarser : Granularity
        What the rows are grouped by, and what is asked for.
    start_us, end_us : int
        The interval that holds the rows' times, UTC microseconds, since the result may differ from
        year to year.
    """
    if end_us <= start_us or coarser.is_all or finer.is_none:
        return True
    if finer.is_all or coarser.is_none:
        return False
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
