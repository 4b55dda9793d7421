"""LIMIT, sorted or not: the engine gives the first rows, and Spark reads no more."""

from __future__ import annotations

import pytest
from spark_sql import plan_of, using

import projseg


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    made = spark.range(0, 5000, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + (id * 7919) % 5000 * 60) AS t",
        "if(id % 50 = 0, NULL, element_at(array('a', 'é', 'Z', '', '\U0001f600', '\uffee'), "
        "CAST(id % 6 AS int) + 1)) AS k",
        "CAST(if(id % 9 = 0, NULL, (id * 31) % 701) AS int) AS n",
        "CAST(id AS decimal(12, 2)) / 3 AS d",
        "CASE id % 4 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D WHEN 2 THEN DOUBLE('NaN') ELSE id END AS x",
        "id % 3 = 0 AS flag",
        "id AS unique",
    )
    made.coalesce(1).write.parquet(str(folder / "parquet"))
    rows = spark.read.parquet(str(folder / "parquet"))
    rows.createOrReplaceTempView("first_parquet")
    projseg.write(rows, folder / "table", timeColumn="t", segmentGranularity="day")
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(str(folder / "table"))
        frame.createOrReplaceTempView("first_rows")


ORDERS = ["n", "n DESC", "n NULLS LAST", "n DESC NULLS FIRST", "k", "k DESC", "d DESC", "flag, k",
          "t DESC", "CAST(t AS date) DESC, n"]  # fmt: skip


@pytest.mark.parametrize("order", [*ORDERS, "x", "x DESC", "n + 1"])
@pytest.mark.parametrize("condition", ["true", "n > 350 AND k <> 'a'"])
def test_the_first_rows_in_an_order_are_sparks(spark, views, order, condition):
    text = f"SELECT *, n % 5 AS five FROM {{}} WHERE {condition} ORDER BY {order}, unique LIMIT 40"
    expected = spark.sql(text.format("first_parquet")).collect()
    with using(spark, enabled="true"):
        frame = spark.sql(text.format("first_rows"))
        is_planted = order in ORDERS and "CAST" not in order
        assert ("ProjsegAnswer" in plan_of(frame)) is is_planted
        assert list(map(repr, frame.collect())) == list(map(repr, expected))


def test_ties_may_be_any_of_the_tied_rows(spark, views):
    text = "SELECT n, k FROM {} ORDER BY n DESC LIMIT 30"
    keys = [[row.n for row in spark.sql(text.format("first_parquet")).collect()]]
    with using(spark, enabled="true"):
        found = spark.sql(text.format("first_rows")).collect()
    assert [row.n for row in found] == keys[0]


@pytest.mark.parametrize(
    "text", ["SELECT * FROM {}", "SELECT unique, n + 1 AS m FROM {} WHERE n > 690"]
)
def test_rows_without_an_order_are_any_of_them(spark, views, text):
    every = {repr(row) for row in spark.sql(text.format("first_parquet")).collect()}
    with using(spark, enabled="true"):
        for limit in (1, 20, 6000):
            frame = spark.sql(f"{text} LIMIT {limit}".format("first_rows"))
            assert "ProjsegAnswer" in plan_of(frame)
            found = [repr(row) for row in frame.collect()]
            assert len(found) == min(limit, len(every))
            assert set(found) <= every
        assert len(spark.sql(text.format("first_rows")).take(7)) == 7
        limited = f"SELECT count(*) FROM ({text} LIMIT 9)".format("first_rows")
        assert spark.sql(limited).first()[0] == 9


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 / n FROM {} WHERE 100 / n > 1 LIMIT 5",  # the error is Spark's own
        "SELECT * FROM {} WHERE t > '2024-01-02' ORDER BY rand() LIMIT 5",
        "SELECT kurtosis(n) FROM {} LIMIT 5",
    ],
)
def test_what_is_not_exact_is_left_to_spark(spark, views, text):
    with using(spark, enabled="true"):
        assert "ProjsegAnswer" not in plan_of(spark.sql(text.format("first_rows")))


def test_few_rows_are_found_without_reading_all(spark, views):
    with using(spark, enabled="true", local_maxBytes="10k"):
        assert "ProjsegAnswer" in plan_of(spark.sql("SELECT * FROM first_rows LIMIT 3"))
        assert "ProjsegAnswer" not in plan_of(
            spark.sql("SELECT * FROM first_rows ORDER BY n LIMIT 3")
        )
