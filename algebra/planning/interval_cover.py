"""Find the part of a query's interval that whole buckets of a projection cover in a segment."""

from __future__ import annotations

import msgspec

from projseg.algebra.expressions.tree import TRUE, Expression
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import TimeGrouping
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.time.interval import Interval


class Cover(msgspec.Struct, frozen=True):
    """The parts of an interval.

    Parameters
    ----------
    buckets : Interval or None
        The part that the projection answers; None: all rows of the projection.
    edges : tuple of Interval
        The parts left for other sources; disjoint, and cut to the times of the segment.
    bounds : tuple of Expression or None
        The interval as conditions on grouping columns other than the buckets, if it is these that
        select the projection's rows; none of them if all its rows lie in the interval.
    """

    buckets: Interval | None
    edges: tuple[Interval, ...] = ()
    bounds: tuple[Expression, ...] | None = None

    def share(self, data: Interval) -> float:
        """Return the share of the data's time that the buckets cover, 0 to 1."""
        return 1.0 if self.buckets is None else share_of(self.buckets, data)


def share_of(part: Interval, data: Interval) -> float:
    """Return the share of `data` that lies in `part`, 0 to 1."""
    low, high = max(part.start_us, data.start_us), min(part.end_us, data.end_us)
    return max(high - low, 0) / max(data.end_us - data.start_us, 1)


def data_interval(facts: SegmentFacts) -> Interval | None:
    """Return the smallest interval that holds every time of a segment, None if it has none."""
    if facts.time_minimum_us is None or facts.time_maximum_us is None:
        return None
    return Interval(facts.time_minimum_us, facts.time_maximum_us + 1)


def covers_all_rows(
    interval: Interval | None, data: Interval | None, *, has_null_time: bool
) -> bool:
    """Whether an interval includes all rows of a segment."""
    if interval is None:
        return True
    return data is not None and interval.contains(data) and not has_null_time


def cover_by_bounds(
    bounds: tuple[Expression | None, ...],
    is_fulfilled: tuple[bool, ...],
    *,
    has_null_time: bool,
) -> Cover | None:
    """Return the cover that selects rows by conditions on grouping columns; None if there is none.

    Parameters
    ----------
    bounds : tuple of (Expression or None)
        `Match.bounds`.
    is_fulfilled : tuple of bool
        Of each, whether every time in the segment fulfils it.
    has_null_time : bool
        Whether the time of some row is null; then a bound is needed to leave it out.
    """
    pairs = zip(bounds, is_fulfilled, strict=True)
    needed = [bound for bound, is_known in pairs if has_null_time or not is_known]
    left = tuple(bound for bound in needed if bound is not None and bound != TRUE)
    if not bounds or None in needed:
        return None
    return Cover(None, bounds=left)


def cover(
    time: TimeGrouping | None,
    interval: Interval | None,
    data: Interval | None,
    *,
    has_null_time: bool,
) -> Cover | Reason:
    """Return how a projection's buckets cover an interval, or the reason why none does.

    The first bucket starts before the smallest time of the data. So if the interval includes the
    smallest time, buckets are taken from the start of its bucket; likewise at the largest time.

    Parameters
    ----------
    time : TimeGrouping or None
        The projection's grouping column of time.
    interval : Interval or None
        The query's interval; it overlaps `data`.
    data : Interval or None
        `data_interval` of the segment.
    has_null_time : bool
        Whether the time of some row is null; no interval includes such a row.
    """
    if covers_all_rows(interval, data, has_null_time=has_null_time):
        return Cover(None)
    if time is None or interval is None or data is None:
        return Reason(ReasonCode.UNALIGNED_INTERVAL, "the projection keeps no time")
    buckets = time.granularity
    start, end = interval.start_us, interval.end_us
    if start <= data.start_us:
        first = low = buckets.floor_one(data.start_us)
    else:
        first = low = start if buckets.is_boundary(start) else buckets.next_boundary(start)
    if end >= data.end_us:
        last = high = data.end_us
    else:
        last = high = buckets.floor_one(end)
    if low >= high:
        return Reason(ReasonCode.UNALIGNED_INTERVAL, f"{interval} holds no whole {buckets}")
    edges = (Interval(start, max(first, start)), Interval(min(last, end), end))
    found = (edge.intersect(data) for edge in edges)
    return Cover(Interval(low, high), tuple(edge for edge in found if edge is not None))
