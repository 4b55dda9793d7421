"""Rows that Spark reads as columns: each type, nested and null, to each kind of consumer.

Spark's own Parquet is the oracle. Each task reads several batches, so that a consumer which keeps
what it should have copied would see the values of a later batch.
"""

from __future__ import annotations

import re

import pytest
from spark_sql import assert_same, using

pytestmark = pytest.mark.spark

TYPES = {
    "o": "id % 3 = 1",
    "b": "CAST(id % 100 AS tinyint)",
    "s": "CAST(id * 7 AS smallint)",
    "i": "CAST(id * 70001 AS int)",
    "l": "id * 70000000001",
    "f": "CAST(id AS float) / 7",
    "d": "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D ELSE id / 3D END",
    "n9": "CAST(id AS decimal(9, 2)) / 3",
    "n38": "CAST(id AS decimal(38, 10)) * 12345678901234567890",
    "c": "concat('name ', id, ' \u00e9\U0001f600')",
    "e": "repeat('', CAST(id AS int))",
    "y": "CAST(concat('bytes', id) AS binary)",
    "a": "date_add(DATE'1969-12-20', CAST(id AS int))",
    "t": "timestamp_micros(id * 86399999999 - 10000000)",
    "z": "CAST(timestamp_micros(id * 999999) AS timestamp_ntz)",
    "al": "transform(sequence(0, id % 4), x -> x * id)",
    "ac": "transform(sequence(0, id % 3), x -> nullif(concat('e', x * id), 'e0'))",
    "st": "named_struct('x', id, 'y', concat('y', id), 'z', named_struct('w', nullif(id % 2, 0)))",
    "as": "array(named_struct('x', id, 'y', concat('y', id)), NULL)",
    "m": "map(concat('k', id), id, 'other', NULL)",
    "ms": "map(id, array(named_struct('q', CAST(id AS decimal(20, 3)), 'r', ARRAY(id, NULL))))",
}
ROWS, PIECES = 1000, 6

CONSUMERS = {
    "rows": "SELECT * FROM {t}",
    "sorted": "SELECT * FROM {t} ORDER BY n DESC LIMIT 300",
    "kept texts": "SELECT n % 7 AS g, sort_array(collect_list(c)), sort_array(collect_set(st.y)) "
    "FROM {t} GROUP BY 1",
    "kept structs": "SELECT sort_array(collect_list(struct(n, st, al))) FROM {t}",
    "kept maps": "SELECT n % 3 AS g, count(map_keys(m)[0]), max(element_at(m, concat('k', n))) "
    "FROM {t} GROUP BY 1",
    "extremes": "SELECT max(concat(c, '')), min(upper(c)), max(n38 + 1), max_by(st, n), "
    "min_by(c, -n), first(e) FROM {t}",
    "windows": "SELECT n, lag(c) OVER (ORDER BY n), last_value(st.y) OVER (ORDER BY n) FROM {t}",
    "joined": "SELECT /*+ BROADCAST(b) */ a.n, a.c, b.ac, b.y FROM {t} a JOIN {t} b "
    "ON a.n + 1 = b.n",
    "shuffled": "SELECT /*+ MERGE(b) */ a.n, a.c, b.st, b.m['other'] FROM {t} a JOIN {t} b "
    "USING (n)",
    "exploded": "SELECT n, explode(ac) FROM {t}",
    "united": "SELECT n, c FROM {t} UNION ALL SELECT n, st.y FROM {t} WHERE n % 2 = 0",
    "distinct": "SELECT DISTINCT o, b, e FROM {t}",
}


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Views `columns_here` and `columns_parquet` with the same rows."""
    folder = tmp_path_factory.mktemp("columns")
    made = [
        f"IF(id % 11 = {index % 11}, NULL, {text}) AS {name}"
        for index, (name, text) in enumerate(TYPES.items())
    ]
    rows = spark.range(ROWS).selectExpr("id AS n", *made)
    rows.write.parquet(str(folder / "parquet"))
    whole = spark.read.parquet(str(folder / "parquet")).coalesce(1)
    for piece in range(PIECES):
        part = whole.where(f"n DIV {ROWS // PIECES + 1} = {piece}")
        part.write.format("projseg").mode("append").save(str(folder / "projseg"))
    spark.read.parquet(str(folder / "parquet")).createOrReplaceTempView("columns_parquet")
    frame = spark.read.format("projseg").load(str(folder / "projseg"))
    frame.createOrReplaceTempView("columns_here")
    return folder


def executed(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_consumers_see_the_rows_of_parquet(spark, tables, consumer):
    text = CONSUMERS[consumer]
    expected = spark.sql(text.format(t="columns_parquet"))
    with using(spark, enabled="true", local_enabled="false"):
        found = spark.sql(text.format(t="columns_here"))
        assert_same(found, expected)
        assert "ColumnarToRow" in executed(found)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.codegen.wholeStage": "false"},
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"},
        {"spark.sql.session.timeZone": "America/Sao_Paulo"},
    ],
)
def test_rows_are_the_same_under_every_setting(spark, tables, settings):
    with using(spark, enabled="true", local_enabled="false", **settings):
        for text in (CONSUMERS["rows"], CONSUMERS["joined"], CONSUMERS["kept structs"]):
            found = spark.sql(text.format(t="columns_here"))
            assert_same(found, spark.sql(text.format(t="columns_parquet")))


def test_a_cached_table_keeps_its_rows(spark, tables):
    with using(spark, enabled="true", local_enabled="false"):
        cached = spark.sql("SELECT * FROM columns_here WHERE n >= 0").cache()
        try:
            assert cached.count() == ROWS
            assert_same(cached, spark.table("columns_parquet"))
        finally:
            cached.unpersist()


def test_a_limit_that_stops_early_leaves_no_task_behind(spark, tables):
    with using(spark, enabled="true", local_enabled="false"):
        for _ in range(5):
            assert (
                len(spark.sql("SELECT c, st FROM columns_here WHERE n <> 5 LIMIT 3").collect()) == 3
            )
        assert spark.sql("SELECT * FROM columns_here").count() == ROWS


def test_a_failing_consumer_fails_as_over_parquet(spark, tables):
    text = "SELECT sum(1 / (n - 900)) FROM (SELECT n, rand() FROM {t})"
    for table in ("columns_parquet", "columns_here"):
        with (
            using(spark, enabled="true", local_enabled="false"),
            pytest.raises(Exception, match="DIVIDE_BY_ZERO"),
        ):
            spark.sql(text.format(t=table)).collect()


# ---- equal scans

EQUAL = [
    "SELECT a.n, b.c FROM {t} a JOIN (SELECT n, c FROM {t} WHERE rand() >= 0) b USING (n)",
    "SELECT (SELECT max(n + length(c)) FROM {t}) "
    "+ (SELECT max(n + length(c)) FROM {t} WHERE true) AS x",
    "SELECT * FROM (SELECT /*+ REPARTITION(2, n) */ n, c FROM {t}) JOIN "
    "(SELECT /*+ REPARTITION(2, n) */ n, c FROM {t}) USING (n, c)",
]


def reused(frame):
    frame.collect()
    return len(re.findall(r"Reused(Exchange|Subquery)", executed(frame)))


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("text", EQUAL)
def test_equal_scans_are_reused_as_those_of_parquet(spark, tables, text, adaptive):
    settings = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    with using(spark, enabled="true", local_enabled="false", **settings):
        found = spark.sql(text.format(t="columns_here"))
        expected = spark.sql(text.format(t="columns_parquet"))
        assert_same(found, expected)
        assert reused(found) >= reused(expected)


DIFFERENT = {
    "filters": ("n >= 500", "n >= 501"),
    "columns": ("n < 10 AND c IS NOT NULL", "n < 10 AND st IS NOT NULL"),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_scans_that_differ_are_not_taken_for_each_other(spark, tables, kind):
    one, other = DIFFERENT[kind]
    text = (
        f"SELECT * FROM (SELECT /*+ REPARTITION(2, n) */ n FROM {{t}} WHERE {one}) "
        f"FULL JOIN (SELECT /*+ REPARTITION(2, n) */ n AS n2 FROM {{t}} WHERE {other}) ON n = n2"
    )
    with using(spark, enabled="true", local_enabled="false"):
        found = spark.sql(text.format(t="columns_here"))
        assert_same(found, spark.sql(text.format(t="columns_parquet")))


def test_versions_and_tables_of_one_path_are_not_taken_for_each_other(spark, tmp_path):
    place = str(tmp_path / "versions")
    load = spark.read.format("projseg")

    def rows(*numbers):
        return spark.createDataFrame([(n,) for n in numbers], "n bigint").coalesce(1)

    def doubled(one, other):
        return sorted(one.union(other).repartition(2, "n").collect())

    with using(spark, enabled="true", local_enabled="false"):
        rows(1, 2).write.format("projseg").mode("append").save(place)
        first = load.load(place)
        rows(3).write.format("projseg").mode("append").save(place)
        second = load.load(place)
        assert doubled(first, second) == [(1,), (1,), (2,), (2,), (3,)]
        at_first = spark.read.format("projseg").option("versionAsOf", "0").load(place)
        joined = at_first.repartition(2, "n").join(second.repartition(2, "n"), "n", "right")
        assert joined.count() == 3
