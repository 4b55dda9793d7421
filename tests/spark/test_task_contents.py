"""What travels between driver and tasks: small, picklable, and all that the other side needs."""

from __future__ import annotations

import importlib.metadata
import pickle
import tracemalloc

import pyarrow as pa
import pytest
import zstandard
from msgspec.structs import replace

import projseg
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, LimitExceededError
from projseg.spark_datasource import batch_reader
from projseg.spark_datasource.batch_reader import ProjsegReader, QueryPartition
from projseg.spark_datasource.read_request import ReadRequest
from projseg.spark_datasource.scan import Scan
from projseg.spark_datasource.write_job import SegmentsWritten
from projseg.table_layer.metadata.metadata_limits import METADATA_BYTES_MAX

DAY_US = 86_400_000_000
MESSAGE_BYTES_MAX = 64 * 1024


def table_of_days(location, day_count):
    times = pa.array([day * DAY_US for day in range(day_count)], pa.timestamp("us", tz="UTC"))
    columns = {f"column{index}": pa.array(range(day_count)) for index in range(20)}
    rows = pa.table({"time": times, **columns})
    table = projseg.Table.create(
        location, rows.schema, time_column="time", segment_granularity="day"
    )
    table.append(rows)
    return table


def test_a_task_of_a_hundred_segments_sends_a_small_message(tmp_path):
    entries = list(table_of_days(str(tmp_path / "t"), 100).snapshot.segments)
    message = SegmentsWritten.of(entries)
    pickled = pickle.dumps(message)
    assert len(pickled) < MESSAGE_BYTES_MAX
    assert pickle.loads(pickled).unpacked() == entries


def test_a_message_is_not_unpacked_beyond_what_a_commit_may_hold():
    bomb = zstandard.compress(b"[" + b" " * METADATA_BYTES_MAX + b"]")
    stream = zstandard.ZstdCompressor(write_content_size=False).compress(b"[]")
    assert len(bomb) < 2**16
    for packed in (bomb, stream):
        tracemalloc.start()
        with pytest.raises(LimitExceededError, match="commit message declares"):
            SegmentsWritten(packed, "1.0").unpacked()
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"[[]]", b"[" * 100_000])
def test_a_message_of_anything_else_is_refused(text):
    for packed in (zstandard.compress(text), text, zstandard.compress(text)[:-3]):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_COMMIT_ENTRY"):
            SegmentsWritten(packed, "1.0").unpacked()


def test_a_partition_carries_its_own_segments_only(tmp_path):
    location = str(tmp_path / "t")
    table_of_days(location, 100)
    scan = Scan(ReadRequest(location, query=Query("column0", "sum(column1)")))
    plan = scan.plan(())
    assert len(plan.segments) == 100
    one = QueryPartition(scan.storage, replace(plan, segments=plan.segments[:1]))
    assert len(pickle.dumps(one)) < len(pickle.dumps(QueryPartition(scan.storage, plan))) / 20


def test_tasks_share_a_partial_answer_in_the_order_of_segments(tmp_path, monkeypatch):
    location = str(tmp_path / "t")
    table_of_days(location, 7)
    request = ReadRequest(location, query=Query("column0", aggregation="partial"))
    reader = ProjsegReader(request, Scan(request).spark_schema())
    assert [partition.is_alone for partition in reader.partitions()] == [True]
    monkeypatch.setattr(batch_reader, "GROUPS_WORK", 0)
    shares = reader.partitions()
    assert [partition.is_alone for partition in shares] == [False] * 7
    files = [entry.file for entry in projseg.Table(location).snapshot.segments]
    assert [partition.plan.segments[0].entry.file for partition in shares] == files
    rows = [row for share in shares for batch in reader.read(share) for row in batch.to_pylist()]
    assert rows == [{"column0": day} for day in range(7)]


def test_one_of_several_tasks_scans_rows_with_the_processors_that_spark_gave_it(
    tmp_path, monkeypatch
):
    class Context:
        @staticmethod
        def get():
            return Context

        @staticmethod
        def cpus():
            return 1

    location = str(tmp_path / "t")
    table_of_days(location, 3)
    given = []
    scan = batch_reader.row_scan.scan

    def recorded(storage, plan, segments, threads=None):
        given.append(threads)
        return scan(storage, plan, segments, threads)

    monkeypatch.setattr(batch_reader, "TaskContext", Context)
    monkeypatch.setattr(batch_reader.row_scan, "scan", recorded)
    request = ReadRequest(location)
    reader = ProjsegReader(request, Scan(request).spark_schema())
    (alone,) = reader.partitions()
    monkeypatch.setattr(batch_reader, "work_of_a_task", lambda works, parallelism: 0)
    several = reader.partitions()
    counts = [sum(batch.num_rows for batch in reader.read(share)) for share in (alone, *several)]
    assert counts == [3, 1, 1, 1]
    assert given == [None, 1, 1, 1]


def test_a_task_that_runs_from_an_archive_says_its_release(monkeypatch):
    """What --py-files put on the path has no metadata of an installation."""

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert SegmentsWritten.of([]).release == projseg.__version__
