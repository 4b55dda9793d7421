"""The verb `demo --spark`: the same questions, written and read through Spark."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from projseg.benchmarks.generator import EditStream
from projseg.cli.answers import same_answer
from projseg.cli.demo_queries import (
    BASE_ONLY,
    PROJECTIONS,
    QUERIES,
    TABLE_OPTIONS,
    DemoQuery,
    rows_read,
)
from projseg.spark_datasource.read_write import read, write
from projseg.table import Table

_RUNS: Final = 3


def run_spark_demo(
    location: str, row_count: int, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Write the demo's rows through Spark and ask the demo's questions.

    Parameters and result are those of `projseg.cli.demo.run_demo`.
    """
    spark = demo_session()
    try:
        with tempfile.TemporaryDirectory(prefix="projseg-demo-rows-") as folder:
            EditStream(row_count).write_parquet(Path(folder))
            started = time.perf_counter()
            rows = spark.read.parquet(folder)
            write(rows, location, projections=PROJECTIONS, **TABLE_OPTIONS)
        seconds = time.perf_counter() - started
        tell(f"Spark wrote {row_count:,} rows in {seconds:.1f} s: {location}")
        return [_ask(spark, location, query) for query in QUERIES]
    finally:
        spark.stop()


def demo_session() -> SparkSession:
    """Start a small local session whose workers run this very Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("projseg demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _ask(spark: SparkSession, location: str, query: DemoQuery) -> dict[str, Any]:
    base, base_ms = _timed(lambda: read(spark, location, **query.arguments, context=BASE_ONLY))
    answer, projection_ms = _timed(lambda: read(spark, location, **query.arguments))
    return {
        "query": query.title,
        "base ms": base_ms,
        "projection ms": projection_ms,
        **rows_read(Table(location), query),
        "same answer": same_answer(base, answer),
    }


def _timed(load: Callable[[], DataFrame]) -> tuple[pa.Table, float]:
    """Return the answer and the best of several times in milliseconds, after a warm-up."""
    answer = load().toArrow()
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        load().toArrow()
        times.append(time.perf_counter() - started)
    return answer, round(min(times) * 1000, 1)
