"""SQL statements for the peers, composed from a query's neutral parts."""

from __future__ import annotations

import re
from functools import cache

import sqlglot
from sqlglot import expressions as sql

from projseg.benchmarks.workload import Question, Rollup

# How an aggregate over edits reads over a rollup: what a person would write by hand.
_OVER_ROLLUP = (
    (r"date_trunc\('HOUR', time\)", "hour"),
    (r"\btime\b", "hour"),
    (r"\bsum\(added\)", "sum(total_added)"),
    (r"\bcount\(\*\)", "sum(edits)"),
    (r"\bapprox_count_distinct\(user\)", "hll_sketch_estimate(hll_union_agg(users))"),
)


@cache
def spark_statement(query: Question, *, table: str | None = None) -> str:
    """Return the query in Spark SQL, over its own table or another."""
    parts = [f"SELECT {', '.join(query.outputs)} FROM {table or query.table}"]
    if where := query.where():
        parts.append(f"WHERE {where}")
    if query.group_by:
        parts.append(f"GROUP BY {_keys(query.group_by)}")
    if query.order_by:
        parts.append(f"ORDER BY {', '.join(query.order_by)}")
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    return " ".join(parts)


@cache
def rollup_statement(query: Question) -> str | None:
    """Return the query in Spark SQL over the rollup that covers it; None where none does."""
    if query.covered_by is None:
        return None
    text = spark_statement(query, table=query.covered_by)
    for pattern, replacement in _OVER_ROLLUP:
        text = re.sub(pattern, replacement, text)
    return text


def rollup_definition(projection: Rollup) -> str:
    """Return the Spark SQL that makes the rollup of a projection out of `edits`."""
    outputs = ", ".join(projection.group_by + projection.aggregators)
    outputs = outputs.replace("approx_count_distinct(", "hll_sketch_agg(")
    return f"SELECT {outputs} FROM edits GROUP BY {_keys(projection.group_by)}"


@cache  # a peer's time is its own, without our composing
def statement(query: Question, dialect: str) -> str:
    """Return the query in `duckdb` or `clickhouse` SQL, its time literals in UTC."""
    if dialect == "clickhouse":
        return clickhouse_text(spark_statement(query))
    tree = sqlglot.parse_one(spark_statement(query), read="spark")
    return tree.transform(_for_duckdb).sql(dialect=dialect)


def clickhouse_text(spark_text: str) -> str:
    """Return a Spark SQL statement in ClickHouse's SQL."""
    tree = sqlglot.parse_one(spark_text, read="spark")
    return tree.transform(_for_clickhouse).sql(dialect="clickhouse")


def _keys(group_by: tuple[str, ...]) -> str:
    return ", ".join(text.rsplit(" AS ", 1)[0] for text in group_by)


def _for_clickhouse(node: sql.Expression) -> sql.Expression:
    if isinstance(node, sql.TsOrDsToDate):
        inner: sql.Expression = node.this
        return inner
    if isinstance(node, sql.Cast):
        return _clickhouse_cast(node)
    if isinstance(node, sql.ApproxDistinct):
        # A HyperLogLog of 2**12 registers, the size of the other engines' sketches; its own
        # default, uniq, keeps up to 65,536 hashes a group.
        precision = sql.Literal.number(12)
        return sql.ParameterizedAgg(
            this="uniqCombined", expressions=[precision], params=[node.this]
        )
    return node


def _clickhouse_cast(cast: sql.Cast) -> sql.Expression:
    """Return a cast that makes no nullable values, as there are no nulls."""
    if cast.is_type("double"):
        return sql.Anonymous(this="toFloat64", expressions=[cast.this])
    if cast.is_type("date"):
        return sql.Anonymous(this="toDate", expressions=[cast.this])
    scale, zone = sql.Literal.number(6), sql.Literal.string("UTC")
    return sql.Anonymous(this="toDateTime64", expressions=[cast.this, scale, zone])


def _for_duckdb(node: sql.Expression) -> sql.Expression:
    if isinstance(node, sql.TsOrDsToDate):
        inner: sql.Expression = node.this
        return inner
    if isinstance(node, sql.Cast) and not node.is_type("date"):
        kind = "DOUBLE" if node.is_type("double") else "TIMESTAMP"
        return sql.cast(node.this, kind, dialect="duckdb")
    return node
