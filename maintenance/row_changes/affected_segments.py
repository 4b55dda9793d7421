"""The segments that hold rows which a change affects, and what becomes of each.

A segment all of whose rows are deleted leaves the table. Of another, few deleted rows are hidden by
a deletion vector; if they are many, the rows that are left are written anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.maintenance.row_changes.matching_rows import (
    Condition,
    is_whole,
    matched_rows,
    planned,
    rows_as_batches,
)
from projseg.reader.open_sources import open_source
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.segment_source import SegmentSource
from projseg.segment_format.format_limits import DELETED_ROWS_MAX
from projseg.table_layer.metadata.change import Replace
from projseg.table_layer.metadata.deleted_rows import deleted_rows, live_row_ids, with_deleted_rows
from projseg.table_layer.metadata.known_properties import max_deleted_ratio
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.storage_contract import Storage


@dataclass(frozen=True, slots=True)
class AffectedSegment:
    """A segment, of a plan that scans all columns, with rows that a change affects.

    `matching` has the ids of these rows, ascending, none of them deleted; None stands for all that
    are not deleted.
    """

    storage: Storage
    plan: QueryPlan
    segment: SegmentPlan
    matching: NDArray[np.uint32] | None

    @property
    def entry(self) -> SegmentEntry:
        """The segment as it is listed."""
        return self.segment.entry

    @property
    def row_count(self) -> int:
        """How many rows are matching."""
        return self.entry.live_row_count if self.matching is None else len(self.matching)

    @property
    def row_ids(self) -> NDArray[np.uint32]:
        """The rows that are matching."""
        return live_row_ids(self.storage, self.entry) if self.matching is None else self.matching

    def source(self) -> SegmentSource:
        """Return the base rows."""
        return open_source(self.storage, self.entry, self.segment.choice.plans[0], self.plan.schema)


def affected_segments(snapshot: Snapshot, condition: Condition) -> Iterator[AffectedSegment]:
    """Yield the segments with rows that match a condition.

    Those that metadata prove to be matching whole are not read.
    """
    plan = planned(snapshot, condition)
    for segment in plan.segments:
        matching = None
        if not is_whole(segment):
            mask = matched_rows(plan, snapshot.storage, segment)
            matching = np.flatnonzero(mask).astype(np.uint32)
        affected = AffectedSegment(snapshot.storage, plan, segment, matching)
        if affected.row_count:
            yield affected


@dataclass(slots=True)
class Rewriting:
    """The counts, files and segments of a commit, gathered while rows are read.

    Removed segments leave the table; masked ones stay, as they were listed and with their new
    deletion vector. Nothing is written for a preview.
    """

    write_id: str
    files: list[str]
    removed: list[SegmentEntry] = field(default_factory=list)
    masked: list[tuple[SegmentEntry, SegmentEntry]] = field(default_factory=list)
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    is_preview: bool = False

    def take_out(
        self, affected: AffectedSegment, properties: TableProperties
    ) -> Iterator[pa.RecordBatch]:
        """Take the matching rows out of the table, and yield those that have to be written anew."""
        entry = affected.entry
        deleted_count = entry.deleted_row_count + affected.row_count
        if deleted_count == entry.row_count:
            self.removed.append(entry)
            return
        may_mask = _may_mask(deleted_count, entry.row_count, properties)
        if self.is_preview:
            if may_mask:
                self.masked.append((entry, entry))
            else:
                self.removed.append(entry)
            return
        deleted = np.union1d(deleted_rows(affected.storage, entry), affected.row_ids)
        if may_mask:
            masked = with_deleted_rows(affected.storage, entry, deleted, self.write_id, self.files)
            self.masked.append((entry, masked))
            return
        self.removed.append(entry)
        is_left = np.ones(entry.row_count, np.bool_)
        is_left[deleted] = False
        left = np.flatnonzero(is_left).astype(np.uint32)
        yield from rows_as_batches(affected.plan, affected.source(), left)

    @property
    def has_changes(self) -> bool:
        """Whether a segment is to be listed otherwise."""
        return bool(self.removed or self.masked)

    def replacing(self, entries: tuple[SegmentEntry, ...], *, depends_on_all: bool) -> Replace:
        """Return the change that puts new segments in the place of what was taken out."""
        before = [*self.removed, *(old for old, _ in self.masked)]
        return Replace(
            frozenset(entry.listed_as for entry in before),
            entries,
            depends_on_all,
            tuple(new for _, new in self.masked),
        )

    @property
    def metrics(self) -> dict[str, int]:
        """What the table's history tells of it."""
        return {
            "deleted_rows": self.deleted,
            "updated_rows": self.updated,
            "inserted_rows": self.inserted,
            "removed_segments": len(self.removed),
            "masked_segments": len(self.masked),
        }


def surviving_rows(
    snapshot: Snapshot, condition: Condition, done: Rewriting
) -> Iterator[pa.RecordBatch]:
    """Take the rows that match a condition out of a version; yield the rows to write anew."""
    for affected in affected_segments(snapshot, condition):
        done.deleted += affected.row_count
        yield from done.take_out(affected, snapshot.properties)


def _may_mask(deleted_count: int, row_count: int, properties: TableProperties) -> bool:
    ratio = max_deleted_ratio(properties.properties)
    return deleted_count < ratio * row_count and deleted_count <= DELETED_ROWS_MAX
