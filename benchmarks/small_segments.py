"""Measure what each of many small segments adds to a covered query.

    python -m projseg.benchmarks.small_segments [--output results.json]

spreads the same edits over 100, 1,000 and 10,000 hours, a segment for each, with two projections.
A fresh process for each table plans each query, answers it for the first time, from files in the
page cache, and answers it again; DuckDB, over the same rows in a file of its own, answers the same
when all is in memory. Planning the first query reads the manifests, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.generator import SCHEMA, SPAN_US, START_US, EditStream
from projseg.benchmarks.publish import publish
from projseg.benchmarks.turn import take_turn

_HOUR_US: Final = 3_600_000_000
_PROJECTIONS: Final = [
    projseg.Projection(
        "by_channel",
        ["channel", "robot"],
        ["sum(added) AS added", "sum(price) AS price", "count(*) AS edits"],
    ),
    projseg.Projection(
        "by_country", ["country"], ["sum(deleted) AS deleted", "max(added) AS most"]
    ),
]
# Each as a question, and as the SQL that DuckDB answers.
_QUERIES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "total": (
        {"aggregators": "sum(added) AS added"},
        "SELECT sum(added) FROM edits",
    ),
    "by channel": (
        {"group_by": "channel", "aggregators": "sum(added) AS added"},
        "SELECT channel, sum(added) FROM edits GROUP BY channel",
    ),
    "by channel, filtered": (
        {
            "group_by": "channel",
            "aggregators": "sum(added) AS added, sum(price) AS price",
            "filter": "robot",
        },
        "SELECT channel, sum(added), sum(price) FROM edits WHERE robot GROUP BY channel",
    ),
    "by country": (
        {"group_by": "country", "aggregators": "sum(deleted) AS deleted, max(added) AS most"},
        "SELECT country, sum(deleted), max(added) FROM edits GROUP BY country",
    ),
    "edits of each hour": (
        {"group_by": "date_trunc('HOUR', time) AS hour", "aggregators": "count(*) AS edits"},
        "SELECT date_trunc('hour', time) AS hour, count(*) FROM edits GROUP BY hour",
    ),
    "five pages of all, not covered": (
        {
            "group_by": "page",
            "aggregators": "sum(added) AS added",
            "order_by": "added DESC",
            "limit": 5,
        },
        "SELECT page, sum(added) AS added FROM edits GROUP BY page ORDER BY added DESC LIMIT 5",
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--counts", default="100,1000,10000", help="segments of each table")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)  # of the fresh processes
    asked = parser.parse_args(arguments)
    if asked.ask is not None:
        sys.stdout.write(json.dumps(ask(asked.ask)))
        return
    tables = {}
    for count in map(int, asked.counts.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            tables[str(count)] = measured(Path(folder), asked.rows, count)
    figures = {"rows": asked.rows, "segments": tables}
    publish("python -m projseg.benchmarks.small_segments", figures, asked.output)


def measured(folder: Path, row_count: int, segment_count: int) -> dict[str, Any]:
    """Return the milliseconds of each query over so many segments, and DuckDB's."""
    rows = _spread(EditStream(row_count).table(), segment_count)
    table = projseg.Table.create(
        folder / "t",
        SCHEMA,
        time_column="time",
        segment_granularity="hour",
        projections=_PROJECTIONS,
    )
    table.append(rows)
    command = [
        sys.executable,
        "-m",
        "projseg.benchmarks.small_segments",
        "--ask",
        str(folder / "t"),
    ]
    done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - our own
    found = json.loads(done.stdout)
    with duckdb.connect(str(folder / "edits.duckdb")) as peer:
        peer.execute("CREATE TABLE edits AS SELECT * FROM rows")
        for name, (_, query) in _QUERIES.items():
            turn = take_turn(partial(_peers_answer, peer, query))
            found[name]["duckdb"] = round(turn.milliseconds, 3)
    return {"segments": len(table.snapshot.segments), "queries": found}


def ask(location: Path) -> dict[str, dict[str, float]]:
    """Return the milliseconds of planning, of the first answer and of later ones, by query."""
    table = projseg.Table(location)
    return {name: _timed(table, question) for name, (question, _) in _QUERIES.items()}


def _peers_answer(peer: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return peer.sql(query).to_arrow_table()


def _timed(table: projseg.Table, question: dict[str, Any]) -> dict[str, float]:
    started = time.perf_counter()
    table.explain(**question)
    planned = time.perf_counter()
    table.query(**question)
    answered = time.perf_counter()
    for thread in threading.enumerate():
        if thread.name == "projseg-numba":  # a process loads it once, beside its queries
            thread.join()
    turn = take_turn(lambda: table.query(**question))
    return {
        "plan": round((planned - started) * 1000, 3),
        "first": round((answered - planned) * 1000, 3),
        "again": round(turn.milliseconds, 3),
    }


def _spread(edits: pa.Table, hours: int) -> pa.Table:
    """Return the edits with their times stretched over so many hours."""
    times = edits["time"].cast(pa.int64()).to_numpy()
    stretched = START_US + ((times - START_US) * (hours * _HOUR_US / SPAN_US)).astype(np.int64)
    field = SCHEMA.field("time")
    return edits.set_column(0, field, pa.array(stretched).cast(field.type))


if __name__ == "__main__":
    main()
