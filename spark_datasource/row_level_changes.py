"""Changes of rows by Spark: rows read with their numbers, and changes of them in one commit.

The extension has Spark compute which rows change, and their values. Each row that comes says what
is done: a row is deleted, updated or inserted. Its number says which row of the table that is, and
the other columns are the new values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import LongType, StructField, StructType

from projseg.errors import InvalidInputError
from projseg.maintenance.row_changes.delete_and_update import building_all
from projseg.maintenance.row_changes.numbered_rows import (
    NumberedChange,
    Numbers,
    commit_numbered,
    numbered_batches,
)
from projseg.spark_datasource.batch_reader import ProjsegReader, QueryPartition
from projseg.spark_datasource.option_table import ROW_NUMBER, ROW_NUMBERS
from projseg.spark_datasource.python_workers import freeze_imports, in_one_line
from projseg.spark_datasource.read_request import ReadRequest
from projseg.spark_datasource.scan import Scan
from projseg.spark_datasource.schemas import shape_batch, stored_schema, transfer_schema
from projseg.spark_datasource.write_job import SegmentsWritten, WriteJob, refresh_views
from projseg.spark_datasource.write_request import WriteRequest
from projseg.spark_datasource.write_target import WriteTarget, find_target
from projseg.table_layer.metadata.segment_entry import warn_of_releases
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.writer.checked_rows import check_schema

_NUMBER: Final = StructField(ROW_NUMBER, LongType(), nullable=False)

# As Spark's RowDeltaUtils has them.
_DELETE: Final = 1
_UPDATE: Final = 2


@dataclass
class _NumberedPartition(InputPartition):
    """The rows of a task, and where its segments stand among all that the version lists."""

    rows: QueryPartition
    positions: tuple[int, ...]


class NumberedReader(DataSourceReader):
    """One scan of base rows, with the columns that Spark wants, the numbers among them or not."""

    def __init__(self, request: ReadRequest, schema: StructType) -> None:
        stored = [field for field in schema if field.name != ROW_NUMBER]
        self._request = request
        self._reader = ProjsegReader(request, StructType(stored))
        self._schema = transfer_schema(schema)

    @staticmethod
    def schema(scan: Scan) -> StructType:
        """Return the columns of a scan, with the numbers."""
        return StructType([*scan.spark_schema(), _NUMBER])

    @in_one_line
    def partitions(self) -> list[InputPartition]:
        """Return a partition for each task."""
        scan = Scan(self._request)
        places = {entry.file: place for place, entry in enumerate(scan.snapshot.segments)}
        found = [self._numbered(part, places) for part in self._reader.partitions_of(scan)]
        freeze_imports()
        return found

    def _numbered(self, part: InputPartition, places: dict[str, int]) -> InputPartition:
        if not isinstance(part, QueryPartition) or not all(
            plan.is_base for segment in part.plan.segments for plan in segment.choice.plans
        ):
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"option '{ROW_NUMBERS}' is for reads of a table's own rows"
            )
        positions = tuple(places[segment.entry.file] for segment in part.plan.segments)
        return _NumberedPartition(part, positions)

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows in batches of exactly the schema that Spark asked for."""
        assert isinstance(partition, _NumberedPartition)
        storage, plan = partition.rows.storage, partition.rows.plan
        for segment, position in zip(plan.segments, partition.positions, strict=True):
            for batch, numbers in numbered_batches(storage, plan, segment, position):
                columns = [*batch.columns, pa.array(numbers)]
                names = [*batch.schema.names, ROW_NUMBER]
                yield shape_batch(pa.RecordBatch.from_arrays(columns, names), self._schema)
        freeze_imports()


class RowChange(msgspec.Struct, frozen=True):
    """A change as the extension describes it in an option.

    The write id names the commit and every file of it; the operation and `asked` are for the
    history. With `depends_on_all`, rows that others add meanwhile are a conflict. The rows were
    read of `version`, None if there is no table yet.
    """

    write_id: str
    operation: str
    depends_on_all: bool
    asked: dict[str, str]
    version: int | None = None


@dataclass(frozen=True)
class _RowsChanged(WriterCommitMessage):
    """What one task did: the segments that it wrote, and the numbers of rows that leave, packed."""

    written: SegmentsWritten
    gone: bytes
    updated: int
    inserted: int


class ChangeWriter(DataSourceArrowWriter):
    """One change, a `RowChange` as JSON.

    The schema has the operation, the number, and the table's columns if any row is to be written.
    """

    def __init__(self, request: WriteRequest, change: str, schema: StructType) -> None:
        self._change = msgspec.json.decode(change, type=RowChange)
        values = stored_schema(StructType(schema.fields[2:]))
        self._has_values = bool(values.names)
        target = self._target(request, values)
        self._job = WriteJob(request, target, overwrite=False, write_id=self._change.write_id)

    def _target(self, request: WriteRequest, values: pa.Schema) -> WriteTarget:
        if self._change.version is None:
            return find_target(request, values, overwrite=False)
        storage = request.storage
        storage.check_writable()
        snapshot = open_snapshot(storage, self._change.version)
        if self._has_values:
            check_schema(values, snapshot.properties.schema)
        return WriteTarget(storage, snapshot.version, building_all(snapshot.properties))

    @in_one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows as segments, and say which rows leave the table."""
        gone: list[Numbers] = []
        counts = {_UPDATE: 0, None: 0}

        def values() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                operations = batch.column(0)
                numbers = batch.column(1).filter(pc.less_equal(operations, _UPDATE))
                gone.append(np.unique(numbers.to_numpy(zero_copy_only=False).astype(np.int64)))
                is_kept = pc.not_equal(operations, _DELETE)
                kept = pc.sum(is_kept).as_py() or 0
                updated = pc.sum(pc.equal(operations, _UPDATE)).as_py() or 0
                counts[_UPDATE] += updated
                counts[None] += kept - updated
                if kept:
                    rows = batch.filter(is_kept)
                    yield rows.select(rows.schema.names[2:])

        if self._has_values:
            entries = self._job.write(values())
        else:
            entries = []
            for _ in values():
                pass
        return _RowsChanged(
            SegmentsWritten.of(entries), _packed(gone), counts[_UPDATE], counts[None]
        )

    @in_one_line
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the attempts that won did, in one table version."""
        changes = [message for message in messages if isinstance(message, _RowsChanged)]
        written = [message.written for message in changes]
        if self._change.version is None:
            self._job.publish(written)
            return
        warn_of_releases(message.release for message in written)
        change = NumberedChange(
            gone=_unpacked([message.gone for message in changes]),
            entries=[entry for message in written for entry in message.unpacked()],
            updated=sum(message.updated for message in changes),
            inserted=sum(message.inserted for message in changes),
        )
        landed = commit_numbered(
            open_snapshot(self._job.target.storage, self._change.version),
            change,
            write_id=self._change.write_id,
            operation=self._change.operation,
            depends_on_all=self._change.depends_on_all,
            note=self._job.request.note.asking(**self._change.asked),
        )
        refresh_views(landed)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log it and delete nothing: Spark also aborts if the answer of a commit was lost."""
        self._job.log_abort(sum(message is not None for message in messages))


def _packed(numbers: Sequence[Numbers]) -> bytes:
    """Return numbers as steps, which are small, compressed."""
    sorted_once = np.unique(np.concatenate([np.empty(0, np.int64), *numbers]))
    return zstandard.compress(np.diff(sorted_once, prepend=np.int64(0)).tobytes())


def _unpacked(parts: Sequence[bytes]) -> Numbers:
    found = [np.cumsum(np.frombuffer(zstandard.decompress(part), np.int64)) for part in parts]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))
