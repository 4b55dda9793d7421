"""Spark over Parquet that it wrote itself, and over rollups made by hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from projseg.benchmarks.peers.engine import Engine, NotApplicableError, stored_bytes
from projseg.benchmarks.peers.statements import (
    rollup_definition,
    rollup_statement,
    spark_statement,
)
from projseg.benchmarks.question import Question
from projseg.benchmarks.staging import Source
from projseg.benchmarks.workload import Workload

__all__ = ["SparkEngine", "SparkParquet", "SparkRollup"]

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    "spark.driver.maxResultSize": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.log.level": "ERROR",
}


class SparkEngine(Engine):
    """A local session of as many threads, with as many shuffle partitions."""

    runs_on_spark = True
    workloads = ("edits",)

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        # Workers must be this interpreter, whatever python3 the PATH holds.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        from pyspark.sql import SparkSession  # starts a JVM: only in this engine's process

        builder: Any = SparkSession.builder
        builder = builder.master(f"local[{thread_count}]").appName("projseg-bench")
        settings = {
            **_SETTINGS,
            "spark.sql.shuffle.partitions": str(thread_count),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "scratch"),
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = self._configured(builder).getOrCreate()

    def version(self) -> str:
        """Return Spark's version."""
        return str(self.spark.version)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of what was loaded."""
        return stored_bytes(self.folder / "edits"), 0

    def run(self, query: Question) -> pa.Table:
        """Collect the answer of the plain SQL statement as Arrow."""
        return self.spark.sql(spark_statement(query)).toArrow()

    def drain(self, query: Question) -> None:
        """Send the rows to Spark's own sink that drops them."""
        rows = self.spark.sql(spark_statement(query))
        rows.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Stop the JVM's session."""
        self.spark.stop()

    def _configured(self, builder: Any) -> Any:
        return builder


class SparkParquet(SparkEngine):
    """Plain Spark SQL over snappy Parquet written by Spark from the staged files."""

    name = "spark-parquet"
    title = "Spark on Parquet"

    def load(self, source: Source) -> None:
        """Read the staged Parquet and write it again."""
        rows = self.spark.read.parquet(str(source.parquet_folder))
        rows.write.parquet(str(self.folder / "edits"))

    def open(self) -> None:
        """Register the view `edits`."""
        edits = self.spark.read.parquet(str(self.folder / "edits"))
        edits.createOrReplaceTempView("edits")


class SparkRollup(SparkEngine):
    """What a careful person would do by hand: one Parquet rollup for each projection."""

    name = "spark-rollup"
    title = "Spark on hand-made rollups"

    def load(self, source: Source) -> None:
        """Aggregate the staged Parquet once for each rollup."""
        edits = self.spark.read.parquet(str(source.parquet_folder))
        edits.createOrReplaceTempView("edits")
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

    def run(self, query: Question) -> pa.Table:
        """Answer from the covering rollup, as a person would write it."""
        text = rollup_statement(query)
        if text is None:
            raise NotApplicableError(f"no rollup covers {query.name}")
        return self.spark.sql(text).toArrow()

    def drain(self, query: Question) -> None:
        """Refuse: a rollup has no rows to scan."""
        raise NotApplicableError(f"no rollup covers {query.name}")
