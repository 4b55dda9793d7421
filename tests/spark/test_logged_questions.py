"""The query log: what was asked of tables and how it was answered, without anybody's literals."""

from __future__ import annotations

import json
import os
import time

import pytest
from scale import one_of
from spark_sql import using

import projseg
from projseg.reader.query_log import log_files


@pytest.fixture(scope="module")
def location(spark, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("log") / "table")
    rows = spark.range(0, 3000, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + id * 60) AS t",
        "concat('c', id % 7) AS k",
        "CAST(id % 100 AS int) AS n",
        "CAST(id AS decimal(12, 2)) AS d",
    )
    by_k = projseg.Projection("by_k", group_by=["k"], aggregators=["sum(n)", "count(*)"])
    projseg.write(rows, location, timeColumn="t", segmentGranularity="P9D",
                  projections=[by_k])  # fmt: skip
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(location)
        frame.createOrReplaceTempView("logged_rows")
    return location


def logged(spark, location, text, **settings):
    """Return what the log has of a statement that is planned and not run."""
    before = projseg.query_log(spark).count()  # other tests may have filled it
    with using(spark, enabled="true", queryLog_maxQueries="1000000", **settings):
        spark.sql(text)._jdf.queryExecution().optimizedPlan()
        found = projseg.query_log(spark).collect()[before:]
    assert {(row.location, row.version) for row in found} == {
        (location, projseg.Table(location).version)
    }
    assert all(row.time is not None for row in found)
    return found


GROUPED = "SELECT k, sum(n) AS s FROM logged_rows WHERE k <> 'c1' GROUP BY k"


def test_a_planted_answer_is_logged(spark, location):
    (row,) = logged(spark, location, GROUPED)
    assert (row.answered, row.sources, row.reasons) == ("planted", "1 x by_k", None)
    assert row.rows == 7
    assert row.bytes > 0
    assert row.planning_milliseconds > 0
    assert row.answering_milliseconds > 0
    request = json.loads(row.request)
    assert request["group_by"] == ["`k` AS g0"]
    assert request["aggregators"] == ["sum(`n`) AS a0"]
    assert request["filter"] == "(`k` <> ?)"
    assert request["context"]["timezone"] == "UTC"


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("k = 'c1' AND n >= 5", "(`k` = ?) AND (`n` >= ?)"),
        ("k IN ('c1', 'c2')", "(`k` IN (?))"),
        ("k NOT IN ('c1', 'c2')", "(NOT (`k` IN (?)))"),
        ("k IS NOT NULL", "(`k` IS NOT NULL)"),
        ("k IS NOT NULL AND k <=> 'c1'", "(`k` IS NOT NULL) AND (`k` <=> ?)"),
        ("k IS NOT NULL AND (k = 'c1' OR n = 1)", "(`k` IS NOT NULL) AND ((`k` = ?) OR (`n` = ?))"),
        (
            "k IS NOT NULL AND coalesce(k, 'c1') = 'c1'",
            "(`k` IS NOT NULL) AND (coalesce(`k`, ?) = ?)",
        ),
    ],
)
def test_no_null_is_excluded_twice(spark, location, condition, asked):
    text = f"SELECT k, sum(n) AS s FROM logged_rows WHERE {condition} GROUP BY k"
    (row,) = logged(spark, location, text)
    assert json.loads(row.request)["filter"] == asked


def test_a_shared_answer_and_a_scan_are_logged(spark, location):
    (row,) = logged(spark, location, GROUPED, local_enabled="false")
    assert (row.answered, row.sources) == ("shared", "1 x by_k")
    assert row.answering_milliseconds is None
    (row,) = logged(spark, location, "SELECT n FROM logged_rows WHERE k = 'c1'",
                    local_enabled="false")  # fmt: skip
    assert (row.answered, row.sources) == ("scanned", "1 x base rows")
    assert row.reasons == "by_k: ROW_SCAN"
    assert json.loads(row.request)["columns"] == ["`n`"]


def test_what_is_left_to_spark_has_a_reason(spark, location):
    group, _ = logged(spark, location, "SELECT kurtosis(n) FROM logged_rows")
    assert (group.answered, group.request) == ("not", None)
    assert group.reasons == "kurtosis has no exact meaning in projseg here"
    group, _ = logged(spark, location, GROUPED, useProjection="absent")
    assert group.answered == "not"
    assert group.reasons.startswith("the engine refused with PROJSEG_")
    group, *_ = logged(spark, location, GROUPED, python="/nonexistent/python")
    assert (group.answered, group.reasons) == ("not", "the engine's process failed")


SECRETS = [
    "SELECT sum(n) FROM logged_rows WHERE k = 'secret'",
    r"SELECT max(n) FROM logged_rows WHERE k = 'it\'s \\ a \'secret' OR k = '`secret'",
    "SELECT n FROM logged_rows WHERE k IN ('secret1', 'secret2', 'a, \\'secret3')",
    "SELECT n FROM logged_rows WHERE k IN (" + ", ".join(f"'secret{n}'" for n in range(50)) + ")",
    "SELECT count(*) FROM logged_rows WHERE k LIKE '%secret%' OR startswith(k, 'secret')",
    "SELECT CASE WHEN n = 77341 THEN 'secret' ELSE k END, count(*) FROM logged_rows GROUP BY 1",
    "SELECT k, max(if(n > -77341, 'secret', k)) FROM logged_rows WHERE n <> 77341 GROUP BY k",
    "SELECT count(*) FROM logged_rows WHERE t > TIMESTAMP'2077-03-04 11:22:33'",
    "SELECT count(*) FROM logged_rows WHERE to_date(t) = DATE'2077-03-04'",
    "SELECT sum(d * 7.7341) FROM logged_rows WHERE d < 77341.25 AND n + 1 < 77341",
    "SELECT count(*) FILTER (WHERE k = 'secret') FROM logged_rows WHERE n IN (77341, 77342, 3)",
    "SELECT percentile(n, 0.77341) FROM logged_rows WHERE k = 'secret'",
    "SELECT sum(CAST(concat(k, 'secret') AS int)) FROM logged_rows",
    "SELECT sum(n / 77341) FROM logged_rows WHERE `k` = concat(k, 'secret')",
]


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize(
    "setting", one_of(3, [{}, {"local_enabled": "false"}, {"useProjection": "by_k"}])
)
def test_no_literal_is_kept(spark, location, text, setting):
    rows = logged(spark, location, text, **setting)
    assert rows
    # Not the numbers, of which any may be in an instant or in milliseconds.
    told = str([value for row in rows for value in row if isinstance(value, str)])
    for secret in ("secret", "7734", "7.73", "2077", "03-04"):
        assert secret not in told


def test_literals_are_kept_if_they_are_asked_for(spark, location):
    (row,) = logged(spark, location, SECRETS[0], queryLog_literals="true")
    assert "(`k` = 'secret')" in row.request


def test_lists_of_any_length_look_alike(spark, location):
    texts = ("SELECT n FROM logged_rows WHERE n IN ({})".format(", ".join(map(str, range(size))))
             for size in (2, 5, 30))  # fmt: skip
    requests = {logged(spark, location, text)[0].request for text in texts}
    assert len(requests) == 1
    assert "(`n` IN (?))" in requests.pop()


def test_the_log_is_bounded(spark, location):
    with using(spark, enabled="true", queryLog_maxQueries="3"):
        for number in range(5):
            text = f"SELECT sum(n) AS s{number} FROM logged_rows WHERE n > {number} GROUP BY k"
            spark.sql(text)._jdf.queryExecution().optimizedPlan()
        assert projseg.query_log(spark).count() == 3
    with using(spark, enabled="true", queryLog_maxQueries="0"):
        spark.sql(GROUPED)._jdf.queryExecution().optimizedPlan()
    assert projseg.query_log(spark).count() == 0


def test_sql_reads_the_log(spark, location):
    logged(spark, location, GROUPED)
    text = (
        "SELECT answered, count(*) AS c FROM projseg_query_log() WHERE location = '{}' GROUP BY 1"
    )
    assert spark.sql(text.format(location)).count() == 1
    with pytest.raises(Exception, match="takes no arguments"):
        spark.sql("SELECT * FROM projseg_query_log(1)").collect()


def test_the_engine_writes_records_into_a_folder(spark, location, tmp_path):
    """A question has the same text as at every other door, and no literal is in any byte."""
    folder = str(tmp_path / "log")
    joined = "SELECT max(a.n) FROM logged_rows a JOIN logged_rows b ON a.d < b.d WHERE a.k = 'c77'"
    for settings in ({}, {"local_enabled": "false"}):
        with using(spark, enabled="true", queryLog_path=folder, **settings):
            spark.sql(GROUPED.replace("c1", "c31337"))._jdf.queryExecution().optimizedPlan()
            scan = "SELECT n FROM logged_rows WHERE n = 31337"
            spark.sql(scan)._jdf.queryExecution().optimizedPlan()
            spark.sql(joined)._jdf.queryExecution().optimizedPlan()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = []
        if (tmp_path / "log").exists():
            found = projseg.read_log(folder).to_pylist()
        if len(found) >= 6:
            break
        time.sleep(0.1)
    assert {row["door"] for row in found} == {"spark"}
    assert {row["answered"] for row in found} >= {"planted", "shared", "scanned"}
    groups = [row for row in found if row["answered"] in ("planted", "shared")]
    table = projseg.Table(location)
    assert {row["table_id"] for row in found} == {table.properties.table_id}
    os.environ["PROJSEG_QUERY_LOG"] = str(tmp_path / "own")
    try:
        table.query("k", "sum(n)", "k <> 'c9'")
    finally:
        del os.environ["PROJSEG_QUERY_LOG"]
    (own,) = projseg.read_log(tmp_path / "own").to_pylist()
    assert {row["query"] for row in groups if "by_k" in dict(row["sources"])} == {own["query"]}
    whole = b"".join(path.read_bytes() for path in (tmp_path / "log").iterdir())
    assert b"31337" not in whole
    assert b"c77" not in whole
    log_files._forget()
