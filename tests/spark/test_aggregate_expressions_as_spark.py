"""Expressions over aggregates have Spark's names, types and values."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from scale import one_of

import projseg
from projseg.errors import EvaluationError

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "i": pa.int32(),
        "a": pa.int64(),
        "x": pa.float64(),
        "d": pa.decimal128(9, 2),
        "p": pa.bool_(),
    }
)
ROWS = pa.table(
    {
        "k": ["u", "u", "v", None, "w", "w"],
        "i": [1, None, 3, 4, None, None],
        "a": [10, 20, None, -7, None, None],
        "x": [0.5, -0.0, None, float("nan"), None, 0.0],
        "d": [Decimal("1.50"), Decimal("-2.25"), None, Decimal("9.99"), None, None],
        "p": [True, False, None, True, False, True],
    },
    schema=SCHEMA,
)
OUTPUTS = [
    "sum(a) / count(*)",
    "coalesce(sum(a), 0)",
    "sum(a) + sum(i)",
    "count(*) + 1",
    "sum(d) / count(*)",
    "avg(d) * 2",
    "sum(d) + sum(i)",
    "cast(sum(a) AS string)",
    "cast(avg(x) AS float)",
    "-sum(i)",
    "sum(a) % 3",
    "sum(a) DIV 3",
    "round(avg(d), 1)",
    "CASE WHEN count(*) > 1 THEN k ELSE 'one' END",
    "concat(k, '-', count(a))",
    "sum(a) IS NULL",
    "sum(a) > 5 AND max(x) < 1",
    "nullif(count(a), 0)",
    "if(sum(i) > 1, max(d), min(d))",
    "sum(a) FILTER (WHERE p) - sum(a) FILTER (WHERE NOT p)",
    "greatest(sum(a), sum(i), 0)",
    "upper(max(k))",
]
FAILING = [
    "count(*) / count(a)",
    "sum(a) + 9223372036854775807",
    "cast(max(k) AS int)",
    "cast(sum(a) * 100 AS tinyint)",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory, spark):
    spark.createDataFrame(ROWS).createOrReplaceTempView("groups_of_expressions")
    sums = {"name": "sums", "group_by": "k", "aggregators": "sum(a), sum(i), sum(d), count(*)"}
    made = projseg.Table.create(tmp_path_factory.mktemp("t") / "t", SCHEMA, projections=[sums])
    made.append(ROWS)
    return made


def of_groups(answer):
    return {repr(row["k"]): str(row) for row in answer.to_pylist()}


@pytest.mark.slow
def test_names_types_and_values_are_sparks(spark, table):
    wanted = spark.sql(
        f"SELECT k, {', '.join(OUTPUTS)} FROM groups_of_expressions GROUP BY k"
    ).toArrow()
    found = table.query("k", OUTPUTS)
    assert found.schema.names == wanted.schema.names
    assert [f.type for f in found.schema] == [f.type for f in wanted.schema]
    assert of_groups(found) == of_groups(wanted)


@pytest.mark.parametrize("text", one_of(4, FAILING))
def test_what_spark_refuses_is_refused(spark, table, text):
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|OVERFLOW|CAST_INVALID_INPUT"):
        spark.sql(f"SELECT {text} FROM groups_of_expressions GROUP BY k").toArrow()
    with pytest.raises(EvaluationError):
        table.query("k", text)


SETS = [
    ("ROLLUP(k, p)", ["sum(a)", "count(*)", "grouping(k)", "grouping_id()", "grouping_id(k, p)"]),
    ("CUBE(k, p)", ["grouping(p) + count(*)", "avg(d)"]),
    ("k, ROLLUP(k, p)", ["count(*)", "grouping_id()"]),
    ("GROUPING SETS ((p, k), (k), (k), ROLLUP(p))", ["count(*)", "grouping_id()", "max(i)"]),
    ("CUBE((k, p))", ["count(*)"]),
    ("GROUPING SETS (())", ["count(*)", "sum(a)", "grouping_id()"]),
]


@pytest.mark.parametrize("where", ["TRUE", pytest.param("a = 99", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("sets", "outputs"), one_of(6, SETS))
def test_grouping_sets_are_sparks(spark, table, sets, outputs, where):
    keys = ["k", "p"] if "k" in sets else []
    sql = f"SELECT {', '.join([*keys, *outputs])} FROM groups_of_expressions "
    wanted = spark.sql(f"{sql} WHERE {where} GROUP BY {sets}").toArrow()
    found = table.query(sets, outputs, filter=where)
    found = found.select([*keys, *found.schema.names[len(keys) :]])
    assert found.schema.names == wanted.schema.names
    assert [f.type for f in found.schema] == [f.type for f in wanted.schema]
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, wanted.to_pylist()))
