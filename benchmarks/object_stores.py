"""Measure queries of a table in an object store whose every answer takes a round trip.

    python -m projseg.benchmarks.object_stores [--output results.json]

starts an S3-compatible server of this machine (moto) and a proxy that delays each answer, makes a
table of one segment a day with a projection, and prints and keeps, for each query with nothing in
memory, with everything in memory, and cold without delay: milliseconds, requests and bytes; and the
same of a commit. Answers are compared with those of the same table in a folder.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.generator import SCHEMA, SPAN_US, START_US, EditStream
from projseg.benchmarks.publish import publish
from projseg.benchmarks.store_server import StoreServer, store_server
from projseg.benchmarks.table_life import DAY_US
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT

BY_CHANNEL: Final = projseg.Projection(
    "by_channel",
    ["channel", "robot"],
    ["sum(added) AS added", "count(*) AS edits", "hll_sketch_agg(user) AS users"],
)
QUERIES: Final[dict[str, dict[str, Any]]] = {
    "covered by the projection": {
        "group_by": "channel",
        "aggregators": "sum(added) AS added, count(*) AS edits",
        "order_by": "channel",
    },
    "covered, one day": {
        "group_by": "channel",
        "aggregators": "sum(added) AS added",
        "interval": "2015-09-12/P1D",
        "order_by": "channel",
    },
    "base rows": {
        "group_by": "country",
        "aggregators": "sum(deleted) AS deleted",
        "order_by": "country",
    },
    "count from metadata": {"aggregators": "count(*) AS edits"},
}
_LOCATION: Final = "s3://tables/edits"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--rows-a-segment", type=int, default=5_000)
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--repeat", type=int, default=5, help="the median of so many is told")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, store_server() as server:
        server.make_bucket("tables")
        rows = _rows(asked.segments, asked.rows_a_segment)
        local, stored = _tables(Path(folder) / "t", server, rows)
        options = server.options(through_proxy=True)
        cases = {}
        for name, query in QUERIES.items():
            wanted = local.query(**query)

            def cold(query: dict[str, Any] = query, wanted: pa.Table = wanted) -> None:
                KEPT.clear()
                found = projseg.Table(_LOCATION, storage_options=options).query(**query)
                if not found.equals(wanted):
                    raise InvalidInputError("PROJSEG_INTERNAL", "the store's answer is another")

            def warm(query: dict[str, Any] = query) -> None:
                projseg.Table(_LOCATION, storage_options=options).query(**query)

            server.spoil(delay=asked.delay)
            told = {"cold": _measured(server, cold, asked.repeat)}
            told["warm"] = _measured(server, warm, asked.repeat)
            server.spoil()
            told["cold without delay"] = _measured(server, cold, asked.repeat)
            cases[name] = told
        server.spoil(delay=asked.delay)
        table = projseg.Table(_LOCATION, storage_options=options)
        few = rows.slice(0, 1000)
        commit = _measured(server, lambda: table.append(few), asked.repeat)
    figures = {
        "segments": asked.segments,
        "rows": len(rows),
        "bytes": stored.snapshot.data_bytes,
        "delay_seconds": asked.delay,
        "queries": cases,
        "append of 1000 rows": commit,
    }
    publish("python -m projseg.benchmarks.object_stores", figures, asked.output)


def _rows(segments: int, rows_a_segment: int) -> pa.Table:
    """Return rows of so many days, as many of each."""
    rows = EditStream(segments * rows_a_segment).table()
    times = np.asarray(rows.column("time").cast(pa.int64()))
    spread = START_US + (times - START_US) * segments // (SPAN_US // DAY_US)
    column = pa.array(spread).cast(SCHEMA.field("time").type)
    return rows.set_column(0, SCHEMA.field("time"), column)


def _tables(
    folder: Path, server: StoreServer, rows: pa.Table
) -> tuple[projseg.Table, projseg.Table]:
    """Make the same table in a folder and in the store."""
    made = [
        projseg.Table.create(
            location,
            SCHEMA,
            time_column="time",
            segment_granularity="day",
            projections=[BY_CHANNEL],
            data=rows,
            storage_options=options,
        )
        for location, options in ((folder, None), (_LOCATION, server.options()))
    ]
    return made[0], made[1]


def _measured(server: StoreServer, action: Callable[[], object], repeat: int) -> dict[str, float]:
    """Return the median milliseconds of an action, and requests and bytes of its last run."""
    milliseconds = []
    for _ in range(repeat):
        server.log()
        start = time.perf_counter()
        action()
        milliseconds.append((time.perf_counter() - start) * 1000)
    log = server.log()
    return {
        "milliseconds": round(sorted(milliseconds)[repeat // 2], 1),
        "requests": len(log),
        "bytes": sum(one["bytes"] for one in log),
    }


if __name__ == "__main__":
    main()
