"""Distinct values that Spark counts over shared groups, and sketches that its functions read."""

from __future__ import annotations

import pytest
from scale import one_of
from spark_sql import assert_same, plan_of, using

import projseg

DISTINCT = """
SELECT s, count(DISTINCT k) FROM {t} GROUP BY s
SELECT count(DISTINCT k), count(*) FROM {t}
SELECT s, count(DISTINCT k), sum(n), avg(n), max(d), avg(d), count(n) FROM {t} GROUP BY s
SELECT s, count(DISTINCT k), count(DISTINCT flag), sum(DISTINCT k), min(n) FROM {t} GROUP BY s
SELECT s, count(DISTINCT k) FILTER (WHERE flag), count(DISTINCT k) FROM {t} GROUP BY s
SELECT count(DISTINCT k, flag), count(DISTINCT s) FROM {t} WHERE k > 3
SELECT upper(s), count(DISTINCT k % 3) AS m FROM {t} GROUP BY 1 HAVING m > 2 ORDER BY m LIMIT 5
SELECT count(DISTINCT k), sum(n) FROM {t} WHERE s = 'none'
SELECT s, count(DISTINCT k) FROM {t} WHERE s = 'none' GROUP BY s
SELECT avg(DISTINCT k), var_pop(n), bit_xor(n) FROM {t}
""".strip().splitlines()
# Sketches of few values are exact in projseg and in Spark.
SKETCHES = """
SELECT s, hll_sketch_estimate(hll_sketch_agg(k)) FROM {t} GROUP BY s
SELECT hll_sketch_estimate(hll_sketch_agg(s, 14)), count(*) FROM {t}
SELECT s, theta_sketch_estimate(theta_sketch_agg(k)) FROM {t} GROUP BY s
SELECT theta_sketch_estimate(theta_sketch_agg(s, 10)) FROM {t} WHERE flag
SELECT theta_sketch_estimate(theta_intersection(theta_sketch_agg(k) FILTER (WHERE flag), \
theta_sketch_agg(k) FILTER (WHERE n < 50))) FROM {t}
SELECT hll_sketch_estimate(hll_union_agg(h)) FROM (SELECT hll_sketch_agg(k) AS h FROM {t} \
GROUP BY s)
SELECT hll_sketch_estimate(hll_sketch_agg(k)) FROM {t} WHERE s = 'none'
""".strip().splitlines()


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """The same rows as Parquet and as projseg."""
    folder = tmp_path_factory.mktemp("distinct")
    made = spark.range(5_000).selectExpr(
        "if(id % 41 = 0, NULL, CAST(id * 7 % 12 AS int)) AS k",
        "if(id % 37 = 0, NULL, concat('s', id % 5)) AS s",
        "if(id % 31 = 0, NULL, CAST(id % 97 AS int)) AS n",
        "CAST(if(id % 29 = 0, NULL, id % 8) AS decimal(12, 2)) AS d",
        "id % 3 = 0 AS flag",
        "timestamp_seconds(1703721600 + id * 120) AS t",
    )
    made.coalesce(1).write.parquet(str(folder / "rows"))
    rows = spark.read.parquet(str(folder / "rows"))
    rows.createOrReplaceTempView("ds_parquet")
    text = (
        "SELECT s, k, flag, count(*), sum(n), count(n), bit_xor(n), "
        "var_pop(n), sum(d), count(d), min(n), max(d) GROUP BY s, k, flag"
    )
    projseg.write(rows, folder / "t", timeColumn="t", segmentGranularity="P4D",
                  projections=[{"name": "p", "sql": text}])  # fmt: skip
    spark.read.format("projseg").load(str(folder / "t")).createOrReplaceTempView("ds_projseg")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("statement", one_of(3, DISTINCT))
def test_distinct_values_of_shared_groups_are_counted_as_over_parquet(spark, tables, statement):
    with using(spark, enabled="true", local_enabled="false"):
        found = spark.sql(statement.format(t="ds_projseg"))
        assert "g0#" in plan_of(found)
        assert_same(found, spark.sql(statement.format(t="ds_parquet")))


def test_distinct_values_that_hardly_repeat_are_counted_of_rows(spark, tables):
    with using(spark, enabled="true", local_enabled="false"):
        found = spark.sql("SELECT count(DISTINCT t) FROM ds_projseg")
        assert "g0#" not in plan_of(found)
        assert found.head()[0] == 5_000


@pytest.mark.parametrize("local", ["true", "false"])
@pytest.mark.parametrize("statement", SKETCHES)
def test_sketches_are_estimated_as_over_parquet(spark, tables, statement, local):
    with using(spark, enabled="true", local_enabled=local):
        found = spark.sql(statement.format(t="ds_projseg"))
        assert ("ProjsegAnswer" if local == "true" else "a0") in plan_of(found)
        assert_same(found, spark.sql(statement.format(t="ds_parquet")))


def test_sketches_are_sparks_own_where_approximate_answers_are_off(spark, tables):
    with using(spark, enabled="true", approximateDistinct="false"):
        rows = spark.sql("SELECT hll_sketch_agg(k) FROM ds_projseg")
        plan = rows._jdf.queryExecution().executedPlan().toString()
        assert "hll_sketch_agg has no exact meaning" in plan


@pytest.mark.parametrize(("error", "is_planted"), [(0.05, True), (0.0173, True), (0.017, False)])
def test_errors_that_stored_sketches_keep_to_are_answered(spark, tables, error, is_planted):
    with using(spark, enabled="true"):
        found = spark.sql(f"SELECT s, approx_count_distinct(k, {error}) FROM ds_projseg GROUP BY s")
        assert ("ProjsegAnswer" in plan_of(found)) == is_planted
        wanted = "SELECT s, approx_count_distinct(k) FROM ds_parquet GROUP BY s"
        assert sorted(map(repr, map(tuple, found.collect()))) == sorted(
            map(repr, map(tuple, spark.sql(wanted).collect()))
        )


QUANTILES = """
SELECT s, median(n), percentile(d, 0.25) FROM {t} GROUP BY s
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY n), percentile(n, 0) FROM {t} WHERE s = 's1'
SELECT s, median(k) FILTER (WHERE flag), count(*) FROM {t} GROUP BY s
""".strip().splitlines()


@pytest.mark.parametrize("local", ["true", "false"])
@pytest.mark.parametrize("statement", QUANTILES)
def test_quantiles_are_exact(spark, tables, statement, local):
    with using(spark, enabled="true", local_enabled=local):
        found = spark.sql(statement.format(t="ds_projseg"))
        assert ("ProjsegAnswer" in plan_of(found)) == (local == "true")
        assert_same(found, spark.sql(statement.format(t="ds_parquet")))


@pytest.mark.parametrize(
    "call",
    [
        "percentile(n, array(0.1, 0.5))",
        "percentile(n, 0.5, k)",
        "percentile_cont(0.9) WITHIN GROUP (ORDER BY n DESC)",
    ],
)
def test_quantiles_of_other_forms_are_sparks(spark, tables, call):
    with using(spark, enabled="true"):
        found = spark.sql(f"SELECT {call} FROM ds_projseg")
        assert "ProjsegAnswer" not in plan_of(found)
        assert_same(found, spark.sql(f"SELECT {call} FROM ds_parquet"))
