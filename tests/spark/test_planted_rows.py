"""Answers planted into a plan: their rows, parts and order, whatever Spark does with them next."""

from __future__ import annotations

import pytest
from spark_sql import plan_of, using

import projseg

# More than a megabyte as Spark stores it, so that the rows of one answer lie in several arrays.
GROUPS = 9000
COLUMNS = [
    "timestamp_seconds(1709251200 + id * 60) AS t",
    "if(id % 97 = 0, NULL, concat('key ', id, repeat('é', CAST(id % 40 AS int)))) AS k",
    "if(id % 5 = 0, NULL, id) AS n",
    "element_at(array(true, false, NULL), CAST(id % 3 AS int) + 1) AS flag",
    "if(id % 7 = 0, NULL, CAST(id AS decimal(12, 3)) / 8) AS d",
    "element_at(array(X'', X'00FF', NULL), CAST(id % 3 AS int) + 1) AS raw",
    "date_add(DATE'2024-03-01', CAST(id % 9 AS int)) AS day",
]


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    spark.range(0, GROUPS, 1, 1).selectExpr(*COLUMNS).write.parquet(str(folder / "parquet"))
    rows = spark.read.parquet(str(folder / "parquet"))
    rows.createOrReplaceTempView("planted_parquet")
    projseg.write(rows, folder / "table", timeColumn="t", segmentGranularity="day")
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(str(folder / "table"))
        frame.createOrReplaceTempView("planted")


GROUPED = (
    "SELECT {columns} FROM (SELECT k, n, flag, raw, day, sum(d) AS total, count(*) AS c "
    "FROM {table} GROUP BY k, n, flag, raw, day)"
)
OUTPUTS = [
    "k, n, flag, raw, day, total, c",
    "c, total, k, k AS again, raw",
    "n + 1 AS m, concat(k, '!') AS e, total / 2, flag, 7 AS seven",
    "count(*)",
    "max(k), min(raw), sum(total), count(DISTINCT day)",
    "day, row_number() OVER (PARTITION BY day ORDER BY k, n, total) AS r",
]
LEAST = "spark.sql.adaptive.coalescePartitions.minPartitionSize"


@pytest.mark.parametrize("columns", OUTPUTS)
@pytest.mark.parametrize("least", ["100kb", "1gb"])
def test_planted_rows_are_sparks(spark, views, columns, least):
    expected = spark.sql(GROUPED.format(columns=columns, table="planted_parquet"))
    expected = sorted(map(repr, expected.collect()))
    with using(spark, enabled="true", **{LEAST: least}):
        frame = spark.sql(GROUPED.format(columns=columns, table="planted"))
        assert "ProjsegAnswer" in plan_of(frame)
        ways = [frame.collect(), frame.repartition(3).collect(), list(frame.toLocalIterator())]
        ways += [frame.tail(GROUPS), frame.take(GROUPS)]
        arrow = frame.toArrow()
    assert all(sorted(map(repr, rows)) == expected for rows in ways)
    assert arrow.num_rows == len(expected)


def test_the_first_and_last_planted_rows_are_those_of_all(spark, views):
    text = GROUPED.format(columns=OUTPUTS[0], table="planted")
    with using(spark, enabled="true"):
        every = list(map(repr, spark.sql(text).collect()))
        assert list(map(repr, spark.sql(text).take(3))) == every[:3]
        assert list(map(repr, spark.sql(text).tail(3))) == every[-3:]
        assert spark.sql(text).tail(0) == []


def test_few_planted_rows_are_in_one_part_and_need_no_exchange(spark, views):
    text = "SELECT flag, count(*) AS c FROM {} GROUP BY flag ORDER BY c, flag"
    expected = spark.sql(text.format("planted_parquet")).collect()
    with using(spark, enabled="true"):
        frame = spark.sql(text.format("planted"))
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert "ProjsegAnswer" in plan
        assert "Exchange" not in plan
        assert frame.rdd.getNumPartitions() == 1
        assert frame.collect() == expected


def test_many_planted_rows_are_in_parts_of_the_size_that_spark_has(spark, views):
    with using(spark, enabled="true", **{LEAST: "100kb"}):
        frame = spark.sql(GROUPED.format(columns=OUTPUTS[0], table="planted"))
        parts = [len(rows) for rows in frame.rdd.glom().collect()]
    assert len(parts) == spark.sparkContext.defaultParallelism > 1
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM (SELECT k, count(*) AS c FROM {} WHERE n < 0 GROUP BY k)",
        "SELECT k, count(*) AS c FROM {} WHERE n < 0 GROUP BY k ORDER BY k",
        "SELECT max(c) OVER () FROM (SELECT count(*) AS c FROM {} WHERE n < 0 GROUP BY k)",
    ],
)
def test_no_planted_rows_are_no_rows(spark, views, text):
    expected = spark.sql(text.format("planted_parquet")).collect()
    with using(spark, enabled="true"):
        assert spark.sql(text.format("planted")).collect() == expected


def test_equal_answers_are_exchanged_once(spark, views):
    grouped = "(SELECT k, count(*) AS c FROM planted GROUP BY k)"
    text = f"SELECT /*+ MERGE(b) */ count(*) FROM {grouped} a JOIN {grouped} b ON a.k = b.k"
    wanted = spark.sql(text.replace("planted", "planted_parquet")).collect()
    with using(spark, enabled="true", **{LEAST: "1kb"}):
        frame = spark.sql(text)
        assert frame.collect() == wanted
        assert "ProjsegAnswer" in plan_of(frame)
        assert "ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString()
