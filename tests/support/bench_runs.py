"""Small runs built by hand, for tests of what reads and compares runs."""

from __future__ import annotations

from projseg.benchmarks.records import (
    Bandwidth,
    EngineRun,
    Environment,
    Ingest,
    QueryText,
    Run,
    Timing,
    Work,
)


def small_run(
    own_ms=(10.0, 11.0, 12.0), peer_ms=(30.0, 33.0, 36.0), *, rows=1000, stored=500, seconds=2.0
):
    """Return a run of one query, one peer and projseg, with a missing engine."""
    return Run(
        environment=Environment(
            started="2026-01-02T03:04:05+00:00",
            commit="0123456789abcdef",
            has_local_changes=False,
            cpu="A <fast> CPU",
            cpu_count=2,
            memory_bytes=8_000_000_000,
            system="Linux",
            python="3.11.0",
            versions={"duckdb": "1.0"},
        ),
        bandwidth=Bandwidth(20e9, 18e9),
        row_count=rows,
        seed=1,
        rounds=3,
        thread_count=2,
        queries=[QueryText("total", "SELECT count(*) FROM edits WHERE added < 3", "by_channel")],
        engines=[
            EngineRun(
                "projseg",
                "projseg with projections",
                is_peer=False,
                version="0",
                ingest=Ingest(seconds, 0.0, 1000, stored, 50),
                start_ms=5.0,
                timings={
                    "total": Timing(
                        cold_ms=20.0,
                        warm_ms=list(own_ms),
                        warm_cpu_ms=[20.0],
                        answer_rows=1,
                        peak_bytes=2000,
                        work=Work(10, 100_000_000, {"by_channel": 1}),
                        agrees=True,
                    )
                },
            ),
            EngineRun(
                "duckdb",
                "DuckDB",
                is_peer=True,
                version="1",
                ingest=Ingest(1.0, 0.0, None, 700, 0),
                start_ms=4.0,
                timings={
                    "total": Timing(
                        cold_ms=40.0, warm_ms=list(peer_ms), warm_cpu_ms=[40.0], agrees=True
                    )
                },
            ),
            EngineRun(
                "clickhouse", "ClickHouse", is_peer=True, missing="ModuleNotFoundError: chdb"
            ),
        ],
        reference="duckdb",
        answers_per_turn=4,
    )
