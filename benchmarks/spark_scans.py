"""Measure what Spark takes to read all rows: of one column, of three, of all.

    python -m projseg.benchmarks.spark_scans [--rows 5000000] [--output results.json]

reads the same generated edits in one session as Parquet, as a projseg table of one segment, by
options and by plain SQL, and from a source that only hands prepared batches over, to one task and
to several: what that one takes is Spark's own cost of a source written in Python. Rows go to
Spark's sink that drops them; one column is summed too. Ways take turns, the first rounds do not
count, and the file has the least and the median milliseconds of each, the processor milliseconds
of Java and Python together, and the number of tasks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

import projseg
from projseg.benchmarks.generator import SCHEMA, EditStream
from projseg.benchmarks.prepared_source import FORMAT, PreparedSource, prepare
from projseg.benchmarks.publish import publish
from projseg.benchmarks.sql_session import sql_session

_COLUMNS: Final = {
    "one column": ["added"],
    "three columns": ["time", "channel", "added"],
    "all columns": SCHEMA.names,
}
_BATCH_ROWS: Final = 1 << 17  # as projseg's
_TASKS: Final = (1, 2)
_WARM_UP: Final = 2

Read = Callable[[], DataFrame]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    spark = sql_session()
    spark.dataSource.register(PreparedSource)
    with tempfile.TemporaryDirectory() as folder:
        _make(spark, Path(folder), asked.rows)
        ways = {name: _ways(spark, Path(folder), names) for name, names in _COLUMNS.items()}
        cases = _measured(spark, ways, asked.rounds)
    spark.stop()
    record = {"rows": asked.rows, "rounds": asked.rounds, "cases": cases}
    publish(f"python -m projseg.benchmarks.spark_scans --rows {asked.rows}", record, asked.output)


def _make(spark: SparkSession, folder: Path, row_count: int) -> None:
    """Write the edits as Parquet by Spark, as a table, and as files of prepared batches."""
    edits = EditStream(row_count)
    edits.write_parquet(folder / "made")
    spark.read.parquet(str(folder / "made")).write.parquet(str(folder / "parquet"))
    table = projseg.Table.create(
        folder / "table", SCHEMA, time_column="time", target_segment_rows=row_count
    )
    table.append(edits.reader())
    for names in _COLUMNS.values():
        prepare(folder / "made", names, _BATCH_ROWS, _prepared(folder, names))


def _prepared(folder: Path, names: list[str]) -> Path:
    return folder / f"{len(names)}.arrow"


def _ways(spark: SparkSession, folder: Path, names: list[str]) -> dict[str, Read]:
    """Return what reads the columns, by the name of the way."""

    def by_sql() -> DataFrame:
        spark.conf.set("spark.projseg.enabled", "true")
        return spark.read.format("projseg").load(str(folder / "table")).select(*names)

    def by_options() -> DataFrame:
        spark.conf.set("spark.projseg.enabled", "false")
        reader = spark.read.format("projseg").option("noProjections", "true")
        return reader.option("columns", ", ".join(names)).load(str(folder / "table"))

    prepared = spark.read.format(FORMAT).option("path", str(_prepared(folder, names)))
    return {
        "parquet": lambda: spark.read.parquet(str(folder / "parquet")).select(*names),
        "projseg by options": by_options,
        "projseg by SQL": by_sql,
        **{f"nothing, {n} tasks": partial(_loaded, prepared, n) for n in _TASKS},
    }


def _loaded(reader: DataFrameReader, tasks: int) -> DataFrame:
    return reader.option("tasks", tasks).load()


def _drain(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _sum(rows: DataFrame) -> None:
    rows.agg(F.sum("added")).collect()


def _measured(
    spark: SparkSession, ways: dict[str, dict[str, Read]], rounds: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Return, by case and way, what was measured."""
    acts = {name: (reads, _drain) for name, reads in ways.items()}
    # Plain SQL sums while it plans.
    summed = {way: read for way, read in ways["one column"].items() if way != "projseg by SQL"}
    acts["sum of one column"] = (summed, _sum)
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(_WARM_UP + rounds):
        for case, (reads, act) in acts.items():
            for way, read in reads.items():
                taken = _taken(read, act)
                if number >= _WARM_UP:
                    times.setdefault((case, way), []).append(taken)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (case, way), measured in times.items():
        wall, processor = zip(*measured, strict=True)
        found.setdefault(case, {})[way] = {
            "least": round(min(wall)),
            "median": round(statistics.median(wall)),
            "processor": round(statistics.median(processor)),
            "tasks": acts[case][0][way]().rdd.getNumPartitions(),
        }
    return found


def _taken(read: Read, act: Callable[[DataFrame], None]) -> tuple[float, float]:
    """Return the milliseconds of a read, and those of all processors in it."""
    processor, started = _processor_seconds(), time.perf_counter()
    act(read())
    taken = time.perf_counter() - started
    return taken * 1000, (_processor_seconds() - processor) * 1000


def _processor_seconds() -> float:
    this = psutil.Process()
    times = [one.cpu_times() for one in (this, *this.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


if __name__ == "__main__":
    main()
