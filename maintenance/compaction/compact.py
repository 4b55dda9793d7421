"""Merge small segments of a time chunk into larger ones, without removed values, in one commit."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, ProjsegError, without_secrets
from projseg.maintenance.compaction.compaction_plan import Group, groups_of_one, plan_groups
from projseg.maintenance.projections.materialize import segments_in
from projseg.maintenance.rewrite.merged_segment import Merging
from projseg.maintenance.rewrite.replacement import NOBODY, Replacement, Watchers
from projseg.maintenance.rewrite.tasks import Target, TaskRunner, ThreadRunner
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote
from projseg.table_layer.metadata.known_properties import compact_min_segments
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.still_stored import LiveParts
from projseg.writer.table_writer import segment_granularity

IN_THREADS: Final = ThreadRunner()
"""How segments are merged without a cluster: each merge uses all processors by itself."""

LOGGER: Final = logging.getLogger("projseg.table")

_MIN_SEGMENTS_BY_HAND: Final = 2
_MIN_SEGMENTS_BY_POLICY: Final = 8


class Compaction(msgspec.Struct, frozen=True, tag="compact"):
    """Which segments are merged.

    Parameters
    ----------
    interval : (int, int) or None
        Only segments with times in `[start, end)`, microseconds UTC; None: all segments.
    target_rows : int or None
        Most rows of a new segment; None: the table's target.
    is_policy : bool
        Whether any commit may compact, so that a row must not be written again by each.
    purge : bool
        Only segments that store removed values are written anew, each by itself.
    """

    interval: tuple[int, int] | None = None
    target_rows: int | None = None
    is_policy: bool = False
    purge: bool = False

    def groups(self, snapshot: Snapshot) -> list[Group]:
        """Return the groups of segments that are merged.

        Raises
        ------
        InvalidInputError
            PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_OPTION, PROJSEG_BAD_ARGUMENT.
        """
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
            return groups_of_one(entry for entry in entries if live.dead(entry))
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
    """Merge small segments.

    Parameters
    ----------
    base : Snapshot
        The table.
    compaction : Compaction
        Which segments.
    runner : TaskRunner or None
        Who merges; None: threads of this process.
    watchers : Watchers
        Receives the progress of the work.
    note : CommitNote
        What the table's history is to say besides.

    Returns
    -------
    (Snapshot, tuple of SegmentEntry)
        The version written, or the newest if there was nothing to do; the new segments.
    """
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
    from projseg.maintenance.indexes.gather_blooms import gather_all

    try:
        return gather_all(snapshot)
    except ProjsegError as error:
        LOGGER.warning(
            "segments of %s were compacted; gathering its Bloom files failed: %s",
            without_secrets(snapshot.storage.location),
            error,
        )
    return snapshot
