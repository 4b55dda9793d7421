"""projseg as a Spark data source: by read options, and by plain SQL with the extension."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from projseg.benchmarks.peers.engine import stored_bytes
from projseg.benchmarks.peers.spark_peer import SparkEngine
from projseg.benchmarks.question import Question
from projseg.benchmarks.staging import Source
from projseg.benchmarks.workload import Workload

__all__ = ["ProjsegSparkOptions", "ProjsegSparkSql"]


class _ProjsegOnSpark(SparkEngine):
    is_peer = False

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        import projseg  # imported as a user does, in the engine's process

        self._projseg: Any = projseg
        super().__init__(folder, thread_count, workload)
        self._projseg.register(self.spark)

    def _configured(self, builder: Any) -> Any:
        """Set what docs/spark.md advises."""
        daemon = "projseg.spark_datasource.daemon"
        return builder.config("spark.python.daemon.module", daemon)

    def load(self, source: Source) -> None:
        """Write the staged Parquet through `df.write`."""
        rows = self.spark.read.parquet(str(source.parquet_folder))
        declarations = [
            {"name": spec.name, "groupBy": spec.group_by, "aggregators": spec.aggregators}
            for spec in self.projections
        ]
        writer = rows.write.format("projseg").mode("append").option("timeColumn", "time")
        writer.option("projections", json.dumps(declarations)).save(self._location)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the table; `projseg` tells base and projections apart."""
        return stored_bytes(self.folder / "edits"), 0

    @property
    def _location(self) -> str:
        return str(self.folder / "edits")


class ProjsegSparkSql(_ProjsegOnSpark):
    """Plain Spark SQL over a view of the table, accelerated by the Catalyst extension."""

    name = "projseg-spark-sql"
    title = "projseg by Spark SQL"

    def open(self) -> None:
        """Register the view `edits`."""
        edits = self.spark.read.format("projseg").load(self._location)
        edits.createOrReplaceTempView("edits")

    def _configured(self, builder: Any) -> Any:
        return self._projseg.configure(super()._configured(builder))


class ProjsegSparkOptions(_ProjsegOnSpark):
    """The query as read options; ordering and limit are Spark's."""

    name = "projseg-spark-options"
    title = "projseg by Spark read options"

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
    lists = {
        "groupBy": query.group_by,
        "aggregators": query.aggregators,
        "columns": query.columns,
    }
    options = {key: ", ".join(texts) for key, texts in lists.items() if texts}
    if query.filter:
        options["filter"] = query.filter
    if query.interval:
        options["interval"] = "/".join(end.replace(" ", "T") for end in query.interval)
    return options
