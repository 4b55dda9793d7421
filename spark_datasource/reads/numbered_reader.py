"""A read that returns the numbers of rows too, by which the extension's changes know them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from projseg.errors import InvalidInputError
from projseg.maintenance.row_changes.numbered_rows import numbered_batches
from projseg.spark_datasource.gc_freeze import freeze_imports
from projseg.spark_datasource.option_record import ROW_NUMBER, ROW_NUMBERS
from projseg.spark_datasource.plain_errors import in_one_line
from projseg.spark_datasource.reads.batch_reader import ProjsegReader, QueryPartition
from projseg.spark_datasource.reads.column_pruning import shape_batch
from projseg.spark_datasource.reads.read_request import ReadRequest
from projseg.spark_datasource.reads.scan import Scan
from projseg.spark_datasource.schemas import transfer_schema

_NUMBER = StructField(ROW_NUMBER, LongType(), nullable=False)


@dataclass
class _NumberedPartition(InputPartition):
    """The rows of a task, and where its segments stand among all that the version lists."""

    rows: QueryPartition
    positions: tuple[int, ...]


class NumberedReader(DataSourceReader):
    """One scan of base rows.

    Parameters
    ----------
    request : ReadRequest
        What to read.
    schema : StructType
        The columns that Spark wants, the numbers among them or not.
    """

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
        """Return a partition for each task.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_OPTION if what is asked for is not base rows.
        """
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
