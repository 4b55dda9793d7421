"""Small results built by hand, for tests of what reads and compares them."""

from __future__ import annotations

from projseg.benchmarks.results import Figure, ScenarioResults


def small_results(
    own_ms=(10.0, 11.0, 12.0), peer_ms=(30.0, 33.0, 36.0), *, rows=1000, stored=500, seconds=2.0
):
    """Return the results of two queries, one peer and projseg, with a missing engine."""
    return ScenarioResults(
        scenario="edits",
        arguments={"rows": rows, "rounds": 3, "peers": "projseg,duckdb,clickhouse"},
        machine={
            "started": "2026-01-02T03:04:05+00:00",
            "commit": "0123456789abcdef",
            "has_local_changes": False,
            "cpu": "A fast CPU",
            "cpu_count": 2,
            "load_average": 0.5,
            "memory_bytes": 8_000_000_000,
            "system": "Linux",
            "python": "3.11.0",
            "versions": {"duckdb": "1.0"},
        },
        figures=[
            Figure("loading", "rows", "projseg", {"s": seconds, "base bytes": stored}),
            Figure("loading", "rows", "duckdb", {"s": seconds / 2, "base bytes": 700}),
            Figure("queries", "total *", "projseg", {"ms": list(own_ms), "first ms": 20.0}),
            Figure("queries", "total *", "duckdb", {"ms": list(peer_ms), "first ms": 40.0}),
            Figure("queries", "rows", "projseg", {"ms": [5.0], "answered from": "base rows (1)"}),
            Figure("queries", "rows", "duckdb", {"ms": [5.0]}),
        ],
        peers=["duckdb"],
        problems=["missing: clickhouse: ModuleNotFoundError: chdb"],
    )
