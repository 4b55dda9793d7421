"""Each condition that an index serves, in PySpark: EXPLAIN's counts are what the engine opens."""

from __future__ import annotations

import re
import shutil

import pytest
from pyspark.sql import functions as F
from spark_sql import using

import projseg

SEGMENTS, ROWS = 12, 10
INDEXES = [
    projseg.Index("keys", ["visit", "user"]),
    projseg.Index("words", "page", kind="token"),
    projseg.Index("parts", "page", kind="ngram"),
]
SERVED = {
    "visit = 'v 037'": {"keys"},
    "visit <=> 'v 037'": {"keys"},
    "visit IN ('v 037', 'v 111', NULL)": {"keys"},
    "user = 37": {"keys"},
    "user = 37 OR visit = 'v 003'": {"keys"},
    "text_match(page, 'page 37')": {"words"},
    "text_match(page, '\"of page 37\" OR (112 -absent)')": {"words"},
    "TEXT_MATCH('page:37 -page:absent')": {"words"},
    "page LIKE '%page 37 %'": {"parts"},
    "page ILIKE '%PAGE 37 %'": {"parts"},
    "lower(page) LIKE '%page 37 %'": {"parts"},
    "contains(page, 'page 37 ')": {"parts"},
    "startswith(page, '37 of')": {"parts"},
    "endswith(page, 'page 37 end')": {"parts"},
    "page = '37 of page 37 end'": {"parts"},
    "page LIKE '37%' AND text_match(page, 'page 37') AND user = 37": {"keys", "words"},
}
"""Conditions, and the indexes that leave out segments."""


@pytest.fixture(scope="module")
def location(spark, tmp_path_factory):
    rows = spark.range(0, SEGMENTS * ROWS, 1, 1).selectExpr(
        f"timestamp_seconds(1704067200 + (id div {ROWS}) * 86400) AS t",
        "concat('v ', lpad(id, 3, '0')) AS visit",
        "CAST(id AS int) AS user",
        "concat(id, ' of page ', id, ' end') AS page",
    )
    place = tmp_path_factory.mktemp("served") / "table"
    projseg.write(rows, place, timeColumn="t", segmentGranularity="day")
    table = projseg.Table(place)
    for index in INDEXES:
        table.add_index(index, materialize=True)
    with using(spark, enabled="true"):
        spark.sql(f"CREATE TABLE served USING projseg LOCATION '{place}'")
        rows.createOrReplaceTempView("served_rows")
        yield place
        spark.sql("DROP TABLE served")
        spark.catalog.dropTempView("served_rows")


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("condition", SERVED)
def test_explain_says_what_the_engine_opens(spark, location, condition):
    table = projseg.Table(location)
    asked = {"columns": ["visit"], "filter": condition, "order_by": ["visit"]}
    explained = table.explain(**asked, analyze=True)
    used = {row["index"] for row in explained.indexes.to_pylist() if row["used"]}
    assert used >= SERVED[condition]
    opened = explained.figures.opened_segments
    assert opened < SEGMENTS
    with using(spark, enabled="true", local_enabled="false"):
        frame = spark.table("served").where(condition).select("visit").orderBy("visit")
        plan = plan_of(frame)
        (kept, pruned) = re.search(r"(\d+) x base rows; (\d+) pruned", plan).groups()
        (by_index, names) = re.search(r"\((\d+) by index(?:es)? ([^)]*)\)", plan).groups()
        assert (int(kept), int(pruned)) == (opened, SEGMENTS - opened)
        assert set(names.split(", ")) >= SERVED[condition]
        assert int(by_index) > 0
        rows = spark.table("served_rows").where(condition).select("visit").orderBy("visit")
        assert frame.collect() == rows.collect()
        assert len(rows.take(1)) == 1


def test_a_regular_expression_is_asked_of_planted_answers_only(spark, location):
    """The engine may refuse a pattern that Spark knows, so tasks leave it to Spark."""
    where = "WHERE page RLIKE '(?i)PAGE 37 (end|none)'"
    with using(spark, enabled="true"):
        grouped = spark.sql(f"SELECT user, count(*) FROM served {where} GROUP BY user")
        assert "(11 by index parts)" in plan_of(grouped)
        assert grouped.collect() == [(37, 1)]
    with using(spark, enabled="true", local_enabled="false"):
        scanned = spark.sql(f"SELECT user FROM served {where}")
        assert "by index" not in plan_of(scanned)
        assert scanned.collect() == [(37,)]


@pytest.mark.slow
def test_rows_of_a_join_and_of_merge_are_looked_up(spark, location, tmp_path):
    with using(spark, enabled="true"):
        keys = spark.createDataFrame([("v 037",), ("v 111",)], "visit string")
        joined = spark.table("served").join(F.broadcast(keys), "visit").select("user")
        text = "SELECT user FROM served JOIN VALUES ('v 037'), ('v 111') AS k(visit) USING (visit)"
        assert "10 by index keys" in plan_of(spark.sql(text))
        assert sorted(joined.collect()) == sorted(spark.sql(text).collect()) == [(37,), (111,)]
        copied = tmp_path / "copied"
        shutil.copytree(location, copied)
        spark.sql(f"CREATE TABLE merged USING projseg LOCATION '{copied}'")
        try:
            spark.sql(
                "MERGE INTO merged m USING (SELECT 'v 037' AS visit, -1 AS user) s "
                "ON m.visit = s.visit WHEN MATCHED THEN UPDATE SET user = s.user"
            )
            assert spark.sql("SELECT visit FROM merged WHERE user = -1").first().visit == "v 037"
            shown = spark.sql("SHOW INDEXES ON merged").collect()
            table = projseg.Table(copied)
            assert table.verify(deep=True) == []
            assert {(one.segments, one.covered) for one in shown} == {(len(table.segments()),) * 2}
            known = table.indexes().to_pylist()
            for one in shown:
                (row,) = [r for r in known if (r["name"], r["column"]) == (one.name, one.column)]
                assert (one.keys, one.bloom_bytes, one.files) == (
                    row["keys"],
                    row["bloom_bytes"],
                    row["files"],
                )
                sizes = [path.stat().st_size for path in (copied / "data").glob("*.pblm")]
                assert 0 < one.bloom_bytes <= sum(sizes)
        finally:
            spark.sql("DROP TABLE merged")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("condition", "context", "reason"),
    [
        ("visit > 'v 037'", {}, "NO_KEY"),
        ("NOT text_match(page, '37')", {}, "NO_KEY"),
        ("page LIKE '%37%'", {}, "PATTERN_TOO_SHORT"),
        ("visit = 'v 037'", {"noIndexes": "true"}, "DISABLED"),
        ("visit = 'v 037'", {"excludeIndexes": "keys"}, "EXCLUDED"),
    ],
)
def test_what_no_index_serves_is_read_whole(spark, location, condition, context, reason):
    asked = {"columns": ["visit"], "filter": condition}
    context_of_engine = {key: True if value == "true" else value for key, value in context.items()}
    explained = projseg.Table(location).explain(**asked, context=context_of_engine)
    assert reason in explained.indexes["reason"].to_pylist()
    settings = {f"spark.projseg.{name}": value for name, value in context.items()}
    with using(spark, enabled="true", local_enabled="false", **settings):
        frame = spark.table("served").where(condition).select("visit")
        assert "by index" not in plan_of(frame)
        rows = spark.table("served_rows").where(condition).select("visit")
        assert sorted(frame.collect()) == sorted(rows.collect())
