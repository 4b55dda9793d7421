"""The whole engine under races, kills and lost files: `Table.append` and `Table.query`."""

import datetime
import os
import random
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from race import CONTEXT, run_processes
from scale import tries

import projseg
from projseg.errors import CorruptSegmentError, CorruptTableError

SCHEMA = pa.schema(
    [("time", pa.timestamp("us", tz="UTC")), ("writer", pa.string()), ("added", pa.int64())]
)
BY_WRITER = {"name": "by_writer", "sql": "SELECT writer, sum(added) AS added GROUP BY ALL"}
START = datetime.datetime(2015, 9, 12, tzinfo=datetime.UTC)
ROWS = 12
BATCHES = tries(50, 15)  # of each writer that races


def create(location):
    return projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        projections=[BY_WRITER],
    )


def rows_of(writer, batch):
    """Return rows over two days, so that every append makes two segments."""
    times = [START + datetime.timedelta(hours=4 * hour) for hour in range(ROWS)]
    added = [batch * ROWS + row for row in range(ROWS)]
    return pa.table({"time": times, "writer": [writer] * ROWS, "added": added}, schema=SCHEMA)


def expected_sum(batches):
    return sum(range(batches * ROWS))


def answers(location, **context):
    table = projseg.Table(location)
    result = table.query("writer", ["sum(added) AS added", "count(*) AS rows"], context=context)
    return {row["writer"]: (row["added"], row["rows"]) for row in result.to_pylist()}


def append_batches(location, writer, batches):
    table = projseg.Table(location)
    return [table.append(rows_of(writer, batch)).version for batch in range(batches)]


def test_eight_writers_lose_nothing(tmp_path):
    table = create(tmp_path / "t")
    table.append(rows_of("warm-up", 0))  # compiles before the race
    writers = [f"w{number}" for number in range(8)]
    batches = [(tmp_path / "t", writer, BATCHES) for writer in writers]
    done = run_processes(append_batches, batches)
    versions = sorted(version for versions in done for version in versions)
    assert versions == list(range(2, 2 + 8 * BATCHES))
    for context in ({}, {"noProjections": True}):
        found = answers(tmp_path / "t", **context)
        assert found.pop("warm-up") == (expected_sum(1), ROWS)
        assert found == {writer: (expected_sum(BATCHES), BATCHES * ROWS) for writer in writers}
    assert projseg.Table(tmp_path / "t").verify() == []


def append_until_killed(location, log, writer):
    batch = 0
    table = projseg.Table(location)
    while True:
        table.append(rows_of(writer, batch))
        batch += 1
        # By a rename: a kill between truncating and writing would leave an empty log.
        Path(f"{log}.new").write_text(str(batch))
        Path(f"{log}.new").replace(log)


def kill_loop(tmp_path, kills):
    """Kill a writer at random; what it acknowledged is there, and at most one batch more."""
    create(tmp_path / "t").append(rows_of("warm-up", 0))
    rng = random.Random(kills)
    unacknowledged = 0
    for number in range(kills):
        log = tmp_path / f"log{number}"
        log.write_text("0")
        writer = CONTEXT.Process(
            target=append_until_killed, args=(tmp_path / "t", log, f"w{number}")
        )
        writer.start()
        time.sleep(rng.uniform(0, 0.3))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        acknowledged = int(log.read_text())
        added, rows = answers(tmp_path / "t").get(f"w{number}", (0, 0))
        batches = rows // ROWS
        assert batches in (acknowledged, acknowledged + 1)
        assert (added, rows) == (expected_sum(batches), batches * ROWS)
        unacknowledged += batches - acknowledged
    assert projseg.Table(tmp_path / "t").verify() == []
    projseg.Table(tmp_path / "t").append(rows_of("after", 0))
    assert answers(tmp_path / "t")["after"] == (expected_sum(1), ROWS)


def test_a_killed_writer_leaves_whole_appends(tmp_path):
    kill_loop(tmp_path, 12)


@pytest.mark.slow
def test_many_killed_writers_leave_whole_appends(tmp_path):
    kill_loop(tmp_path, 300)


def listed_files(location):
    return sorted(Path(location, "data").iterdir())


def test_a_lost_segment_is_an_error_and_no_empty_answer(tmp_path):
    create(tmp_path / "t").append(rows_of("w", 0))
    listed_files(tmp_path / "t")[0].unlink()
    with pytest.raises(CorruptTableError):
        projseg.Table(tmp_path / "t").query(columns=["added"])


def test_a_truncated_segment_is_an_error(tmp_path):
    create(tmp_path / "t").append(rows_of("w", 0))
    path = listed_files(tmp_path / "t")[0]
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises((CorruptSegmentError, CorruptTableError)):
            projseg.Table(tmp_path / "t").query(columns=["added"])


def test_a_pinned_table_reads_the_same_for_ever(tmp_path):
    table = create(tmp_path / "t")
    table.append(rows_of("w", 0))
    pinned = projseg.Table(tmp_path / "t")
    before = pinned.query("writer", "sum(added) AS added").to_pylist()
    table.append(rows_of("w", 1))
    table.overwrite(rows_of("other", 3))
    assert pinned.query("writer", "sum(added) AS added").to_pylist() == before
    again = projseg.Table(tmp_path / "t", version=pinned.version)
    assert again.query("writer", "sum(added) AS added").to_pylist() == before
