"""Queries of a table in an object store whose every answer takes a round trip.

An S3-compatible server of this machine (moto) stands behind a proxy that delays each answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import projseg
from projseg.benchmarks.bench import Bench, measured
from projseg.benchmarks.generator import DAY_US, SCHEMA, EditStream
from projseg.benchmarks.store_server import StoreServer, store_server
from projseg.memory.cache import KEPT

_BY_CHANNEL: Final = projseg.Projection(
    "by_channel",
    ["channel", "robot"],
    ["sum(added) AS added", "count(*) AS edits", "hll_sketch_agg(user) AS users"],
)
_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "covered by the projection": {
        "group_by": "channel",
        "aggregators": "sum(added) AS added, count(*) AS edits",
    },
    "covered, one day": {
        "group_by": "channel",
        "aggregators": "sum(added) AS added",
        "interval": "2015-09-12/P1D",
    },
    "base rows": {"group_by": "country", "aggregators": "sum(deleted) AS deleted"},
    "count from metadata": {"aggregators": "count(*) AS edits"},
}
_LOCATION: Final = "s3://tables/edits"


def run(bench: Bench) -> None:
    """Ask a table behind the proxy, and append to it."""
    segments = bench["segments"]
    rows = EditStream(segments * bench["rows_a_segment"], span_us=segments * DAY_US).table()
    with store_server() as server:
        server.make_bucket("tables")
        local = _written_table(bench.folder / "t", rows)
        _written_table(_LOCATION, rows, server.options())
        options = server.options(through_proxy=True)
        for name, query in _QUERIES.items():
            answers: list[pa.Table] = []

            def ask(is_cold: bool, query: Any = query, answers: list[pa.Table] = answers) -> None:
                if is_cold:
                    KEPT.clear()
                answers[:] = [projseg.Table(_LOCATION, storage_options=options).query(**query)]

            for way, delay in (("cold", bench["delay"]), ("warm", bench["delay"]), ("near", 0)):
                server.spoil(delay=delay)
                figure = _measured(server, partial(ask, way != "warm"), bench["rounds"])
                bench.add("queries", name, "cold without delay" if way == "near" else way, figure)
                bench.require_same({name: local.query(**query)}, {name: answers[0]}, way)
        server.spoil(delay=bench["delay"])
        table, few = projseg.Table(_LOCATION, storage_options=options), rows.slice(0, 1000)
        commit = _measured(server, lambda: table.append(few), bench["rounds"])
        bench.add("commits", "append of 1000 rows", "", commit)


def _written_table(location: str | Path, rows: pa.Table, options: Any = None) -> projseg.Table:
    return projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        projections=[_BY_CHANNEL],
        data=rows,
        storage_options=options,
    )


def _measured(server: StoreServer, action: Callable[[], object], rounds: int) -> dict[str, Any]:
    """Return the milliseconds of each round, and requests and bytes of the last one."""
    milliseconds = []
    for _ in range(rounds):
        server.log()
        with measured() as spent:
            action()
        milliseconds.append(spent["s"] * 1000)
    log = server.log()
    sent = sum(one["bytes"] for one in log)
    return {"ms": milliseconds, "requests": len(log), "sent bytes": sent}
