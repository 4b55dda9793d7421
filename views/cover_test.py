"""Which parts of a view may answer at a version of its table, and which segments none stands for.

A part is a function of immutable segments: it is valid wherever all of them are listed, with the
same deleted rows. Versions and times prove nothing by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.time.interval import Interval
from projseg.memory.cache import KEPT
from projseg.reader.plan.version_facts import CoveredRows
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.view_records import ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion

_ENTRY_BYTES = 2048


class Coverage(msgspec.Struct, frozen=True):
    """The parts of a view all of whose segments its table lists at a version, and the others.

    No valid part stands for the segments in `uncovered`.
    """

    valid: tuple[ViewPart, ...]
    stale: tuple[ViewPart, ...]
    uncovered: tuple[SegmentEntry, ...]


def coverage(snapshot: Snapshot, store: StoreVersion, view: ViewEntry) -> Coverage:
    """Return which parts are valid at a version, and the segments that they do not stand for."""
    table = (snapshot.storage.location, snapshot.version, snapshot.file.write_id)
    key = ("view coverage", table, store.identity, view.view_id)
    found: Coverage = KEPT.get_or_load(
        key,
        lambda: _coverage(snapshot, store, view),
        lambda c: _ENTRY_BYTES * (1 + len(c.valid) + len(c.stale) + len(c.uncovered)),
    )
    return found


def _coverage(snapshot: Snapshot, store: StoreVersion, view: ViewEntry) -> Coverage:
    parts = store.parts(view)
    refreshed = view.refreshed.get(snapshot.properties.table_id)
    if refreshed is None:
        return Coverage((), parts, tuple(snapshot.segments))
    is_all = view.uncovered[0] == 0
    is_same = (refreshed.version, refreshed.write_id) == (
        snapshot.version,
        snapshot.file.write_id,
    )
    if is_same and is_all:
        return Coverage(parts, (), ())
    names = {reference.name for reference in snapshot.file.manifests}
    if is_all and names.issuperset(view.fact_manifests):
        known = set(view.fact_manifests)
        new = [r for r in snapshot.file.manifests if r.name not in known]
        added = (m for m in snapshot.load_all(new))
        return Coverage(parts, (), tuple(m.entry(n) for m in added for n in range(len(m))))
    return compared(snapshot, store, parts)


def compared(snapshot: Snapshot, store: StoreVersion, parts: Sequence[ViewPart]) -> Coverage:
    """Return the coverage by comparing every cover with what a version lists."""
    listed = listed_segments(snapshot)
    valid = tuple(part for part in parts if listed.issuperset(store.cover(part)))
    kept = {part.segment.file for part in valid}
    stale = tuple(part for part in parts if part.segment.file not in kept)
    return Coverage(valid, stale, others(snapshot, covered_names(store, valid)))


def listed_segments(snapshot: Snapshot) -> set[str]:
    """Return how each segment of a version is listed; entries are not decoded."""
    manifests = snapshot.load_all()
    return {name for manifest in manifests for name in manifest.listed()}


def covered_names(store: StoreVersion, parts: Iterable[ViewPart]) -> set[str]:
    """Return the segments that parts stand for, as they are listed."""
    return {name for part in parts for name in store.cover(part)}


def covered_rows(
    snapshot: Snapshot, store: StoreVersion, part: ViewPart, interval: Interval | None
) -> CoveredRows:
    """Return the rows that a part stands for, for tasks that may have to read them instead."""
    return CoveredRows(snapshot.version, frozenset(store.cover(part)), interval)


def others(snapshot: Snapshot, covered: set[str]) -> tuple[SegmentEntry, ...]:
    """Return the segments of a version but for some; these are not decoded."""
    manifests = snapshot.load_all()
    return tuple(
        manifest.entry(place)
        for manifest in manifests
        for place, name in enumerate(manifest.listed())
        if name not in covered
    )


def among(snapshot: Snapshot, wanted: set[str]) -> tuple[SegmentEntry, ...]:
    """Return some segments of a version, named as they are listed."""
    manifests = snapshot.load_all()
    return tuple(
        manifest.entry(place)
        for manifest in manifests
        for place, name in enumerate(manifest.listed())
        if name in wanted
    )


def times_of_parts(
    interval: Interval | None, spec: ProjectionSpec, parts: Sequence[ViewPart]
) -> tuple[Interval | None, tuple[Interval, ...]] | Reason:
    """Return the times that parts answer for, the same for all, and those that are left.

    A view that keeps no time answers from parts that lie wholly in the interval.
    """
    time = spec.time_grouping
    lows = [p.segment.min_time_us for p in parts if p.segment.min_time_us is not None]
    highs = [p.segment.max_time_us for p in parts if p.segment.max_time_us is not None]
    if interval is None or time is None or not lows:
        return interval, ()
    buckets, (start, end) = time.granularity, (interval.start_us, interval.end_us)
    is_first = start <= min(lows) or buckets.is_boundary(start)
    is_last = end > max(highs) or buckets.is_boundary(end)
    low = start if is_first else buckets.next_boundary(start)
    high = end if is_last else buckets.floor_one(end)
    if low >= high:
        return Reason(ReasonCode.UNALIGNED_INTERVAL, f"{interval} holds no whole {buckets}")
    edges = (Interval(*ends) for ends in ((start, low), (high, end)) if ends[0] < ends[1])
    return Interval(low, high), tuple(edges)
