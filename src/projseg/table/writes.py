"""Write to a table: segments first, then one commit that lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from projseg.algebra.time.interval import Interval
from projseg.declarations import (
    IndexLike,
    ProjectionLike,
    SchemaLike,
    declare_properties,
    schema_of,
)
from projseg.errors import InvalidInputError, StorageError
from projseg.input_rows import RowsLike, batches_of, rows_with_schema
from projseg.maintenance.auto_compaction import after_commit
from projseg.maintenance.row_changes.replace_rows import with_cut_segments
from projseg.table_layer.commits.commit import commit, create_table, not_committed, refuse_existing
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.metadata.change import Append, Change, CommitNote, Overwrite
from projseg.table_layer.metadata.segment_entry import SegmentEntry, written_files
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.segment_writer import OnRows
from projseg.writer.table_writer import write_segments

OnSegment: TypeAlias = Callable[[SegmentEntry], object]
COMMIT_AS: Final = "commit-as:"
"""Before the name that a caller gives to a write, among the names of applications."""
ChangeOf: TypeAlias = Callable[[tuple[SegmentEntry, ...], str, list[str]], Change]


@dataclass(frozen=True, slots=True)
class Commit:
    """The version that a write published.

    Parameters
    ----------
    version : int
        The table version written.
    segments, rows : int
        How many segments it added, and the rows in them.
    """

    version: int
    segments: int
    rows: int


def commit_of(version: int, entries: Sequence[SegmentEntry]) -> Commit:
    """Return the version that added these segments."""
    return Commit(version, len(entries), _row_count(entries))


def append(
    base: Snapshot,
    data: RowsLike,
    *,
    on_segment: OnSegment | None,
    note: CommitNote,
    commit_as: str | None = None,
    on_rows: OnRows | None = None,
) -> tuple[Snapshot, Commit]:
    """Add rows to the table version `base`; see `Table.append`, and `write_segments`."""
    txn = transaction_of(commit_as)
    if txn is not None and txn[0] in base.file.transactions:
        return base, Commit(base.version, 0, 0)
    return _write_rows(
        base,
        data,
        lambda entries, write_id, files: Append(entries),
        operation="append",
        on_segment=on_segment,
        note=note,
        txn=txn,
        on_rows=on_rows,
    )


def overwrite(
    base: Snapshot,
    data: RowsLike,
    bounds: tuple[int, int] | None,
    *,
    on_segment: OnSegment | None,
    note: CommitNote,
) -> tuple[Snapshot, Commit]:
    """Replace all rows of the table version `base`, or those of `[start, end)` in microseconds."""

    def change_of(entries: tuple[SegmentEntry, ...], write_id: str, files: list[str]) -> Overwrite:
        change = Overwrite(entries, bounds)
        return change if bounds is None else with_cut_segments(base, change, write_id, files)

    return _write_rows(
        base,
        data,
        change_of,
        operation="overwrite",
        on_segment=on_segment,
        note=note.asking(interval=None if bounds is None else str(Interval(*bounds))),
    )


def _write_rows(
    base: Snapshot,
    data: RowsLike,
    change_of: ChangeOf,
    *,
    operation: str,
    on_segment: OnSegment | None,
    note: CommitNote,
    txn: tuple[str, int] | None = None,
    on_rows: OnRows | None = None,
) -> tuple[Snapshot, Commit]:
    """Write rows for the table version `base` and publish them; all of them or none.

    `change_of` returns the change that adds the segments, given these, the write id, and the list
    that takes the names of further files. Where the location cannot be written to, no row is read.
    """
    storage, write_id = base.storage, new_write_id()
    with removed_on_failure(storage, write_id, base.version) as files:
        entries = _write_segments(
            storage, base.properties, data, write_id, on_segment, files, on_rows
        )
        snapshot = commit(
            storage,
            base,
            change_of(entries, write_id, files),
            write_id=write_id,
            operation=operation,
            metrics=_metrics(entries),
            note=note,
            txn=txn,
        )
    made = commit_of(snapshot.version, entries)
    return after_commit(snapshot, entries), made


def create(
    storage: Storage,
    schema: SchemaLike | None,
    *,
    time_column: str | None,
    segment_granularity: str,
    cluster_by: Sequence[str],
    projections: Sequence[ProjectionLike],
    target_segment_rows: int,
    properties: Mapping[str, str] | None,
    indexes: Sequence[IndexLike] = (),
    data: RowsLike | None,
    on_segment: OnSegment | None,
    commit_as: str | None = None,
) -> Snapshot:
    """Publish a new table as `Table.create` says; there is none if anything fails."""
    if schema is None and data is not None:
        schema, data = rows_with_schema(data)
    declared_properties = declare_properties(
        schema_of(schema),
        time_column=time_column,
        segment_granularity=segment_granularity,
        cluster_by=cluster_by,
        projections=projections,
        target_segment_rows=target_segment_rows,
        properties=properties,
        indexes=indexes,
    )
    if data is None:
        return create_table(storage, declared_properties)
    txn = transaction_of(commit_as)
    return _create_with_rows(storage, declared_properties, data, on_segment, txn)


def transaction_of(commit_as: str | None) -> tuple[str, int] | None:
    """Return the transaction that a write with a name of its own is; None without a name."""
    if commit_as is None:
        return None
    if not isinstance(commit_as, str) or not commit_as.isprintable() or not commit_as.strip():
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"commit_as takes a printable text that is not blank, not {commit_as!r}"[:200],
        )
    return COMMIT_AS + commit_as, 1


def _create_with_rows(
    storage: Storage,
    properties: TableProperties,
    data: RowsLike,
    on_segment: OnSegment | None,
    txn: tuple[str, int] | None,
) -> Snapshot:
    write_id = new_write_id()
    refuse_existing(storage)
    with removed_on_failure(storage, write_id, None) as files:
        entries = _write_segments(storage, properties, data, write_id, on_segment, files)
        return create_table(
            storage,
            properties,
            entries=entries,
            write_id=write_id,
            metrics=_metrics(entries),
            txn=txn,
        )


def _write_segments(
    storage: Storage,
    properties: TableProperties,
    data: RowsLike,
    write_id: str,
    on_segment: OnSegment | None,
    files: list[str],
    on_rows: OnRows | None = None,
) -> tuple[SegmentEntry, ...]:
    try:
        storage.check_writable()
        batches = batches_of(data, properties.schema)
        entries = write_segments(
            batches,
            properties,
            storage,
            write_id=write_id,
            on_segment=on_segment,
            on_rows=on_rows,
        )
    except StorageError as error:
        raise not_committed(storage, error) from error
    files += written_files(entries)
    return tuple(entries)


def _metrics(entries: Sequence[SegmentEntry]) -> dict[str, int]:
    return {"added_segments": len(entries), "added_rows": _row_count(entries)}


def _row_count(entries: Sequence[SegmentEntry]) -> int:
    return sum(entry.live_row_count for entry in entries)
