"""Aggregates of CASE and with FILTER are one state, and so are sums WHERE and FILTER."""

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from scale import one_of

import projseg
from projseg.errors import EvaluationError

SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "h": pa.string(),
        "p": pa.bool_(),
        "a": pa.int64(),
        "n": pa.int32(),
        "x": pa.float64(),
        "d": pa.decimal128(9, 2),
    }
)
ROWS = pa.table(
    {
        "k": ["u", "u", "u", "v", "v", "w", None, "z", "z"],
        "h": ["1", "1", "2", "2", "1", "1", "2", "2", "2"],
        "p": [True, False, None, True, True, False, True, None, True],
        "a": [1, 2, 3, 4, 5, 6, 7, 8, None],
        "n": [10, 20, 30, 40, 50, 60, 70, 80, 90],
        "x": [0.5, -0.0, 2.0, -0.0, None, 1.0, 8.0, None, -0.0],
        "d": [Decimal(n).scaleb(-2) for n in (150, -225, 1, 999, 12, 5, 700, 3, -1)],
    },
    schema=SCHEMA,
)
CASES = [
    "sum(CASE WHEN p THEN a END)",
    "sum(if(p, a, NULL))",
    "sum(a) FILTER (WHERE p)",
    "count(CASE WHEN p THEN 1 END)",
    "count(CASE WHEN p THEN a END)",
    "count_if(p)",
    "max(CASE WHEN p THEN x END)",
    "min(x) FILTER (WHERE p)",
    "avg(CASE WHEN p THEN a END)",
    "sum(CASE WHEN p THEN n ELSE 0 END)",
    "sum(CASE WHEN p THEN d ELSE 0 END)",
    "sum(CASE WHEN p THEN 1 ELSE 0 END)",
    "sum(if(p, 1, 0)) / count(*)",
    "sum(CASE WHEN p THEN 1 ELSE 0 END) FILTER (WHERE h = '1')",
    "sum(CASE WHEN p AND h = '1' THEN 1 ELSE 0 END)",
    "count(CASE WHEN p THEN 1 END) FILTER (WHERE h = '2')",
    "sum(CASE p WHEN TRUE THEN a END)",
]
FILTERED = ["sum(a) FILTER (WHERE p)", "count_if(p)", "count(a) FILTER (WHERE p)",
            "max(x) FILTER (WHERE p)", "min(x) FILTER (WHERE p)", "sum(n) FILTER (WHERE p)",
            "sum(d) FILTER (WHERE p)", "count(*)"]  # fmt: skip
CASED = ["sum(CASE WHEN p THEN a END)", "count(CASE WHEN p THEN 1 END)", "count(if(p, a, NULL))",
         "max(CASE WHEN p THEN x END)", "min(if(p, x, NULL))", "sum(if(p, n, NULL))",
         "sum(CASE WHEN p THEN d END)", "count(*)"]  # fmt: skip


def made(tmp_path, aggregators, **parts):
    declared = {"name": "s", "group_by": ["k", "h"], "aggregators": aggregators, **parts}
    table = projseg.Table.create(tmp_path / "t", SCHEMA, projections=[declared])
    table.append(ROWS.slice(0, 4))
    table.append(ROWS.slice(4))
    return table


@pytest.fixture(params=[FILTERED, CASED], ids=["FILTER", "CASE"])
def table(request, tmp_path):
    return made(tmp_path, request.param)


def by_duckdb(text, where="TRUE", keys="k"):
    with duckdb.connect() as peer:
        peer.register("rows", ROWS)
        grouped = f"SELECT {keys}, {text} FROM rows WHERE {where} GROUP BY {keys}"
        whole = f"SELECT {text} FROM rows WHERE {where}"
        rows = peer.sql(grouped if keys else whole).fetchall()
    return sorted(rows, key=repr)


def rows_of(answer):
    return sorted((tuple(row.values()) for row in answer.to_pylist()), key=repr)


@pytest.mark.parametrize("text", one_of(3, CASES))
def test_both_spellings_are_answered_by_either_state(table, text):
    expected = by_duckdb(text)
    for context in ({"forceProjections": True}, {"noProjections": True}):
        assert rows_of(table.query("k", text, context=context)) == expected
        assert rows_of(table.query((), text, context=context)) == by_duckdb(text, keys="")


def test_a_sum_or_zero_of_nulls_needs_its_own_state(table):
    text = "sum(CASE WHEN p THEN a ELSE 0 END)"
    (second,) = {row["segment"] for row in table.explain("k", text).segments.to_pylist()
                 if row["source"] is None}  # fmt: skip
    assert second  # the other segment has no null in `a`
    assert rows_of(table.query("k", text)) == by_duckdb(text)
    assert rows_of(table.query((), text, filter="k = 'none'")) == [(None,)]


@pytest.mark.parametrize(
    "text",
    ["sum(a)", "count(*)", "max(x)", "sum(a) / count(*)", "sum(d)", "sum(if(h = '1', n, NULL))"],
)
@pytest.mark.parametrize("keys", one_of(2, ["k", "h", ""]))
def test_a_condition_moves_into_stored_filters(table, text, keys):
    for where in ("p", "p AND h <> '2'", "p AND k IN ('u', 'w')", "p = TRUE"):
        expected = by_duckdb(text, where, keys)
        for context in ({"forceProjections": True}, {"noProjections": True}):
            found = table.query(keys, text, filter=where, context=context)
            assert rows_of(found) == expected


def test_groups_without_matching_rows_need_a_stored_count(tmp_path):
    table = made(tmp_path, ["sum(a) FILTER (WHERE p)"])
    plan = table.explain("k", "sum(a)", filter="p")
    assert set(plan.sources) == {"base"}
    assert "FILTER_COLUMN_NOT_STORED p" in str(plan)
    whole = table.query((), "sum(a)", filter="p", context={"forceProjections": True})
    assert whole.to_pylist() == [{"sum(a)": 17}]
    assert table.query("k", "sum(a)", filter="p").num_rows == 4


def test_a_condition_that_states_only_imply_is_not_moved(table):
    for where in ("p IS NOT NULL", "p AND n > 60", "NOT p"):
        assert set(table.explain("k", "sum(a)", filter=where).sources) == {"base"}
        assert rows_of(table.query("k", "sum(a)", filter=where)) == by_duckdb("sum(a)", where)


def test_deleted_rows_are_not_counted(table):
    table.delete("n IN (10, 40)")
    for text in CASES:
        whole = table.query("k", text, context={"noProjections": True})
        assert rows_of(table.query("k", text)) == rows_of(whole)
    for where in ("p", "p AND h = '2'"):
        whole = table.query("k", "sum(a)", filter=where, context={"noProjections": True})
        assert rows_of(table.query("k", "sum(a)", filter=where)) == rows_of(whole)


def test_a_value_is_computed_where_its_condition_holds(tmp_path):
    texts = ["sum(CASE WHEN n > 10 THEN 100 / (n - 10) END)"]
    table = made(tmp_path, ["sum(100 / (n - 10)) FILTER (WHERE n > 10)"])
    for context in ({"forceProjections": True}, {"noProjections": True}):
        assert table.query((), texts, context=context).num_rows == 1
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
        table.query((), "sum(CASE WHEN n > 9 THEN 100 / (n - 10) END)")


def test_a_stored_case_keeps_its_definition(tmp_path):
    table = made(tmp_path, ["sum(CASE WHEN p THEN a END) AS s"])
    assert table.projections().to_pylist()[0]["aggregators"] == [
        "sum(CASE WHEN (p = TRUE) THEN a ELSE CAST(NULL AS BIGINT) END) AS s"
    ]
    assert table.verify(deep=True) == []
