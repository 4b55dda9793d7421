"""Measure what a table meets in its years: projections for old segments, and small segments.

    python -m projseg.benchmarks.table_life [--output results.json]

makes tables of generated edits in a temporary folder, prints and keeps what was measured:

- two projections added to a table of 60 segments, built in one day and then in all, beside writing
  the table anew with them;
- many micro-batches, and a load whose tasks each held rows of all days, before and after `compact`.

After each step the answers of the same queries must be the same as before it, and base bytes that
are said to be copied are compared.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.generator import SCHEMA, SPAN_US, START_US, EditStream
from projseg.benchmarks.publish import publish
from projseg.benchmarks.turn import take_turn
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT
from projseg.segment_format.layout.footer import BASE_TABLE
from projseg.table_layer.metadata.listed_file import open_uncached

DAY_US: Final = 86_400_000_000
HOURLY: Final = projseg.Projection(
    "hourly",
    ["date_trunc('HOUR', time) AS hour", "channel", "robot"],
    ["sum(added) AS added", "count(*) AS edits", "hll_sketch_agg(user) AS users"],
)
BY_COUNTRY: Final = projseg.Projection(
    "by_country",
    ["country", "device"],
    ["sum(added) AS added", "sum(deleted) AS deleted", "count(*) AS edits"],
)
QUERIES: Final[dict[str, dict[str, Any]]] = {
    "by channel": {
        "group_by": "channel",
        "aggregators": "sum(added) AS added, approx_count_distinct(user) AS users",
        "order_by": "channel",
    },
    "one day by country": {
        "group_by": "country",
        "aggregators": "sum(deleted) AS deleted",
        "interval": "2015-09-03/P1D",
        "order_by": "country",
    },
    "rows of one page": {
        "columns": "time, page, added",
        "filter": "page = 'Ala Ala' AND added > 100",
        "order_by": "time, added",
    },
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the table of 60 segments")
    parser.add_argument("--batches", type=int, default=500, help="micro-batches")
    parser.add_argument("--tasks", type=int, default=200, help="tasks of the scattered load")
    parser.add_argument("--days", type=int, default=47, help="days that each task has rows of")
    parser.add_argument("--rows-a-segment", type=int, default=400)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            "projections": projections_added(Path(folder) / "a", asked.rows),
            "micro-batches": compacted(
                Path(folder) / "b",
                _micro_batches(asked.batches, asked.rows_a_segment),
            ),
            "scattered": compacted(
                Path(folder) / "c", _scattered(asked.tasks, asked.days, asked.rows_a_segment)
            ),
        }
    publish("python -m projseg.benchmarks.table_life", cases, asked.output)


def projections_added(folder: Path, row_count: int) -> dict[str, Any]:
    """Add two projections to a table of half-day segments: one day, then all; then write anew."""
    options: dict[str, Any] = {
        "time_column": "time",
        "segment_granularity": "PT12H",
        "cluster_by": ["channel"],
    }
    rows = EditStream(row_count)
    table = projseg.Table.create(folder / "t", SCHEMA, **options)
    with _measured() as loading:
        table.append(rows.reader())
    wanted, base = _answers(table), _base_parts(table)
    for projection in (HOURLY, BY_COUNTRY):
        table.add_projection(projection)
    steps = []
    for name, interval in (("one day", "2015-09-03/P1D"), ("all", None)):
        with _measured() as spent:
            made = table.materialize_projection(interval=interval)
        _require_same(wanted, _answers(table), name)
        stats = table.projection_stats().select(["projection", "built", "missing", "base_share"])
        steps.append({"step": name, "segments": made.segments, **spent, "stats": stats.to_pylist()})
    after = _base_parts(table)
    with _measured() as anew:
        again = projseg.Table.create(
            folder / "again", SCHEMA, projections=[HOURLY, BY_COUNTRY], **options
        )
        again.append(rows.reader())
    with _measured() as generating:
        for _ in rows.batches():
            pass
    shutil.rmtree(folder)
    return {
        "rows": row_count,
        "segments": len(table.snapshot.segments),
        "load without projections": loading,
        "steps": steps,
        "base columns compared": len(base),
        "base columns with other bytes": sum(base[key] != after[key] for key in base),
        "load with projections": anew,
        "of each load, generating rows": generating,
    }


def compacted(folder: Path, batches: Iterator[pa.Table]) -> dict[str, Any]:
    """Append batches, each by a commit of its own, and compact."""
    table = projseg.Table.create(
        folder,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        cluster_by=["channel"],
        projections=[HOURLY, BY_COUNTRY],
    )
    with _measured() as loading:
        for batch in batches:
            table.append(batch)
    wanted, before = _answers(table), _asked(table)
    segments = len(table.snapshot.segments)
    bytes_before = table.snapshot.data_bytes
    with _measured() as spent:
        made = table.compact()
    _require_same(wanted, _answers(table), "compact")
    result = {
        "rows": table.snapshot.row_count,
        "segments before": segments,
        "segments after": len(table.snapshot.segments),
        "bytes before": bytes_before,
        "bytes after": table.snapshot.data_bytes,
        "append": loading,
        "compact": {**spent, "rows": made.rows},
        "milliseconds before": before,
        "milliseconds after": _asked(table),
    }
    shutil.rmtree(folder)
    return result


def _micro_batches(count: int, rows_a_batch: int) -> Iterator[pa.Table]:
    """Yield batches in the order of time, over the stream's 30 days."""
    rows = EditStream(count * rows_a_batch).table()
    for start in range(0, len(rows), rows_a_batch):
        yield rows.slice(start, rows_a_batch)


def _scattered(tasks: int, days: int, rows_a_segment: int) -> Iterator[pa.Table]:
    """Yield what each task of `df.repartition(tasks).write` holds: rows of all days."""
    rows = EditStream(tasks * days * rows_a_segment).table()
    times = np.asarray(rows.column("time").cast(pa.int64()))
    spread = START_US + (times - START_US) * days // (SPAN_US // DAY_US)
    rows = rows.set_column(
        0, SCHEMA.field("time"), pa.array(spread).cast(SCHEMA.field("time").type)
    )
    for task in range(tasks):
        yield rows.take(np.arange(task, len(rows), tasks))


def _answers(table: projseg.Table) -> dict[str, pa.Table]:
    return {name: table.query(**query) for name, query in QUERIES.items()}


def _require_same(wanted: dict[str, pa.Table], found: dict[str, pa.Table], step: str) -> None:
    for name, answer in wanted.items():
        if not found[name].equals(answer):
            raise InvalidInputError(
                "PROJSEG_INTERNAL", f"after step '{step}' query '{name}' has another answer"
            )


def _asked(table: projseg.Table) -> dict[str, dict[str, float]]:
    """Return the milliseconds of each query: with nothing cached, and asked again."""
    milliseconds = {}
    for name, query in QUERIES.items():
        ask = partial(table.query, **query)
        KEPT.clear()
        start = time.perf_counter()
        ask()
        cold = time.perf_counter() - start
        milliseconds[name] = {
            "cold": round(cold * 1000, 1),
            "warm": round(take_turn(ask).milliseconds, 1),
        }
    return milliseconds


def _base_parts(table: projseg.Table) -> dict[tuple[int | None, str], list[bytes]]:
    """Return the stored bytes of each base column of each segment, by its time and its name."""
    parts = {}
    for entry in table.snapshot.segments:
        segment = open_uncached(table.snapshot.storage, entry)
        for column in segment.table(BASE_TABLE).columns:
            records = segment.directory(BASE_TABLE, "base", column.name).records
            parts[entry.min_time_us, column.name] = [
                segment.read(int(record["file_offset"]), int(record["stored_bytes"]))
                for record in records
            ]
    return parts


@contextmanager
def _measured() -> Iterator[dict[str, float]]:
    """Yield a dict that gets the seconds of the clock and of the processor."""
    spent: dict[str, float] = {}
    start, processor = time.perf_counter(), time.process_time()
    yield spent
    spent["seconds"] = round(time.perf_counter() - start, 2)
    spent["processor_seconds"] = round(time.process_time() - processor, 2)


if __name__ == "__main__":
    main()
