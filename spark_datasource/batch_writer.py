"""Writes a DataFrame: each task makes whole segments, and one commit publishes them all.

The constructor runs once in Spark's planner, `write` in the executors, `commit` and `abort` in yet
another process that gets the writer as it was before the tasks ran. So the write id is made in the
constructor, and only commit messages carry anything back. See SPEC.md "Table", commits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError
from projseg.maintenance.after_commit import after_commit
from projseg.maintenance.replace_rows import fulfilling, replace_by_written
from projseg.spark_datasource.commit_message import SegmentsWritten
from projseg.spark_datasource.schemas import stored_schema
from projseg.spark_datasource.write_request import WriteRequest
from projseg.spark_datasource.write_target import WriteTarget, find_target, overtaken_target
from projseg.table_layer.change import Append, Change, Overwrite
from projseg.table_layer.commit import commit, create_table
from projseg.table_layer.commit_info import CommitNote
from projseg.table_layer.own_files import remove, removed_on_failure
from projseg.table_layer.paths import new_write_id
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.snapshot import open_snapshot
from projseg.writer.table_writer import write_segments

LOGGER: Final = logging.getLogger("projseg.spark")


class ProjsegWriter(DataSourceArrowWriter):
    """One write job.

    Parameters
    ----------
    request : WriteRequest
        The options.
    schema : StructType
        The DataFrame's columns; Spark has not compared them with the table's.
    overwrite : bool
        Replace the whole table, or the request's interval.
    """

    def __init__(self, request: WriteRequest, schema: StructType, *, overwrite: bool) -> None:
        self._request = request
        self._target = find_target(request, stored_schema(schema), overwrite=overwrite)
        self._overwrite = overwrite
        self._write_id = new_write_id()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows as segments of names that no other attempt can have."""
        if self._target.reason_to_skip:
            return SegmentsWritten.of([])
        context = TaskContext.get()
        assert context is not None
        target, rows = self._target, iterator
        if target.condition is not None:
            rows = fulfilling(iterator, target.properties, target.condition)
        entries = write_segments(
            rows,
            self._target.properties,
            self._target.storage,
            write_id=self._write_id,
            partition=context.partitionId(),
            attempt=context.taskAttemptId(),
            threads=context.cpus(),
        )
        return SegmentsWritten.of(entries)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the segments of the attempts that won, in one table version."""
        if self._target.reason_to_skip:
            LOGGER.info("nothing was written: %s", self._target.reason_to_skip)
            return
        written = [message for message in messages if isinstance(message, SegmentsWritten)]
        if len({message.release for message in written}) > 1:
            LOGGER.warning("executors run different releases of projseg; install one everywhere")
        entries = tuple(entry for message in written for entry in message.unpacked())
        target = self._target
        with removed_on_failure(target.storage, self._write_id, target.base_version) as files:
            files += [entry.file for entry in entries]
            self._publish(entries)

    def _publish(self, entries: tuple[SegmentEntry, ...]) -> None:
        """Commit to the table, or make it by its first commit."""
        change = self._change(self._target, entries)  # refuses rows outside the interval
        metrics = {
            "added_segments": len(entries),
            "added_rows": sum(entry.row_count for entry in entries),
        }
        target = self._target
        if target.base_version is None:
            overtaken = self._make_table(entries, metrics)
            if overtaken is None:
                return
            target, change = overtaken, self._change(overtaken, entries)
        if target.reason_to_skip:
            LOGGER.warning("write %s published nothing: %s", self._write_id, target.reason_to_skip)
            remove(target.storage, [entry.file for entry in entries])
            return
        if target.condition is not None:
            replace_by_written(
                target.storage,
                entries,
                target.condition,
                write_id=self._write_id,
                metrics=metrics,
                note=self._request.note,
                txn=self._request.transaction,
            )
            return
        landed = commit(
            target.storage,
            open_snapshot(target.storage, target.base_version),
            change,
            write_id=self._write_id,
            operation="overwrite" if self._overwrite else "append",
            metrics=metrics,
            txn=self._request.transaction,
            note=self._note(target),
        )
        after_commit(landed, entries)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log it and delete nothing: Spark also aborts if the answer of a commit was lost.

        A task that failed and a commit that was refused have removed their own files; what other
        tasks wrote stays, and no table version lists it unless the commit succeeded.
        """
        finished = sum(message is not None for message in messages)
        LOGGER.warning(
            "write %s to %s was aborted after %d tasks; files that no table version lists stay",
            self._write_id,
            self._target.storage.location,
            finished,
        )

    def _change(self, target: WriteTarget, entries: tuple[SegmentEntry, ...]) -> Change:
        if self._overwrite:
            return Overwrite(entries, target.interval, target.added_columns)
        return Append(entries, target.added_columns)

    def _note(self, target: WriteTarget) -> CommitNote:
        interval = None if target.interval is None else str(Interval(*target.interval))
        return self._request.note.asking(interval=interval)

    def _make_table(
        self, entries: tuple[SegmentEntry, ...], metrics: dict[str, int]
    ) -> WriteTarget | None:
        """Make the table, with its rows in it, or return the one that another write made first."""
        target = self._target
        try:
            create_table(
                target.storage,
                target.properties,
                entries=entries,
                write_id=self._write_id,
                metrics=metrics,
                txn=self._request.transaction,
                note=self._request.note,
            )
        except InvalidInputError as error:
            if error.code != "PROJSEG_TABLE_EXISTS":
                raise
            return overtaken_target(self._request, target, overwrite=self._overwrite)
        return None
