"""Scenarios that ask several engines the same."""

from __future__ import annotations

from typing import Final

from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.runner.engine_comparison import EngineComparison
from projseg.benchmarks.runner.scenario import Bench, Scenario
from projseg.benchmarks.workloads.lineitem_rows import LineitemRows
from projseg.benchmarks.workloads.question import Workload
from projseg.benchmarks.workloads.sweep_tables import SweepTable
from projseg.benchmarks.workloads.written import EDITS, HOURLY_EDITS, LINEITEM

_HOUR_US: Final = 3_600_000_000
_EMBEDDED: Final = "projseg,projseg-base,duckdb,duckdb-parquet,clickhouse,clickhouse-projections"
_ON_SPARK: Final = "spark-parquet,spark-rollup,projseg-spark-sql,projseg-spark-options"


def _edits(bench: Bench) -> None:
    EngineComparison(bench, EDITS, EditStream(bench["rows"], bench["seed"])).run()


def _lineitem(bench: Bench) -> None:
    rows = LineitemRows.made(bench.folder / "made", bench["scale"])
    EngineComparison(bench, LINEITEM, rows).run()


def _cold_queries(bench: Bench) -> None:
    EngineComparison(bench, EDITS, EditStream(bench["rows"]), {"fresh"}).run()


def _throughput(bench: Bench) -> None:
    EngineComparison(bench, EDITS, EditStream(bench["rows"]), {"clients"}).run()


def _spark_sql(bench: Bench) -> None:
    measures = {"plan", "warm", "clients"}
    EngineComparison(bench, EDITS, EditStream(bench["rows"]), measures).run()


def _small_segments(bench: Bench) -> None:
    for count in bench.numbers("segments"):
        rows = EditStream(bench["rows"], span_us=count * _HOUR_US)
        label = f"{count} segments"
        EngineComparison(bench, HOURLY_EDITS, rows, {"plan", "warm"}, label).run()


def _wide_loads(bench: Bench) -> None:
    for count in bench.numbers("rows"):
        rows = SweepTable("log", count, bench["seed"])
        workload = Workload("log", rows.schema, "time", (), ())
        EngineComparison(bench, workload, rows, (), f"{count} rows").run()


ENGINE_SCENARIOS: Final = (
    Scenario(
        "edits",
        "31 queries over generated edits: loading, cold and warm, beside all peers.",
        {
            "rows": 2_000_000,
            "seed": 2015,
            "peers": f"{_EMBEDDED},{_ON_SPARK}",
            "queries": "",
            "rounds": 5,
            "threads": 2,
        },
        _edits,
        {
            "rows": 3000,
            "rounds": 1,
            "queries": "total,by_hour_channel,users_by_channel,top_pages,rows_of_hour,"
            "drain_all_columns",
        },
    ),
    Scenario(
        "lineitem",
        "18 queries over TPC-H's lineitem, six million rows times the scale.",
        {"scale": 1.0, "peers": _EMBEDDED, "queries": "", "rounds": 5, "threads": 2},
        _lineitem,
        {"scale": 0.001, "rounds": 1},
    ),
    Scenario(
        "cold-queries",
        "The first query of a process that has opened the table, beside its peers.",
        {
            "rows": 20_000_000,
            "peers": "projseg,projseg-base,duckdb,clickhouse-projections",
            "queries": "total,by_channel,users_by_channel,by_hour_channel,"
            "by_day_channel_of_country,filter_point,four_sums,prices_by_country,by_user,"
            "rows_of_page",
            "threads": 2,
        },
        _cold_queries,
        {"rows": 3000, "peers": "projseg,duckdb", "queries": "total,by_user"},
    ),
    Scenario(
        "throughput",
        "Questions a second of many clients at once: a covered one, one of rows, a tiny one.",
        {
            "rows": 2_000_000,
            "peers": "projseg,projseg-pool,duckdb,clickhouse-projections",
            "queries": "by_day_channel_of_country,filter_not,by_channel",
            "clients": "1,2,4,16",
            "seconds": 2.0,
            "rounds": 3,
            "threads": 2,
        },
        _throughput,
        {"rows": 4000, "clients": "1,3", "seconds": 0.05, "rounds": 1},
    ),
    Scenario(
        "wide-loads",
        "Loading 33 columns of a log: an address and a title of its own in every row, ids, flags.",
        {
            "rows": "1000000,4000000",
            "seed": 2015,
            "peers": "projseg-base,duckdb,clickhouse",
            "queries": "",
            "threads": 2,
        },
        _wide_loads,
        {"rows": "3000"},
    ),
    Scenario(
        "small-segments",
        "What each of many small segments adds to a covered query.",
        {
            "rows": 2_000_000,
            "segments": "100,1000,10000",
            "peers": "projseg,duckdb",
            "queries": "",
            "rounds": 1,
            "threads": 2,
        },
        _small_segments,
        {"rows": 4000, "segments": "8"},
    ),
    Scenario(
        "spark-sql",
        "Plain Spark SQL with and without the extension, planning and ten clients too.",
        {
            "rows": 5_000_000,
            "peers": "projseg-spark-sql,projseg-spark-shared,projseg-spark-plain,spark-parquet,"
            "spark-parquet-extended,spark-rollup",
            "queries": "by_channel,by_day_channel_of_country,top_users,filter_prefix,"
            "drain_one_column,three_columns_of_device",
            "clients": "1,10",
            "seconds": 3.0,
            "rounds": 3,
            "threads": 2,
        },
        _spark_sql,
        {"rows": 3000, "clients": "2", "seconds": 0.1, "rounds": 1, "queries": "by_channel"},
    ),
    Scenario(
        "spark-scans",
        "Reading all rows in Spark, beside a source that only hands over ready batches.",
        {
            "rows": 5_000_000,
            "seed": 2015,
            "peers": "projseg-spark-options,projseg-spark-sql,spark-parquet,spark-prepared",
            "queries": "drain_one_column,drain_three_columns,drain_all_columns",
            "rounds": 8,
            "threads": 2,
        },
        _edits,
        {"rows": 2000, "rounds": 1},
    ),
)
