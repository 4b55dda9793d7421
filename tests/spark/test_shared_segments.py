"""Tasks share the rows of one segment: the same rows as one task reads, each once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import projseg
from projseg.errors import InvalidInputError
from projseg.spark_datasource.read_request import parse_read_request

pytestmark = pytest.mark.spark

ROWS = 1_200_000
MEANINGS = [
    {},
    {"columns": "n, k"},
    {"filter": "n % 3 <> 1", "columns": "k, n, x + 1 AS x"},
    {"filter": "hour(t) < 12 OR k = 'k3'"},  # depends on the session's time zone
    {"interval": "1970-01-01T12:00Z/P11D"},
]


@pytest.fixture(scope="module", params=["all rows", "some rows deleted"])
def table(request, tmp_path_factory):
    number = np.arange(ROWS)
    rows = pa.table(
        {
            "t": pa.array(number * 1_000_000, pa.timestamp("us", "UTC")),
            "k": pa.array([None if n % 11 == 0 else f"k{n % 7}" for n in range(ROWS)]),
            "n": pa.array(number),
            "x": pa.array(number % 100 / 8),
        }
    )
    table = projseg.Table.create(
        tmp_path_factory.mktemp("shared") / "t", rows.schema, time_column="t"
    )
    table.append(rows)
    if request.param == "some rows deleted":
        table.delete("n % 100 = 7")
        assert table.snapshot.segments[0].deletion_vector is not None
    assert len(table.snapshot.segments) == 1
    return table


def facts(frame):
    """Return how many tasks gave rows, and what tells sets of rows apart."""
    told = frame.select(
        F.spark_partition_id().alias("task"),
        F.xxhash64(*frame.columns).cast("decimal(38, 0)").alias("hash"),
    )
    return told.agg(F.count_distinct("task"), F.count("*"), F.sum("hash"), F.max("hash")).first()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", MEANINGS)
def test_shared_rows_are_those_that_one_task_reads(spark, table, options):
    reader = spark.read.format("projseg").options(**options)
    tasks, *found = facts(reader.option("parallelism", 8).load(table.location))
    alone, *whole = facts(reader.option("parallelism", 1).load(table.location))
    assert found == whole
    assert found[0] > 0
    assert tasks > alone


@pytest.mark.slow
def test_a_stream_shares_segments_too(spark, table, tmp_path):
    seen = []
    query = (
        spark.readStream.format("projseg")
        .option("parallelism", 8)
        .load(table.location)
        .writeStream.foreachBatch(lambda rows, _: seen.append(facts(rows)))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    ((tasks, *found),) = seen
    assert tasks > 1
    assert found == list(facts(spark.read.format("projseg").load(table.location))[1:])


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_parallelism_is_a_count(text):
    with pytest.raises(InvalidInputError, match="option 'parallelism' is"):
        parse_read_request({"path": "t", "parallelism": text})
