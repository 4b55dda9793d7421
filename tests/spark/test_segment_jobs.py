"""Segments merged, and projections built, by the tasks of Spark jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from life_tables import BY_CHANNEL, HOURLY, answers, new_table, rows, sources, stored_rows

import projseg
from projseg.errors import CorruptSegmentError, InvalidInputError

pytestmark = pytest.mark.spark

BATCHES = [rows(n % 3, count=7, first=n * 7) for n in range(9)]
WANTED = pa.concat_tables(BATCHES)


@pytest.fixture
def tables(tmp_path):
    """Return the same table twice: small segments, a projection that is missing, deleted rows."""
    made = []
    for name in ("threads", "tasks"):
        table = new_table(tmp_path / name, projections=[HOURLY])
        for batch in BATCHES:
            table.append(batch)
        table.add_projection(BY_CHANNEL)
        table.delete("page = 'page 3'", interval="2024-05-01/P1D")
        made.append(table)
    return made


def told(table):
    """What a table says of its segments and projections, but for what is random in it."""
    segments = table.segments().drop(["segment", "bytes"]).to_pylist()
    stats = table.projection_stats().to_pylist()
    last = table.history().to_pylist()[0]
    history = [last[name] for name in ("operation", "operationParameters", "version")]
    return segments, [{**row, "bytes": 0, "base_share": 0} for row in stats], history


def test_jobs_do_what_threads_do(spark, tables):
    threads, tasks = tables
    before, progress, seen = stored_rows(tasks), [], []
    for verb in ("materialize_projection", "compact"):
        here = getattr(threads, verb)()
        there = getattr(tasks, verb)(
            spark=spark,
            on_progress=lambda *numbers: progress.append(numbers),
            on_segment=seen.append,
        )
        assert there == here
        assert told(tasks) == told(threads)
        assert sources(tasks) == sources(threads)
        assert stored_rows(tasks) == before == stored_rows(threads)
        assert answers(tasks) == answers(threads) == answers(tasks, noProjections=True)
    assert tasks.verify(deep=True) == []
    assert progress[0] == (0, 9)
    assert progress[-1] == (3, 3), "the last is told of the compaction, whose segments are three"
    assert len(seen) == 12
    names = [Path(file).name for file in tasks.segments()["segment"].to_pylist()]
    assert sorted(int(name.split("-")[1]) for name in names) == [0, 1, 2], "a task for each"
    version = tasks.version
    for verb in ("materialize_projection", "compact"):
        made = getattr(tasks, verb)(spark=spark)
        assert (made.version, made.segments, made.rows) == (version, 0, 0)
    assert tasks.compact(dry_run=True, spark=spark).num_rows == 0


def test_jobs_write_postings_as_threads_do(spark, tables):
    threads, tasks = tables
    described = []
    for table, given in ((threads, None), (tasks, spark)):
        table.add_index(projseg.Index("words", "page", kind="token"))
        table.add_index(projseg.Index("users", "channel"))
        before = stored_rows(table)
        table.materialize_index(spark=given)
        assert stored_rows(table) == before
        assert table.verify(deep=True) == []
        shown = table.indexes().drop(["files", "bloom_bytes"])  # which hold names of segments
        described.append((shown.to_pylist(), told(table)))
        version = table.version
        assert table.materialize_index(spark=given).version == version
        written = [Path(file).name for file in table.segments()["segment"].to_pylist()]
    assert described[0] == described[1]
    assert described[1][0][0]["postings_bytes"] > 0
    assert {row["covered"] for row in described[1][0]} == {9}
    assert sorted(int(name.split("-")[1]) for name in written) == list(range(9)), "a task for each"


def test_another_appends_and_replaces_while_a_job_runs(spark, tables):
    _, table = tables
    late, seen = rows(1, count=3, first=900), []
    before = set(os.listdir(Path(table.location, "data")))

    def write_once(entry):
        if not seen:
            other = projseg.Table(table.location)
            other.append(late)
            other.compact(interval="2024-05-02/P1D")
        seen.append(entry)

    made = table.compact(spark=spark, on_segment=write_once)
    assert made.segments == 2, "the day that the other compacted has nothing left to merge"
    assert table.query(aggregators="count(*) AS n").to_pylist() == [
        {"n": WANTED.num_rows + 3 - deleted(WANTED)}
    ]
    assert table.verify(deep=True) == []
    on_disk = set(os.listdir(Path(table.location, "data"))) - before
    listed = {Path(file).name for file in table.segments()["segment"].to_pylist()}
    write_id = seen[0].write_id
    assert {name for name in on_disk if name.startswith(write_id)} <= listed, "the rest is removed"


def deleted(data):
    first_day = [time.day == 1 for time in data["time"].to_pylist()]
    pages = data["page"].to_pylist()
    return sum(one and page == "page 3" for one, page in zip(first_day, pages, strict=True))


def test_a_damaged_segment_fails_the_job_and_nothing_is_committed(spark, tables):
    _, table = tables
    entry = table.snapshot.segments[4]
    path = Path(table.location, entry.file)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    version = table.version
    with pytest.raises(CorruptSegmentError, match=entry.file):
        table.compact(spark=spark)
    assert projseg.Table(table.location).version == version


def test_a_session_without_a_context_is_refused(tables):
    """A client of Spark Connect has none."""
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
        tables[0].compact(spark=object())
