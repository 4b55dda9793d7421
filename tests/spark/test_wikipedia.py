"""The whole way on real edits: Spark writes, projections answer, Spark agrees from the rows.

The totals are those of the sample's own README, not of this program.
"""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F

import projseg

pytestmark = pytest.mark.spark

SCHEMA = (
    "time timestamp, channel string, cityName string, comment string, countryIsoCode string, "
    "countryName string, isAnonymous boolean, isMinor boolean, isNew boolean, isRobot boolean, "
    "isUnpatrolled boolean, metroCode bigint, namespace string, page string, "
    "regionIsoCode string, regionName string, user string, delta bigint, added bigint, "
    "deleted bigint"
)
HOURLY = {
    "type": "aggregate",
    "name": "channel_page_hourly_distinct_user_added_deleted",
    "virtualColumns": [
        {
            "type": "expression",
            "name": "__gran",
            "expression": "timestamp_floor(__time, 'PT1H')",
            "outputType": "LONG",
        }
    ],
    "groupingColumns": [
        {"type": "long", "name": "__gran"},
        {"type": "string", "name": "channel"},
        {"type": "string", "name": "page"},
    ],
    "aggregators": [
        {"type": "HLLSketchBuild", "name": "distinct_users", "fieldName": "user"},
        {"type": "longSum", "name": "sum_added", "fieldName": "added"},
        {"type": "longSum", "name": "sum_deleted", "fieldName": "deleted"},
    ],
}
DAILY = {
    "name": "channel_daily",
    "sql": "SELECT date_trunc('DAY', time) AS day, channel, sum(added) AS added, "
    "sum(deleted) AS deleted, count(*) AS edits, approx_count_distinct(user) AS users "
    "GROUP BY ALL",
}
AGGREGATORS = (
    "sum(added) AS added, sum(deleted) AS deleted, count(*) AS edits, "
    "approx_count_distinct(user) AS users"
)


@pytest.fixture(scope="module")
def edits(spark, wikipedia_file):
    return spark.read.schema(SCHEMA).json(wikipedia_file).cache()


@pytest.fixture(scope="module")
def location(edits, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("wikipedia") / "edits")
    (
        edits.write.format("projseg")
        .mode("append")
        .option("timeColumn", "time")
        .option("segmentGranularity", "day")
        .option("clusterBy", "channel,page")
        .option("projections", json.dumps([HOURLY, DAILY]))
        .save(path)
    )
    return path


def rows_of(frame):
    return sorted((tuple(row) for row in frame.collect()), key=str)


def by_channel(frame):
    return {row.channel: row for row in frame.collect()}


def load(spark, location, **options):
    reader = spark.read.format("projseg")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(location)


def test_the_totals_are_the_sample_s(spark, location):
    totals = load(spark, location, aggregators=AGGREGATORS).collect()
    assert len(totals) == 1
    assert (totals[0].edits, totals[0].added, totals[0].deleted) == (39_244, 9_385_573, 394_298)
    assert abs(totals[0].users - 10_531) / 10_531 < 0.05


@pytest.mark.slow
def test_row_scan_returns_every_row(edits, spark, location):
    scanned = load(spark, location)
    assert scanned.schema == edits.schema
    assert scanned.exceptAll(edits).count() == 0
    assert edits.exceptAll(scanned).count() == 0


def test_by_channel_equals_spark_on_the_rows_themselves(edits, spark, location):
    answer = by_channel(load(spark, location, groupBy="channel", aggregators=AGGREGATORS))
    expected = by_channel(
        edits.groupBy("channel").agg(
            F.sum("added").alias("added"),
            F.sum("deleted").alias("deleted"),
            F.count("*").alias("edits"),
            F.countDistinct("user").alias("users"),
        )
    )
    assert len(answer) == 51
    assert answer.keys() == expected.keys()
    for channel, row in answer.items():
        assert row[:4] == expected[channel][:4]
        assert abs(row.users - expected[channel].users) <= max(1, 0.06 * expected[channel].users)


@pytest.mark.parametrize("aggregation", ["final", "partial"])
def test_by_hour_of_one_channel(edits, spark, location, aggregation):
    answer = load(
        spark,
        location,
        groupBy="date_trunc('HOUR', time) AS hour",
        aggregators="sum(added) AS added, sum(deleted) AS deleted",
        filter="channel = '#en.wikipedia'",
        aggregation=aggregation,
    )
    expected = (
        edits.filter("channel = '#en.wikipedia'")
        .groupBy(F.date_trunc("HOUR", "time").alias("hour"))
        .agg(F.sum("added").alias("added"), F.sum("deleted").alias("deleted"))
    )
    merged = answer.groupBy("hour").agg(F.sum("added"), F.sum("deleted"))
    assert rows_of(merged) == rows_of(expected)
    if aggregation == "final":
        assert answer.count() == expected.count()


def test_granularity_adds_the_floored_time_first(edits, spark, location):
    answer = load(spark, location, granularity="day", aggregators="count(*) AS edits")
    assert answer.columns == ["time", "edits"]
    expected = edits.groupBy(F.date_trunc("DAY", "time").alias("time")).count()
    assert rows_of(answer) == rows_of(expected)


def test_explain_shows_the_source_of_all_46_segments(spark, location):
    plan = load(spark, location, groupBy="channel", aggregators=AGGREGATORS, explain="true")
    rows = plan.collect()
    assert len({row.segment for row in rows}) == 46
    largest = max(rows, key=lambda row: row.bytes)
    assert largest.source == "channel_daily"
    assert largest.rows == 51
    # One row is as cheap as its projections: there, base rows may serve.
    assert sum(row.rows for row in rows) <= 51 + 45
    base = load(spark, location, groupBy="channel", aggregators=AGGREGATORS, noProjections="true")
    with_projections = load(spark, location, groupBy="channel", aggregators=AGGREGATORS)
    assert [r[:4] for r in rows_of(base)] == [r[:4] for r in rows_of(with_projections)]


def test_the_hourly_projection_serves_what_needs_hours_and_pages(spark, location):
    asked = {
        "groupBy": "date_trunc('HOUR', time) AS hour, page",
        "aggregators": "sum(added) AS added",
    }
    plan = load(spark, location, explain="true", **asked).collect()
    many_rows = max(plan, key=lambda row: row.bytes)
    assert many_rows.source == HOURLY["name"]
    assert "channel_daily" in many_rows.rejected
    # Hour and page are constants of some small segments; there, the daily one may serve.
    assert {row.source for row in plan} <= {HOURLY["name"], "channel_daily"}
    assert rows_of(load(spark, location, **asked)) == rows_of(
        load(spark, location, noProjections="true", **asked)
    )


def test_spark_reads_a_stored_sketch(edits, spark, location):
    sketches = load(
        spark,
        location,
        groupBy="channel",
        aggregators="hll_sketch_agg(user) AS users",
        forceProjections="true",
    )
    estimates = by_channel(sketches.selectExpr("channel", "hll_sketch_estimate(users) AS users"))
    exact = by_channel(edits.groupBy("channel").agg(F.countDistinct("user").alias("users")))
    for channel, row in estimates.items():
        assert abs(row.users - exact[channel].users) <= max(1, 0.06 * exact[channel].users)
    total = sketches.selectExpr("hll_sketch_estimate(hll_union_agg(users)) AS users").first()
    assert abs(total.users - 10_531) / 10_531 < 0.05


def test_read_lets_spark_merge_what_tasks_answer(edits, spark, location):
    answer = projseg.read(
        spark,
        location,
        group_by="channel",
        aggregators=f"{AGGREGATORS}, avg(added) AS mean, max(added) AS largest",
    )
    expected = by_channel(
        edits.groupBy("channel").agg(
            F.sum("added").alias("added"),
            F.sum("deleted").alias("deleted"),
            F.count("*").alias("edits"),
            F.countDistinct("user").alias("users"),
            F.avg("added").alias("mean"),
            F.max("added").alias("largest"),
        )
    )
    rows = by_channel(answer)
    assert rows.keys() == expected.keys()
    for channel, row in rows.items():
        want = expected[channel]
        assert (row.added, row.deleted, row.edits, row.largest) == (
            want.added,
            want.deleted,
            want.edits,
            want.largest,
        )
        assert row.mean == pytest.approx(want.mean)


@pytest.mark.slow
def test_a_table_with_projections_on_half_of_its_rows_answers_the_same(
    edits, spark, location, tmp_path
):
    path = str(tmp_path / "mixed")
    halves = [edits.filter("pmod(hash(page), 2) = 0"), edits.filter("pmod(hash(page), 2) = 1")]
    projseg.write(
        halves[0], path, time_column="time", segment_granularity="day", cluster_by=["channel"]
    )
    table = projseg.Table(path)
    table.add_projection(HOURLY)
    table.add_projection(DAILY)
    projseg.write(halves[1], path, mode="append")
    asked = {"groupBy": "channel", "aggregators": "sum(added) AS added, count(*) AS edits"}
    assert rows_of(load(spark, path, **asked)) == rows_of(load(spark, location, **asked))
    plan = load(spark, path, explain="true", **asked).collect()
    assert {row.source for row in plan} == {None, "channel_daily"}
    reasons = {row.rejected["channel_daily"] for row in plan if row.source is None}
    assert all(reason.startswith(("NOT_IN_SEGMENT", "COSTLIER")) for reason in reasons)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("segments", "segment"),
        ("projections", "definition_hash"),
        ("projectionStats", "projection"),
        ("columns", "column"),
        ("history", "version"),
    ],
)
def test_metadata_tables_are_frames(spark, location, name, column):
    frame = load(spark, location, metadataTable=name)
    assert column in frame.columns
    expected = {"segments": 46, "columns": 20, "history": 1}
    assert frame.count() == expected.get(name, 2)
    assert spark.read.format("projseg").load(f"{location}#{name}").count() == frame.count()
