"""Star questions over TPC-H in plain Python, with a view and without, beside DuckDB's joins."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import projseg
from projseg.benchmarks.runner.scenario import Bench, cpu_ms
from projseg.benchmarks.workloads.lineitem_rows import generate_tpch

_TABLES: Final = ("lineitem", "orders", "customer", "part", "supplier", "nation")
_REVENUE: Final = "sum(l_extendedprice * (1 - l_discount)) AS revenue"
_FROM: Final = (
    "FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey "
    "JOIN nation ON c_nationkey = n_nationkey JOIN part ON l_partkey = p_partkey "
    "JOIN supplier ON l_suppkey = s_suppkey"
)
_VIEWS: Final = {
    "by_customer": "SELECT c_mktsegment, n_name, o_orderpriority, p_mfgr, "
    f"date_trunc('YEAR', o_orderdate) AS y, {_REVENUE}, sum(l_quantity) AS q {_FROM} GROUP BY ALL",
    "by_supplier": f"SELECT s_nationkey, p_mfgr, c_mktsegment, {_REVENUE}, sum(l_quantity) AS q "
    f"{_FROM} GROUP BY ALL",
}
# ruff: noqa: S608 - texts are made of texts of this module
_QUESTIONS: Final = {
    "segments": f"SELECT c_mktsegment, {_REVENUE} FROM lineitem JOIN orders ON l_orderkey = "
    "o_orderkey JOIN customer ON o_custkey = c_custkey GROUP BY c_mktsegment",
    "priorities": "SELECT o_orderpriority, sum(l_quantity) AS q, count(*) AS c FROM lineitem "
    "JOIN orders ON l_orderkey = o_orderkey GROUP BY o_orderpriority",
    "makers": f"SELECT p_mfgr, {_REVENUE} FROM lineitem JOIN part ON l_partkey = p_partkey "
    "GROUP BY p_mfgr",
    "suppliers": "SELECT s_nationkey, sum(l_quantity) AS q FROM lineitem "
    "JOIN supplier ON l_suppkey = s_suppkey GROUP BY s_nationkey",
    "nations by year": f"SELECT n_name, date_trunc('YEAR', o_orderdate) AS y, {_REVENUE} {_FROM} "
    "GROUP BY 1, 2",
    "one segment": f"SELECT p_mfgr, s_nationkey, {_REVENUE} {_FROM} "
    "WHERE c_mktsegment = 'BUILDING' GROUP BY p_mfgr, s_nationkey",
    "one maker": f"SELECT n_name, {_REVENUE} {_FROM} WHERE p_mfgr = 'Manufacturer#1' "
    "AND o_orderpriority <> '1-URGENT' GROUP BY n_name",
    "total": f"SELECT {_REVENUE}, count(*) AS c {_FROM}",
}


def run(bench: Bench) -> None:
    """Ask without a view, build some, ask again, and refresh them."""
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
        _ask_all(bench, tables, peer, "joined")
        for name, sql in _VIEWS.items():
            build = partial(tables["lineitem"].create_view, name, sql, tables=tables)
            bench.add("build", name, "", {"cpu s": cpu_ms(build) / 1000})
        bench.progress("with a view")
        _ask_all(bench, tables, None, "view")
        tables["supplier"].append(_new_suppliers(tables["supplier"].schema))
        for name in _VIEWS:
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
    tables: dict[str, projseg.Table],
    peer: duckdb.DuckDBPyConnection | None,
    way: str,
) -> None:
    context = {"threads": bench["threads"], "forceViews": way == "view", "noViews": way != "view"}
    for name, text in _QUESTIONS.items():
        ask = partial(projseg.sql, text, tables, context=context)
        found = ask()
        bench.add("questions", name, way, {"cpu ms": cpu_ms(ask, bench["rounds"])})
        if peer is None:
            continue
        theirs = text.replace("date_trunc('YEAR', o_orderdate)", "date_trunc('year', o_orderdate)")
        run = partial(_in_duckdb, peer, theirs)
        if len(run()) != found.num_rows or _total(run()) != _total(found):
            bench.problems.append(f"differs: {name}")
        bench.add("questions", name, "duckdb", {"cpu ms": cpu_ms(run, bench["rounds"])})


def _in_duckdb(peer: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    return peer.sql(text).to_arrow_table()


def _total(answer: pa.Table) -> Any:
    return sum(answer.column(answer.num_columns - 1).to_pylist())
