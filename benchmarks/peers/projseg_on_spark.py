"""projseg's tables in Spark: by plain SQL with the extension, and by read options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from projseg.benchmarks.peers.spark_peer import SparkEngine, SparkParquet
from projseg.benchmarks.workload import Question, Source, Workload


class SparkParquetExtended(SparkParquet):
    """Parquet in a session with projseg's extension, which has nothing to do there."""

    name = "spark-parquet-extended"

    def _configured(self, builder: Any) -> Any:
        import projseg  # imported as a user does, in the engine's process

        return projseg.configure(builder)


class ProjsegSparkSql(SparkEngine):
    """Plain Spark SQL over a view of the table; the extension plants whole answers."""

    name = "projseg-spark-sql"
    is_peer = False
    is_enabled: ClassVar[str] = "true"
    plants_answers: ClassVar[str] = "true"

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        import projseg

        projseg.register(self.spark)

    def _configured(self, builder: Any) -> Any:
        """Set what docs/spark.md advises."""
        import projseg

        builder = projseg.configure(builder)
        builder.config("spark.python.daemon.module", "projseg.spark_datasource.daemon")
        builder.config("spark.projseg.enabled", self.is_enabled)
        return builder.config("spark.projseg.local.enabled", self.plants_answers)

    def load(self, source: Source) -> None:
        """Write the staged Parquet through `df.write`."""
        rows = self.spark.read.parquet(str(source.parquet_folder))
        declarations = [
            {"name": spec.name, "groupBy": spec.group_by, "aggregators": spec.aggregators}
            for spec in self.projections
        ]
        writer = rows.write.format("projseg").mode("append")
        writer = writer.option("timeColumn", self.workload.time_column)
        writer.option("projections", json.dumps(declarations)).save(self._location)

    def open(self) -> None:
        """Register the view."""
        rows = self.spark.read.format("projseg").load(self._location)
        rows.createOrReplaceTempView(self.workload.name)


class ProjsegSparkShared(ProjsegSparkSql):
    """The same, where Spark's tasks share the work of each answer."""

    name = "projseg-spark-shared"
    plants_answers = "false"


class ProjsegSparkPlain(ProjsegSparkSql):
    """The same without the extension: rows of the data source."""

    name = "projseg-spark-plain"
    is_enabled = "false"
    plants_answers = "false"


class ProjsegSparkOptions(ProjsegSparkPlain):
    """The query as read options; ordering and limit are Spark's."""

    name = "projseg-spark-options"

    def open(self) -> None:
        """Nothing is kept between queries: each load reads the table's newest version."""

    def run(self, query: Question) -> pa.Table:
        """Load with options, then order and limit."""
        rows = self._rows(query)
        if query.order_by:
            rows.createOrReplaceTempView("answer")
            ordering = ", ".join(query.order_by)
            rows = self.spark.sql(f"SELECT * FROM answer ORDER BY {ordering} LIMIT {query.limit}")
        return rows.toArrow()

    def drain(self, query: Question) -> None:
        """Load with options into Spark's own sink that drops rows."""
        self._rows(query).write.format("noop").mode("overwrite").save()

    def _rows(self, query: Question) -> Any:
        reader = self.spark.read.format("projseg")
        for key, value in _options(query).items():
            reader = reader.option(key, value)
        return reader.load(self._location)


def _options(query: Question) -> dict[str, str]:
    options = {
        "groupBy": ", ".join(query.group_by),
        "aggregators": ", ".join(query.aggregators),
        "columns": ", ".join(query.columns),
        "filter": query.filter,
        "interval": query.interval_text,
    }
    return {key: text for key, text in options.items() if text}
