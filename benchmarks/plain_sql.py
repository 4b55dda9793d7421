"""Measure plain Spark SQL over a projseg table, with the extension of Spark's optimizer.

    python -m projseg.benchmarks.plain_sql 5000000 results.json

writes the same edits as Parquet, as a projseg table and as a rollup that somebody might keep by
hand, asks all of them in one session, prints the best of several runs of each in milliseconds, and
writes them to the file: `planted` and `shared` answers of projseg, `plain` without the extension,
`parquet`, and `rollup` where the rollup has the answer. Then one client and ten at a time ask the
queries that the rollup has, whose answers are compared; the file has queries a second. It also has
the milliseconds of planning the queries over Parquet alone, with the extension on and off.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

import projseg
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.publish import publish
from projseg.benchmarks.sql_session import sql_session

_HOURLY: Final = (
    "SELECT date_trunc('HOUR', time) AS hour, channel, robot, sum(added) AS added, "
    "sum(deleted) AS deleted, count(*) AS edits"
)
_QUERIES: Final[dict[str, tuple[str, str | None]]] = {
    "by channel": (
        "SELECT channel, sum(added), count(*) FROM {rows} GROUP BY channel",
        "SELECT channel, sum(added), sum(edits) FROM rollup GROUP BY channel",
    ),
    "by hour of a channel": (
        "SELECT date_trunc('HOUR', time), sum(added) FROM {rows} "
        "WHERE channel = '#en.wikipedia' GROUP BY 1",
        "SELECT hour, sum(added) FROM rollup WHERE channel = '#en.wikipedia' GROUP BY 1",
    ),
    "by day and robot": (
        "SELECT date_trunc('DAY', time), robot, sum(deleted) FROM {rows} GROUP BY 1, 2",
        "SELECT date_trunc('DAY', hour), robot, sum(deleted) FROM rollup GROUP BY 1, 2",
    ),
    "uncovered: by user": (
        "SELECT user, sum(added) AS n FROM {rows} WHERE robot "
        "GROUP BY user ORDER BY n DESC LIMIT 9",
        None,
    ),
    "uncovered: by a filter": (
        "SELECT channel, sum(added) FROM {rows} WHERE page LIKE 'Za%' GROUP BY channel",
        None,
    ),
    "uncovered: an expression of one column": ("SELECT sum(length(page)) FROM {rows}", None),
    "scan: one column": ("SELECT added FROM {rows} WHERE added % 7 = 9", None),
    "scan: few rows": ("SELECT page FROM {rows} WHERE added = 17 AND deleted = 3", None),
}
_WAYS: Final = {  # whether the extension is on, and whether it may plant answers
    "planted": ("true", "true"),
    "shared": ("true", "false"),
    "plain": ("false", "false"),
}
_RUNS: Final = 4
_CLIENTS: Final = (1, 10)
_ROUNDS: Final = 20
_PLANS: Final = 50


def main() -> None:
    """Measure, print and write what was measured."""
    row_count = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        spark = sql_session()
        load = _make_tables(spark, Path(folder), row_count)
        figures = _measured(spark)
        spark.conf.set("spark.projseg.enabled", "true")
        spark.conf.set("spark.projseg.local.enabled", "true")
        served = {
            rows: {str(count): _served(spark, rows, count) for count in _CLIENTS}
            for rows in ("edits", "rollup", "parquet")
        }
        planning = {  # the first round of each warms Java up
            enabled: _planning(spark, enabled) for enabled in ("true", "false", "true", "false")
        }
        spark.stop()
    record = {
        "rows": row_count,
        "load_seconds": load,
        "milliseconds": figures,
        "queries_a_second_by_clients": served,
        "milliseconds_of_planning_parquet_by_enabled": planning,
    }
    path = sys.argv[2] if len(sys.argv) > 2 else None
    publish(f"python -m projseg.benchmarks.plain_sql {row_count}", record, path)


def _make_tables(spark: SparkSession, folder: Path, row_count: int) -> float:
    """Make views `parquet`, `rollup` and `edits`; return the seconds that projseg's write took."""
    EditStream(row_count).write_parquet(folder / "made")
    made = spark.read.parquet(str(folder / "made"))
    made.write.parquet(str(folder / "parquet"))
    spark.read.parquet(str(folder / "parquet")).createOrReplaceTempView("parquet")
    rollup = spark.sql(f"{_HOURLY} FROM parquet GROUP BY 1, 2, 3")
    rollup.coalesce(1).write.parquet(str(folder / "rollup"))
    spark.read.parquet(str(folder / "rollup")).createOrReplaceTempView("rollup")
    started = time.perf_counter()
    projseg.write(
        made,
        folder / "edits",
        time_column="time",
        segment_granularity="P5D",
        projections={"name": "hourly", "sql": f"{_HOURLY} GROUP BY 1, 2, 3"},
    )
    taken = time.perf_counter() - started
    spark.read.format("projseg").load(str(folder / "edits")).createOrReplaceTempView("edits")
    return round(taken, 1)


def _measured(spark: SparkSession) -> dict[str, dict[str, int]]:
    """Return the best milliseconds of each query and way.

    Ways and queries take turns, so that Java has compiled as much for the first as for the last;
    the first round does not count.
    """
    found: dict[str, dict[str, int]] = {name: {} for name in _QUERIES}
    for number in range(1 + _RUNS):
        for name, (over_rows, over_rollup) in _QUERIES.items():
            texts = dict.fromkeys(_WAYS, over_rows.format(rows="edits"))
            texts["parquet"] = over_rows.format(rows="parquet")
            if over_rollup is not None:
                texts["rollup"] = over_rollup
            for way, text in texts.items():
                enabled, is_local = _WAYS.get(way, ("true", "true"))
                spark.conf.set("spark.projseg.enabled", enabled)
                spark.conf.set("spark.projseg.local.enabled", is_local)
                started = time.perf_counter()
                spark.sql(text).collect()
                taken = round((time.perf_counter() - started) * 1000)
                if number > 0:
                    found[name][way] = min(taken, found[name].get(way, taken))
    return found


def _served(spark: SparkSession, rows: str, client_count: int) -> float:
    """Return the queries a second that clients get, each asking one after the other."""
    texts = [
        (over_rows.format(rows=rows) if rows != "rollup" else over_rollup, over_rollup)
        for over_rows, over_rollup in _QUERIES.values()
        if over_rollup is not None
    ]
    asked = [(text, _rows(spark, checked)) for text, checked in texts]
    rounds = _ROUNDS if rows != "parquet" else 2

    def ask(_: int) -> None:
        for _ in range(rounds):
            for text, expected in asked:
                if _rows(spark, text) != expected:
                    raise AssertionError(f"another answer: {text}")

    started = time.perf_counter()
    with ThreadPoolExecutor(client_count) as clients:
        list(clients.map(ask, range(client_count)))
    return round(client_count * rounds * len(asked) / (time.perf_counter() - started), 1)


def _planning(spark: SparkSession, enabled: str) -> float:
    """Return the mean time to plan a query that reads no projseg table."""
    spark.conf.set("spark.projseg.enabled", enabled)
    texts = [over_rows.format(rows="parquet") for over_rows, _ in _QUERIES.values()]
    started = time.perf_counter()
    for _ in range(_PLANS):
        for text in texts:
            spark.sql(text)._jdf.queryExecution().executedPlan()
    return round((time.perf_counter() - started) * 1000 / _PLANS / len(texts), 2)


def _rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.sql(text).collect()), key=str)


if __name__ == "__main__":
    main()
