"""A whole small run, with real engines in real processes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.harness import Plan, run_benchmark
from projseg.benchmarks.memory import PeakMemory
from projseg.benchmarks.peers.registry import select_engines
from projseg.benchmarks.staging import stage
from projseg.benchmarks.worker import Assignment, Request, Verb
from projseg.benchmarks.worker_handle import WorkerHandle
from projseg.benchmarks.workload import WORKLOADS

pytest.importorskip("duckdb")
pytest.importorskip("psutil")

EDITS = WORKLOADS["edits"]
QUERIES = EDITS.select(
    [
        "total",
        "by_hour_channel",
        "users_by_channel",
        "top_pages",
        "filter_hours",
        "rows_of_hour",
        "drain_all_columns",
    ]
)


@pytest.mark.slow
def test_engines_take_turns_and_agree(tmp_path):
    plan = Plan(
        EDITS,
        EditStream(3000),
        select_engines(["projseg", "projseg-base", "duckdb", "duckdb-parquet"]),
        QUERIES,
        rounds=2,
        thread_count=2,
        folder=tmp_path,
    )
    run = run_benchmark(plan, lambda line: None)
    assert run.reference == "duckdb"
    assert [engine.missing for engine in run.engines] == [None] * 4
    for engine in run.engines:
        assert engine.ingest.base_bytes > 0
        assert engine.ingest.peak_bytes > 0
        assert set(engine.timings) == {query.name for query in QUERIES}
        for name, timing in engine.timings.items():
            assert timing.failure is None, name
            assert timing.agrees or name.startswith("drain"), (
                name,
                timing.difference,
                timing.approximation_error,
            )
            assert len(timing.warm_ms) == 2
            assert timing.cold_ms > 0
    users = run.engine("duckdb").timings["users_by_channel"]
    assert users.approximation_error is not None
    ours = run.engine("projseg").timings
    assert ours["by_hour_channel"].work.sources == {"by_hour_channel_country": 1}
    assert ours["rows_of_hour"].work.sources == {"base rows": 1}
    assert run.bandwidth.read_bytes_per_second > 1e8


@pytest.fixture
def source(tmp_path):
    return stage(EditStream(100), tmp_path / "source")


def _worker(tmp_path, engine, source):
    folder = str(tmp_path / engine)
    return WorkerHandle(Assignment(engine, folder, str(source.folder), 1), tmp_path / "log")


def test_staged_rows_are_the_stream_s(source):
    assert source.table().equals(EditStream(100).table())
    assert pa.Table.from_batches(source.batches()).equals(EditStream(100).table())
    assert source.reader().read_all().equals(EditStream(100).table())


def test_a_failing_query_is_a_reply(tmp_path, source):
    with _worker(tmp_path, "duckdb", source) as worker:
        assert worker.ask(Request(Verb.START)).failure is None
        assert worker.ask(Request(Verb.LOAD)).failure is None
        reply = worker.ask(Request(Verb.RUN, QUERIES[0]))
        assert (reply.rows, reply.failure) == (1, None)
        assert "already exists" in worker.ask(Request(Verb.LOAD)).failure


def test_an_engine_that_was_not_started_says_so(tmp_path, source):
    with _worker(tmp_path, "duckdb", source) as worker:
        assert "not started" in worker.ask(Request(Verb.OPEN)).failure


def test_a_worker_that_dies_is_a_failure(tmp_path, source):
    with _worker(tmp_path, "duckdb", source) as worker:
        worker.ask(Request(Verb.START))
        worker.ask(Request(Verb.CLOSE))
        assert "ended with code 0" in worker.ask(Request(Verb.OPEN)).failure


def test_peak_memory_sees_an_allocation():
    with PeakMemory() as before:
        pass
    with PeakMemory() as during:
        block = b"x" * (64 << 20)
    assert during.peak_bytes - before.peak_bytes > 60e6
    del block
