"""Expressions over aggregates, from projections, from base rows and from a mixture."""

import duckdb
import pyarrow as pa
import pytest

import projseg
from projseg.errors import EvaluationError, ProjectionNotUsableError, UnsupportedFeatureError

SCHEMA = pa.schema(
    {
        "channel": pa.string(),
        "page": pa.string(),
        "a": pa.int64(),
        "b": pa.int32(),
        "x": pa.float64(),
    }
)
ROWS = pa.table(
    {
        "channel": [None, "#a", "#a", "#b", "#b", "#c", "#c", "#a"],
        "page": ["M", "T", "M", "T", None, "M", "M", "T"],
        "a": [1, 2, None, 4, 5, None, None, 8],
        "b": [3, None, 5, 6, None, None, None, 9],
        "x": [0.5, 1.5, None, -2.0, 4.0, None, None, 8.0],
    },
    schema=SCHEMA,
)
MEANS = {
    "name": "means",
    "group_by": ["channel", "upper(page) AS topic"],
    "aggregators": ["sum(a) / count(*) AS mean", "coalesce(sum(b), 0) + sum(a)", "max(x)"],
}
AGGREGATORS = [
    "sum(a) / count(*) AS mean",
    "coalesce(sum(b), 0) AS b",
    "sum(a) + sum(b) AS both",
    "count(*) + 1 AS n",
    "cast(max(x) AS int) AS top",
    "CASE WHEN sum(a) > 5 THEN 'many' WHEN channel IS NULL THEN 'none' ELSE channel END AS kind",
    "channel || ':' || cast(count(*) AS string) AS label",
]


@pytest.fixture(params=["projections", "mixed", "base rows"])
def table(request, tmp_path):
    declared = [] if request.param == "base rows" else [MEANS]
    made = projseg.Table.create(tmp_path / "t", SCHEMA, projections=declared)
    made.append(ROWS.slice(0, 5))
    if request.param == "mixed":
        made.drop_projection("means")
    made.append(ROWS.slice(5))
    return made


def by_duckdb(aggregators, *, where="TRUE", having="TRUE", order="channel NULLS FIRST"):
    with duckdb.connect() as peer:
        peer.register("rows", ROWS)
        outputs = ", ".join(["channel", *aggregators])
        return peer.sql(
            f"SELECT {outputs} FROM rows WHERE {where} GROUP BY channel HAVING {having} "
            f"ORDER BY {order}"
        ).to_arrow_table().to_pylist()  # fmt: skip


def test_outputs_are_computed_from_aggregates(table):
    found = table.query("channel", AGGREGATORS, order_by="channel")
    assert found.to_pylist() == by_duckdb(AGGREGATORS)
    assert [str(field.type) for field in found.schema] == [
        "string", "double", "int64", "int64", "int64", "int32", "string", "string",
    ]  # fmt: skip


def test_a_filter_is_of_the_rows(table):
    found = table.query("channel", AGGREGATORS, filter="upper(page) = 'M'", order_by="channel")
    assert found.to_pylist() == by_duckdb(AGGREGATORS, where="upper(page) = 'M'")


def test_having_and_order_use_aggregates_that_are_no_output(table):
    having = "count(*) > 1 AND coalesce(sum(b), 0) < 100"
    order = "sum(a) / count(*) DESC NULLS LAST"
    found = table.query("channel", "count(*) AS n", having=having, order_by=order)
    assert found.to_pylist() == by_duckdb(["count(*) AS n"], having=having, order=order)
    assert found.schema.names == ["channel", "n"]


def test_having_and_order_use_outputs_by_name(table):
    found = table.query(
        "channel", "sum(a) / count(*) AS mean", having="mean > 2", order_by="-mean", limit=1
    )
    assert found.to_pylist() == [{"channel": "#b", "mean": 4.5}]


def test_an_output_hides_a_column_of_its_name_in_having_alone(table):
    found = table.query(
        "channel", ["max(x) AS a", "sum(a) + 1 AS s"], having="a > 4 AND sum(a) > 5"
    )
    assert found.to_pylist() == [{"channel": "#a", "a": 8.0, "s": 11}]


def test_each_aggregate_is_answered_by_a_projection_that_stores_it(tmp_path):
    table = projseg.Table.create(tmp_path / "t", SCHEMA, projections=[MEANS])
    table.append(ROWS)
    forced = {"forceProjections": True}
    for text in ("sum(a) / count(*)", "avg(a) IS NULL OR sum(a) > 3", "coalesce(sum(b), -1)"):
        if "avg" in text:
            with pytest.raises(ProjectionNotUsableError, match=r"count\(a\)"):
                table.query("channel", text, context=forced)
        else:
            whole = table.query("channel", text, context={"noProjections": True})
            assert table.query("channel", text, context=forced).equals(whole)
    with pytest.raises(ProjectionNotUsableError, match=r"min\(x\)"):
        table.query("channel", "count(*)", having="min(x) > 0", context=forced)


def test_a_declared_expression_stores_its_aggregates_once(tmp_path):
    table = projseg.Table.create(tmp_path / "t", SCHEMA, projections=[MEANS])
    (declared,) = table.projections().to_pylist()
    assert declared["aggregators"] == [
        "sum(a) AS sum(a)", "count(*) AS count(*)", "sum(b) AS sum(b)", "max(x) AS max(x)",
    ]  # fmt: skip
    sql = "SELECT channel, upper(page) AS topic, sum(a) / count(*) AS mean, "
    sql += "sum(b) + sum(a) AS both, max(x) GROUP BY ALL"
    other = projseg.Table.create(tmp_path / "u", SCHEMA, projections=[{"name": "p", "sql": sql}])
    (same,) = other.projections().to_pylist()
    assert same["definition_hash"] == declared["definition_hash"]


def test_the_whole_table_is_one_group(table):
    texts = ["coalesce(sum(a), 0) AS s", "count(*) + 1 AS n", "sum(a) / count(a) AS mean"]
    assert table.query((), texts).to_pylist() == [{"s": 20, "n": 9, "mean": 4.0}]
    nothing = table.query((), texts[:2], filter="channel = 'none'")
    assert nothing.to_pylist() == [{"s": 0, "n": 1}]
    assert table.query((), texts, having="count(*) > 8").to_pylist() == []


def test_errors_are_those_of_ansi_mode(table):
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
        table.query("channel", "count(*) / count(b)")
    kept = table.query("channel", "count(*) / count(b) AS q", having="count(b) > 0", order_by="q")
    assert kept.column("q").to_pylist() == [1.0, 1.5, 2.0]
    with pytest.raises(EvaluationError, match="OVERFLOW"):
        table.query((), "sum(a) + 9223372036854775807")


def test_a_partial_answer_has_no_state_of_an_expression(table):
    with pytest.raises(UnsupportedFeatureError, match="PROJSEG_NOT_MERGEABLE"):
        table.query(projseg.Query("channel", "sum(a) / count(*)", aggregation="partial"))


def test_names_that_aggregates_have_may_be_those_of_columns(tmp_path):
    schema = pa.schema({"sum(a)": pa.int64(), "a": pa.int64()})
    table = projseg.Table.create(tmp_path / "t", schema)
    table.append(pa.table({"sum(a)": [1, 1, 2], "a": [10, 20, 40]}, schema=schema))
    found = table.query(
        "`sum(a)`", "sum(a) + `sum(a)` AS t, count(*) + 1", having="sum(a) > `sum(a)` + 29"
    )
    assert found.to_pylist() == [{"sum(a)": 2, "t": 42, "(count(1) + 1)": 2}]
