"""Replace exactly the rows of a condition or an interval, also where it cuts through segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.evaluation.arrow_vectors import vector_of_array
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import MemorySource, RowRange, Rows
from projseg.maintenance.row_changes.affected_segments import Rewriting, surviving_rows
from projseg.maintenance.row_changes.delete_and_update import (
    REWRITE_TRIES,
    Corrected,
    OnSegment,
    building_all,
    rewrite,
)
from projseg.maintenance.row_changes.matching_rows import Condition, scanned
from projseg.reader.selection import rows_in_interval
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.publish import remove, removed_on_failure
from projseg.table_layer.commits.rebase import lies_inside
from projseg.table_layer.metadata.change import CommitNote, Overwrite
from projseg.table_layer.metadata.segment_entry import SegmentEntry, written_files
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.paths import parse_segment_name
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.checked_rows import normalise_batches
from projseg.writer.table_writer import write_segments


def replace_rows(
    base: Snapshot,
    batches: Iterable[pa.RecordBatch],
    condition: Condition,
    note: CommitNote,
    *,
    on_segment: OnSegment | None = None,
) -> tuple[Snapshot, Corrected]:
    """Remove the rows that match a condition and add others that do, in one commit."""

    def rows_of(now: Snapshot, done: Rewriting) -> Iterator[pa.RecordBatch]:
        yield from surviving_rows(now, condition, done)
        for batch in fulfilling(batches, now.properties, condition):
            done.inserted += batch.num_rows
            yield batch

    return rewrite(
        base,
        rows_of,
        "overwrite",
        note.asking(**condition.parameters),
        depends_on_all=True,
        tries=1,
        on_segment=on_segment,
    )


def replace_by_written(
    storage: Storage,
    entries: Sequence[SegmentEntry],
    condition: Condition,
    *,
    write_id: str,
    metrics: Mapping[str, int],
    note: CommitNote,
    txn: tuple[str, int] | None,
) -> Snapshot:
    """Commit segments that are written already, in place of the rows that match a condition.

    These are rows of the version that is the newest when it is committed.
    """
    for attempt in range(REWRITE_TRIES):
        base = open_snapshot(storage)
        with removed_on_failure(storage, write_id, base.version) as files:
            done = Rewriting(write_id, files)
            survivors = write_segments(
                surviving_rows(base, condition, done),
                building_all(base.properties),
                storage,
                write_id=write_id,
                partition=_free_partition(entries),
                attempt=attempt,
            )
            files += written_files(survivors)
            change = done.replacing((*entries, *survivors), depends_on_all=True)
            counted = ("deleted_rows", "removed_segments", "masked_segments")
            counts = {**metrics, **{name: done.metrics[name] for name in counted}}
            try:
                return commit(
                    storage,
                    base,
                    change,
                    write_id=write_id,
                    operation="overwrite",
                    metrics=counts,
                    txn=txn,
                    note=note.asking(**condition.parameters),
                )
            except CommitConflictError:
                if attempt == REWRITE_TRIES - 1:
                    raise
        remove(storage, files)
    raise AssertionError("the last try returns or raises")


def with_cut_segments(
    base: Snapshot, change: Overwrite, write_id: str, files: list[str]
) -> Overwrite:
    """Return an overwrite that takes the interval's rows out of the segments that it cuts.

    Rows outside the interval stay: few replaced rows are hidden by deletion vectors, of more the
    rows that are left are written anew. Segments that lie inside the interval are not read.
    """
    interval, properties = change.interval, base.properties
    if interval is None or properties.time_column is None:
        return change
    found = base.segments_between(*interval)
    if all(lies_inside(entry, interval, properties) for entry in found):
        return change
    done = Rewriting(write_id, files)
    survivors = write_segments(
        surviving_rows(base, Condition(interval=Interval(*interval)), done),
        building_all(properties),
        base.storage,
        write_id=write_id,
        partition=_free_partition(change.entries),
    )
    files += written_files(survivors)
    return replace(change, cut=done.replacing(tuple(survivors), depends_on_all=False))


def _free_partition(entries: Iterable[SegmentEntry]) -> int:
    """Return the number after those of the partitions that wrote segments."""
    names = (parse_segment_name(entry.file) for entry in entries)
    return max((name.partition for name in names if name is not None), default=-1) + 1


def fulfilling(
    batches: Iterable[pa.RecordBatch], properties: TableProperties, condition: Condition
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the table's columns and types, each of which fulfils a condition."""
    query = scanned(properties, condition)
    for batch in normalise_batches(batches, properties.schema, properties.time_column):
        _require_matching(batch, query, condition)
        yield batch


def _require_matching(batch: pa.RecordBatch, query: QuerySpec, condition: Condition) -> None:
    vectors = {name: vector_of_array(batch[name]) for name in batch.schema.names}
    rows = Rows(MemorySource(batch.num_rows, vectors), RowRange(0, batch.num_rows))
    matching = filter_rows(rows, query.filter)
    if query.interval is not None and query.time_column is not None:
        matching = rows_in_interval(matching, query.time_column, query.interval)
    outside = batch.num_rows - len(matching)
    if outside:
        raise InvalidInputError(
            "PROJSEG_ROWS_OUTSIDE_FILTER",
            f"{outside} rows do not fulfil {condition}, the condition of the rows that they were "
            "to replace; nothing was replaced: keep the rows to it",
        )
