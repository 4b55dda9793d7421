"""Put rows into a table: segments first, then the one commit that lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from projseg.errors import StorageError
from projseg.rows import Rows, batches_of
from projseg.table_layer.change import Change
from projseg.table_layer.commit import commit, create_table, not_committed, refuse_existing
from projseg.table_layer.manifest import SegmentEntry
from projseg.table_layer.own_files import given_back_on_failure
from projseg.table_layer.paths import new_write_id
from projseg.table_layer.snapshot import Snapshot
from projseg.table_layer.storage import Storage
from projseg.table_layer.table_properties import TableProperties

OnSegment: TypeAlias = Callable[[SegmentEntry], object]
ChangeOf: TypeAlias = Callable[[tuple[SegmentEntry, ...]], Change]


@dataclass(frozen=True, slots=True)
class Commit:
    """What an append or overwrite published.

    Parameters
    ----------
    version : int
        The table version written.
    segments, rows : int
        How many it added.
    """

    version: int
    segments: int
    rows: int


def write_rows(
    base: Snapshot,
    data: Rows,
    change_of: ChangeOf,
    *,
    operation: str,
    on_segment: OnSegment | None = None,
) -> tuple[Snapshot, Commit]:
    """Write rows for the table version `base` and publish them; all of them or none.

    Parameters
    ----------
    base : Snapshot
        What the segments are written for.
    data : see `Rows`
        The rows.
    change_of : callable
        Returns the change that adds the segments.
    operation : str
        For the table's history.
    on_segment : callable or None
        Called with each segment's entry as its file is finished.

    Raises
    ------
    InvalidInputError
        If the rows do not fit the table.
    CommitError
        If nothing was committed; the files written are removed, but for CommitStateUnknownError.
        If the location can certainly not be written to, no row has been read.
    """
    storage, write_id = base.storage, new_write_id()
    with given_back_on_failure(storage, write_id, base.version) as files:
        entries = _write_segments(storage, base.properties, data, write_id, on_segment, files)
        snapshot = commit(
            storage,
            base,
            change_of(entries),
            write_id=write_id,
            operation=operation,
            metrics=_metrics(entries),
        )
    return snapshot, Commit(snapshot.version, len(entries), _row_count(entries))


def create_with_rows(
    storage: Storage,
    properties: TableProperties,
    data: Rows,
    *,
    on_segment: OnSegment | None = None,
) -> Snapshot:
    """Publish a new table whose first version holds rows; there is no table if anything fails.

    Parameters
    ----------
    storage : Storage
        Where the table is to be.
    properties : TableProperties
        What it declares.
    data, on_segment
        As of `write_rows`.
    """
    write_id = new_write_id()
    refuse_existing(storage)
    with given_back_on_failure(storage, write_id, None) as files:
        entries = _write_segments(storage, properties, data, write_id, on_segment, files)
        return create_table(
            storage, properties, entries=entries, write_id=write_id, metrics=_metrics(entries)
        )


def _write_segments(
    storage: Storage,
    properties: TableProperties,
    data: Rows,
    write_id: str,
    on_segment: OnSegment | None,
    files: list[str],
) -> tuple[SegmentEntry, ...]:
    # Imported here, so that a process that only asks starts without the writer.
    from projseg.writer.table_writer import write_segments

    try:
        storage.check_writable()
        batches = batches_of(data, properties.schema)
        entries = write_segments(
            batches, properties, storage, write_id=write_id, on_segment=on_segment
        )
    except StorageError as error:
        raise not_committed(storage, error) from error
    files += [entry.file for entry in entries]
    return tuple(entries)


def _metrics(entries: Sequence[SegmentEntry]) -> dict[str, int]:
    return {"added_segments": len(entries), "added_rows": _row_count(entries)}


def _row_count(entries: Sequence[SegmentEntry]) -> int:
    return sum(entry.row_count for entry in entries)
