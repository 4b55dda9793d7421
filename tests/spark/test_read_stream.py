"""Streams of the rows of projseg tables, run by Spark."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

import projseg

pytestmark = pytest.mark.spark

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string())])
LIMITS_BATCHES = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


def rows(*numbers):
    times = [START + datetime.timedelta(days=n) for n in numbers]
    return pa.table({"time": times, "n": numbers, "s": [f"s{n % 2}" for n in numbers]}, SCHEMA)


def run(spark, table, checkpoint):
    """Read what is there in batches of two segments; return the rows of each that Spark ran."""
    reader = spark.readStream.format("projseg").option("maxSegmentsPerTrigger", "2")
    batches = []
    query = (
        reader.load(table.location)
        .writeStream.foreachBatch(
            lambda rows, _: batches.append(sorted(r.n for r in rows.collect()))
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def forget_last_commit(checkpoint):
    commits = Path(checkpoint, "commits")
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    for file in commits.glob(f"*{last}*"):
        file.unlink()


@pytest.fixture
def table(tmp_path):
    return projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="time", segment_granularity="day"
    )


# PySpark 4.0 leaves sockets of foreachBatch open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_rows_come_once_over_restarts_and_compactions(spark, table, tmp_path):
    table.append(rows(1, 2))
    assert run(spark, table, tmp_path / "checkpoint") == [[1, 2]]
    forget_last_commit(tmp_path / "checkpoint")
    table.append(rows(3, 4, 5))
    table.compact(target_segment_rows=100)
    found = run(spark, table, tmp_path / "checkpoint")
    if not LIMITS_BATCHES:  # then a run that repeats a batch ends with it
        found += run(spark, table, tmp_path / "checkpoint")
    assert found == [[1, 2], *([[3, 4], [5]] if LIMITS_BATCHES else [[3, 4, 5]])]
    table.delete("n = 2")
    with pytest.raises(Exception, match=r"PROJSEG_ROWS_CHANGED.*ignoreDeletes"):
        run(spark, table, tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("groupBy", "s", "PROJSEG_BAD_OPTION"),
        ("startingVersion", "999", "PROJSEG_UNKNOWN_VERSION"),
    ],
)
def test_a_stream_that_cannot_be_says_why(spark, table, tmp_path, option, value, code):
    table.append(rows(1))
    frame = spark.readStream.format("projseg").option(option, value).load(table.location)
    sink = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = sink.foreachBatch(lambda *_: None).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=code) as stopped:
        query.awaitTermination()
    assert "UnboundLocalError" not in str(stopped.value)


@pytest.mark.slow
def test_the_extension_leaves_streams_alone(spark, table, tmp_path):
    table.append(rows(1, 2, 3))
    place = str(tmp_path / "sums")
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        frame = spark.readStream.format("projseg").load(table.location)
        sums = frame.where("n > 1").groupBy("s").sum("n").toDF("s", "n")
        writer = sums.writeStream.format("projseg").outputMode("complete")
        writer = writer.option("checkpointLocation", f"{place}-checkpoint")
        writer.trigger(availableNow=True).start(place).awaitTermination()
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
    assert sorted(projseg.Table(place).query()["n"].to_pylist()) == [2, 3]
