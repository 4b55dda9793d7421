"""One write of rows to a table: tasks make whole segments, and one commit publishes them all.

Spark plans in one process, runs tasks in others and commits in yet another. The job is made where
Spark plans, with the write id that all segments share, and travels to the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from projseg import __version__
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, without_secrets
from projseg.maintenance.auto_compaction import after_commit
from projseg.maintenance.row_changes.replace_rows import (
    fulfilling,
    replace_by_written,
    with_cut_segments,
)
from projseg.spark_datasource.python_workers import in_one_line
from projseg.spark_datasource.schemas import stored_schema
from projseg.spark_datasource.write_plan import REPLACE_TABLE
from projseg.spark_datasource.write_request import WriteRequest
from projseg.spark_datasource.write_target import WriteTarget, find_target, overtaken_target
from projseg.table_layer.column_changes import ColumnChanges
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.commits.publish import remove, removed_on_failure
from projseg.table_layer.metadata.change import Append, Change, CommitNote, Overwrite
from projseg.table_layer.metadata.segment_entry import (
    LOGGER,
    SegmentEntry,
    packed,
    unpacked,
    warn_of_releases,
    written_files,
)
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage.paths import new_write_id
from projseg.writer.table_writer import write_segments


@dataclass(frozen=True)
class SegmentsWritten(WriterCommitMessage):
    """The segments that one task attempt wrote, by the release of projseg that wrote them.

    Their manifest entries are packed: a task of many segments stays far below the 64 KiB that a
    commit message should not pass.
    """

    entries: bytes
    release: str

    @classmethod
    def of(cls, entries: Sequence[SegmentEntry]) -> SegmentsWritten:
        """Return the message for these segments."""
        return cls(packed(entries), __version__)

    def unpacked(self) -> list[SegmentEntry]:
        """Return the segments."""
        return unpacked(self.entries)


@dataclass(frozen=True)
class WriteJob:
    """What the tasks of a write and its commit must agree on.

    With `overwrite`, the rows replace the whole table, or the request's interval; the write id
    names the commit and every file of it.
    """

    request: WriteRequest
    target: WriteTarget
    overwrite: bool
    write_id: str = field(default_factory=new_write_id)

    def within(self, transaction: tuple[str, int], note: CommitNote) -> WriteJob:
        """Return the same job, to be published at most once under an application's number."""
        return replace(self, request=replace(self.request, transaction=transaction, note=note))

    def write(self, batches: Iterator[pa.RecordBatch]) -> list[SegmentEntry]:
        """Write the rows of the task this is called in, under names no other attempt can have."""
        context = TaskContext.get()
        assert context is not None
        target, rows = self.target, batches
        if target.condition is not None:
            rows = fulfilling(batches, target.properties, target.condition)
        return list(
            write_segments(
                rows,
                target.segments or target.properties,
                target.storage,
                write_id=self.write_id,
                partition=context.partitionId(),
                attempt=context.taskAttemptId(),
                threads=context.cpus(),
            )
        )

    def publish(self, written: Sequence[SegmentsWritten]) -> None:
        """Publish the segments of the attempts that won, in one table version.

        Raises InvalidInputError if the rows do not fit the table as another write has made it
        meanwhile, and CommitError if nothing was committed; the segments are removed, but for
        CommitStateUnknownError.
        """
        warn_of_releases(message.release for message in written)
        entries = tuple(entry for message in written for entry in message.unpacked())
        target = self.target
        with removed_on_failure(target.storage, self.write_id, target.base_version) as files:
            files += written_files(entries)
            self._publish(entries, files)

    def _publish(self, entries: tuple[SegmentEntry, ...], files: list[str]) -> None:
        """Commit to the table, or make it by its first commit."""
        change = self._change(self.target, entries)  # refuses rows outside the interval
        metrics = {
            "added_segments": len(entries),
            "added_rows": sum(entry.row_count for entry in entries),
        }
        target = self.target
        if target.base_version is None:
            overtaken = self._make_table(entries, metrics)
            if overtaken is None:
                return
            target, change = overtaken, self._change(overtaken, entries)
        if target.reason_to_skip:
            self._discard(files, target.reason_to_skip)
            return
        if target.condition is not None:
            replaced = replace_by_written(
                target.storage,
                entries,
                target.condition,
                write_id=self.write_id,
                metrics=metrics,
                note=self.request.note,
                txn=self.request.transaction,
            )
            refresh_views(replaced)
            return
        base = open_snapshot(target.storage, target.base_version)
        if isinstance(change, Overwrite):
            change = with_cut_segments(base, change, self.write_id, files)
        landed = commit(
            target.storage,
            base,
            change,
            write_id=self.write_id,
            operation=self._operation,
            metrics=metrics,
            txn=self.request.transaction,
            note=self._note(target),
        )
        if landed.file.write_id != self.write_id:
            self._discard(files, f"version {landed.version} is the same transaction")
        elif not self.request.is_compacted_later:
            refresh_views(after_commit(landed, entries))

    @property
    def _operation(self) -> str:
        if self.target.declared is not None:
            return REPLACE_TABLE
        return "overwrite" if self.overwrite else "append"

    def _discard(self, files: Sequence[str], reason: str) -> None:
        LOGGER.warning("write %s published nothing: %s", self.write_id, reason)
        remove(self.target.storage, files)

    def log_abort(self, finished: int) -> None:
        """Log that Spark aborted the write after `finished` tasks, and delete nothing.

        Spark also aborts if the answer of a commit was lost. A task that failed and a commit that
        was refused have removed their own files; what other tasks wrote stays, and no table version
        lists it unless the commit succeeded.
        """
        LOGGER.warning(
            "write %s to %s was aborted after %d tasks; files that no table version lists stay",
            self.write_id,
            without_secrets(self.target.storage.location),
            finished,
        )

    def _change(self, target: WriteTarget, entries: tuple[SegmentEntry, ...]) -> Change:
        if target.declared is not None:
            return Overwrite(entries, declared=target.declared)
        if self.overwrite:
            return Overwrite(entries, target.interval, target.columns, layout=target.layout)
        assert isinstance(target.columns, ColumnChanges), "only an overwrite replaces all columns"
        return Append(entries, target.columns, target.layout)

    def _note(self, target: WriteTarget) -> CommitNote:
        plan, note = self.request.plan, self.request.note
        note = note if plan is None else note.asking(**plan.note)
        return (
            note
            if target.interval is None
            else note.asking(interval=str(Interval(*target.interval)))
        )

    def _make_table(
        self, entries: tuple[SegmentEntry, ...], metrics: dict[str, int]
    ) -> WriteTarget | None:
        """Make the table, with its rows in it, or return the one that another write made first."""
        target = self.target
        try:
            create_table(
                target.storage,
                target.properties,
                entries=entries,
                write_id=self.write_id,
                metrics=metrics,
                txn=self.request.transaction,
                note=self.request.note,
            )
        except InvalidInputError as error:
            if error.code != "PROJSEG_TABLE_EXISTS":
                raise
            return overtaken_target(self.request, target, overwrite=self.overwrite)
        return None


def refresh_views(snapshot: Snapshot) -> None:
    """Refresh the views that follow commits; what goes wrong is logged, and kept in them."""
    if snapshot.properties.is_in_views:
        # Imported here: most tables have no views, and each write would pay.
        from projseg.views.refresh_on_commit import refresh_after_commit

        refresh_after_commit(snapshot)


# Writes a DataFrame, in one commit.
#
# The constructor runs once in Spark's planner, `write` in the executors, `commit` and `abort` in
# yet another process that gets the writer as it was before the tasks ran. So only commit messages
# carry anything back. See SPEC.md "Table", commits.


class ProjsegWriter(DataSourceArrowWriter):
    """One write job of a DataFrame, whose columns Spark has not compared with the table's.

    With `overwrite`, the rows replace the whole table, or the request's interval.
    """

    def __init__(self, request: WriteRequest, schema: StructType, *, overwrite: bool) -> None:
        target = find_target(request, stored_schema(schema), overwrite=overwrite)
        plan = request.plan
        write_id = (plan and plan.write_id) or new_write_id()
        self._job = WriteJob(request, target, overwrite, write_id)

    @in_one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows as segments of names that no other attempt can have."""
        if self._job.target.reason_to_skip:
            return SegmentsWritten.of([])
        return SegmentsWritten.of(self._job.write(iterator))

    @in_one_line
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the segments of the attempts that won, in one table version."""
        if self._job.target.reason_to_skip:
            LOGGER.info("nothing was written: %s", self._job.target.reason_to_skip)
            return
        self._job.publish([m for m in messages if isinstance(m, SegmentsWritten)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log it and delete nothing: Spark also aborts if the answer of a commit was lost."""
        self._job.log_abort(sum(message is not None for message in messages))
