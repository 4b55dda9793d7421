"""A whole small run, with real engines in real processes."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from projseg.benchmarks.bench import run_scenario
from projseg.benchmarks.engine_comparison import select_engines
from projseg.benchmarks.engine_worker import Assignment, EngineWorker
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.measuring import peak_memory, processor_seconds
from projseg.benchmarks.scenarios import SCENARIOS
from projseg.benchmarks.workload import stage
from projseg.benchmarks.written_workloads import EDITS

pytest.importorskip("duckdb")
pytest.importorskip("psutil")

QUERIES = [
    "total",
    "by_hour_channel",
    "users_by_channel",
    "top_pages",
    "filter_hours",
    "rows_of_hour",
    "drain_all_columns",
]


@pytest.mark.slow
def test_engines_take_turns_and_agree(tmp_path):
    scenario = SCENARIOS["edits"]
    peers = "projseg,projseg-base,duckdb,duckdb-parquet"
    given = {"rows": 3000, "rounds": 2, "peers": peers, "queries": ",".join(QUERIES)}
    results = run_scenario(scenario, {**scenario.arguments, **given}, lambda line: None, tmp_path)
    assert results.problems == []
    assert results.peers == ["duckdb", "duckdb-parquet"]
    loading = [figure for figure in results.figures if figure.table.startswith("loading")]
    assert [figure.way for figure in loading] == peers.split(",")
    for figure in loading:
        assert figure.values["base bytes"] > 0
        assert figure.values["peak memory"] > 0
        assert figure.values["queries' peak memory"] > 0
    found = {(one.case, one.way): one.values for one in results.figures if one.table == "queries"}
    assert len(found) == 4 * len(QUERIES)
    for values in found.values():
        assert len(values["ms"]) == len(values["cpu ms"]) == 2
        assert values["first ms"] > 0
    hours = found["by_hour_channel *", "projseg"]
    assert hours["answered from"] == "by_hour_channel_country (1)"
    assert found["rows_of_hour", "projseg"]["answered from"] == "base rows (1)"
    assert 0 < found["rows_of_hour", "projseg"]["of bandwidth"] < 1


@pytest.fixture
def source(tmp_path):
    return stage(EditStream(100), tmp_path / "source")


def _worker(tmp_path, source):
    (engine,) = select_engines(["duckdb"])
    return EngineWorker(Assignment(engine, tmp_path / "duckdb", 1, EDITS), tmp_path / "log")


def test_staged_rows_are_the_stream_s(source):
    assert source.table().equals(EditStream(100).table())
    assert source.reader().read_all().equals(EditStream(100).table())
    assert pq.read_table(source.parquet_folder).equals(EditStream(100).table())


def test_a_failing_query_is_a_reply(tmp_path, source):
    with _worker(tmp_path, source) as worker:
        assert worker.started.failure is None
        assert worker.call("load", source).failure is None
        reply = worker.call("answer", EDITS.queries[0])
        assert (reply.value, reply.failure) == (1, None)
        assert "already exists" in worker.call("load", source).failure
        assert not worker.call("plan", EDITS.queries[0]).is_applicable


def test_a_worker_that_ended_is_a_failure(tmp_path, source):
    with _worker(tmp_path, source) as worker:
        worker.call("close")
        assert "ended with code 0" in worker.call("open").failure


def test_peak_memory_sees_an_allocation():
    with peak_memory() as before:
        pass
    with peak_memory() as during:
        block = b"x" * (64 << 20)
    assert during[0] - before[0] > 60e6
    del block
    with peak_memory(is_wanted=False) as nothing:
        pass
    assert nothing == []


def test_processor_time_is_measured():
    assert processor_seconds() > 0
