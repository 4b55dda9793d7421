"""Merge small segments of a time chunk into larger ones, without removed values, in one commit.

Which segments become one is chosen from what the manifests say alone. A group lies within one of
the table's time chunks and has at most the target's rows, those that are deleted not counted.
Segments go, the oldest first, to the first group with room for them, so no two groups have room for
one another: what a compaction made is not compacted again. A segment that stores removed values
(deleted rows, dropped columns or projections) is written anew even by itself. So is one of a
coarser granularity, which the table had before: it is cut.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.time.interval import Interval
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import InvalidInputError, ProjsegError, without_secrets
from projseg.maintenance.materialize_projections import segments_in
from projseg.maintenance.merged_segment import Merging
from projseg.maintenance.replace_segments import NOBODY, Replacement, Watchers
from projseg.maintenance.rewrite_tasks import Target, TaskRunner, ThreadRunner
from projseg.segment_format.format_limits import SEGMENT_BYTES_MAX
from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote
from projseg.table_layer.metadata.known_properties import compact_min_segments
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.still_stored import LiveParts
from projseg.writer.table_writer import chunk_around, is_coarser, segment_granularity

# A segment file may have twice as many bytes, so that merging what fits cannot pass the limit.
_GROUP_BYTES_MAX: Final = SEGMENT_BYTES_MAX // 2

_PLAN: Final = pa.schema(
    [
        ("interval_start", TIMESTAMP),
        ("interval_end", TIMESTAMP),
        ("min_time", TIMESTAMP),
        ("max_time", TIMESTAMP),
        ("segments", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("files", pa.list_(pa.string())),
    ]
)

IN_THREADS: Final = ThreadRunner()
"""How segments are merged without a cluster: each merge uses all processors by itself."""

LOGGER: Final = logging.getLogger("projseg.table")

_MIN_SEGMENTS_BY_HAND: Final = 2
_MIN_SEGMENTS_BY_POLICY: Final = 8


class Compaction(msgspec.Struct, frozen=True, tag="compact"):
    """Which segments are merged, into new ones of at most `target_rows`, None for the table's.

    Only segments with times in `interval`, [start, end) in microseconds UTC, are. With `is_policy`,
    any commit may compact, so that a row must not be written again by each. With `purge`, only
    segments that store removed values are written anew, each by itself.
    """

    interval: tuple[int, int] | None = None
    target_rows: int | None = None
    is_policy: bool = False
    purge: bool = False

    def groups(self, snapshot: Snapshot) -> list[Group]:
        """Return the groups of segments that are merged."""
        properties = snapshot.properties
        rows = self.target_rows
        if rows is not None and not (type(rows) is int and rows >= 1):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"target_segment_rows {rows!r} of a compaction is not a number above 0; leave it "
                f"out for the table's {properties.target_segment_rows}",
            )
        entries = segments_in(snapshot, self.interval)
        live = LiveParts.of(snapshot)
        if self.purge:
            return _groups_of_one(entry for entry in entries if live.dead(entry))
        return plan_groups(
            entries,
            target_rows=self.target_rows or properties.target_segment_rows,
            min_segments=compact_min_segments(properties.properties)
            or (_MIN_SEGMENTS_BY_POLICY if self.is_policy else _MIN_SEGMENTS_BY_HAND),
            is_policy=self.is_policy,
            is_dirty=lambda entry: bool(live.dead(entry)),
            granularity=segment_granularity(properties),
        )

    def plan(self, target: Target) -> list[Merging]:
        """Return the tasks that merge them."""
        return [self.task(target, tuple(group.inputs)) for group in self.groups(target.snapshot)]

    def task(self, target: Target, replaced: tuple[SegmentEntry, ...]) -> Merging:
        """Return the task that merges these segments."""
        return Merging(target, replaced)


def compact(
    base: Snapshot,
    compaction: Compaction,
    *,
    runner: TaskRunner | None = None,
    watchers: Watchers = NOBODY,
    note: CommitNote = NO_NOTE,
) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
    """Merge small segments, in threads without a runner; return the newest version and new ones."""
    interval, target_rows = compaction.interval, compaction.target_rows
    snapshot, entries = Replacement(
        base,
        compaction,
        "compact",
        runner or IN_THREADS,
        watchers,
        note.asking(
            interval=None if interval is None else str(Interval(*interval)),
            targetSegmentRows=None if target_rows is None else str(target_rows),
            auto="true" if compaction.is_policy else None,
            purge="true" if compaction.purge else None,
        ),
    ).run()
    if snapshot.bloom_files and not compaction.is_policy:
        snapshot = _with_gathered_indexes(snapshot)
    return snapshot, entries


def _with_gathered_indexes(snapshot: Snapshot) -> Snapshot:
    """Gather Bloom files, and leave out the segments that are gone; the rest is committed."""
    # Imported here: most tables have no index.
    from projseg.maintenance.gather_blooms import gather_all

    try:
        return gather_all(snapshot)
    except ProjsegError as error:
        LOGGER.warning(
            "segments of %s were compacted; gathering its Bloom files failed: %s",
            without_secrets(snapshot.storage.location),
            error,
        )
    return snapshot


@dataclass(slots=True)
class Group:
    """Segments of one time chunk that are to become one segment."""

    inputs: list[SegmentEntry] = field(default_factory=list)
    row_count: int = 0
    byte_count: int = 0
    is_dirty: bool = False
    """Whether one of them is to be written anew, be it by itself."""

    def add(self, entry: SegmentEntry, *, is_dirty: bool = False) -> None:
        """Add a segment."""
        self.inputs.append(entry)
        self.is_dirty |= is_dirty
        self.row_count += entry.live_row_count
        self.byte_count += entry.byte_count

    def has_room(self, entry: SegmentEntry, target_rows: int) -> bool:
        """Whether a segment can be added."""
        row_count = self.row_count + entry.live_row_count
        byte_count = self.byte_count + entry.byte_count
        return row_count <= target_rows and byte_count <= _GROUP_BYTES_MAX

    def growing_fast(self) -> Group:
        """Return the group without its largest inputs, until none has more rows than the others.

        Where every commit may compact, such groups write a row again only as often as the size of
        its segment doubles.
        """
        ascending = sorted(self.inputs, key=lambda entry: entry.live_row_count)
        row_count = self.row_count
        while ascending and 2 * ascending[-1].live_row_count > row_count:
            row_count -= ascending.pop().live_row_count
        kept, group = {entry.file for entry in ascending}, Group()
        for entry in self.inputs:
            if entry.file in kept:
                group.add(entry)
        return group


def plan_groups(
    entries: Iterable[SegmentEntry],
    *,
    target_rows: int,
    min_segments: int,
    is_policy: bool = False,
    is_dirty: Callable[[SegmentEntry], bool] = lambda entry: entry.deletion_vector is not None,
    granularity: Granularity | None,
) -> list[Group]:
    """Return the groups, the oldest chunk first, each of `min_segments` or more, at least two.

    A group has at most `target_rows`, and segments with as many stay as they are; but by hand one
    that is dirty, since it stores removed values, is a group too. With `is_policy`, groups must be
    `growing_fast`.
    """
    chunks: dict[tuple[int, int] | None, list[SegmentEntry]] = defaultdict(list)
    coarse: dict[tuple[int, int] | None, list[SegmentEntry]] = defaultdict(list)
    dirty: set[str] = set()
    for entry in entries:
        if is_coarser(entry.interval, granularity):
            dirty.add(entry.listed_as)
            coarse[entry.interval].append(entry)
            continue
        if not is_policy and is_dirty(entry):
            dirty.add(entry.listed_as)
        elif entry.live_row_count >= target_rows:
            continue
        chunks[chunk_around(entry.interval, granularity)].append(entry)
    found: Iterable[Group] = (
        group
        for interval in sorted(chunks, key=_by_time)
        for group in _first_fit(chunks[interval], target_rows, dirty)
    )
    if is_policy:
        found = (group.growing_fast() for group in found)
    cut = (
        group
        for interval in sorted(coarse, key=_by_time)
        for group in _first_fit(coarse[interval], target_rows, dirty)
    )
    return [
        group
        for group in chain(cut, found)
        if group.is_dirty or len(group.inputs) >= max(min_segments, 2)
    ]


def _first_fit(
    entries: Iterable[SegmentEntry], target_rows: int, dirty: Container[str]
) -> Iterator[Group]:
    groups: list[Group] = []
    open_groups: list[Group] = []
    for entry in sorted(entries, key=lambda entry: (entry.min_time_us or 0, entry.file)):
        group = next((g for g in open_groups if g.has_room(entry, target_rows)), None)
        if group is None:
            group = Group()
            groups.append(group)
            open_groups.append(group)
        group.add(entry, is_dirty=entry.listed_as in dirty)
        if group.row_count == target_rows:
            open_groups.remove(group)
    yield from groups


def _by_time(interval: tuple[int, int] | None) -> tuple[int, int]:
    return interval or (0, 0)


def _groups_of_one(entries: Iterable[SegmentEntry]) -> list[Group]:
    """Return a group for each segment, the oldest first."""
    groups = []
    for entry in sorted(entries, key=lambda entry: (entry.min_time_us or 0, entry.file)):
        groups.append(Group())
        groups[-1].add(entry, is_dirty=True)
    return groups


def plan_rows(groups: Iterable[Group]) -> pa.Table:
    """Return one row per group: its time chunk, times, segments, rows, bytes and files."""
    rows = [
        {
            "interval_start": group.inputs[0].interval[0] if group.inputs[0].interval else None,
            "interval_end": group.inputs[0].interval[1] if group.inputs[0].interval else None,
            "min_time": min(
                (e.min_time_us for e in group.inputs if e.min_time_us is not None), default=None
            ),
            "max_time": max(
                (e.max_time_us for e in group.inputs if e.max_time_us is not None), default=None
            ),
            "segments": len(group.inputs),
            "rows": group.row_count,
            "bytes": group.byte_count,
            "files": [entry.file for entry in group.inputs],
        }
        for group in groups
    ]
    return pa.Table.from_pylist(rows, _PLAN)
