"""Settings and hints of the extension: each session and each query block has its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_sql import using

import projseg


@pytest.fixture(scope="module")
def location(spark, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("settings") / "table")
    rows = spark.range(0, 3000, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + id * 60) AS t",
        "concat('c', id % 7) AS k",
        "CAST(id % 100 AS int) AS n",
    )
    projections = [
        projseg.Projection("fine", group_by=["k", "n % 2"], aggregators=["sum(n)", "count(*)"]),
        projseg.Projection("coarse", group_by=["k"], aggregators=["sum(n)"]),
    ]
    projseg.write(rows, location, timeColumn="t", segmentGranularity="P9D", projections=projections)
    return location


@pytest.fixture(scope="module")
def view(spark, location):
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(location)
        frame.createOrReplaceTempView("settings_rows")
    return "settings_rows"


@pytest.fixture
def session(spark, location):
    """A session of its own, in which the extension is on."""
    session = spark.newSession()
    session.conf.set("spark.projseg.enabled", "true")
    session.read.format("projseg").load(location).createOrReplaceTempView("settings_rows")
    return session


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


GROUPED = "SELECT k, sum(n) AS s FROM settings_rows GROUP BY k"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("useProjection", "fine", "1 x fine"),
        ("noProjections", "true", "not coarse: DISABLED"),
        ("excludeProjections", "coarse", "1 x fine"),
        ("local.maxRows", "6", "BatchScan projseg"),
        ("local.maxBytes", "0", "BatchScan projseg"),
        ("local.enabled", "false", "BatchScan projseg"),
        ("enabled", "false", "(Python)"),
    ],
)
def test_a_setting_is_its_sessions_own(spark, session, view, name, value, found):
    session.conf.set(f"spark.projseg.{name}", value)
    with using(spark, enabled="true"):
        assert "ProjsegAnswer" in plan_of(spark.sql(GROUPED))
        assert "1 x coarse" in plan_of(spark.sql(GROUPED))
        assert found in plan_of(session.sql(GROUPED))
        assert sorted(session.sql(GROUPED).collect()) == sorted(spark.sql(GROUPED).collect())


def test_projections_are_forced_in_one_session(spark, session, view):
    uncovered = "SELECT n, count(*) FROM settings_rows GROUP BY n"
    session.conf.set("spark.projseg.forceProjections", "true")
    with using(spark, enabled="true"):
        assert "ProjsegAnswer" in plan_of(spark.sql(uncovered))
    assert "the engine refused with PROJSEG_" in plan_of(session.sql(uncovered))


def test_approximate_counts_are_sparks_own_in_one_session(spark, session, view):
    text = "SELECT approx_count_distinct(k) FROM settings_rows"
    session.conf.set("spark.projseg.approximateDistinct", "false")
    with using(spark, enabled="true"):
        assert "ProjsegAnswer" in plan_of(spark.sql(text))
    assert "approx_count_distinct has no exact meaning" in plan_of(session.sql(text))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enabled", "perhaps"),
        ("local.enabled", "2"),
        ("local.maxRows", "many"),
        ("local.maxRows", "-1"),
        ("local.maxBytes", "64 pounds"),
        ("noProjections", "ja"),
        ("forceProjections", "1"),
        ("approximateDistinct", "?"),
    ],
)
@pytest.mark.parametrize("way", ["conf", "sql"])
def test_a_wrong_value_is_refused_when_it_is_set(session, name, value, way):
    key = f"spark.projseg.{name}"
    before = session.conf.get(key, None)
    with pytest.raises(Exception, match=key) as refused:
        session.conf.set(key, value) if way == "conf" else session.sql(f"SET {key}={value}")
    assert value in str(refused.value)
    assert session.conf.get(key, None) == before


def test_sizes_may_have_units(session):
    session.conf.set("spark.projseg.local.maxBytes", "1k")
    assert "BatchScan" in plan_of(
        session.sql("SELECT n, sum(length(k)) FROM settings_rows GROUP BY n")
    )
    session.conf.set("spark.projseg.local.maxBytes", "1m")
    assert "ProjsegAnswer" in plan_of(
        session.sql("SELECT n, sum(length(k)) FROM settings_rows GROUP BY n")
    )


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        ("NO_PROJECTIONS", "from 1 x base rows; 0 pruned; not fine: DISABLED"),
        ("no_projections", "not coarse: DISABLED"),
        ("USE_PROJECTION(fine)", "from 1 x fine"),
        ("USE_PROJECTION('fine')", "from 1 x fine"),
        ("FORCE_PROJECTIONS", "from 1 x coarse"),
        ("USE_PROJECTION(fine), FORCE_PROJECTIONS", "from 1 x fine"),
        ("USE_PROJECTION(absent)", "the engine refused with PROJSEG_"),
    ],
)
def test_a_hint_is_for_one_query(session, hint, found):
    expected = sorted(session.sql(GROUPED).collect())
    hinted = session.sql(GROUPED.replace("SELECT", f"SELECT /*+ {hint} */"))
    assert found in plan_of(hinted)
    assert sorted(hinted.collect()) == expected
    assert "1 x coarse" in plan_of(session.sql(GROUPED))


def test_a_hint_wins_over_the_session(session):
    session.conf.set("spark.projseg.noProjections", "true")
    hinted = GROUPED.replace("SELECT", "SELECT /*+ USE_PROJECTION(fine) */")
    assert "from 1 x fine" in plan_of(session.sql(hinted))


def test_a_frame_may_be_hinted(session):
    frame = session.table("settings_rows").hint("USE_PROJECTION", "fine").groupBy("k").sum("n")
    assert "from 1 x fine" in plan_of(frame)
    frame = session.sql(GROUPED).hint("no_projections")
    assert "from 1 x base rows" in plan_of(frame)


def test_a_hint_is_for_its_block_and_what_is_below(session):
    joined = (
        "SELECT {} a.k, b.s FROM (SELECT {} k, sum(n) AS s FROM settings_rows GROUP BY k) a "
        "JOIN (SELECT k, sum(n) AS s FROM settings_rows GROUP BY k) b ON a.k = b.k "
        "WHERE b.s > (SELECT min(n) FROM (SELECT k, sum(n) AS n FROM settings_rows GROUP BY k))"
    )
    hint = "/*+ USE_PROJECTION(fine) */"
    outer, inner = (plan_of(session.sql(joined.format(*pair))) for pair in ((hint, ""), ("", hint)))
    assert outer.count("1 x fine") == outer.count(" x ") >= 3
    assert inner.count("1 x fine") == 1
    assert inner.count("1 x coarse") >= 2


def test_rows_are_pruned_whatever_projection_a_hint_names(session):
    text = "SELECT /*+ USE_PROJECTION(fine) */ n FROM settings_rows WHERE k = 'c1'"
    assert "k#" not in plan_of(session.sql(text))


def test_hints_of_other_tables_change_nothing(session):
    session.range(9).createOrReplaceTempView("settings_numbers")
    plain = "SELECT {} id % 2 AS k, count(*) FROM settings_numbers GROUP BY 1"
    frames = [session.sql(plain.format(one)) for one in ("", "/*+ NO_PROJECTIONS */")]
    one, other = (
        frame._jdf.queryExecution().optimizedPlan().canonicalized().toString() for frame in frames
    )
    assert one == other


def test_workers_that_would_run_another_python_are_told(spark, monkeypatch, tmp_path):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.warns(UserWarning, match=f"PYSPARK_PYTHON is not set, .*{other}.*{sys.executable}"):
        projseg.configure(SparkSession.builder)
    for name, value in (("PATH", str(Path(sys.executable).parent)), ("PYSPARK_PYTHON", "python3")):
        monkeypatch.setenv(name, value)
        projseg.configure(SparkSession.builder)  # in silence
