"""Answers of plain Spark SQL from views, after each of Spark's writes, and without views."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.errors import PySparkException
from spark_sql import assert_same, using

import projseg

START = 1704067200
QUERIES = [
    "SELECT k, sum(n) AS s, count(*) AS c FROM {t} GROUP BY k",
    "SELECT date_trunc('DAY', t) AS d, avg(n) AS a, max(k) AS k FROM {t} GROUP BY d",
    "SELECT count(*), sum(n), min(n) FROM {t} WHERE k <> 'c1'",
    "SELECT k, count(*) FILTER (WHERE k > 'c2') AS c FROM {t} GROUP BY ROLLUP (k)",
    "SELECT sum(n) FROM {t} WHERE t >= TIMESTAMP'2024-01-01 12:30:00' AND t < '2024-01-04'",
    "SELECT x.k, sum(y.n) FROM (SELECT DISTINCT k FROM {t}) x JOIN {t} y USING (k) GROUP BY x.k",
    "SELECT k, s, rank() OVER (ORDER BY s, k) FROM (SELECT k, sum(n) s FROM {t} GROUP BY k)",
]
SELECT = (
    "SELECT k, date_trunc('HOUR', t) AS h, sum(n) AS n, min(n) AS low, count(*) AS c FROM x "
    "GROUP BY ALL"
)


def rows_of(spark, first, count):
    return spark.range(first, first + count, 1, 1).selectExpr(
        f"timestamp_seconds({START} + id * 900) AS t",
        "IF(id % 11 = 0, NULL, concat('c', id % 7)) AS k",
        "CAST(id % 100 AS int) AS n",
    )


@pytest.fixture
def location(spark, tmp_path):
    """A table of a segment an hour, with a view of all."""
    place = str(tmp_path / "viewed")
    projseg.write(rows_of(spark, 0, 200), place, timeColumn="t", segmentGranularity="hour")
    projseg.Table(place).create_view("by_k", SELECT)
    with using(spark, enabled="true"):
        spark.sql(f"CREATE TABLE viewed USING projseg LOCATION '{place}'")
        yield place
        spark.sql("DROP TABLE viewed")


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def check(spark, text):
    """Compare a query's answers: from views, and Spark's own of all rows."""
    asked = spark.sql(text.format(t="viewed"))
    assert "view by_k: " in plan_of(asked), text
    assert_same(asked, spark.sql(text.format(t="viewed_rows")))


def check_without(spark, text):
    """Compare a query's answer without views with the one from them."""
    without = spark.sql(text.format(t="viewed WITH (noViews = 'true')"))
    assert "view by_k" not in plan_of(without).replace("not by_k", "")
    assert_same(spark.sql(text.format(t="viewed")), without)


def keep_rows(spark):
    """Make Spark's own copy of the rows."""
    with using(spark, enabled="false"):
        rows = spark.sql("SELECT * FROM viewed").collect()
        frame = spark.createDataFrame(rows, "t timestamp, k string, n int")
    frame.createOrReplaceTempView("viewed_rows")


WRITES = {
    "append": lambda spark, place: (
        rows_of(spark, 200, 8).write.format("projseg").mode("append").save(place)
    ),
    "insert": lambda spark, _: spark.sql(
        "INSERT INTO viewed SELECT TIMESTAMP'2024-01-01 00:10:00', 'late', 9"
    ),
    "delete": lambda spark, _: spark.sql("DELETE FROM viewed WHERE n = 17"),
    "update": lambda spark, _: spark.sql("UPDATE viewed SET n = n + 1, k = 'u' WHERE n < 3"),
    "merge": lambda spark, _: spark.sql(
        "MERGE INTO viewed v USING (SELECT 'c3' k, 40 n) s ON v.k = s.k AND v.n = s.n "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN "
        "INSERT (t, k, n) VALUES (TIMESTAMP'2024-01-02', s.k, s.n)"
    ),
    "replace": lambda spark, _: spark.sql(
        "INSERT INTO viewed REPLACE WHERE t >= TIMESTAMP'2024-01-03' "
        "SELECT TIMESTAMP'2024-01-03 05:00:00', 'r', 7"
    ),
    "optimize": lambda spark, _: spark.sql("OPTIMIZE viewed"),
    "restore": lambda spark, _: spark.sql("RESTORE TABLE viewed TO VERSION AS OF 0"),
    "overwrite": lambda spark, place: (
        rows_of(spark, 50, 60).write.format("projseg").mode("overwrite").save(place)
    ),
}


def test_answers_are_the_same_after_each_of_sparks_writes(spark, location):
    for step, (verb, write) in enumerate({"nothing": None, **WRITES}.items()):
        if write is not None:
            write(spark, location)
        (view,) = projseg.Table(location).views().to_pylist()
        assert (view["state"], view["last_error"]) == ("fresh", None), verb
        keep_rows(spark)
        check(spark, QUERIES[step % len(QUERIES)])
    check_without(spark, QUERIES[0])
    assert projseg.Table(location).view("by_k").verify(deep=True) == []


@pytest.mark.slow
@pytest.mark.parametrize("local", ["true", "false"])
def test_every_query_is_the_same_before_and_after_every_write(spark, location, local):
    for write in (None, *WRITES.values()):
        if write is not None:
            write(spark, location)
        keep_rows(spark)
        for text in QUERIES:
            with using(spark, local_enabled=local):
                check(spark, text)
                check_without(spark, text)


def test_tasks_read_parts_and_segments_that_are_not_covered(spark, location):
    spark.sql("SET spark.projseg.views.enabled = true")
    projseg.Table(location).create_view(
        "deferred", SELECT.replace("min(n)", "max(n)"), refresh="deferred"
    )
    rows_of(spark, 200, 8).write.format("projseg").mode("append").save(location)
    keep_rows(spark)
    text = "SELECT k, sum(n), max(n) FROM {t} GROUP BY k"
    with using(spark, local_enabled="false"):
        found = spark.sql(text.format(t="viewed"))
        plan = plan_of(found)
        assert "view deferred: " in plan
        assert "parts for 50 segments, 2 x base rows" in plan
        assert "not by_k: " in plan
        assert "BatchScan" in plan
        assert_same(found, spark.sql(text.format(t="viewed_rows")))
    assert projseg.Table(location).view("deferred").detail()["state"] == "behind"


def test_views_are_steered(spark, location):
    table = projseg.Table(location)
    table.create_view("hourly", SELECT.replace("k, ", "k, n % 2 AS odd, "))
    text = "SELECT /*+ {} */ k, sum(n) FROM viewed GROUP BY k"
    expected = sorted(spark.sql(text.format("NO_VIEWS")).collect(), key=repr)

    def plan(hint="NOTHING", **settings):
        with using(spark, **settings):
            found = spark.sql(text.format(hint))
            assert sorted(found.collect(), key=repr) == expected
            return plan_of(found)

    assert "from view by_k: " in plan()
    assert "not hourly: OTHER_VIEW_CHOSEN" in plan()
    assert "from view hourly: " in plan("USE_VIEW(hourly)")
    assert "from view hourly: " in plan(
        "USE_VIEW('Hourly')", **{"spark.projseg.noProjections": "true"}
    )
    for hint in ("NO_VIEWS", "NO_PROJECTIONS"):
        assert "from 50 x base rows" in plan(hint)
    assert "from 50 x base rows" in plan(**{"spark.projseg.views.enabled": "false"})
    assert "from view hourly: " in plan(**{"spark.projseg.useView": "hourly"})
    assert "from view hourly: " in plan(**{"spark.projseg.excludeViews": "by_k"})
    assert "from view by_k: " in plan(**{"spark.projseg.forceViews": "true"})
    # As with projections, where one refuses Spark groups the rows by itself.
    assert "PROJSEG_UNKNOWN_VIEW" in plan("USE_VIEW(absent)")

    def grouped():
        return spark.read.format("projseg").options(groupBy="k", aggregators="sum(n)")

    for name, value in (("useView", "hourly"), ("noViews", "true"), ("forceViews", "true")):
        found = grouped().option(name, value).load(location).collect()
        assert sorted(map(tuple, found), key=repr) == [tuple(row) for row in expected]
    with pytest.raises(PySparkException, match="PROJSEG_VIEW_NOT_USABLE"):
        grouped().option("groupBy", "n").option("useView", "hourly").load(location).collect()


def test_samples_are_not_answered_from_groups_and_lax_arithmetic_is(spark, location):
    """Doris 43030: TABLESAMPLE, and hints, that a view answers as if they were not there."""
    sample = "SELECT sum(c), count(*) > 0 FROM (SELECT k, count(*) c FROM viewed {} GROUP BY k)"
    assert spark.sql(sample.format("TABLESAMPLE (25 ROWS)")).first()[0] == 25
    assert spark.sql(sample.format("TABLESAMPLE (100 PERCENT)")).first()[0] == 200
    keep_rows(spark)
    with using(spark, **{"spark.sql.ansi.enabled": "false"}):
        text = "SELECT k, count(*), min(n), max(k) FROM {t} GROUP BY k"
        check(spark, text)
    with using(spark, **{"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        text = QUERIES[1].format(t="viewed")
        plain = spark.sql(QUERIES[1].format(t="viewed_rows"))
        assert_same(spark.sql(text), plain)


def test_versions_of_the_past_and_damaged_parts_are_answered_right(spark, location, tmp_path):
    spark.sql("DELETE FROM viewed WHERE k = 'c1'")
    past = "SELECT k, sum(n) FROM viewed VERSION AS OF 0 GROUP BY k"
    hinted = past.replace("SELECT", "SELECT /*+ NO_VIEWS */")
    assert sorted(spark.sql(past).collect(), key=repr) == sorted(
        spark.sql(hinted).collect(), key=repr
    )
    keep_rows(spark)
    for part in (tmp_path / "viewed" / "views" / "data").iterdir():
        part.write_bytes(part.read_bytes()[:-50])
    assert_same(
        spark.sql(QUERIES[0].format(t="viewed")), spark.sql(QUERIES[0].format(t="viewed_rows"))
    )


CUT = QUERIES[4].replace("SELECT", "SELECT count(*), min(n),").replace("12:30", "12:00")
HARMS = {
    "cut": lambda part: part.write_bytes(part.read_bytes()[:-50]),
    "flipped": lambda part: part.write_bytes(bytes(b ^ 1 for b in part.read_bytes())),
    "gone": lambda part: part.unlink(),
}


@pytest.mark.parametrize(
    "harm", ["cut", *(pytest.param(one, marks=pytest.mark.slow) for one in ("flipped", "gone"))]
)
def test_tasks_answer_for_harmed_parts_from_their_segments(spark, location, tmp_path, harm):
    """A view costs time, never an answer; also of rows deleted, not covered, and in an interval."""
    spark.sql("DELETE FROM viewed WHERE n = 17")
    table = projseg.Table(location)
    table.create_view("later", SELECT.replace("min(n)", "max(n)"), refresh="deferred")
    rows_of(spark, 200, 8).write.format("projseg").mode("append").save(location)
    keep_rows(spark)
    with using(spark, local_enabled="false"):
        asked = (QUERIES[0], CUT, QUERIES[0].replace("count(*)", "max(n)"))
        before = [spark.sql(text.format(t="viewed")) for text in asked]
        assert all("view " in plan_of(found) for found in before)
        parts = [*(tmp_path / "viewed" / "views" / "data").iterdir()]
        for part in parts:
            HARMS[harm](part)
        for text in asked:
            found = spark.sql(text.format(t="viewed"))
            assert_same(found, spark.sql(text.format(t="viewed_rows")))
        forced = spark.sql(asked[0].format(t="viewed WITH (forceViews = 'true')"))
        with pytest.raises(PySparkException, match="PROJSEG_"):
            forced.collect()
    grouped = spark.read.format("projseg").options(groupBy="k", aggregators="sum(n)")
    plain = spark.sql("SELECT k, sum(n) FROM viewed_rows GROUP BY k").collect()
    found = grouped.load(location).collect()
    assert sorted(map(tuple, found), key=repr) == sorted(map(tuple, plain), key=repr)


OLD = "SELECT k, sum(n) FROM {t} GROUP BY k"


@pytest.fixture
def behind(spark, location):
    """A view that is one append behind: `old` and `new` are the rows before and after."""
    table = projseg.Table(location)
    table.view("by_k").drop()
    table.refresh().create_view("by_k", SELECT, refresh="deferred")
    columns = "SELECT t, k, n FROM viewed"
    with using(spark, enabled="false"):
        spark.createDataFrame(spark.sql(columns).collect()).createOrReplaceTempView("old")
        table.append([{"t": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "k": "c1", "n": 1000}])
        spark.sql("REFRESH TABLE viewed")
        spark.createDataFrame(spark.sql(columns).collect()).createOrReplaceTempView("new")
    return table


def test_only_who_asks_for_an_old_answer_gets_one(spark, behind):
    def check_rows(text, rows):
        found = spark.sql(text)
        assert sorted(map(tuple, found.collect()), key=repr) == sorted(
            map(tuple, spark.sql(OLD.format(t=rows)).collect()), key=repr
        )
        return plan_of(found)

    asked = OLD.format(t="viewed")
    check_rows(asked, "new")
    shown = f"at version {behind.version - 1} (maxStaleness)"
    hinted = asked.replace("SELECT", "SELECT /*+ MAX_STALENESS('15 minutes') */")
    assert shown in check_rows(hinted, "old")
    assert shown in check_rows(OLD.format(t="viewed WITH (maxStaleness = '15 minutes')"), "old")
    with using(spark, views_maxStaleness="1 hour"):
        assert shown in check_rows(asked, "old")
        explained = spark.sql(f"EXPLAIN {asked}").first()[0]
        assert shown in explained
        # What names a version, has several answers, or writes, is of the present.
        for text in (
            OLD.format(t=f"viewed VERSION AS OF {behind.version}"),
            f"{asked} UNION ALL SELECT k, min(n) FROM viewed WHERE n < 0 GROUP BY k",
            f"SELECT * FROM ({asked}) WHERE (SELECT count(*) FROM viewed) > 0",
        ):
            assert shown not in check_rows(text, "new")
        spark.sql(f"CREATE TABLE kept USING parquet AS {asked}")
        check_rows("SELECT * FROM kept", "new")
        spark.sql(f"INSERT OVERWRITE kept {asked}")
        check_rows("SELECT * FROM kept", "new")
        spark.sql("DROP TABLE kept")
        with using(spark, local_enabled="false"):
            check_rows(asked, "new")
    with pytest.raises(PySparkException, match="15 minutes"):
        spark.conf.set("spark.projseg.views.maxStaleness", "soon")
