"""Writes the batches of a streaming query, each exactly once.

Spark repeats a batch whose end it did not note, after a restart. Its commit therefore carries the
query's id, which stays the same as long as the checkpoint, and the batch's number; the table keeps
the newest number of each query, and a commit that is not above it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from projseg.errors import InvalidInputError
from projseg.spark_datasource.schemas import stored_schema
from projseg.spark_datasource.writes.write_job import SegmentsWritten, WriteJob
from projseg.spark_datasource.writes.write_request import WriteRequest
from projseg.spark_datasource.writes.write_target import find_target
from projseg.table_layer.metadata.segment_entry import LOGGER

if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """What gets Arrow batches from Spark 4.0, which knows them as those of batch writers."""


_QUERY_ID: Final = "sql.streaming.queryId"
"""The property of a task by which Spark tells the id of the streaming query that runs it."""


@dataclass(frozen=True)
class BatchWritten(SegmentsWritten):
    """The segments that one task wrote for a batch, and what the commit must know of the others.

    Parameters
    ----------
    job : WriteJob
        As the tasks had it: the commit gets a writer that was made anew.
    query_id : str
        The streaming query's.
    """

    job: WriteJob
    query_id: str


class ProjsegStreamWriter(DataSourceStreamArrowWriter):
    """The writer of one batch; Spark makes one for its tasks and another for its commit.

    Parameters
    ----------
    request : WriteRequest
        The options.
    schema : StructType
        The columns of the stream.
    overwrite : bool
        Replace the whole table by each batch, as output mode `complete` does.
    """

    def __init__(self, request: WriteRequest, schema: StructType, *, overwrite: bool) -> None:
        target = find_target(request, stored_schema(schema), overwrite=overwrite)
        self._job = WriteJob(request, target, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows as segments of names that no other attempt can have.

        Raises
        ------
        InvalidInputError
            PROJSEG_QUERY_ID_MISSING if Spark does not tell which query this is.
        """
        query_id = _query_id()
        written = SegmentsWritten.of(self._job.write(iterator))
        return BatchWritten(written.entries, written.release, self._job, query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch's segments in one table version, unless it was published before.

        A batch without rows makes no version, but in output mode `complete`.
        """
        written = [message for message in messages if isinstance(message, BatchWritten)]
        entries = [entry for message in written for entry in message.unpacked()]
        if not written or not (entries or written[0].job.overwrite):
            return
        job, query_id = written[0].job, written[0].query_id
        note = job.request.note.asking(queryId=query_id, epochId=str(batchId))
        job.within((f"streaming query {query_id}", batchId), note).publish(written)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log it and delete nothing: Spark also aborts if the answer of a commit was lost."""
        LOGGER.warning("batch %d was aborted", batchId)
        self._job.log_abort(sum(message is not None for message in messages))


def _query_id() -> str:
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
    if query_id is None:
        raise InvalidInputError(
            "PROJSEG_QUERY_ID_MISSING",
            "Spark does not tell its tasks which streaming query they work for, so a batch that is "
            "repeated could not be known; write each batch by foreachBatch instead, with options "
            "txnAppId and txnVersion",
        )
    return query_id
