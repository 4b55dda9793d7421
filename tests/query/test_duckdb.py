"""Random queries: DuckDB over the rows, and projseg over every mix of sources, agree.

Their semantics differ in two ways that the queries may show: DuckDB's sums of integers do not
overflow, and it keeps -0.0 and 0.0 apart as keys of different bits.
"""

import tempfile

import duckdb
import pyarrow as pa
from answers_agree import assert_same
from asking import ask, declare, keyed
from hypothesis import given, settings
from hypothesis import strategies as st
from query_cases import PROJECTION, QUERY, ROW, SCHEMA
from scale import IS_NIGHTLY

import projseg
from projseg.errors import EvaluationError

TABLES = 2_000 if IS_NIGHTLY else 40


def sql_of(query):
    outputs = [f"{key.sql} AS k{n}" for n, key in enumerate(query.keys)]
    outputs += [f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)]
    conditions = ["TRUE", *([] if query.condition is None else [f"({query.condition.sql})"])]
    if query.interval:
        start, end = (f"TIMESTAMPTZ '{bound:%Y-%m-%d %H:%M:%S}+00'" for bound in query.interval)
        conditions.append(f"time >= {start} AND time < {end}")
    keys = ", ".join(key.sql for key in query.keys)
    grouped = f" GROUP BY {keys}" if keys else ""
    return f"SELECT {', '.join(outputs)} FROM edits WHERE {' AND '.join(conditions)}{grouped}"


def ask_or_overflow(table, query, context):
    try:
        return ask(table, query, **context)
    except EvaluationError:
        return None


@settings(max_examples=TABLES)
@given(
    st.lists(ROW, min_size=1, max_size=60),
    st.lists(PROJECTION, min_size=1, max_size=3),
    st.lists(QUERY, min_size=4, max_size=4),
)
def test_duckdb_agrees(rows, projections, queries):
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
        for query in queries:
            expected = keyed(peer.sql(sql_of(query)).to_arrow_table(), len(query.keys))
            for context in ({}, {"noProjections": True}):
                found = ask_or_overflow(table, query, context)
                if found is None:
                    assert any("sum(big)" in aggregate.sql for aggregate in query.aggregates)
                else:
                    assert_same(found, expected)
