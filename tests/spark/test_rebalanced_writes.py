"""Writes put the rows of a chunk of time together, so that many tasks do not make many segments."""

from __future__ import annotations

from collections import Counter

import pytest

import projseg

DAYS, TASKS = 47, 8
START = 1_709_251_200  # 2024-03-01, so that the clocks of Europe change within


@pytest.fixture
def scattered(spark):
    """Rows of 47 days, every day in every task."""
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        yield (
            spark.range(DAYS * 48)
            .selectExpr(f"timestamp_seconds({START} + id * 1800) AS t", "id % 7 AS k", "id AS n")
            .repartition(TASKS)
        )
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        spark.conf.unset("spark.projseg.rebalance")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def write(frame, place, mode="append", **options):
    options = {"timeColumn": "t", "segmentGranularity": "day"} | options
    frame.write.format("projseg").mode(mode).options(**options).save(str(place))
    return projseg.Table(place)


def rows(table):
    return table.query(columns="t, k, n", order_by="n, t, k").to_pylist()


def test_a_day_is_one_segment_and_not_one_for_each_task(scattered, spark, tmp_path):
    spark.conf.set("spark.projseg.rebalance", "false")
    apart = write(scattered, tmp_path / "apart")
    spark.conf.set("spark.projseg.rebalance", "true")
    together = write(scattered, tmp_path / "together")
    assert apart.segments().num_rows == DAYS * TASKS
    assert together.segments().num_rows == DAYS
    assert rows(together) == rows(apart)
    assert write(scattered, tmp_path / "together").segments().num_rows == 2 * DAYS
    replaced = write(scattered, tmp_path / "together", mode="overwrite")
    assert replaced.segments().num_rows == DAYS
    assert rows(replaced) == rows(apart)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("time", "granularity", "count"),
    [
        pytest.param("t", "hour", DAYS * 24, marks=pytest.mark.slow),
        ("t", "week", 8),
        ("t", "month", 2),
        ("t", "P5D", 10),
        ("t", "all", 1),
        ("CAST(t AS date)", "day", DAYS),
        ("CAST(t AS timestamp_ntz)", "P2M", 1),
        ("t - INTERVAL 100 YEAR", "day", DAYS),
    ],
)
def test_chunks_of_each_length_and_type(scattered, spark, tmp_path, time, granularity, count):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    spark.conf.set("spark.projseg.rebalance", "true")
    frame = scattered.selectExpr(f"{time} AS t", "k", "n")
    made = write(frame, tmp_path / "made", segmentGranularity=granularity)
    spark.conf.set("spark.projseg.rebalance", "false")
    plain = write(frame, tmp_path / "plain", segmentGranularity=granularity)
    assert rows(made) == rows(plain)
    # A zone whose midnight is not UTC's begins and ends a chunk of its own, at most.
    assert count <= made.segments().num_rows <= count + 1 < plain.segments().num_rows


def test_a_table_without_time_is_written_by_few_tasks(scattered, tmp_path):
    frame = scattered.select("k", "n")
    frame.write.format("projseg").mode("append").save(str(tmp_path / "timeless"))
    assert projseg.Table(tmp_path / "timeless").segments().num_rows == 1


@pytest.mark.parametrize("way", ["INSERT INTO", "INSERT OVERWRITE", "writeTo", "CTAS"])
def test_writes_by_name_too(scattered, spark, tmp_path, way):
    scattered.createOrReplaceTempView("scattered_rows")
    declared = (
        f"USING projseg LOCATION '{tmp_path / 'named'}' TBLPROPERTIES "
        "('timeColumn' = 'T', 'segmentGranularity' = 'day')"
    )
    columns = "(T timestamp, k bigint, n bigint)"
    try:
        if way == "CTAS":
            text = declared.replace("'T'", "'t'")
            spark.sql(f"CREATE TABLE rebalanced {text} AS SELECT * FROM scattered_rows")
        else:
            spark.sql(f"CREATE TABLE rebalanced {columns} {declared}")
            if way == "writeTo":
                scattered.writeTo("rebalanced").append()
            else:
                spark.sql(f"{way} rebalanced SELECT * FROM scattered_rows")
        assert projseg.Table(tmp_path / "named").segments().num_rows == DAYS
    finally:
        spark.sql("DROP TABLE IF EXISTS rebalanced")
        spark.catalog.dropTempView("scattered_rows")


def test_rows_that_somebody_placed_stay_where_they_are(scattered, tmp_path):
    by_key = scattered.repartition(3, "k")
    assert write(by_key, tmp_path / "by_key").segments().num_rows > DAYS
    hinted = scattered.hint("rebalance", "k")
    assert shuffles(hinted) == shuffles_of_write(hinted, tmp_path / "hinted")
    narrow = scattered.coalesce(1)
    assert write(narrow, tmp_path / "narrow").segments().num_rows == DAYS


def shuffles(frame):
    return frame._jdf.queryExecution().analyzed().toString().count("RebalancePartitions")


def shuffles_of_write(frame, place):
    return analysed_write(frame, place).count("RebalancePartitions")


def analysed_write(frame, place):
    """Return the plan of an INSERT of a frame's rows, which is not run."""
    session = frame.sparkSession
    write(frame.limit(0), place)
    frame.createOrReplaceTempView("placed_rows")
    try:
        text = f"EXPLAIN EXTENDED INSERT INTO projseg.`{place}` SELECT * FROM placed_rows"
        plan = session.sql(text).first()[0]
        return plan.split("== Analyzed Logical Plan ==")[1].split("== Optimized")[0]
    finally:
        session.catalog.dropTempView("placed_rows")


def test_few_rows_are_written_by_who_has_them(scattered, spark, tmp_path):
    assert shuffles_of_write(scattered, tmp_path / "many") == 1
    few = spark.sql("SELECT * FROM VALUES (TIMESTAMP'2024-01-01', 1L, 1L) AS v(t, k, n)")
    assert shuffles_of_write(few, tmp_path / "few") == 0
    spark.conf.set("spark.projseg.rebalance", "false")
    assert shuffles_of_write(scattered, tmp_path / "off") == 0


def test_what_a_write_refuses_it_refuses_still(scattered, tmp_path):
    gone = scattered.selectExpr("if(n = 77, NULL, t) AS t", "k", "n")
    with pytest.raises(Exception, match="PROJSEG_NULL_TIME"):
        write(gone, tmp_path / "nulls")
    with pytest.raises(Exception, match="timeColumn names 'absent'"):
        write(scattered, tmp_path / "absent", timeColumn="absent")
    with pytest.raises(Exception, match="PROJSEG_BAD_GRANULARITY"):
        write(scattered, tmp_path / "bad", segmentGranularity="fortnightly")
    assert not projseg.is_table(tmp_path / "nulls")


def test_rows_are_the_same_whatever_their_order(scattered, tmp_path):
    doubled = scattered.union(scattered.selectExpr("t", "k", "NULL AS n"))
    made = write(doubled.orderBy("n"), tmp_path / "ordered")
    found = Counter((row["t"].timestamp(), row["k"], row["n"]) for row in rows(made))
    wanted = doubled.selectExpr("CAST(t AS double) AS t", "k", "n").collect()
    assert found == Counter(map(tuple, wanted))
