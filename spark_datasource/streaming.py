"""Tables as streams: rows are read as commits add them, and batches written exactly once.

Spark keeps one reader for a streaming query, which it asks how far it may go, and sends it to the
tasks. A place in the stream is JSON in the query's checkpoint.

Spark repeats a batch whose end it did not note, after a restart. Its commit therefore carries the
query's id, which stays the same as long as the checkpoint, and the batch's number; the table keeps
the newest number of each query, and a commit that is not above it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from projseg.errors import InvalidInputError, ProjsegError
from projseg.spark_datasource.batch_reader import ProjsegReader
from projseg.spark_datasource.python_workers import in_one_line
from projseg.spark_datasource.read_request import LATEST, StreamRequest
from projseg.spark_datasource.scan import Scan, moment
from projseg.spark_datasource.schemas import stored_schema
from projseg.spark_datasource.write_job import SegmentsWritten, WriteJob
from projseg.spark_datasource.write_request import WriteRequest
from projseg.spark_datasource.write_target import find_target
from projseg.table_layer.change_feed import Position, RowStream
from projseg.table_layer.metadata.segment_entry import LOGGER, SegmentEntry

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxFiles,
            SupportsTriggerAvailableNow,
        )
    except ImportError:  # before Spark 4.2

        class SupportsTriggerAvailableNow:
            """Says nothing to a Spark that does not ask."""


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """A stream's writer that gets Arrow batches from Spark 4.0 by being a batch writer, too."""


Offset = dict[str, Any]

_QUERY_ID: Final = "sql.streaming.queryId"
"""The property of a task by which Spark tells the id of the streaming query that runs it."""


class _StreamPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an offset in a checkpoint says."""

    at: Position
    origin: Position | None = None


class RefusedStream(DataSourceStreamReader):
    """A stream that ends with an error at once.

    Spark shows an error of making a reader as one of its own, of a reader that it never had.
    """

    def __init__(self, error: ProjsegError) -> None:
        self._error = error

    def initialOffset(self) -> Offset:
        """Raise the error where a query begins."""
        raise self._error

    def latestOffset(self, *_: Any) -> Offset:
        """Raise the error where a query goes on."""
        raise self._error

    def read(self, _: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the error."""
        raise self._error


class ProjsegStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream.

    Spark before 4.2 tells nothing of where the stream is when it asks how far it may go, so it is
    always given all that is there. The schema is the table's as the query started, or the user's
    own.
    """

    def __init__(self, request: StreamRequest, schema: StructType) -> None:
        self._request = request
        self._reader = ProjsegReader(request.rows, schema)
        self._begun: Position | None = None
        self._end: Position | None = None

    def initialOffset(self) -> Offset:
        """Return where a new query starts."""
        return _offset(_StreamPlace(self._beginning()))

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """Return how far the next batch may go; Spark before 4.2 gives no arguments."""
        rows = self._rows()
        if start is None:
            begun, newest = self._beginning_if_any(), rows.newest()
            return _offset(_StreamPlace(newest, begun or newest))
        place = _place(start)
        many = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        at = rows.advance(place.at, many, self._end)
        return _offset(_StreamPlace(at, place.origin or place.at))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set; a segment is a file."""
        many = self._request.segments_max
        return ReadAllAvailable() if many is None else ReadMaxFiles(many)

    def prepareForTriggerAvailableNow(self) -> None:
        """Settle that what is committed from here on is not read."""
        self._beginning_if_any()
        self._end = self._rows().newest()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the work of one batch, as Spark may ask again after a restart."""
        first, last = _place(start), _place(end)
        after = first.at if first.origin else last.origin or last.at
        entries: list[SegmentEntry] = []
        definitions: dict[str, str] = {}
        for snapshot, added in self._rows().between(after, last.at):
            for entry in added:
                entries.append(entry)
                definitions |= {one: snapshot.definitions[one] for one in entry.definition_hashes}
        if not entries:
            return []
        # Bound to the newest version, as rows of older segments always are: their columns may have
        # been joined by others since.
        return self._reader.partitions_of(Scan(self._request.rows, definitions), entries)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows in batches of exactly the schema that Spark asked for."""
        return self._reader.read(partition)

    def _beginning(self) -> Position:
        # Spark before 4.2 asks first for the end, and commits may come in between.
        if self._begun is None:
            self._begun = self._origin()
        return self._begun

    def _beginning_if_any(self) -> Position | None:
        """Return where a new query starts.

        The requested version may be gone when the stream is restarted.
        """
        with suppress(InvalidInputError):
            self._beginning()
        return self._begun

    def _origin(self) -> Position:
        request, rows = self._request, self._rows()
        if request.timestamp is not None:
            zone = request.rows.timezone
            return rows.since(moment("startingTimestamp", request.timestamp, zone))
        if request.version is None:
            return rows.beginning()
        return rows.newest() if request.version == LATEST else rows.at_version(int(request.version))

    def _rows(self) -> RowStream:
        return RowStream(
            self._request.rows.storage,
            passes_deletes=self._request.ignores_deletes,
            rereads_changes=self._request.ignores_changes,
        )


def _offset(place: _StreamPlace) -> Offset:
    offset: Offset = msgspec.to_builtins(place)
    return offset


def _place(offset: Offset) -> _StreamPlace:
    try:
        return msgspec.convert(offset, _StreamPlace)
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_OFFSET",
            f"the checkpoint's offset {offset} is not one of a stream of projseg ({error}); use a "
            "checkpoint for one query only",
        ) from None


@dataclass(frozen=True)
class _BatchWritten(SegmentsWritten):
    """The segments that one task wrote for a batch, and what the commit must know of the others."""

    job: WriteJob
    query_id: str


class ProjsegStreamWriter(DataSourceStreamArrowWriter):
    """The writer of one batch; Spark makes one for its tasks and another for its commit.

    With `overwrite`, as in output mode `complete`, each batch replaces the whole table.
    """

    def __init__(self, request: WriteRequest, schema: StructType, *, overwrite: bool) -> None:
        target = find_target(request, stored_schema(schema), overwrite=overwrite)
        self._job = WriteJob(request, target, overwrite)

    @in_one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows as segments of names that no other attempt can have."""
        query_id = _query_id()
        written = SegmentsWritten.of(self._job.write(iterator))
        return _BatchWritten(written.entries, written.release, self._job, query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a batch's segments in one table version, unless it was published before.

        A batch without rows makes no version, but in output mode `complete`.
        """
        written = [message for message in messages if isinstance(message, _BatchWritten)]
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
