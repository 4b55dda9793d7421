"""One rule for the session's time zone, whatever way a table is read: that of Spark on Parquet."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql import functions as F

import projseg
from projseg.errors import InvalidInputError

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
ZONES = ["America/New_York", "Asia/Kolkata"]
HOURLY = {
    "name": "hourly",
    "sql": "SELECT date_trunc('HOUR', t) AS h, sum(n) AS n, count(*) AS c GROUP BY ALL",
}
# Around both changes of New York's clock.
TIMES = "t BETWEEN '2024-03-09' AND '2024-03-12' OR t BETWEEN '2024-11-02' AND '2024-11-05'"
DAY = "date_trunc('DAY', t)"
SUMS = {"aggregators": "sum(n) AS n, count(*) AS c"}


def summed(rows, *keys):
    return rows.groupBy(*keys).agg(F.sum("n").alias("n"), F.count("*").alias("c"))


# The options of a read, and what they mean of rows in Spark's own words.
QUESTIONS = {
    "groupBy": (
        {"groupBy": f"{DAY} AS d", **SUMS},
        lambda rows: summed(rows, F.expr(DAY).alias("d")),
    ),
    "granularity": (
        {"granularity": "day", **SUMS},
        lambda rows: summed(rows, F.expr(DAY).alias("t")),
    ),
    "filter": (
        {"filter": "hour(t) < 3 AND to_date(t) <> DATE'2024-03-10'", **SUMS},
        lambda rows: summed(rows.filter("hour(t) < 3 AND to_date(t) <> DATE'2024-03-10'")),
    ),
    "bound": (
        {"filter": "t >= '2024-03-10 12:00:00'", **SUMS},
        lambda rows: summed(rows.filter("t >= '2024-03-10 12:00:00'")),
    ),
    "interval": (
        {"interval": "2024-03-10/2024-11-03", **SUMS},
        lambda rows: summed(rows.filter("t >= '2024-03-10' AND t < '2024-11-03'")),
    ),
    "partial": (
        {"groupBy": f"{DAY} AS d", "aggregation": "partial", **SUMS},
        lambda rows: summed(rows, F.expr(DAY).alias("d")),
    ),
    "rows": (
        {"columns": "n, hour(t) AS h", "interval": "2024-11-03/P1D"},
        lambda rows: rows.filter("t >= '2024-11-03' AND t < '2024-11-04'").selectExpr(
            "n", "hour(t) AS h"
        ),
    ),
}


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    """Rows every 17 minutes, as Parquet."""
    path = str(tmp_path_factory.mktemp("zones") / "parquet")
    made = spark.range(2024 * 12 * 3600 // 1020).selectExpr(
        "timestamp_seconds(1704067200 + id * 1020) AS t", "id AS n"
    )
    made.filter(TIMES).coalesce(1).write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def location(rows, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("zones") / "table")
    projseg.write(rows, path, time_column="t", segment_granularity="day", projections=[HOURLY])
    return path


@pytest.fixture(autouse=True)
def _utc_afterwards(spark):
    yield
    spark.conf.set(ZONE, "UTC")


def load(spark, location, **options):
    return spark.read.format("projseg").options(**options).load(location)


def values(frame):
    return sorted(map(tuple, frame.collect()))


def from_options(spark, zone, location, options):
    return load(spark, location, **options)


def from_an_option(spark, zone, location, options):
    spark.conf.set(ZONE, "Europe/Madrid")
    return load(spark, location, timezone=zone, **options)


def from_a_view(spark, zone, location, options):
    listed = ", ".join(f'{name} "{text}"' for name, text in {"path": location, **options}.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW zoned USING projseg OPTIONS ({listed})")
    return spark.table("zoned")


def from_the_helper(spark, zone, location, options):
    named = {"group_by": options.get("groupBy", ())}
    named |= {name: options[name] for name in options.keys() - {"groupBy", "aggregation"}}
    return projseg.read(spark, location, **named)


WAYS = [from_options, from_an_option, from_a_view, from_the_helper]


@pytest.fixture(scope="module")
def right(spark, rows):
    """Spark's own answers over Parquet, by zone and question."""
    answers = {}
    for zone in ZONES:
        spark.conf.set(ZONE, zone)
        for question, (_, expected) in QUESTIONS.items():
            answers[zone, question] = values(expected(rows))
    spark.conf.set(ZONE, "UTC")
    return answers


@pytest.mark.sampled(1)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_answers_are_those_of_the_session_s_time_zone(spark, right, location, way, zone):
    questions = ["groupBy", "interval"] if way is from_a_view else QUESTIONS
    for question in questions:
        spark.conf.set(ZONE, zone)
        options, _ = QUESTIONS[question]
        assert values(way(spark, zone, location, options)) == right[zone, question], question


def refused(run):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - py4j's classes differ by where it fails
        run()
    return str(caught.value)


def test_where_nobody_set_a_zone_only_what_does_not_depend_on_it_is_answered(spark, location):
    spark.conf.unset(ZONE)
    for question, (options, _) in QUESTIONS.items():
        told = refused(lambda options=options: load(spark, location, **options).collect())
        assert "[PROJSEG_TIME_ZONE_MISSING] the answer depends on the session" in told, question
        assert "give option 'timezone'" in told
    free = {
        "groupBy": "date_trunc('SECOND', t) AS s",
        "interval": "2024-03-10T00:00-05:00/2024-11-03T04:00Z",
        "filter": "t > TIMESTAMP'2024-03-10 00:00:00Z' AND n >= 0",
        "aggregators": "min(t) AS t",
    }
    assert load(spark, location, **free).count() > 0
    assert load(spark, location).count() == load(spark, location, timezone="UTC").count()


def test_an_rdd_is_told_no_zone_of_the_session(spark, location):
    spark.conf.set(ZONE, "Asia/Kolkata")
    options, _ = QUESTIONS["groupBy"]
    told = refused(lambda: load(spark, location, **options).rdd.collect())
    assert "[PROJSEG_TIME_ZONE_MISSING]" in told
    given = load(spark, location, timezone="Asia/Kolkata", **options)
    assert sorted(map(tuple, given.rdd.collect())) == values(load(spark, location, **options))


def test_an_explanation_is_of_the_session_s_time_zone(spark, location):
    plans = {}
    for zone in ("UTC", "Asia/Kolkata"):
        spark.conf.set(ZONE, zone)
        explained = load(spark, location, explain="true", **QUESTIONS["groupBy"][0])
        plans[zone] = {row.source for row in explained.collect()}
    assert plans["UTC"] == {"hourly"}
    assert None in plans["Asia/Kolkata"], "a day there begins within an hour of UTC"


def test_versions_are_chosen_by_a_time_of_a_known_zone(spark, location):
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    local = later.replace(tzinfo=None).isoformat()
    told = refused(lambda: load(spark, location, timestampAsOf=local))
    assert f"[PROJSEG_TIME_ZONE_MISSING] option 'timestampAsOf' is '{local}'" in told
    count = load(spark, location).count()
    assert load(spark, location, timestampAsOf=later.isoformat()).count() == count
    assert load(spark, location, timestampAsOf=local, timezone="Asia/Kolkata").count() == count


def test_an_interval_is_replaced_by_the_session_s_time_zone(spark, tmp_path):
    path = str(tmp_path / "table")
    hours = spark.range(48).selectExpr("timestamp_seconds(1704067200 + id * 3600) AS t", "id AS n")
    projseg.write(hours, path, time_column="t", segment_granularity="hour")
    told = refused(
        lambda: (
            hours.write.format("projseg")
            .mode("overwrite")
            .option("replaceInterval", "2024-01-01/P1D")
            .save(path)
        )
    )
    assert "[PROJSEG_TIME_ZONE_MISSING]" in told
    spark.conf.set(ZONE, "America/New_York")
    day = {"mode": "overwrite", "replace_interval": "2024-01-01/P1D"}
    with pytest.raises(InvalidInputError, match="PROJSEG_ROWS_OUTSIDE_INTERVAL"):
        projseg.write(hours, path, **day)
    local_day = hours.filter("t >= '2024-01-01' AND t < '2024-01-02' AND n % 2 = 0")
    projseg.write(local_day, path, **day)
    left = sorted(projseg.Table(path).query(columns="n")["n"].to_pylist())
    assert left == [*range(5), *range(6, 29, 2), *range(29, 48)]


def test_the_helper_takes_an_interval_as_a_pair(spark, rows, location):
    spark.conf.set(ZONE, "America/New_York")
    pair = (datetime.datetime(2024, 3, 10), datetime.date(2024, 11, 3))
    options, expected = QUESTIONS["interval"]
    answer = projseg.read(spark, location, aggregators=options["aggregators"], interval=pair)
    assert values(answer) == values(expected(rows))
