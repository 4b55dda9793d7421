"""Random queries: DuckDB over the rows, and projseg over every mix of sources, agree.

Their semantics differ in two ways that the queries may show: DuckDB's sums of integers do not
overflow, and it keeps -0.0 and 0.0 apart as keys of different bits.
"""

import tempfile
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import rows_oracle
from answers_agree import assert_same
from asking import ask, declare, keyed
from hypothesis import given, settings
from hypothesis import strategies as st
from query_cases import PROJECTION, QUERY, ROW, SCHEMA
from scale import tries

import projseg
from projseg.errors import EvaluationError

TABLES = tries(1_000, 8)


def sql_of(query):
    outputs = [f"{key.sql} AS k{n}" for n, key in enumerate(query.keys)]
    outputs += [f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)]
    conditions = ["TRUE", *([] if query.condition is None else [f"({query.condition.sql})"])]
    if query.interval:
        start, end = (f"TIMESTAMPTZ '{bound:%Y-%m-%d %H:%M:%S}+00'" for bound in query.interval)
        conditions.append(f"time >= {start} AND time < {end}")
    keys = ", ".join(key.sql for key in query.keys)
    grouped = f" GROUP BY {keys}" if keys else ""
    grouped += f" HAVING {query.having.sql}" if query.having is not None else ""
    return f"SELECT {', '.join(outputs)} FROM edits WHERE {' AND '.join(conditions)}{grouped}"


def ask_or_overflow(table, query, context):
    try:
        return ask(table, query, **context)
    except EvaluationError:
        return None


@contextmanager
def table_and_peer(rows, projections):
    """Yield a table whose later half has the projections, and DuckDB over the same rows."""
    rows = [row | {"price": None if row["price"] is None else row["price"] + 0.0} for row in rows]
    data = pa.Table.from_pylist(rows, SCHEMA)
    with tempfile.TemporaryDirectory() as location, duckdb.connect() as peer:
        peer.execute("SET TimeZone = 'UTC'")
        peer.register("edits", data)
        table = projseg.Table.create(location, SCHEMA, time_column="time")
        table.append(data.slice(0, len(data) // 2))
        for number, projection in enumerate(projections):
            declare(table, f"p{number}", projection)
        table.append(data.slice(len(data) // 2))
        yield table, peer


@settings(max_examples=TABLES)
@given(
    st.lists(ROW, min_size=1, max_size=60),
    st.lists(PROJECTION, min_size=1, max_size=3),
    st.lists(QUERY, min_size=4, max_size=4),
)
def test_duckdb_agrees(rows, projections, queries):
    with table_and_peer(rows, projections) as (table, peer):
        for query in queries:
            expected = keyed(peer.sql(sql_of(query)).to_arrow_table(), len(query.keys))
            for context in ({}, {"noProjections": True}):
                found = ask_or_overflow(table, query, context)
                if found is None:
                    assert any("sum(big)" in aggregate.sql for aggregate in query.aggregates)
                else:
                    assert_same(found, expected)


def keyed_by_set(table, width):
    """Return {key tuple and grouping id: values}; the last column is the grouping id."""
    rows = [tuple(row.values()) for row in table.to_pylist()]
    answer = {(*map(rows_oracle.normal, row[:width]), row[-1]): row[width:-1] for row in rows}
    assert len(answer) == len(rows), "a group stands twice in the answer"
    return answer


@settings(max_examples=TABLES // 2)
@given(
    st.lists(ROW, min_size=1, max_size=60),
    st.lists(PROJECTION, min_size=1, max_size=2),
    st.lists(QUERY.filter(lambda query: query.keys), min_size=2, max_size=2),
    st.sampled_from(["ROLLUP", "CUBE"]),
)
def test_duckdb_agrees_on_grouping_sets(rows, projections, queries, construct):
    with table_and_peer(rows, projections) as (table, peer):
        for query in queries:
            outputs = [f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)]
            keys = [key.sql for key in query.keys]
            where = "TRUE" if query.condition is None else query.condition.sql
            selected = [f"{key} AS k{n}" for n, key in enumerate(keys)]
            grouped = f"{construct}({', '.join(keys)})"
            texts = ", ".join([*selected, *outputs, f"grouping_id({', '.join(keys)}) AS id"])
            sql = f"SELECT {texts} FROM edits WHERE {where} GROUP BY {grouped}"
            expected = keyed_by_set(peer.sql(sql).to_arrow_table(), len(keys))
            if not peer.sql(f"SELECT 1 FROM edits WHERE {where}").fetchall():
                expected = {}  # DuckDB has a group of the empty set there, Spark has none
            for context in ({}, {"noProjections": True}):
                try:
                    found = table.query(
                        f"{construct}({', '.join(selected)})",
                        [*outputs, "grouping_id() AS id"],
                        where,
                        context=context,
                    )
                except EvaluationError:
                    assert any("sum(big)" in aggregate.sql for aggregate in query.aggregates)
                else:
                    assert_same(keyed_by_set(found, len(keys)), expected)
