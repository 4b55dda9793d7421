"""Plain SQL whose meaning is easily missed: the extension answers as Spark does over Parquet."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

import projseg

SCHEMA = (
    "t timestamp, k string, n int, x double, small decimal(9, 8), large decimal(38, 0), raw binary"
)
START = datetime.datetime(2024, 3, 30, tzinfo=datetime.UTC)
NINES = Decimal(10**38 - 1)
ROWS = [
    (
        START + datetime.timedelta(hours=3 * n),
        ["a", "b", "\ufffd", None][n % 4],
        n % 3,
        [0.0, -0.0, 1.5][n % 3],
        [Decimal(0), Decimal("0.00000001")][n % 2],
        NINES,
        [b"a", b"\xff"][n % 2],
    )
    for n in range(24)
]


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("edges")
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.parquet(str(folder / "parquet"))
    rows = spark.read.parquet(str(folder / "parquet"))
    by_x = projseg.Projection("by_x", group_by=["x", "k"], aggregators=["count(*)", "sum(n)"])
    projseg.write(
        rows, folder / "table", timeColumn="t", segmentGranularity="day", projections=[by_x]
    )
    rows.createOrReplaceTempView("edges_parquet")
    frame = spark.read.format("projseg").load(str(folder / "table"))
    frame.createOrReplaceTempView("edges_projseg")
    before = spark.conf.get("spark.projseg.enabled")
    spark.conf.set("spark.projseg.enabled", "true")
    widened = spark.read.format("projseg").schema("k string, n bigint, small decimal(20, 10)")
    widened.load(str(folder / "table")).createOrReplaceTempView("edges_widened")
    yield "edges_parquet", "edges_projseg"
    spark.conf.set("spark.projseg.enabled", before)


@pytest.fixture(params=["true", "false"], ids=["planted", "shared"])
def way(request, spark, views):
    spark.conf.set("spark.projseg.local.enabled", request.param)
    yield request.param
    spark.conf.unset("spark.projseg.local.enabled")


def outcome(frame):
    """Return the types and sorted rows of a frame, or the class and condition of its error."""
    try:
        return frame.schema, sorted(map(repr, frame.collect()))
    except Exception as error:  # noqa: BLE001 - compared with that of other rows
        return type(error), error.getCondition()


STATEMENTS = [
    "SELECT count(*), sum(n) FROM {t} WHERE n > 100 GROUP BY 'a'",
    "SELECT k, sum(n) + (SELECT max(n) FROM {t}) AS s FROM {t} GROUP BY k",
    "SELECT k, 100 / sum(n) AS q FROM {t} WHERE n = 0 GROUP BY k HAVING sum(n) <> 0",
    "SELECT k, 100 / sum(n) AS q FROM {t} WHERE n = 0 GROUP BY k",
    "SELECT CAST(x AS string) AS s, count(*) FROM {t} GROUP BY 1",
    "SELECT CAST(CAST(x AS float) AS string) AS s, count(*) FROM {t} GROUP BY 1",
    "SELECT CAST(raw AS string) AS s, count(*) FROM {t} GROUP BY 1",
    "SELECT count(*) FROM {t} WHERE k = CAST(X'FF' AS string)",
    "SELECT sum(large) FROM {t}",
    "SELECT avg(large) FROM {t}",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_edges_answer_as_over_parquet(spark, views, way, statement):
    expected, found = (outcome(spark.sql(statement.format(t=view))) for view in views)
    assert found == expected


def test_small_decimals_are_written_with_exponents_outside_of_ansi(spark, views, way):
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        text = "SELECT CAST(small AS string) AS s, count(*) FROM {t} GROUP BY 1"
        expected, found = (outcome(spark.sql(text.format(t=view))) for view in views)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert found == expected


@pytest.mark.parametrize("select", ["hour(t) AS v", "to_date(t) AS v", "CAST(t AS string) AS v"])
def test_a_frame_keeps_the_zone_it_was_analysed_in(spark, views, way, select):
    texts = [f"SELECT {select}, count(*) FROM {view} GROUP BY 1" for view in views]
    frames = [spark.sql(text) for text in texts]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        expected, found = map(outcome, frames)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == expected


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k, sum(n), max(small / 3) FROM {t} GROUP BY k",
        "SELECT k FROM {t} WHERE CAST(small AS string) = '0.0000000000'",
        "SELECT n FROM {t} WHERE k = 'a'",
    ],
)
def test_a_schema_given_widens_the_columns(spark, views, way, statement):
    wide = "(SELECT k, bigint(n) AS n, CAST(small AS decimal(20, 10)) AS small FROM edges_parquet)"
    expected = outcome(spark.sql(statement.format(t=wide)))
    assert outcome(spark.sql(statement.format(t="edges_widened"))) == expected
