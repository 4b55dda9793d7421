"""Replace exactly the rows that a condition means by others that fulfil it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from projseg.aggregation.arrow_vectors import vector_of_array
from projseg.aggregation.filter_rows import filter_rows
from projseg.aggregation.rows import MemorySource, RowRange, Rows
from projseg.algebra.query.spec import QuerySpec
from projseg.errors import InvalidInputError
from projseg.maintenance.matched_rows import Condition, scanned
from projseg.maintenance.row_changes import (
    Corrected,
    OnSegment,
    Rewriting,
    rewrite,
    surviving_rows,
)
from projseg.reader.selection import rows_in_interval
from projseg.table_layer.commit_info import CommitNote
from projseg.table_layer.snapshot import Snapshot
from projseg.writer.input_rows import normalise_batches


def replace_rows(
    base: Snapshot,
    batches: Iterable[pa.RecordBatch],
    condition: Condition,
    note: CommitNote,
    *,
    on_segment: OnSegment | None = None,
) -> tuple[Snapshot, Corrected]:
    """Remove the rows that a condition means and add others, in one commit.

    Parameters
    ----------
    base : Snapshot
        The newest version.
    batches : iterable of pa.RecordBatch
        The new rows, read once.
    condition : Condition
        Which rows they replace; each has to fulfil it.
    note : CommitNote
        For the history.
    on_segment : callable or None
        Called with each new segment's entry as its file is finished.

    Raises
    ------
    InvalidInputError
        PROJSEG_ROWS_OUTSIDE_FILTER if a new row does not, and what is wrong with the rows.
    CommitError, StorageError
        As of `rewrite`; it is tried once, as the rows can be read once. Rows that others add
        meanwhile are a conflict, as they might be such that were to be replaced.
    """
    query = scanned(base, condition)

    def rows_of(now: Snapshot, done: Rewriting) -> Iterator[pa.RecordBatch]:
        yield from surviving_rows(now, condition, done)
        properties = now.properties
        for batch in normalise_batches(batches, properties.schema, properties.time_column):
            _require_meant(batch, query, condition)
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


def _require_meant(batch: pa.RecordBatch, query: QuerySpec, condition: Condition) -> None:
    vectors = {name: vector_of_array(batch[name]) for name in batch.schema.names}
    rows = Rows(MemorySource(batch.num_rows, vectors), RowRange(0, batch.num_rows))
    meant = filter_rows(rows, query.filter)
    if query.interval is not None and query.time_column is not None:
        meant = rows_in_interval(meant, query.time_column, query.interval)
    outside = batch.num_rows - len(meant)
    if outside:
        asked = " and ".join(text for text in condition.parameters.values() if text is not None)
        raise InvalidInputError(
            "PROJSEG_ROWS_OUTSIDE_FILTER",
            f"{outside} rows do not fulfil {asked}, the condition of the rows that they were to "
            "replace; nothing was replaced: keep the rows to it",
        )
