"""Writes a DataFrame, in one commit.

The constructor runs once in Spark's planner, `write` in the executors, `commit` and `abort` in yet
another process that gets the writer as it was before the tasks ran. So only commit messages carry
anything back. See SPEC.md "Table", commits.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from projseg.spark_datasource.plain_errors import in_one_line
from projseg.spark_datasource.schemas import stored_schema
from projseg.spark_datasource.writes.commit_message import SegmentsWritten
from projseg.spark_datasource.writes.write_job import WriteJob
from projseg.spark_datasource.writes.write_request import WriteRequest
from projseg.spark_datasource.writes.write_target import find_target
from projseg.table_layer.metadata.entry_codec import LOGGER


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
        target = find_target(request, stored_schema(schema), overwrite=overwrite)
        self._job = WriteJob(request, target, overwrite)

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
