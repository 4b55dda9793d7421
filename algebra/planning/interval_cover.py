"""Which part of a query's interval a projection's whole buckets cover in one segment."""

from __future__ import annotations

import msgspec

from projseg.algebra.planning.source_plan import Reason, ReasonCode
from projseg.algebra.projection.spec import TimeGrouping
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.time.interval import Interval


class Cover(msgspec.Struct, frozen=True):
    """The parts of an interval.

    Parameters
    ----------
    buckets : Interval or None
        What the projection answers; None: all that it holds.
    edges : tuple of Interval
        What is left for other sources; disjoint, and without instants where the segment has none.
    """

    buckets: Interval | None
    edges: tuple[Interval, ...] = ()

    def share(self, data: Interval) -> float:
        """Return the part of the data's time that the buckets cover, 0 to 1."""
        return 1.0 if self.buckets is None else share_of(self.buckets, data)


def share_of(part: Interval, data: Interval) -> float:
    """Return how much of `data` lies in `part`, 0 to 1."""
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
    """Whether an interval leaves out no row of a segment."""
    if interval is None:
        return True
    return data is not None and interval.contains(data) and not has_null_time


def cover(
    time: TimeGrouping | None,
    interval: Interval | None,
    data: Interval | None,
    *,
    has_null_time: bool,
) -> Cover | Reason:
    """Return how a projection's buckets cover an interval, or that no whole bucket lies in it.

    The projection's own smallest bucket begins before the base table's smallest time, so where the
    interval reaches over an end of the data, no bound is put on the buckets there.

    Parameters
    ----------
    time : TimeGrouping or None
        How the projection keeps time.
    interval : Interval or None
        The query's; it overlaps `data`.
    data : Interval or None
        `data_interval` of the segment.
    has_null_time : bool
        Whether a row has no time; an interval leaves it out.
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
