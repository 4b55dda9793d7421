"""What functions cost a row counts in plans, and what Spark computes faster is left to it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.planning import call_work
from projseg.algebra.planning.call_work import CallWork, measured_work, saved_by_spark, work_name
from projseg.spark_engine.engine import reply_to

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.int64()), ("k", pa.int32())])
DEAR = "concat(a, b)"
ROWS = 40


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(tmp_path / "table", SCHEMA)
    made.add_projection({"name": "by_k", "sql": f"SELECT k, max({DEAR}), sum(n) GROUP BY k"})
    texts = [f"t{n}" for n in range(ROWS)]
    rows = {"a": texts, "b": texts, "n": range(ROWS), "k": [n % 3 for n in range(ROWS)]}
    made.append(pa.table({name: list(column) for name, column in rows.items()}, SCHEMA))
    return made


@pytest.fixture
def quick_in_spark(monkeypatch):
    """Spark takes a millisecond less for each row."""
    monkeypatch.setitem(call_work._TABLE, "concat of texts", CallWork(1e9, 1e3))


def asked(table, **more):
    query = {"projseg_query": 1, "context": {"timezone": "UTC"}, **more.pop("query")}
    request = {"location": str(table.location), "query": query, "max_bytes": 1 << 20, **more}
    return reply_to(json.dumps({"max_rows": ROWS, **request}).encode())[0]


def groups(table, call, **query):
    return asked(table, op="answer", query={"aggregators": [f"{call} AS a0"], **query})


def test_a_dear_expression_over_base_rows_is_left_to_spark(table, quick_in_spark):
    found = groups(table, f"max({DEAR})", filter="n > 3")
    assert found["code"] == "PROJSEG_EXPRESSION_COSTS"
    assert "concat" in found["message"]
    assert f"{ROWS} rows" in found["message"]
    assert groups(table, "sum(n)", filter=f"{DEAR} > 'a'")["code"] == "PROJSEG_EXPRESSION_COSTS"


@pytest.mark.parametrize("call", [f"max({DEAR})", "sum(n)", "max(concat(a, 'x'))"])
def test_what_is_stored_or_looked_up_is_not(table, quick_in_spark, call):
    assert groups(table, call, group_by=["k AS g0"])["answered"]


def test_nothing_is_left_where_spark_is_slower_or_the_rows_are_few(table, monkeypatch):
    for work in (CallWork(1e9, 2e9), CallWork(1e9), CallWork(2e6, 1e3), CallWork(900.0, 1.0)):
        monkeypatch.setitem(call_work._TABLE, "concat of texts", work)
        assert groups(table, f"max({DEAR})")["answered"]


def test_rows_are_sent_rather_than_tested_by_a_dear_condition(table, quick_in_spark):
    conditions = [
        {"text": f"{DEAR} > 't3'", "columns": ["a", "b"]},
        {"text": "n > 3", "columns": ["n"]},
    ]
    found = asked(table, op="scan", query={}, columns=["n"], conditions=conditions)
    assert found["accepted"] == [1]
    assert found["query"]["columns"] == ["`a`", "`b`", "`n`"]
    assert found["plan"].endswith(f"; not {DEAR} > 't3': EXPRESSION_COSTS")
    assert found["refused"] == {"by_k": "ROW_SCAN", "conditions": "EXPRESSION_COSTS"}


def test_calls_are_listed_by_what_they_are_of():
    names = ["ceil of decimals", "ceil of others", "upper of texts"]
    schema = pa.schema([("d", pa.decimal128(9, 2)), ("x", pa.float64()), ("s", pa.string())])
    calls = [bind(text, schema) for text in ("ceil(d)", "ceil(x)", "upper(s)")]
    assert [*map(work_name, calls)] == names
    assert all(measured_work(call).own > 0 for call in calls)


def test_a_call_is_counted_once(monkeypatch):
    monkeypatch.setitem(call_work._TABLE, "concat of texts", CallWork(50.0, 10.0))
    monkeypatch.setitem(call_work._TABLE, "upper of texts", CallWork(70.0))
    call = bind(DEAR, SCHEMA)
    assert saved_by_spark([call, bind(f"upper({DEAR})", SCHEMA)]) == (40.0, call)
    assert saved_by_spark([bind("n + 1", SCHEMA)]) == (0.0, None)
