"""Writes that race for one location or are repeated, without a JVM: Spark only carries messages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as t

import projseg
from projseg.errors import InvalidInputError
from projseg.spark_datasource.write_job import ProjsegWriter
from projseg.spark_datasource.write_request import parse_write_request

pytestmark = pytest.mark.spark

LONG = t.StructType([t.StructField("n", t.LongType())])


class OnlyTask:
    """What a write asks of the task it runs in."""

    def partitionId(self):
        return 0

    def taskAttemptId(self):
        return 0

    def cpus(self):
        return 1


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch):
    monkeypatch.setattr(TaskContext, "get", OnlyTask)


class Write:
    """A write job as Spark runs it: planned, then its one task, then its commit."""

    def __init__(self, location, values, *, overwrite=False, schema=LONG, **options):
        request = parse_write_request({"path": location, **options})
        self.writer = ProjsegWriter(request, schema, overwrite=overwrite)
        self.rows = dict.fromkeys(schema.names, values)

    def commit(self):
        batches = pa.table(self.rows).to_batches()
        self.writer.commit([self.writer.write(iter(batches))])


def is_clean(location):
    """Whether the table's folder holds the segments that the table lists, and no others."""
    listed = set(projseg.Table(location).segments()["segment"].to_pylist())
    return {f"data/{file.name}" for file in Path(location, "data").iterdir()} == listed


def values_of(location):
    return sorted(projseg.Table(location).query()["n"].to_pylist())


@pytest.fixture
def location(tmp_path):
    return str(tmp_path / "table")


def test_of_two_first_writes_that_want_no_table_exactly_one_wins(location):
    writes = [Write(location, [n], ifExists="error") for n in range(2)]
    writes[1].commit()
    with pytest.raises(InvalidInputError, match="PROJSEG_TABLE_EXISTS"):
        writes[0].commit()
    assert values_of(location) == [1]
    assert is_clean(location)


def test_a_first_write_that_ignores_a_table_leaves_one_made_meanwhile_alone(location):
    late, early = Write(location, [0], ifExists="ignore"), Write(location, [1])
    early.commit()
    late.commit()
    assert values_of(location) == [1]
    assert is_clean(location)


def test_a_transaction_is_written_once_though_two_attempts_make_the_table(location):
    txn = {"txnAppId": "loader", "txnVersion": "1", "ifExists": "error"}
    late, early = Write(location, [0], **txn), Write(location, [0], **txn)
    early.commit()
    late.commit()
    assert values_of(location) == [0]
    assert is_clean(location)


def test_a_write_that_is_aborted_after_its_commit_stands_and_is_not_repeated(location):
    """Spark aborts a commit that it had no answer of, and who asked for it may ask again."""
    txn = {"txnAppId": "loader", "txnVersion": "1"}
    write = Write(location, [0], **txn)
    messages = [write.writer.write(iter(pa.table(write.rows).to_batches()))]
    write.writer.commit(messages)
    write.writer.abort(messages)
    Write(location, [0], **txn).commit()
    assert values_of(location) == [0]
    assert is_clean(location)


def test_a_first_append_adds_to_a_table_made_meanwhile(location):
    late, early = Write(location, [0]), Write(location, [1], ifExists="error")
    early.commit()
    late.commit()
    assert values_of(location) == [0, 1]


def test_a_first_overwrite_replaces_a_table_made_meanwhile(location):
    late, early = Write(location, [0], overwrite=True), Write(location, [1])
    early.commit()
    late.commit()
    assert values_of(location) == [0]


def test_a_first_write_of_other_types_than_the_table_made_meanwhile_is_refused(location):
    double = t.StructType([t.StructField("n", t.DoubleType())])
    late, early = Write(location, [0.5], schema=double), Write(location, [1])
    early.commit()
    with pytest.raises(InvalidInputError, match="column 'n' holds double"):
        late.commit()
    assert values_of(location) == [1]
    assert is_clean(location)


@pytest.mark.parametrize("name", ["m", "N"])
def test_a_first_write_loses_no_column_that_the_table_made_meanwhile_lacks(location, name):
    other = t.StructType([t.StructField(name, t.LongType())])
    late, early = Write(location, [0], schema=other), Write(location, [1])
    early.commit()
    with pytest.raises(InvalidInputError):
        late.commit()
    assert values_of(location) == [1]
    assert is_clean(location)


def test_a_first_write_that_merges_schemas_adds_its_columns_to_the_table_made_meanwhile(location):
    wide = t.StructType([t.StructField(name, t.LongType()) for name in "nm"])
    late, early = Write(location, [0], schema=wide, mergeSchema="true"), Write(location, [1])
    early.commit()
    late.commit()
    rows = projseg.Table(location).query(order_by="n").to_pylist()
    assert rows == [{"n": 0, "m": 0}, {"n": 1, "m": None}]


@pytest.mark.parametrize(
    "option",
    [
        {"timeColumn": "n"},
        {"timeColumn": "n", "segmentGranularity": "DAY"},
        {"clusterBy": "n"},
    ],
    ids=str,
)
def test_a_first_write_of_another_layout_than_the_table_made_meanwhile_is_refused(location, option):
    time = t.StructType([t.StructField("n", t.TimestampType())])
    moment = [datetime(2020, 1, 1, tzinfo=UTC)]
    late = Write(location, moment, schema=time)
    early = Write(location, moment, schema=time, **option)
    early.commit()
    with pytest.raises(InvalidInputError, match="PROJSEG_OPTION_CONTRADICTS_TABLE"):
        late.commit()
    assert values_of(location) == moment
    assert is_clean(location)
