"""EXPLAIN and the SQL tab say what answers a query, and why projections or Spark do not."""

from __future__ import annotations

import pytest
from spark_sql import using

import projseg

MODES = ["simple", "extended", "formatted", "cost"]


@pytest.fixture(scope="module")
def view(spark, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("explain") / "table")
    rows = spark.range(0, 3000, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + id * 60) AS t",
        "concat('c', id % 7) AS k",
        "CAST(id % 100 AS int) AS n",
    )
    by_k = projseg.Projection("by_k", group_by=["k"], aggregators=["sum(n)", "count(*)"])
    projseg.write(rows, location, timeColumn="t", segmentGranularity="day", projections=[by_k])
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(location)
        frame.createOrReplaceTempView("explain_rows")
    return "explain_rows"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("local", ["true", "false"])
def test_every_mode_names_the_sources_of_groups(spark, view, capsys, mode, local):
    with using(spark, enabled="true", local_enabled=local):
        spark.sql(f"SELECT k, sum(n) FROM {view} GROUP BY k").explain(mode)
    assert "3 x by_k; 0 pruned" in capsys.readouterr().out


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_names_the_sources_of_rows_and_why_projections_are_not_used(
    spark, view, capsys, mode
):
    text = f"SELECT n + 1 FROM {view} WHERE t < TIMESTAMP'2024-01-02' AND k = 'c1'"
    with using(spark, enabled="true", local_enabled="false"):
        spark.sql(text).explain(mode)
    assert "1 x base rows; 2 pruned; not by_k: ROW_SCAN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT kurtosis(n) FROM {t}", "kurtosis has no exact meaning in projseg here"),
        ("SELECT sum(1 / n) FROM {t} WHERE n > 0", "an expression may fail"),
        ("SELECT count(*) FROM {t} a FULL JOIN {t} b USING (n)", "it is not over a single table"),
    ],
)
def test_what_is_left_to_spark_says_why(spark, view, capsys, text, reason):
    with using(spark, enabled="true", local_enabled="false"):
        spark.sql(text.format(t=view)).explain()
    assert reason in capsys.readouterr().out


def test_an_engine_that_is_not_there_is_named(spark, view, capsys):
    with using(spark, enabled="true", python="/nonexistent/python"):
        spark.sql(f"SELECT k, sum(n) FROM {view} GROUP BY k").explain()
    assert "the engine's process failed" in capsys.readouterr().out


def test_code_generation_is_explained(spark, view, capsys):
    with using(spark, enabled="true", local_enabled="false"):
        spark.sql(f"SELECT k, sum(n) FROM {view} GROUP BY k").explain("codegen")
    assert "WholeStageCodegen" in capsys.readouterr().out


@pytest.mark.parametrize("local", ["true", "false"])
def test_the_sql_tab_names_the_sources(spark, view, local):
    def descriptions(node):
        yield node.simpleString()
        children = node.children()
        for position in range(children.size()):
            yield from descriptions(children.apply(position))

    with using(spark, enabled="true", local_enabled=local):
        frame = spark.sql(f"SELECT k, sum(n) FROM {view} GROUP BY k")
        plan = frame._jdf.queryExecution().executedPlan()
        shown = spark._jvm.org.apache.spark.sql.execution.SparkPlanInfo.fromSparkPlan(plan)
    assert any("3 x by_k; 0 pruned" in one for one in descriptions(shown))


def figures(spark):
    """Return what the SQL tab shows of the latest statement, by names of figures."""
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    latest = store.executionsList().last()
    values, listed = store.executionMetrics(latest.executionId()), latest.metrics()
    found = {}
    for position in range(listed.size()):
        value = values.get(listed.apply(position).accumulatorId())
        found[listed.apply(position).name()] = value.get() if value.isDefined() else None
    return found


@pytest.mark.parametrize(
    ("local", "query", "shown"),
    [
        ("true", "SELECT k, sum(n) FROM {} GROUP BY k", ("3", "0", "7")),
        ("false", "SELECT k, sum(n) FROM {} GROUP BY k", ("3", "0", "7")),
        ("false", "SELECT k FROM {} WHERE t < TIMESTAMP'2024-01-02'", ("0", "1", "1,440")),
    ],
)
def test_the_sql_tab_has_figures(spark, view, local, query, shown):
    with using(spark, enabled="true", local_enabled=local):
        spark.sql(query.format(view)).collect()
    found = figures(spark)
    names = ["segments answered from projections", "segments answered from base rows"]
    assert (*(found[name] for name in names), found["number of output rows"]) == shown
    assert ("time of the engine" in found) == (local == "true")


def test_rows_and_bytes_are_statistics(spark, view):
    found = []
    for first in ("2024-01-01", "2023-01-01"):
        times = f"t >= TIMESTAMP'{first}' AND t < TIMESTAMP'2024-01-02'"
        for column in ("n", "n, t"):
            query = f"SELECT {column} FROM {view} WHERE {times}"
            local = {"local_enabled": "false", "spark.sql.cbo.enabled": "true"}
            with using(spark, enabled="true", **local):
                statistics = spark.sql(query)._jdf.queryExecution().optimizedPlan().stats()
            assert statistics.rowCount().get() == 1440
            found.append(int(statistics.sizeInBytes()))
    # As Spark takes a file for smaller than its rows, and without what only conditions read.
    assert 1440 * (8 + 4) // 8 <= found[0] < 1440 * (8 + 4)
    assert found[1] > found[0]
    assert found[2:] == found[:2]
