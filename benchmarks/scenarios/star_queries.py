"""TPC-H's and the star-schema benchmark's queries of projseg tables, of Parquet, and of views.

`lineitem`, `orders` and the tables of the star schema are projseg tables, the rest stays Parquet.
Rows are compared, and the plan tells how it got them.
"""

from __future__ import annotations

import math
import re
import time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import projseg
from projseg.benchmarks.bench import Bench, cpu_ms
from projseg.benchmarks.peers.spark_peer import local_session
from projseg.benchmarks.scenarios.tool_doors import in_duckdb
from projseg.benchmarks.written_workloads import generate_tpch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

_REVENUE: Final = "sum(l_extendedprice * (1 - l_discount))"
_TABLES: Final = ("lineitem", "orders", "customer", "part", "supplier", "nation")
_PARQUET_TABLES: Final = ("customer", "nation", "part", "partsupp", "region", "supplier")
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "lineitem": {
        "timeColumn": "l_shipdate",
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
        "projections": {
            "by_customer": "SELECT o_custkey, count(*), sum(o_totalprice) GROUP BY ALL",
            "by_priority": "SELECT o_orderdate, o_orderpriority, count(*) GROUP BY ALL",
        },
    },
    "lineorder": {
        "timeColumn": "lo_day",
        "projections": {
            "by_day": "SELECT lo_orderdate, lo_discount, sum(lo_extendedprice * lo_discount), "
            "sum(lo_revenue), count(*) GROUP BY ALL",
            "by_customer_supplier": "SELECT lo_custkey, lo_suppkey, lo_orderdate, "
            "sum(lo_revenue), count(*) GROUP BY ALL",
        },
    },
}
_MARKS: Final = {
    "below a join": "below a join",
    "planted": "ProjsegAnswer",
    "shared": r"BatchScan projseg\[g0#",
    "scanned": r"BatchScan projseg\[(?!g0#)",
}


def statements_of(name: str) -> dict[str, str]:
    """Return the statements of a file beside this module, by the names before them."""
    text = Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
    return dict(re.findall(r"^--: ([^\n]*)\n(.*?);$", text, re.MULTILINE | re.DOTALL))


def ask_star_queries(bench: Bench, spark: SparkSession) -> None:
    """Make the tables and ask all queries of both, in a session with the extension."""
    bench.peers.append("parquet")
    folder = bench.folder
    generate_tpch(folder / "made", bench["scale"])
    _make_tpch(spark, folder)
    _make_ssb(spark, folder)
    for name in ("tpch", "ssb"):
        for query, text in statements_of(name).items():
            if not query.startswith("table "):
                bench.progress(f"{name} {query}")
                _ask(bench, spark, f"{name} {query}", text, folder / name)


def run(bench: Bench) -> None:
    """Ask in a session of Spark of its own."""
    spark = local_session(bench.folder / "spark", bench["threads"], projseg.configure)
    try:
        ask_star_queries(bench, spark)
    finally:
        spark.stop()


def _make_tpch(spark: SparkSession, folder: Path) -> None:
    for name in ("lineitem", "orders", *_PARQUET_TABLES):
        path = folder / "made" / f"{name}.parquet"
        _link(path, folder / "tpch/parquet" / name)
        if name in _OPTIONS:
            _write(spark.read.parquet(str(path)), folder / "tpch/projseg" / name)
        else:
            _link(path, folder / "tpch/projseg" / name)


def _make_ssb(spark: SparkSession, folder: Path) -> None:
    for name, text in statements_of("ssb").items():
        kind, _, table = name.partition(" ")
        if kind == "table":
            _use(spark, folder / "tpch/parquet")
            path = folder / "ssb/parquet" / table
            spark.sql(text).coalesce(2).write.parquet(str(path))
            _write(spark.read.parquet(str(path)), folder / "ssb/projseg" / table)


def _write(rows: DataFrame, path: Path) -> None:
    options = _OPTIONS.get(path.name, {})
    made = options.get("projections", {})
    declared = [{"name": name, "sql": text} for name, text in made.items()]
    granularity = {"segmentGranularity": "year"} if options else {}
    projseg.write(rows, path, **{**options, **granularity, "projections": declared})


def _link(path: Path, name: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)
    name.symlink_to(path)


def _use(spark: SparkSession, folder: Path) -> None:
    """Let names of tables mean the tables of a folder: Parquet, or projseg where it is that."""
    for path in folder.iterdir():
        is_parquet = path.is_file() or any(path.glob("*.parquet"))
        reader = spark.read.format("parquet" if is_parquet else "projseg")
        reader.load(str(path)).createOrReplaceTempView(path.name)


def _ask(bench: Bench, spark: SparkSession, name: str, text: str, folder: Path) -> None:
    answers = []
    for way in ("projseg", "parquet"):
        _use(spark, folder / way)
        plan = spark.sql(text)._jdf.queryExecution().executedPlan().toString()
        taken = []
        rows: list[tuple[Any, ...]] = []
        for _ in range(bench["rounds"]):
            started = time.perf_counter()
            rows = [tuple(row) for row in spark.sql(text).collect()]
            taken.append((time.perf_counter() - started) * 1000)
        answers.append(rows)
        how = ", ".join(kind for kind, mark in _MARKS.items() if re.search(mark, plan))
        values = {"ms": taken, "rows": len(rows), "answered": how}
        bench.add("queries", name, way, values)
    if not _is_same(*answers):
        bench.problems.append(f"differs: projseg: {name}")


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


def views_of_stars(bench: Bench) -> None:
    """Ask without a view, build some, ask again, and refresh them."""
    import duckdb  # optional: extra [bench]

    questions = statements_of("star_views")
    views = [name for name in questions if name.startswith("view ")]
    definitions = {name.removeprefix("view "): questions.pop(name) for name in views}
    made = bench.folder / "made"
    bench.peers.append("duckdb")
    bench.progress("making rows")
    generate_tpch(made, bench["scale"], _TABLES)
    tables = {name: _stored(bench.folder, made, name) for name in _TABLES}
    with duckdb.connect() as peer:
        peer.execute(f"SET threads = {bench['threads']}")
        for name in _TABLES:
            path = made / f"{name}.parquet"
            peer.read_parquet(str(path)).create(name)
        bench.progress("without a view")
        _ask_all(bench, questions, tables, peer)
        for name, sql in definitions.items():
            build = partial(tables["lineitem"].create_view, name, sql, tables=tables)
            bench.add("build", name, "", {"cpu s": cpu_ms(build) / 1000})
        bench.progress("with a view")
        _ask_all(bench, questions, tables)
        tables["supplier"].append(_new_suppliers(tables["supplier"].schema))
        for name in definitions:
            done = tables["lineitem"].refresh().view(name).detail()["last_refresh"]
            bench.add("refresh", f"10,000 new suppliers, {name}", "", dict(done))


def _stored(folder: Path, made: Path, name: str) -> projseg.Table:
    rows = pq.read_table(made / f"{name}.parquet")
    options: dict[str, Any] = {}
    if name == "lineitem":
        options = {"time_column": "l_shipdate", "segment_granularity": "year"}
    table = projseg.Table.create(folder / name, rows.schema, **options)
    table.append(rows)
    return table


def _new_suppliers(schema: pa.Schema) -> pa.Table:
    keys = pa.array(range(10**8, 10**8 + 10_000), pa.int64())
    columns = [
        keys.cast(field.type) if field.name == "s_suppkey" else pa.nulls(len(keys), field.type)
        for field in schema
    ]
    return pa.table(columns, schema)


def _ask_all(
    bench: Bench,
    questions: dict[str, str],
    tables: dict[str, projseg.Table],
    peer: DuckDBPyConnection | None = None,
) -> None:
    """Ask by joins, and the peer beside; without a peer, by views."""
    way = "joined" if peer else "view"
    context = {"threads": bench["threads"], "forceViews": peer is None, "noViews": bool(peer)}
    for name, text in questions.items():
        ask = partial(projseg.sql, text, tables, context=context)
        found = ask()
        bench.add("questions", name, way, {"cpu ms": cpu_ms(ask, bench["rounds"])})
        if peer is None:
            continue
        theirs = text.replace("date_trunc('YEAR', o_orderdate)", "date_trunc('year', o_orderdate)")
        run = partial(in_duckdb, peer, theirs)
        if len(run()) != found.num_rows or _total(run()) != _total(found):
            bench.problems.append(f"differs: {name}")
        bench.add("questions", name, "duckdb", {"cpu ms": cpu_ms(run, bench["rounds"])})


def _total(answer: pa.Table) -> Any:
    return sum(answer.column(answer.num_columns - 1).to_pylist())
