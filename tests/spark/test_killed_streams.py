"""Streams whose driver is killed: no row is lost or doubled, in the table or in what reads it."""

from __future__ import annotations

import datetime
import os
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import two_streams

import projseg

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64())])
# Its first rows lie in the hour that New York's clocks show twice.
START = datetime.datetime(2024, 11, 3, 5, 30, tzinfo=datetime.UTC)
ROWS_A_FILE = 20
BY_HOUR = {
    "name": "hourly",
    "sql": "SELECT date_trunc('HOUR', time) AS h, count(*) AS n GROUP BY 1",
}


def rows_of_file(number):
    numbers = range(number * ROWS_A_FILE, (number + 1) * ROWS_A_FILE)
    return [{"time": START + datetime.timedelta(minutes=n), "n": n} for n in numbers]


def start_driver(folder):
    return subprocess.Popen(
        [sys.executable, two_streams.__file__, folder],
        env={"PYSPARK_PYTHON": sys.executable, **os.environ},
        start_new_session=True,  # so that its JVM is killed with it
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def versions(folder):
    return [projseg.Table(folder / name).version for name in ("first", "second")]


def kill_after_some_batches(folder, chance, *, of_both):
    """Start the streams, and kill them at some moment after one or both have committed."""
    before = versions(folder)
    driver = start_driver(folder)
    try:
        while not has_grown(before, versions(folder), of_both):
            assert driver.poll() is None, driver.stderr.read()
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 2))
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()


def has_grown(before, after, of_both):
    grown = [new > old for old, new in zip(before, after, strict=True)]
    return all(grown) if of_both else any(grown)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "files"),
    [(2, 30), pytest.param(20, 600, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_streams_that_are_killed_lose_and_double_no_row(spark, tmp_path, kills, files):
    (tmp_path / "files").mkdir()
    for number in range(files):
        table = pa.Table.from_pylist(rows_of_file(number), SCHEMA)
        pq.write_table(table, tmp_path / "files" / f"{number:04d}.parquet")
    options = {"time_column": "time", "segment_granularity": "day", "projections": [BY_HOUR]}
    for name, properties in [
        ("first", {"autoCompact": "true", "compactMinSegments": "3"}),
        ("second", {}),
    ]:
        projseg.Table.create(tmp_path / name, SCHEMA, properties=properties, **options)
    chance = random.Random(kills)
    for kill in range(kills):
        kill_after_some_batches(tmp_path, chance, of_both=kill % 2 == 1)
    spark.conf.set("spark.sql.session.timeZone", two_streams.ZONE)
    try:
        two_streams.start(spark, tmp_path, to_the_end=True)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    expected = [row for number in range(files) for row in rows_of_file(number)]
    for name in ("first", "second"):
        table = projseg.Table(tmp_path / name)
        assert table.query(order_by="n").to_pylist() == expected
        assert table.verify(deep=True) == []
