"""Put rows into a table: segments first, then the one commit that lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from projseg.table_layer.change import Change
from projseg.table_layer.commit import commit
from projseg.table_layer.manifest import SegmentEntry
from projseg.table_layer.paths import new_write_id
from projseg.table_layer.snapshot import Snapshot
from projseg.writer.table_writer import write_segments

Rows: TypeAlias = pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch]
OnSegment: TypeAlias = Callable[[SegmentEntry], object]
ChangeOf: TypeAlias = Callable[[tuple[SegmentEntry, ...]], Change]


@dataclass(frozen=True, slots=True)
class Commit:
    """What an append or overwrite published: the table version, and what it added."""

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
    data : pa.Table, RecordBatchReader or iterable of RecordBatch
        The rows.
    change_of : callable
        Returns the change that adds the segments.
    operation : str
        For the table's history.
    on_segment : callable or None
        Called with each segment's entry as its file is finished.
    """
    write_id = new_write_id()
    entries = tuple(
        write_segments(
            _batches(data), base.properties, base.storage, write_id=write_id, on_segment=on_segment
        )
    )
    row_count = sum(entry.row_count for entry in entries)
    snapshot = commit(
        base.storage,
        base,
        change_of(entries),
        write_id=write_id,
        operation=operation,
        metrics={"added_segments": len(entries), "added_rows": row_count},
    )
    return snapshot, Commit(snapshot.version, len(entries), row_count)


def _batches(data: Rows) -> Iterable[pa.RecordBatch]:
    batches: Iterable[pa.RecordBatch] = data
    return data.to_batches() if isinstance(data, pa.Table) else batches
