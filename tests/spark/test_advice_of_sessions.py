"""Advice in Spark: from what the driver remembers, from a frame of records, and as rows of SQL."""

import json

import pytest
from spark_sql import using

import projseg
from projseg.errors import InvalidInputError

ASKED = (
    "SELECT k, sum(n) AS s FROM advised_rows WHERE k <> 'c1' GROUP BY k",
    "SELECT date_trunc('DAY', t) AS d, max(n) AS m FROM advised_rows GROUP BY 1",
    "SELECT count(*) AS c FROM advised_rows WHERE visit = 'v77'",
)


@pytest.fixture(scope="module")
def location(spark, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("advice") / "table")
    rows = spark.range(0, 30000, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + id * 60) AS t", "concat('c', id % 7) AS k",
        "CAST(id % 100 AS int) AS n", "concat('v', id) AS visit",
    )  # fmt: skip
    projseg.write(rows, location, timeColumn="t", segmentGranularity="P7D")
    return location


def ask(spark, location, times=12, **settings):
    with using(spark, enabled="true", queryLog_maxQueries="100000", **settings):
        spark.read.format("projseg").load(location).createOrReplaceTempView("advised_rows")
        for _ in range(times):
            for text in ASKED:
                spark.sql(text).collect()


def test_a_session_is_advised_from_what_its_driver_remembers(spark, location):
    ask(spark, location)
    with using(spark, enabled="true"):
        advice = projseg.advise(spark, location, budget="200%", seconds=3_600)
        found = spark.sql(
            f"SELECT * FROM projseg_advice('projseg.`{location}`', '200%') WHERE kind <> 'drop'"
        ).collect()
    assert advice.log["queries"] >= 36
    assert list(advice.log["doors"]) == ["spark"]
    names = {item.name for item in advice.items}
    assert any("visit" in item.sql for item in advice.items)
    assert any("time_floor" in item.sql for item in advice.items)  # a unit is no hidden literal
    assert not any("77" in shape.query or "c1" in shape.query for shape in advice.shapes)
    assert {row["name"] for row in found} == names
    rows = {row["name"]: row for row in found}
    for item in advice.items:
        row = rows[item.name]
        assert (row["kind"], row["statement"]) == (item.kind, item.statement)
        assert (row["rows"], row["bytes"]) == (item.rows, item.bytes)
        assert row["queries"] == item.queries
        assert json.loads(row["evidence"]) == item.evidence
    assert projseg.Table(location).version == 0


def test_the_statements_of_advice_declare_what_apply_does(spark, location, tmp_path):
    projseg.write(spark.read.format("projseg").load(location), str(tmp_path / "t"),
                           timeColumn="t", segmentGranularity="P7D")  # fmt: skip
    place = str(tmp_path / "t")
    ask(spark, place)
    with using(spark, enabled="true"):
        for row in spark.sql(
            f"SELECT * FROM projseg_advice('projseg.`{place}`', '200%')"
        ).collect():
            spark.sql(row["statement"])
    table = projseg.Table(place)
    assert len(table.properties.projections) >= 2  # segments that are there are not built anew


def test_a_frame_of_records_is_a_log(spark, location, tmp_path):
    folder = str(tmp_path / "log")
    table = projseg.Table(location)
    ask(spark, location, queryLog_path=folder)
    # The driver hands records over behind the statements.
    for _ in range(100):
        try:
            if projseg.read_log(folder).num_rows >= 36:
                break
        except InvalidInputError:
            pass
        spark.range(1000).count()
    records = projseg.read_log(folder).select(
        ["projseg_log", "time", "table_id", "query", "answered", "answered_ms", "interval", "door"]
    )
    frame = spark.createDataFrame(records)
    plain = projseg.advise(table, records, budget="200%", seconds=3_600, since=None)
    advice = projseg.advise(table, frame, budget="200%", seconds=3_600, since=None)
    assert {item.name for item in advice.items} == {item.name for item in plain.items} != set()
    with using(spark, enabled="true", queryLog_path=folder):
        found = spark.sql(f"SELECT name FROM projseg_advice('projseg.`{location}`', '200%')")
        assert {row["name"] for row in found.collect()} == {item.name for item in plain.items}


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("projseg_advice()", "PROJSEG_BAD_ARGUMENT"),
        ("projseg_advice('a', '10%', 'b')", "PROJSEG_BAD_ARGUMENT"),
        ("projseg_advice(NULL)", "PROJSEG_BAD_ARGUMENT"),
        ("projseg_advice('projseg.`{}`', 'much')", "PROJSEG_BAD_BUDGET"),
        ("projseg_advice('projseg.`/nowhere`')", "PROJSEG_NOT_A_TABLE"),
    ],
)
def test_wrong_calls_are_refused(spark, location, call, code):
    with using(spark, enabled="true"), pytest.raises(Exception, match=code):
        spark.sql(f"SELECT * FROM {call.format(location)}").collect()


def test_a_name_of_the_session_is_a_table_and_others_are_refused(spark, location):
    spark.sql(f"CREATE TABLE advised_by_name USING projseg LOCATION '{location}'")
    try:
        assert projseg.advise(spark, "advised_by_name").table == projseg.Table(location).location
    finally:
        spark.sql("DROP TABLE advised_by_name")
    spark.range(3).createOrReplaceTempView("numbers")
    with pytest.raises(InvalidInputError, match="PROJSEG_NOT_A_TABLE"):
        projseg.advise(spark, "numbers")
