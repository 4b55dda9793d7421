"""A data source of Spark that does nothing but hand over batches that are ready in a file.

What it takes is what Spark itself takes for a source written in Python: to start it, to send it
what to read, and to fetch the batches and turn them into rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

FORMAT: Final = "prepared"


def prepare(rows: Path, columns: list[str], batch_rows: int, path: Path) -> None:
    """Write columns of a folder of Parquet files as batches of so many rows."""
    table = pq.read_table(rows, columns=columns).combine_chunks()
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)


class PreparedSource(DataSource):
    """The batches of the file at `path`, which as many tasks as `tasks` says share."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the file's columns."""
        return from_arrow_schema(_opened(self.options["path"]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all batches."""
        return _Reader(self.options["path"], int(self.options["tasks"]))


@dataclass
class _Batches(InputPartition):
    first: int
    end: int


@dataclass
class _Reader(DataSourceReader):
    path: str
    tasks: int

    def partitions(self) -> list[InputPartition]:
        """Divide the batches evenly."""
        count = _opened(self.path).num_record_batches
        cuts = [count * task // self.tasks for task in range(self.tasks + 1)]
        return [_Batches(cuts[task], cuts[task + 1]) for task in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's batches, whose columns lie in the mapped file."""
        assert isinstance(partition, _Batches)
        opened = _opened(self.path)
        for index in range(partition.first, partition.end):
            yield opened.get_batch(index)


def _opened(path: str) -> pa.RecordBatchFileReader:
    return pa.ipc.open_file(pa.memory_map(path))
