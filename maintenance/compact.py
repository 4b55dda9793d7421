"""Merge small segments of a time chunk into larger ones, in one commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError
from projseg.maintenance.compaction_plan import Group, plan_groups, plan_rows
from projseg.maintenance.materialize import segments_in
from projseg.maintenance.merged_segment import Merging
from projseg.maintenance.replacement import Replacement
from projseg.table_layer.commit_info import NO_NOTE, CommitNote
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.snapshot import Snapshot
from projseg.table_layer.table_properties import TableProperties
from projseg.writer.segment_writer import SegmentLayout

MIN_SEGMENTS: Final = "compactMinSegments"
"""The table property that says how many segments are worth merging."""

_MIN_SEGMENTS_BY_HAND: Final = 2
_MIN_SEGMENTS_BY_POLICY: Final = 8


def compaction_plan(
    snapshot: Snapshot,
    interval: tuple[int, int] | None = None,
    target_rows: int | None = None,
    *,
    is_policy: bool = False,
) -> list[Group]:
    """Return the groups of segments that a compaction would merge.

    Parameters
    ----------
    snapshot : Snapshot
        The table.
    interval : (int, int) or None
        Only segments with times in `[start, end)`, microseconds UTC; None: all segments.
    target_rows : int or None
        Most rows of a new segment; None: the table's target.
    is_policy : bool
        Whether any commit may compact, so that a row must not be written again by each.

    Raises
    ------
    InvalidInputError
        PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_OPTION, PROJSEG_BAD_ARGUMENT.
    """
    properties = snapshot.properties
    if target_rows is not None and target_rows < 1:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"target_segment_rows {target_rows} of a compaction is not above 0; leave it out for "
            f"the table's {properties.target_segment_rows}",
        )
    return plan_groups(
        segments_in(snapshot, interval),
        target_rows=target_rows or properties.target_segment_rows,
        min_segments=_min_segments(properties, is_policy=is_policy),
        is_policy=is_policy,
    )


def planned_rows(
    snapshot: Snapshot, interval: tuple[int, int] | None, target_rows: int | None
) -> pa.Table:
    """Return one row per segment that a compaction would write; see `Table.compact`."""
    return plan_rows(compaction_plan(snapshot, interval, target_rows))


def compact(
    base: Snapshot,
    interval: tuple[int, int] | None = None,
    target_rows: int | None = None,
    on_segment: Callable[[SegmentEntry], object] | None = None,
    note: CommitNote = NO_NOTE,
    *,
    is_policy: bool = False,
) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
    """Merge small segments; parameters are those of `compaction_plan` and of `materialize`.

    Returns
    -------
    (Snapshot, tuple of SegmentEntry)
        The version written, or the newest if there was nothing to do; the new segments.

    Raises
    ------
    InvalidInputError
        As of `compaction_plan`.
    CorruptionError, CommitError, StorageError
        As of `Replacement.run`.
    """

    def tasks(snapshot: Snapshot) -> list[Merging]:
        layout = SegmentLayout.of(snapshot.properties)
        groups = compaction_plan(snapshot, interval, target_rows, is_policy=is_policy)
        return [Merging(snapshot, layout, tuple(group.inputs)) for group in groups]

    return Replacement(
        base,
        tasks,
        "compact",
        on_segment=on_segment,
        note=note.asking(
            interval=None if interval is None else str(Interval(*interval)),
            targetSegmentRows=None if target_rows is None else str(target_rows),
            auto="true" if is_policy else None,
        ),
    ).run()


def _min_segments(properties: TableProperties, *, is_policy: bool) -> int:
    text = properties.properties.get(MIN_SEGMENTS)
    if text is None:
        return _MIN_SEGMENTS_BY_POLICY if is_policy else _MIN_SEGMENTS_BY_HAND
    if not text.isdecimal() or int(text) < 2:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION", f"property {MIN_SEGMENTS} {text!r} is not a number from 2 on"
        )
    return int(text)
