"""Commits of a stream's batches, without a JVM: Spark only carries their messages."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as t

import projseg
from projseg.errors import InvalidInputError
from projseg.spark_datasource.streaming import ProjsegStreamWriter
from projseg.spark_datasource.write_request import parse_stream_write_request
from projseg.spark_engine.warehouse import set_properties

pytestmark = pytest.mark.spark

LONG = t.StructType([t.StructField("n", t.LongType())])
SUMS = '[{"name": "sums", "sql": "SELECT n % 2 AS odd, sum(n) AS n, count(*) AS many GROUP BY 1"}]'


class Task:
    """What a write asks of the task it runs in."""

    query_id: str | None = "a query"

    def partitionId(self):
        return 0

    def taskAttemptId(self):
        return 0

    def cpus(self):
        return 1

    def getLocalProperty(self, name):
        return self.query_id if name == "sql.streaming.queryId" else None


@pytest.fixture(autouse=True)
def task(monkeypatch):
    context = Task()
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    return context


@pytest.fixture
def location(tmp_path):
    return str(tmp_path / "table")


class Batch:
    """A batch as Spark runs it: a writer for the tasks, and another for the commit."""

    def __init__(self, location, number, values, *, overwrite=False, schema=LONG, **options):
        request = parse_stream_write_request(
            {"path": location, "checkpointLocation": "/c", "queryName": "q", **options}
        )
        self.number = number
        self.make = lambda: ProjsegStreamWriter(request, schema, overwrite=overwrite)
        rows = pa.table({schema.names[0]: pa.array(values, pa.int64())})
        self.messages = [self.make().write(iter(rows.to_batches()))]

    def commit(self):
        self.make().commit(self.messages, self.number)


def values_of(location):
    return sorted(projseg.Table(location).query()["n"].to_pylist())


def is_clean(location):
    """Whether the table's folder holds the segments that its versions list, and no others."""
    table = projseg.Table(location)
    listed = set()
    for version in range(table.version + 1):
        at = projseg.Table(location, version=version)
        listed |= set(at.segments()["segment"].to_pylist())
    return {f"data/{file.name}" for file in Path(location, "data").iterdir()} == listed


def test_a_batch_that_is_repeated_is_written_once(location):
    for number in (0, 0, 1, 1, 0):
        Batch(location, number, [number]).commit()
    assert values_of(location) == [0, 1]
    assert projseg.Table(location).version == 1
    assert is_clean(location)


def test_a_batch_that_two_drivers_commit_at_once_is_written_once(location):
    Batch(location, 0, [0]).commit()
    late, early = Batch(location, 1, [1]), Batch(location, 1, [1])
    early.commit()
    late.commit()
    assert values_of(location) == [0, 1]
    assert is_clean(location)


def test_a_first_batch_that_two_drivers_commit_at_once_is_written_once(location):
    late, early = Batch(location, 0, [1]), Batch(location, 0, [1])
    early.commit()
    late.commit()
    assert values_of(location) == [1]
    assert is_clean(location)


def test_batches_of_other_queries_are_other_batches(location, task):
    Batch(location, 0, [1]).commit()
    task.query_id = "another"
    Batch(location, 0, [1]).commit()
    assert values_of(location) == [1, 1]


def test_a_batch_is_not_written_where_its_query_is_not_told(location, task):
    task.query_id = None
    with pytest.raises(InvalidInputError, match="PROJSEG_QUERY_ID_MISSING"):
        Batch(location, 0, [1])
    assert not Path(location).exists()


def test_a_batch_without_rows_makes_no_version(location):
    Batch(location, 0, []).commit()
    assert not Path(location).exists()
    Batch(location, 1, [1]).commit()
    Batch(location, 2, []).commit()
    assert projseg.Table(location).version == 0


def test_a_complete_answer_replaces_the_one_before_it(location):
    for number, values in enumerate([[1], [1, 2], [], [3]]):
        Batch(location, number, values, overwrite=True).commit()
        assert values_of(location) == values
    Batch(location, 1, [1, 2], overwrite=True).commit()
    assert values_of(location) == [3]
    assert is_clean(location)


def test_the_history_says_which_batch_a_version_is(location):
    Batch(location, 0, [1], userName="ada").commit()
    Batch(location, 1, [2], overwrite=True).commit()
    newest, first = projseg.Table(location).history().to_pylist()
    assert dict(first["operationParameters"]) == {"queryId": "a query", "epochId": "0"}
    assert first["userName"] == "ada"
    assert dict(newest["operationParameters"]) == {"queryId": "a query", "epochId": "1"}
    assert newest["operation"] == "overwrite"


def test_projections_are_built_from_the_first_batch_on(location):
    for number in range(2):
        Batch(location, number, [1, 2, 3], projections=SUMS).commit()
    table = projseg.Table(location)
    assert table.explain(group_by="n % 2", aggregators="sum(n)").sources == {"sums": 2}


def test_an_abort_removes_no_file(location):
    batch = Batch(location, 0, [1])
    batch.commit()
    batch.make().abort(batch.messages, 0)
    assert values_of(location) == [1]


def test_small_batches_are_compacted_by_the_policy(location):
    Batch(location, 0, [0]).commit()
    set_properties(projseg.Table(location), {"autoCompact": "true"})
    for number in range(1, 12):
        Batch(location, number, [number]).commit()
    assert values_of(location) == list(range(12))
    assert len(projseg.Table(location).segments()) < 12


def test_a_compaction_that_fails_fails_no_batch(location, caplog, monkeypatch):
    monkeypatch.setattr("projseg.table_layer.commits.rebase.check_set", lambda _: None)
    Batch(location, 0, [0]).commit()
    set_properties(projseg.Table(location), {"autoCompact": "perhaps"})
    with caplog.at_level(logging.WARNING):
        Batch(location, 1, [1]).commit()
    assert values_of(location) == [0, 1]
    assert "it takes 'true' or 'false'" in caplog.text


@pytest.mark.parametrize(
    "option",
    [{"txnAppId": "a", "txnVersion": "1"}, {"ifExists": "ignore"}, {"replaceWhere": "n = 1"}],
    ids=str,
)
def test_options_of_a_single_write_are_refused(location, option):
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_OPTION.* is of a single write"):
        Batch(location, 0, [1], **option)


def test_columns_that_the_table_lacks_are_added_if_asked_for(location):
    Batch(location, 0, [1]).commit()
    other = t.StructType([t.StructField("m", t.LongType())])
    with pytest.raises(InvalidInputError, match="column 'm'"):
        Batch(location, 1, [2], schema=other)
    Batch(location, 1, [2], schema=other, mergeSchema="true").commit()
    rows = projseg.Table(location).query(order_by="n").to_pylist()
    assert rows == [{"n": None, "m": 2}, {"n": 1, "m": None}]
