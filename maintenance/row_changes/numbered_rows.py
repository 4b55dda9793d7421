"""Change rows that are known by numbers: some leave the table, others are written, in one commit.

A number is of a version: its upper 32 bits are the position of the row's segment among those that
the version lists, its lower ones the row's id. Spark computes which rows a statement changes, from
batches that have their numbers, and its tasks write the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.maintenance.row_changes.affected_segments import AffectedSegment, Rewriting
from projseg.maintenance.row_changes.delete_and_update import building_all
from projseg.maintenance.row_changes.matching_rows import (
    Condition,
    matching_rows_of,
    planned,
    rows_as_batches,
)
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.segment_entry import SegmentEntry, written_files
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import parse_segment_name
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.table_writer import write_segments

_ROW_BITS: Final = 32

Numbers = NDArray[np.int64]


def numbered_batches(
    storage: Storage, plan: QueryPlan, segment: SegmentPlan, position: int
) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """Yield the columns of a plan's rows in a segment, and the numbers of the rows."""
    for source, row_ids in matching_rows_of(plan, storage, segment):
        start = 0
        for batch in rows_as_batches(plan, source, row_ids):
            part = row_ids[start : start + batch.num_rows].astype(np.int64)
            start += batch.num_rows
            yield batch, part | (position << _ROW_BITS)


class NumberedChange(msgspec.Struct, frozen=True):
    """Rows that leave the table, int64[k], each once, and segments, written, of those that come.

    `updated` of the new rows take the place of rows that leave; `inserted` do not.
    """

    gone: Numbers
    entries: Sequence[SegmentEntry]
    updated: int
    inserted: int


def commit_numbered(
    base: Snapshot,
    change: NumberedChange,
    *,
    write_id: str,
    operation: str,
    depends_on_all: bool,
    note: CommitNote,
) -> Snapshot:
    """Commit a change of rows of a version, once; nothing if no row changes.

    With `depends_on_all`, rows that others added since then are a conflict.
    """
    storage = base.storage
    with removed_on_failure(storage, write_id, base.version) as files:
        files += written_files(change.entries)
        done = Rewriting(
            write_id,
            files,
            deleted=len(change.gone) - change.updated,
            updated=change.updated,
            inserted=change.inserted,
        )
        parsed = [parse_segment_name(entry.file) for entry in change.entries]
        survivors = write_segments(
            _taken_out(base, change.gone, done),
            building_all(base.properties),
            storage,
            write_id=write_id,
            partition=max((one.partition for one in parsed if one), default=-1) + 1,
        )
        files += written_files(survivors)
        entries = (*change.entries, *survivors)
        if not done.has_changes and not entries:
            return base
        counts = {
            "added_segments": len(entries),
            "added_rows": sum(entry.row_count for entry in entries),
        }
        return commit(
            storage,
            base,
            done.replacing(entries, depends_on_all=depends_on_all),
            write_id=write_id,
            operation=operation,
            metrics={**done.metrics, **counts},
            note=note,
        )


def _taken_out(base: Snapshot, gone: Numbers, done: Rewriting) -> Iterator[pa.RecordBatch]:
    """Take rows out of a version; yield those that are to be written anew because of it."""
    if not len(gone):
        return
    gone = np.sort(gone)
    positions = gone >> _ROW_BITS
    plan = planned(base, Condition())
    known = {segment.entry.file: segment for segment in plan.segments}
    for position in np.unique(positions):
        first, end = np.searchsorted(positions, [position, position + 1])
        row_ids = (gone[first:end] & ((1 << _ROW_BITS) - 1)).astype(np.uint32)
        segment = known[base.segments[int(position)].file]
        affected = AffectedSegment(base.storage, plan, segment, row_ids)
        yield from done.take_out(affected, base.properties)
