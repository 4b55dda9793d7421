"""Ask TPC-H's and the star-schema benchmark's queries of projseg tables, and of Parquet.

    python -m projseg.benchmarks.tpch_sql 0.1 results.json

makes TPC-H's rows of a scale with tpchgen-cli, writes `lineitem` and `orders`, and the tables of
the star schema, as projseg tables, and the rest as Parquet. Then it asks every query of them and of
Parquet alone, compares the rows, and notes how the plan got them and the best of several runs.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

import projseg
from projseg.benchmarks.publish import publish
from projseg.benchmarks.sql_session import sql_session
from projseg.benchmarks.ssb_queries import SSB, SSB_TABLES
from projseg.benchmarks.tpch_queries import TPCH
from projseg.benchmarks.tpch_tables import generate

_RUNS: Final = 2
_REVENUE: Final = "sum(l_extendedprice * (1 - l_discount))"
_PARQUET_TABLES: Final = ("customer", "nation", "part", "partsupp", "region", "supplier")
_TPCH_TABLES: Final[dict[str, dict[str, Any]]] = {
    "lineitem": {
        "timeColumn": "l_shipdate",
        "segmentGranularity": "year",
        "projections": {
            "pricing": "SELECT l_shipdate, l_returnflag, l_linestatus, sum(l_quantity), "
            f"sum(l_extendedprice), {_REVENUE}, sum(l_discount), count(*), "
            "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(l_quantity), "
            "count(l_extendedprice), count(l_discount) GROUP BY ALL",
            "discounts": "SELECT year(l_shipdate) AS y, l_discount, l_quantity, "
            "sum(l_extendedprice * l_discount), count(*) GROUP BY ALL",
            "by_supplier": "SELECT date_trunc('MONTH', l_shipdate) AS m, l_suppkey, "
            f"{_REVENUE}, sum(l_quantity), count(*) GROUP BY ALL",
            "by_order": "SELECT l_orderkey, sum(l_quantity), count(*) GROUP BY ALL",
            "by_part": "SELECT l_partkey, sum(l_quantity), count(l_quantity), count(*) "
            "GROUP BY ALL",
        },
    },
    "orders": {
        "timeColumn": "o_orderdate",
        "segmentGranularity": "year",
        "projections": {
            "by_customer": "SELECT o_custkey, count(*), sum(o_totalprice) GROUP BY ALL",
            "by_priority": "SELECT o_orderdate, o_orderpriority, count(*) GROUP BY ALL",
        },
    },
}
_SSB_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "lineorder": {
        "timeColumn": "lo_day",
        "segmentGranularity": "year",
        "projections": {
            "by_day": "SELECT lo_orderdate, lo_discount, sum(lo_extendedprice * lo_discount), "
            "sum(lo_revenue), count(*) GROUP BY ALL",
            "by_customer_supplier": "SELECT lo_custkey, lo_suppkey, lo_orderdate, "
            "sum(lo_revenue), count(*) GROUP BY ALL",
        },
    },
}


def main() -> None:
    """Measure, print and write what was measured."""
    scale = float(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        spark = sql_session()
        figures = {"scale": scale, **run(spark, Path(folder), scale)}
        spark.stop()
    path = sys.argv[2] if len(sys.argv) > 2 else None
    publish(f"python -m projseg.benchmarks.tpch_sql {scale:g}", figures, path)


def run(spark: SparkSession, folder: Path, scale: float, runs: int = _RUNS) -> dict[str, Any]:
    """Make the tables and ask all queries of both.

    Parameters
    ----------
    spark : SparkSession
        With the extension.
    folder : Path
        Where tables are made.
    scale : float
        TPC-H's scale factor: 1 is 6 million rows of `lineitem`.
    runs : int
        How often each query is timed.

    Returns
    -------
    dict
        `tpch` and `ssb`: by query `equal`, `how` the plan got its rows, milliseconds of `projseg`
        and of `parquet`; and `below_joins`: the queries whose groups were made before a join.

    Raises
    ------
    MissingPackageError
        PROJSEG_MISSING_PACKAGE if tpchgen-cli is not installed.
    """
    generate(folder / "made", scale)
    found: dict[str, Any] = {}
    for name, queries, make in (("tpch", TPCH, _make_tpch), ("ssb", SSB, _make_ssb)):
        make(spark, folder)
        found[name] = {
            query: _asked(spark, text, folder / name, runs) for query, text in queries.items()
        }
    found["below_joins"] = [
        f"{name} {query}"
        for name in ("tpch", "ssb")
        for query, one in found[name].items()
        if "below a join" in one["how"]
    ]
    return found


def _make_tpch(spark: SparkSession, folder: Path) -> None:
    for name in (*_TPCH_TABLES, *_PARQUET_TABLES):
        path = folder / "made" / f"{name}.parquet"
        rows = spark.read.parquet(str(path))
        _link(path, folder / "tpch/parquet" / name)
        if name in _TPCH_TABLES:
            _write(rows, folder / "tpch/projseg" / name, _TPCH_TABLES[name])
        else:
            _link(path, folder / "tpch/projseg" / name)


def _make_ssb(spark: SparkSession, folder: Path) -> None:
    _use(spark, folder / "tpch/parquet")
    for name, text in SSB_TABLES.items():
        _use(spark, folder / "tpch/parquet")
        path = folder / "ssb/parquet" / name
        spark.sql(text).coalesce(2).write.parquet(str(path))
        _write(
            spark.read.parquet(str(path)), folder / "ssb/projseg" / name, _SSB_OPTIONS.get(name, {})
        )


def _write(rows: DataFrame, path: Path, options: dict[str, Any]) -> None:
    made = options.get("projections", {})
    declared = [{"name": name, "sql": text} for name, text in made.items()]
    projseg.write(rows, path, **{**options, "projections": declared})


def _link(path: Path, name: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(path)


def _use(spark: SparkSession, folder: Path) -> None:
    """Let names of tables mean the tables of a folder: Parquet, or projseg where it is that."""
    for path in folder.iterdir():
        is_parquet = path.is_file() or any(path.glob("*.parquet"))
        reader = spark.read.format("parquet" if is_parquet else "projseg")
        reader.load(str(path)).createOrReplaceTempView(path.name)


def _asked(spark: SparkSession, text: str, folder: Path, runs: int) -> dict[str, Any]:
    _use(spark, folder / "projseg")
    found = spark.sql(text)
    how = _how(found)
    rows, quick = _timed(spark, text, runs)
    _use(spark, folder / "parquet")
    expected, plain = _timed(spark, text, runs)
    return {
        "equal": _is_same(rows, expected),
        "rows": len(expected),
        "how": how,
        "projseg": quick,
        "parquet": plain,
    }


def _timed(spark: SparkSession, text: str, runs: int) -> tuple[list[tuple[Any, ...]], int]:
    taken = []
    rows: list[tuple[Any, ...]] = []
    for _ in range(runs):
        started = time.perf_counter()
        rows = [tuple(row) for row in spark.sql(text).collect()]
        taken.append(time.perf_counter() - started)
    return rows, round(min(taken) * 1000)


def _is_same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    """Whether rows are the same, in order; doubles to 1e-9."""
    if len(found) != len(expected):
        return False
    pairs = zip(sum(found, ()), sum(expected, ()), strict=True)
    return all(
        math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
        if isinstance(one, float) and isinstance(other, float)
        else one == other and (not isinstance(one, Decimal) or str(one) == str(other))
        for one, other in pairs
    )


def _how(frame: DataFrame) -> list[str]:
    """Return the ways in which a plan, with its subqueries, gets rows of projseg tables."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    marks = {
        "below a join": "below a join",
        "planted": "ProjsegAnswer",
        "shared": r"BatchScan projseg\[g0#",
        "scanned": r"BatchScan projseg\[(?!g0#)",
    }
    return [way for way, mark in marks.items() if re.search(mark, plan)]


if __name__ == "__main__":
    main()
