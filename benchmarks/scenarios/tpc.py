"""TPC-H's and TPC-DS' statements in plain Spark SQL over projseg tables and over Parquet.

Both hold rows alone, in the order of the generators: what is compared is how rows reach Spark.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlglot
from pyspark.errors import PySparkException
from sqlglot.expressions import Expr

import projseg
from projseg.benchmarks.bench import Bench, same_answer
from projseg.benchmarks.peers.spark_peer import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DUCKDB: Final = "1.5.5"
"""The last release whose extensions are published as packages."""
_MAKER: Final = Path(__file__).parents[1] / "tpc_tables.py"
_WAYS: Final = ("projseg", "parquet")
_SLOWER: Final = 1.2


def run(bench: Bench) -> None:
    """Make the tables and ask every statement of both, one after the other."""
    bench.peers.append("parquet")
    bench.progress("making tables")
    made = bench.folder / "made"
    _make(bench.folder / "duckdb", made, bench["scale"])
    spark = local_session(bench.folder / "spark", bench["threads"], projseg.configure)
    try:
        for suite in bench.names("suites"):
            _load(bench, spark, made, suite)
            _ask(bench, spark, made, suite)
    finally:
        spark.stop()


def _make(environment: Path, folder: Path, scale: float) -> None:
    """Write tables and statements, by a DuckDB in an environment of its own."""
    python = str(environment / "bin/python")
    packages = ("duckdb", "duckdb-extension-tpch", "duckdb-extension-tpcds")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", str(environment)],
        pip + [f"{package}=={_DUCKDB}" for package in packages],
        [python, str(_MAKER), str(folder), str(scale)],
    ):
        subprocess.run(command, check=True)  # noqa: S603 - the words are our own


def _load(bench: Bench, spark: SparkSession, made: Path, suite: str) -> None:
    for path in sorted((made / suite).glob("*.parquet")):
        bench.progress(f"{suite}: loading {path.stem}")
        for way in _WAYS:
            with bench.timed("load", f"{suite} {path.stem}", way):
                rows = spark.read.parquet(str(path))
                rows.write.format(way).mode("append").save(
                    str(bench.folder / suite / way / path.stem)
                )


def _ask(bench: Bench, spark: SparkSession, made: Path, suite: str) -> None:
    texts = json.loads((made / suite / "statements.json").read_text(encoding="utf-8"))
    ratios = []
    for name in [name for name in bench.names("queries") or texts if name in texts]:
        bench.progress(f"{suite} {name}")
        query = sqlglot.parse_one(texts[name], read="duckdb")
        times: dict[str, list[float]] = {way: [] for way in _WAYS}
        for _ in range(bench["rounds"]):
            for way in _WAYS:
                times[way].append(_answer(spark, bench.folder / suite / way, query)[0])
        for way in _WAYS:
            bench.add("statements", f"{suite} {name}", way, {"ms": times[way]})
        ratios.append(min(times["projseg"]) / min(times["parquet"]))
        query.set("limit", None)  # which of equal rows it keeps is open
        found, expected = (_answer(spark, bench.folder / suite / way, query)[1] for way in _WAYS)
        if not _is_same(found, expected):
            bench.problems.append(f"differs: {suite} {name}")
    figures = {
        "geometric mean": statistics.geometric_mean(ratios),
        "worst": max(ratios),
        f"above {_SLOWER}": sum(ratio > _SLOWER for ratio in ratios),
    }
    bench.add("of Parquet", f"{suite}: {len(ratios)} statements", "projseg", figures)


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(found, str) or isinstance(expected, str):
        return bool(found == expected)
    return same_answer(found, expected)


def _answer(spark: SparkSession, folder: Path, query: Expr) -> tuple[float, Any]:
    """Return the milliseconds, and the rows, or the condition of the error: some divide by zero."""
    for path in folder.iterdir():
        spark.read.format(folder.name).load(str(path)).createOrReplaceTempView(path.name)
    started = time.perf_counter()
    try:
        rows = spark.sql(query.sql("spark")).toArrow()
        found: Any = rows.rename_columns([f"c{place}" for place in range(rows.num_columns)])
    except PySparkException as error:
        found = error.getCondition()
    return (time.perf_counter() - started) * 1000, found
