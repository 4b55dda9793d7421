"""Spark over Parquet that it wrote itself, over rollups made by hand, and over ready batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from projseg.benchmarks.peers.engine import Engine, NotApplicableError, stored_bytes
from projseg.benchmarks.peers.statements import rollup_definition, rollup_statement, spark_statement
from projseg.benchmarks.workload import Question, Source, Workload

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    "spark.driver.maxResultSize": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.log.level": "ERROR",
}
_BATCH_ROWS: Final = 1 << 17  # as projseg's


def local_session(folder: Path, thread_count: int, configured: Callable[[Any], Any]) -> Any:
    """Return a local session of as many threads and shuffle partitions, configured further."""
    # Workers must be this interpreter, whatever python3 the PATH holds.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # starts a JVM: only where it is used

    builder: Any = SparkSession.builder
    builder = builder.master(f"local[{thread_count}]").appName("projseg-bench")
    own = {
        "spark.sql.shuffle.partitions": str(thread_count),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "scratch"),
    }
    for key, value in (_SETTINGS | own).items():
        builder = builder.config(key, value)
    return configured(builder).getOrCreate()


class SparkEngine(Engine):
    """Plain SQL over a view of the table's name."""

    runs_on_spark = True

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        self.spark = local_session(folder, thread_count, self._configured)

    def _configured(self, builder: Any) -> Any:
        return builder

    @property
    def _location(self) -> str:
        return str(self.folder / self.workload.name)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of what was loaded."""
        return stored_bytes(Path(self._location)), 0

    def run(self, query: Question) -> pa.Table:
        """Collect the answer of the plain SQL statement as Arrow."""
        return self.spark.sql(self._text(query)).toArrow()

    def plan(self, query: Question) -> None:
        """Make the physical plan."""
        self.spark.sql(self._text(query))._jdf.queryExecution().executedPlan()

    def drain(self, query: Question) -> None:
        """Send the rows to Spark's own sink that drops them."""
        rows = self.spark.sql(self._text(query))
        rows.write.format("noop").mode("overwrite").save()

    def _text(self, query: Question) -> str:
        return spark_statement(query)

    def close(self) -> None:
        """Stop the JVM's session."""
        self.spark.stop()


class SparkParquet(SparkEngine):
    """Plain Spark SQL over snappy Parquet written by Spark from the staged files."""

    name = "spark-parquet"
    has_projections = False

    def load(self, source: Source) -> None:
        """Read the staged Parquet and write it again."""
        rows = self.spark.read.parquet(str(source.parquet_folder))
        rows.write.parquet(self._location)

    def open(self) -> None:
        """Register the view."""
        rows = self.spark.read.parquet(self._location)
        rows.createOrReplaceTempView(self.workload.name)


class SparkRollup(SparkEngine):
    """What a careful person would do by hand: one Parquet rollup for each projection of edits."""

    name = "spark-rollup"

    def load(self, source: Source) -> None:
        """Aggregate the staged Parquet once for each rollup."""
        rows = self.spark.read.parquet(str(source.parquet_folder))
        rows.createOrReplaceTempView(self.workload.name)
        for projection in self.projections:
            rollup = self.spark.sql(rollup_definition(projection))
            rollup.write.parquet(str(self.folder / "rollups" / projection.name))

    def sizes(self) -> tuple[int, int]:
        """Return no base, and the rollups."""
        return 0, stored_bytes(self.folder / "rollups")

    def open(self) -> None:
        """Register a view for each rollup."""
        for projection in self.projections:
            rollup = self.spark.read.parquet(str(self.folder / "rollups" / projection.name))
            rollup.createOrReplaceTempView(projection.name)

    def _text(self, query: Question) -> str:
        """Return the statement over the covering rollup, as a person would write it."""
        text = rollup_statement(query)
        if text is None:
            raise NotApplicableError(f"no rollup covers {query.name}")
        return text


class SparkPrepared(SparkEngine):
    """A source that only hands over batches from a file: Spark's own cost of Python's sources."""

    name = "spark-prepared"
    has_projections = False

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        self.spark.dataSource.register(_prepared_source())

    def load(self, source: Source) -> None:
        """Write the columns of each scan as batches."""
        (self.folder / self.workload.name).mkdir()
        rows = source.table().combine_chunks()
        for query in self.workload.queries:
            if query.is_drained:
                columns = rows.select(query.columns)
                with pa.ipc.new_file(self._path(query), columns.schema) as writer:
                    writer.write_table(columns, max_chunksize=_BATCH_ROWS)

    def open(self) -> None:
        """Nothing is kept between queries."""

    def run(self, query: Question) -> pa.Table:
        """Refuse: batches are ready for scans alone."""
        raise NotApplicableError(f"no batches are ready for {query.name}")

    def drain(self, query: Question) -> None:
        """Send the rows to Spark's own sink that drops them."""
        reader = self.spark.read.format("prepared").option("tasks", self.thread_count)
        rows = reader.option("path", self._path(query)).load()
        rows.write.format("noop").mode("overwrite").save()

    def _path(self, query: Question) -> str:
        return f"{self._location}/{query.name}.arrow"


def _prepared_source() -> Any:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.pandas.types import from_arrow_schema

    def opened(path: str) -> pa.RecordBatchFileReader:
        return pa.ipc.open_file(pa.memory_map(path))

    @dataclass
    class Batches(InputPartition):
        first: int
        end: int

    @dataclass
    class Reader(DataSourceReader):
        path: str
        tasks: int

        def partitions(self) -> list[InputPartition]:
            count = opened(self.path).num_record_batches
            cuts = [count * task // self.tasks for task in range(self.tasks + 1)]
            return [Batches(cuts[task], cuts[task + 1]) for task in range(self.tasks)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            assert isinstance(partition, Batches)
            rows = opened(self.path)
            for index in range(partition.first, partition.end):
                yield rows.get_batch(index)

    class PreparedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "prepared"

        def schema(self) -> Any:
            return from_arrow_schema(opened(self.options["path"]).schema)

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["path"], int(self.options["tasks"]))

    return PreparedSource
