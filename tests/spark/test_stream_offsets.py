"""Streams of a table's rows without a JVM: what Spark asks of a reader, in its order."""

from __future__ import annotations

import datetime
import json
import pickle

import pyarrow as pa
import pyspark
import pytest
from pyspark import TaskContext

import projseg
from projseg.errors import InvalidInputError
from projseg.spark_datasource.datasource import ProjsegDataSource

pytestmark = pytest.mark.spark

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string())])
SUMS = {"name": "sums", "sql": "SELECT s, sum(n) AS n GROUP BY s"}
LIMITS_BATCHES = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


def rows(*numbers, **more):
    times = [START + datetime.timedelta(days=n) for n in numbers]
    columns = {"time": times, "n": numbers, "s": [f"s{n % 2}" for n in numbers]}
    return pa.table({**columns, **more}, None if more else SCHEMA)


@pytest.fixture
def table(tmp_path):
    return projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="time", segment_granularity="day"
    )


class Stream:
    """A streaming query from its start; a new one with an offset is one that was restarted."""

    def __init__(self, table, offset=None, *, is_available_now=False, **options):
        source = ProjsegDataSource({"path": str(table.location), **options})
        schema = source.schema()
        self.reader = pickle.loads(pickle.dumps(source)).streamReader(schema)
        self.offset = offset
        if is_available_now:
            self.reader.prepareForTriggerAvailableNow()

    @staticmethod
    def stored(offset):
        return json.loads(json.dumps(offset))

    def batch(self):
        """Return the rows of the next batch, or None if there is no more for one."""
        if LIMITS_BATCHES:
            start = self.start()
            end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        else:
            end = self.reader.latestOffset()
            start = self.start()
        end = self.stored(end)
        found = self.rows_between(start, end)
        is_first, self.offset = self.offset is None, end
        return None if end == start or (is_first and not found) else found

    def start(self):
        """Return the offset of the last batch, or where the stream begins; Spark keeps only one."""
        return self.offset or self.stored(self.reader.initialOffset())

    def repeat(self, end):
        """Return the rows of the first batch, as Spark asks for them after a restart."""
        return self.rows_between(self.start(), end)

    def rows_between(self, start, end):
        found = []
        for partition in self.reader.partitions(start, end):
            reader, partition = pickle.loads(pickle.dumps((self.reader, partition)))
            for batch in reader.read(partition):
                found += batch.to_pylist()
        return found

    def numbers(self):
        """Return the values of each batch up to the last."""
        batches = []
        while (batch := self.batch()) is not None:
            batches.append(sorted(row["n"] for row in batch))
        return batches


def test_a_restarted_query_goes_on_where_it_was(table):
    table.append(rows(1, 2))
    first = Stream(table)
    assert first.numbers() == [[1, 2]]
    table.append(rows(3))
    table.compact(target_segment_rows=100)
    start = first.offset
    again = Stream(table, start)
    assert again.numbers() == [[3]]
    assert [row["n"] for row in Stream(table).rows_between(start, again.offset)] == [3]
    place = {"table": table.properties.table_id, "index": 0}
    assert again.offset["at"] == {**place, "version": table.version + 1, "whole": False}


@pytest.mark.parametrize("options", [{}, {"startingVersion": "latest"}], ids=str)
def test_the_first_batch_is_repeated_as_it_was_though_the_table_has_grown(table, options):
    table.append(rows(1, 2))
    first = Stream(table, **options)
    first.start()  # where the stream begins is asked for before anything else is committed
    table.append(rows(3))
    found = first.batch()
    table.append(rows(4))
    table.compact(target_segment_rows=100)
    again = Stream(table, **options)
    repeated = again.repeat(first.offset)
    assert repeated == found
    assert sorted(row["n"] for row in repeated) == ([3] if options else [1, 2, 3])
    assert Stream(table, first.offset).numbers() == [[4]]


@pytest.mark.skipif(not LIMITS_BATCHES, reason="Spark before 4.2 gives Python sources no limits")
def test_a_batch_has_as_many_segments_as_it_may(table):
    table.append(rows(1, 2, 3, 4, 5))
    stream = Stream(table, maxSegmentsPerTrigger="2", startingVersion="0")
    assert stream.numbers() == [[1, 2], [3, 4], [5]]
    table.append(rows(6))
    assert Stream(table, stream.offset, maxSegmentsPerTrigger="2").numbers() == [[6]]


@pytest.mark.skipif(not LIMITS_BATCHES, reason="Spark before 4.2 settles the end by itself")
def test_a_run_over_what_is_available_now_reads_nothing_that_comes_later(table):
    table.append(rows(1, 2, 3))
    stream = Stream(table, is_available_now=True, maxSegmentsPerTrigger="2")
    table.append(rows(4))
    assert stream.numbers() == [[1, 2], [3]]
    assert Stream(table, stream.offset).numbers() == [[4]]


def test_where_a_query_started_may_be_gone_when_it_is_restarted(table):
    options = {"startingVersion": "1"}
    table.append(rows(1))
    first = Stream(table, **options)
    assert first.numbers() == [[1]]
    table.append(rows(2))
    end = Stream(table, first.offset, **options)
    assert end.numbers() == [[2]]
    table.vacuum(0, dry_run=False, force=True)
    again = Stream(table, end.offset, is_available_now=LIMITS_BATCHES, **options)
    assert not again.batch()
    table.append(rows(3))
    again = Stream(table, again.offset, **options)
    assert again.numbers() == [[3]]


def test_a_delete_stops_a_stream_unless_it_is_ignored(table):
    stream = Stream(table)
    assert stream.batch() is None
    table.append(rows(1, 2))
    table.delete("n = 2")
    table.append(rows(3))
    for option in ("ignoreDeletes", "ignoreChanges"):
        kept = Stream(table, stream.offset, **{option: "true"}).numbers()
        assert [number for batch in kept for number in batch] == [1, 2, 3]
    with pytest.raises(InvalidInputError, match=r"PROJSEG_ROWS_CHANGED.*ignoreDeletes"):
        stream.numbers()


def test_an_update_stops_a_stream_unless_changes_are_ignored(table):
    table.append(rows(1, 2))
    stream = Stream(table)
    stream.numbers()
    table.update({"n": "n + 10"}, filter="n = 2")
    ignoring = Stream(table, stream.offset, ignoreChanges="true")
    assert ignoring.numbers() == [[12]]
    with pytest.raises(InvalidInputError, match=r"PROJSEG_ROWS_CHANGED.*ignoreChanges"):
        Stream(table, stream.offset, ignoreDeletes="true").numbers()


class TaskInKiritimati:
    def getLocalProperty(self, name):
        return {"spark.sql.session.timeZone": "Pacific/Kiritimati"}.get(name)

    def cpus(self):
        return 1


def test_a_stream_reads_the_columns_and_rows_that_were_asked_for(table, monkeypatch):
    table.add_projection(SUMS)
    table.append(rows(0, 1, 2, 3))
    table.drop_projection("sums")
    table.append(rows(4))
    monkeypatch.setattr(TaskContext, "get", TaskInKiritimati)
    stream = Stream(
        table,
        startingVersion="0",
        columns="n, upper(s) AS big",
        filter="s = 's1' OR n = 2",
        interval="2024-05-02T15:00/P9D",  # one o'clock of that day in UTC
    )
    assert stream.batch() == [{"n": 2, "big": "S0"}, {"n": 3, "big": "S1"}]


def test_columns_changed_meanwhile_are_read_when_the_query_starts_again(table):
    table.add_projection(SUMS)
    table.append(rows(1))
    stream = Stream(table)
    stream.numbers()
    table.append(rows(2))
    table.drop_projection("sums")
    table.add_column("price", "double")
    table.append(rows(3, price=[0.5]))
    assert [set(row) for row in stream.batch()] == [{"time", "n", "s"}] * 2
    table.append(rows(4))
    table.rename_column("s", "text")
    with pytest.raises(InvalidInputError, match="column 's' is not in the answer"):
        stream.batch()
    again = Stream(table, startingVersion="3")
    found = sorted((row["n"], row["text"], row["price"]) for row in again.batch())
    assert found == [(2, "s0", None), (3, "s1", 0.5), (4, "s0", None)]


def test_a_stream_starts_at_the_end_or_at_a_time(table):
    table.append(rows(1))
    latest = Stream(table, startingVersion="latest")
    assert latest.batch() is None
    instant = table.history().to_pylist()[0]["timestamp"].isoformat()
    table.append(rows(2))
    assert latest.numbers() == [[2]]
    found = Stream(table, startingTimestamp=instant).numbers()
    assert [number for batch in found for number in batch] == [1, 2]
    assert Stream(table, startingTimestamp="2999-01-01T00:00Z").numbers() == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"groupBy": "s"}, "option 'groupBy' has no meaning in a stream"),
        ({"versionAsOf": "0"}, "option 'versionAsOf' has no meaning in a stream"),
        ({"metadataTable": "segments"}, "option 'metadataTable' has no meaning in a stream"),
        ({"startingVersion": "soon"}, "a version's number, or 'latest'"),
        ({"startingVersion": "9"}, "whose newest is 0; start at most"),
        ({"startingVersion": "0", "startingTimestamp": "2024-01-01"}, "each say where to start"),
        ({"startingTimestamp": "May"}, "option 'startingTimestamp' is 'May'; it must be an ISO"),
        ({"startingTimestamp": "2024-05-01T00:00"}, "PROJSEG_TIME_ZONE_MISSING"),
        ({"maxSegmentsPerTrigger": "0"}, "it must be 1 or more"),
    ],
    ids=str,
)
def test_options_that_no_stream_can_have_are_refused(table, options, told):
    with pytest.raises(InvalidInputError) as refused:
        Stream(table, **options).start()
    assert told in str(refused.value)


def test_options_of_streams_are_refused_in_a_read(table):
    source = ProjsegDataSource({"path": str(table.location), "startingVersion": "0"})
    schema = source.schema()
    with pytest.raises(InvalidInputError, match="'startingVersion' has no meaning in a read"):
        source.reader(schema)


def test_an_offset_of_something_else_is_refused(table):
    for offset in ({"file": 7}, {"at": {"table": "t", "version": "1"}}):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_OFFSET"):
            Stream(table).rows_between(offset, offset)
