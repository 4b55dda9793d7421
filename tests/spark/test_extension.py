"""Plain SQL over projseg tables: with the extension, without it and over Parquet, all the same."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from scale import one_of
from spark_sql import assert_same, engines, plan_of, using

import projseg

ROWS = 20_000
STATEMENTS = """
SELECT k, sum(n) AS s, count(*) AS c FROM {t} GROUP BY k
SELECT avg(v), min(d), max(x), count(v), count(*) FROM {t}
SELECT stddev(n), variance(x), var_pop(n), stddev_pop(x) FROM {t}
SELECT k, sum(n) / count(*) AS mean, sum(n) + 1 FROM {t} WHERE k IN ('c1', 'c2') GROUP BY k
SELECT k, sum(n) AS s FROM {t} GROUP BY k HAVING sum(n) > 500000 AND max(v) > 3
SELECT date_trunc('DAY', t) AS d, count(*) FROM {t} WHERE t < TIMESTAMP'2024-01-10' GROUP BY 1
SELECT to_date(t) AS d, k, sum(v) FROM {t} WHERE hour(t) BETWEEN 3 AND 5 GROUP BY 1, 2
SELECT count(DISTINCT k), count(DISTINCT n) FROM {t}
SELECT k, count(DISTINCT n), sum(DISTINCT n) FROM {t} GROUP BY k
SELECT DISTINCT k, flag FROM {t}
SELECT DISTINCT n % 7 FROM {t} WHERE flag
SELECT upper(k) AS u, year(t), month(t), sum(d), avg(d) FROM {t} GROUP BY 1, 2, 3
SELECT sum(n) FILTER (WHERE k = 'c1'), count_if(n > 5), sum(if(n > 5, 1, 0)) FROM {t}
SELECT bool_or(flag), bool_and(flag), bit_xor(n), bit_or(n), bit_and(n) FROM {t} WHERE n > 990
SELECT max(t), min(t), max(day), min(k) FROM {t}
SELECT * FROM {t} WHERE n = 5 AND k LIKE 'c1%'
SELECT n, k FROM {t} WHERE v IS NULL AND NOT flag
SELECT v FROM {t} WHERE d > 6000.5 OR x IS NULL
SELECT count(*) FROM {t} WHERE k <=> NULL
SELECT k FROM {t} WHERE startswith(k, 'c1') AND length(k) = 3 AND t >= '2024-01-12'
SELECT n FROM {t} WHERE day = DATE'2024-01-03' ORDER BY n DESC LIMIT 7
WITH a AS (SELECT k, sum(n) AS s FROM {t} GROUP BY k), b AS (SELECT k, max(v) FROM {t} GROUP BY k) \
SELECT * FROM a JOIN b ON a.k = b.k
WITH a AS (SELECT k, flag, count(*) AS c FROM {t} GROUP BY k, flag) \
SELECT k, sum(c) FROM a GROUP BY k
WITH a AS (SELECT k, n % 3 AS f, sum(v) AS s FROM {t} GROUP BY k, n % 3) \
SELECT k, f, row_number() OVER (PARTITION BY k ORDER BY s, f) FROM a
SELECT k, count(*) FROM {t} GROUP BY ROLLUP (k)
SELECT k, flag, sum(n), grouping_id() FROM {t} GROUP BY CUBE (k, flag)
SELECT k, flag, avg(v) FROM {t} WHERE n > 100000 GROUP BY GROUPING SETS ((k), (flag), ())
SELECT k, sum(n), count(DISTINCT flag) FROM {t} GROUP BY ROLLUP (k)
SELECT (SELECT max(n) FROM {t}) AS m, count(*) FROM {t} WHERE n > (SELECT avg(n) FROM {t})
SELECT count(*) FROM {t} WHERE k IN (SELECT k FROM {t} WHERE n = 1)
SELECT k, sum(n) FROM {t} GROUP BY k UNION ALL SELECT k, max(v) FROM {t} GROUP BY k
SELECT k, sum(n) AS s FROM {t} GROUP BY k ORDER BY s DESC, k LIMIT 3
SELECT * FROM (SELECT k, flag, n FROM {t}) PIVOT (sum(n) FOR flag IN (true, false))
SELECT sum(n * 2 + 1), avg(x / 2), max(n - v), sum(d * 2) FROM {t}
SELECT CASE WHEN n < 10 THEN 'few' ELSE k END AS size, count(*) FROM {t} GROUP BY 1
SELECT coalesce(k, 'none'), count(v), sum(coalesce(v, 0)) FROM {t} GROUP BY 1
SELECT cast(n AS string), count(*) FROM {t} WHERE n < 3 GROUP BY 1
SELECT count(*) FROM {t} WHERE 1 = 0
SELECT sum(n), k FROM {t} WHERE n > 100000 GROUP BY k
SELECT sum(n), max(k) FROM {t} WHERE n > 100000
SELECT dayofweek(t), quarter(t), weekofyear(day), minute(t), count(*) FROM {t} GROUP BY 1, 2, 3, 4
SELECT count(*), sum(a.n) FROM {t} a JOIN {t} b ON a.v = b.v WHERE a.n < 5
""".strip().splitlines()


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Names of the same rows: as Parquet, and as a projseg table of several segments."""
    folder = tmp_path_factory.mktemp("extension")
    made = spark.range(ROWS).selectExpr(
        "timestamp_seconds(1704067200 + id * 60) AS t",
        "if(id % 50 = 0, NULL, concat('c', id % 17)) AS k",
        "CAST(id % 1000 AS int) AS n",
        "CAST(id AS decimal(12, 2)) / 3 AS long_d",
        "CAST(if(id % 9 = 0, NULL, id) AS double) / 7 AS x",
        "if(id % 11 = 0, NULL, id) AS v",
        "id % 3 = 0 AS flag",
    )
    made = made.selectExpr("t", "k", "n", "CAST(long_d AS decimal(14, 2)) AS d", "x", "v", "flag",
                           "CAST(t AS date) AS day")  # fmt: skip
    made.coalesce(1).write.parquet(str(folder / "parquet"))
    rows = spark.read.parquet(str(folder / "parquet"))
    projections = [
        projseg.Projection(
            "by_k",
            group_by=["k", "flag"],
            aggregators=["sum(n)", "count(*)", "max(v)", "count(v)", "min(d)"],
        )
    ]
    projseg.write(
        rows,
        folder / "table",
        timeColumn="t",
        segmentGranularity="P5D",
        projections=projections,
    )
    rows.createOrReplaceTempView("parquet_rows")
    spark.read.format("projseg").load(str(folder / "table")).createOrReplaceTempView("plain_rows")
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(str(folder / "table"))
        frame.createOrReplaceTempView("projseg_rows")
    return str(folder / "table")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_answer_as_over_parquet(spark, tables, statement):
    with using(spark, enabled="true"):
        expected = spark.sql(statement.format(t="parquet_rows"))
        assert_same(spark.sql(statement.format(t="projseg_rows")), expected)


@pytest.mark.parametrize("statement", one_of(3, STATEMENTS))
def test_shared_statements_answer_as_over_parquet(spark, tables, statement):
    with using(spark, enabled="true", local_enabled="false"):
        expected = spark.sql(statement.format(t="parquet_rows"))
        assert_same(spark.sql(statement.format(t="projseg_rows")), expected)


@pytest.mark.parametrize("statement", one_of(8, STATEMENTS))
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_zones_and_modes_do_not_matter(spark, tables, statement, ansi, zone):
    session = {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}
    with using(spark, enabled="true", **session):
        expected = spark.sql(statement.format(t="parquet_rows"))
        assert_same(spark.sql(statement.format(t="projseg_rows")), expected)


def test_small_aggregates_are_planted_and_large_ones_are_shared(spark, tables):
    text = "SELECT k, sum(n) AS s FROM projseg_rows GROUP BY k"
    with using(spark, enabled="true"):
        assert "ProjsegAnswer" in plan_of(spark.sql(text))
        with using(spark, local_maxBytes="0"):
            shared = plan_of(spark.sql(text))
    assert "ProjsegAnswer" not in shared
    assert "sum(a0" in shared
    assert "g0#" in shared


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "outputs",
    [
        "n, k, sum(v)",
        "sum(v), k, n",
        "n AS a, k, n AS b, sum(v)",
        "n + 1, concat(k, k), sum(v) / 2",
        "k, n, sum(sum(v)) OVER (PARTITION BY k ORDER BY n)",
        "n, struct(k, sum(v))",
    ],
)
def test_planning_an_answer_costs_no_rules_a_row(spark, tables, outputs):
    def rule_runs(limit):
        executor = spark._jvm.org.apache.spark.sql.catalyst.rules.RuleExecutor
        before = executor.getCurrentMetrics().numRuns()
        frame = spark.sql(f"SELECT {outputs} FROM projseg_rows WHERE n < {limit} GROUP BY n, k")
        assert "ProjsegAnswer" in plan_of(frame)
        frame.collect()
        return executor.getCurrentMetrics().numRuns() - before

    with using(spark, enabled="true"):
        rule_runs(2)
        assert rule_runs(250) - rule_runs(3) < 250


@pytest.mark.parametrize("sets", ["ROLLUP (k, flag)", "CUBE (k, flag)", "GROUPING SETS ((k), ())"])
def test_grouping_sets_are_answered_one_by_one(spark, tables, sets):
    text = f"SELECT k, sum(n), count(*) FROM {{t}} GROUP BY {sets}"
    with using(spark, enabled="true"):
        frame = spark.sql(text.format(t="projseg_rows"))
        assert "Expand" not in plan_of(frame)
        assert_same(frame, spark.sql(text.format(t="parquet_rows")))


def test_scans_read_the_columns_and_rows_they_need(spark, tables):
    with using(spark, enabled="true"):
        frame = spark.sql("SELECT n FROM projseg_rows WHERE k = 'c1' AND n + 1 > 3")
        plan = plan_of(frame)
    assert "k#" not in plan  # the filter on k is passed, so k is not read
    assert "Filter" in plan  # n + 1 may overflow, and the error must be Spark's
    assert frame.count() == spark.sql(
        "SELECT n FROM parquet_rows WHERE k = 'c1' AND n + 1 > 3"
    ).count()  # fmt: skip


def test_errors_are_sparks_own(spark, tables):
    for text in (
        "SELECT sum(9223372036854775807 - v + v + n) FROM {t}",
        "SELECT sum(1 / (n - 5)) FROM {t}",
        "SELECT k, max(CAST(k AS int)) FROM {t} GROUP BY k",
    ):
        with pytest.raises(Exception) as expected:  # noqa: PT011 - Spark's classes differ by error
            spark.sql(text.format(t="parquet_rows")).collect()
        for local in ("true", "false"):
            with (
                using(spark, enabled="true", local_enabled=local),
                pytest.raises(type(expected.value)) as found,
            ):
                spark.sql(text.format(t="projseg_rows")).collect()
            assert found.value.getCondition() == expected.value.getCondition()


@pytest.mark.parametrize("text", ["SELECT :n", "DELETE FROM t WHERE k = :n"])
def test_a_parameter_without_a_value_is_sparks_error(spark, plain, text):
    with pytest.raises(AnalysisException) as expected:
        plain.sql(text, {"m": 1})
    with using(spark, enabled="true"), pytest.raises(AnalysisException) as raised:
        spark.sql(text, {"m": 1})
    assert raised.value.getCondition() == expected.value.getCondition()


def test_a_query_reads_one_version(spark, tables, tmp_path):
    location = str(tmp_path / "table")
    spark.sql("SELECT 1 AS n").write.format("projseg").mode("append").save(location)
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(location)
        total = frame.agg(F.sum("n"))
        spark.sql("SELECT 2 AS n").write.format("projseg").mode("append").save(location)
        assert total.first()[0] == 1
        assert frame.count() == frame.select("n").distinct().count() == 1
        assert spark.read.format("projseg").load(location).agg(F.sum("n")).first()[0] == 3


def test_plans_without_projseg_are_not_touched(spark, tables):
    for statement in STATEMENTS[:20]:
        text = statement.format(t="parquet_rows")
        plans = []
        for enabled in ("false", "true"):
            with using(spark, enabled=enabled):
                plan = spark.sql(text)._jdf.queryExecution().optimizedPlan()
                plans.append(plan.canonicalized().toString())
        strip = [_without_ids(plan) for plan in plans]
        assert strip[0] == strip[1]


def _without_ids(plan):
    return re.sub(r"#\d+L?|\[plan_id=\d+\]|\d+ as|none", "", plan)


def test_queries_survive_their_engine(spark, tables):
    text = "SELECT flag, sum(v) AS s FROM {t} GROUP BY flag"
    expected = spark.sql(text.format(t="parquet_rows"))
    with using(spark, enabled="true"):
        spark.sql(text.format(t="projseg_rows")).collect()
        killed = 0
        for process in engines(spark):
            os.kill(process, signal.SIGKILL)
            killed += 1
        assert killed
        assert_same(spark.sql(text.format(t="projseg_rows")), expected)
        with using(spark, python="/nonexistent/python"):
            assert_same(spark.sql(text.format(t="projseg_rows")), expected)


@pytest.mark.slow
def test_many_clients_at_once(spark, tables):
    texts = [
        f"SELECT k, sum(n) AS s, count(*) FROM {{t}} WHERE n > {number} GROUP BY k"
        for number in range(16)
    ]
    expected = [spark.sql(text.format(t="parquet_rows")).collect() for text in texts]
    with using(spark, enabled="true"), ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda text: spark.sql(text.format(t="projseg_rows")).collect(), texts)
        for rows, wanted in zip(found, expected, strict=True):
            assert sorted(rows, key=repr) == sorted(wanted, key=repr)
    assert len(engines(spark)) <= max(2, os.cpu_count() or 1)


def test_settings_steer_the_choice(spark, tables):
    text = "SELECT k, sum(n) FROM projseg_rows GROUP BY k"
    expected = spark.sql(text.replace("projseg_rows", "parquet_rows"))
    for setting in ({"noProjections": "true"}, {"useProjection": "by_k"}):
        with using(spark, enabled="true", **setting):
            frame = spark.sql(text)
            assert "ProjsegAnswer" in plan_of(frame)
            assert_same(frame, expected)


def test_explain_names_the_projections(spark, tables, capsys):
    with using(spark, enabled="true"):
        spark.sql("SELECT k, sum(n) FROM projseg_rows GROUP BY k").explain()
        spark.sql("SELECT n, count(*) FROM projseg_rows GROUP BY n").explain("formatted")
    printed = capsys.readouterr().out
    assert re.search(r"ProjsegAnswer \[k#\d+, sum\(n\)#\d+L\], from \d x by_k; 0 pruned", printed)
    assert "x base rows; 0 pruned; not by_k: MISSING_GROUPING_COLUMN n" in printed


def test_the_engine_replies_to_requests_that_make_no_sense(tmp_path):
    requests = [b"{", b'{"op": "none"}', b'{"op": "version", "location": "/absent"}']
    framed = b"".join(struct.pack(">i", len(one)) + one for one in requests)
    ran = subprocess.run(
        [sys.executable, "-m", "projseg.spark_engine.engine"],
        input=framed,
        capture_output=True,
        check=True,
    )
    replies, rest = [], ran.stdout
    while rest:
        (size,) = struct.unpack(">i", rest[:4])
        replies.append(json.loads(rest[4 : 4 + size]))
        (rows,) = struct.unpack(">q", rest[4 + size : 12 + size])
        assert rows == 0
        rest = rest[12 + size :]
    assert [reply["code"] for reply in replies] == [
        "PROJSEG_INTERNAL",
        "PROJSEG_INTERNAL",
        "PROJSEG_NOT_A_TABLE",
    ]
