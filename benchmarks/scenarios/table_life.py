"""What a table meets in its years: projections for old segments, small segments, deletes.

After each step the answers of the same queries must be the same as before it, and base bytes that
are said to be copied are compared.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.generator import DAY_US, SCHEMA, EditStream
from projseg.benchmarks.peers.engine import stored_bytes
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.runner.scenario import Bench, measured
from projseg.benchmarks.runner.turn import take_turn
from projseg.benchmarks.workloads.written import EDITS
from projseg.memory.cache import KEPT
from projseg.segment_format.footer import BASE_TABLE
from projseg.spark_engine.warehouse import set_properties
from projseg.table_layer.commits.footer_match import open_uncached
from projseg.table_layer.metadata.known_properties import MAX_DELETED_RATIO

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
_ONE_DAY: Final = "2015-09-03/P1D"
_LIFE: Final[dict[str, dict[str, Any]]] = {
    "by channel": {
        "group_by": "channel",
        "aggregators": "sum(added) AS added, approx_count_distinct(user) AS users",
        "order_by": "channel",
    },
    "one day by country": {
        "group_by": "country",
        "aggregators": "sum(deleted) AS deleted",
        "interval": _ONE_DAY,
        "order_by": "country",
    },
    "rows of one page": {
        "columns": "time, page, added",
        "filter": "page = 'Ala Ala' AND added > 100",
        "order_by": "time, added",
    },
}
_OF_EDITS: Final = {query.name: query_arguments(query) for query in EDITS.queries[:8]}
_ONE_IN_A_HUNDRED: Final = "unix_seconds(time) % 100 = 37"


def late_projections(bench: Bench) -> None:
    """Add two projections to a table of half-day segments: one day, then all; then write anew."""
    options: dict[str, Any] = {"segment_granularity": "PT12H", "cluster_by": ["channel"]}
    rows = EditStream(bench["rows"])
    table = _made(bench.folder / "t", **options)
    with bench.timed("steps", "load without projections"):
        table.append(rows.reader())
    wanted, base = _answers(table, _LIFE), _base_parts(table)
    for projection in (HOURLY, BY_COUNTRY):
        table.add_projection(projection)
    for name, interval in (("one day", _ONE_DAY), ("all", None)):
        with bench.timed("steps", f"projections of {name}") as values:
            values["segments"] = table.materialize_projection(interval=interval).segments
        bench.require_same(wanted, _answers(table, _LIFE), f"projections of {name}")
    changed = [key for key, parts in _base_parts(table).items() if parts != base[key]]
    bench.problems += [f"differs: base bytes of {column}" for _, column in changed]
    with bench.timed("steps", "load with projections"):
        again = _made(bench.folder / "again", projections=[HOURLY, BY_COUNTRY], **options)
        again.append(rows.reader())
    with bench.timed("steps", "of each load, generating rows"):
        for _ in rows.batches():
            pass


def compaction(bench: Bench) -> None:
    """Append micro-batches, or tasks that each hold rows of all days, and compact."""
    size, days = bench["rows_a_segment"], bench["days"]
    few = EditStream(bench["batches"] * size).table()
    batches = (few.slice(start, size) for start in range(0, len(few), size))
    _compacted(bench, "micro-batches", batches)
    rows = EditStream(bench["tasks"] * days * size, span_us=days * DAY_US).table()
    tasks = (rows.take(np.arange(n, len(rows), bench["tasks"])) for n in range(bench["tasks"]))
    _compacted(bench, "scattered", tasks)


def _compacted(bench: Bench, name: str, batches: Iterator[pa.Table]) -> None:
    table = _made(
        bench.folder / name,
        segment_granularity="day",
        cluster_by=["channel"],
        projections=[HOURLY, BY_COUNTRY],
    )
    with bench.timed("steps", f"{name}: append") as values:
        for batch in batches:
            table.append(batch)
        values |= _size(table)
    wanted = _answers(table, _LIFE)
    _ask(bench, table, _LIFE, f"{name}, before")
    with bench.timed("steps", f"{name}: compact") as values:
        table.compact()
        values |= _size(table)
    bench.require_same(wanted, _answers(table, _LIFE), f"compaction of {name}")
    _ask(bench, table, _LIFE, f"{name}, after")


def scattered_delete(bench: Bench) -> None:
    """Delete one row of a hundred from all segments: by vectors, and by writing segments anew."""
    table = _made(
        bench.folder / "t",
        segment_granularity="day",
        cluster_by=["channel"],
        projections=declared(EDITS.projections),
    )
    table.append(EditStream(bench["rows"]).reader())
    _ask(bench, table, _OF_EDITS, "before")
    shutil.copytree(bench.folder / "t", bench.folder / "anew")
    anew = projseg.Table(str(bench.folder / "anew"))
    set_properties(anew, {MAX_DELETED_RATIO: "0"})
    for name, one in (("delete by vectors", table), ("delete by writing anew", anew)):
        KEPT.clear()
        bytes_before = stored_bytes(Path(one.location))
        with measured() as spent:
            done = one.delete(_ONE_IN_A_HUNDRED)
        spent |= {
            "deleted rows": done.deleted_rows,
            "masked segments": done.masked_segments,
            "written segments": done.added_segments,
            "written bytes": stored_bytes(Path(one.location)) - bytes_before,
        }
        bench.add("steps", name, "", spent)
    _ask(bench, table, _OF_EDITS, "after")
    wanted = _answers(table, _OF_EDITS)
    with bench.timed("steps", "compact"):
        table.compact()
    bench.require_same(wanted, _answers(table, _OF_EDITS), "compaction")
    _ask(bench, table, _OF_EDITS, "after compaction")


def _made(folder: Path, **options: Any) -> projseg.Table:
    return projseg.Table.create(folder, SCHEMA, time_column="time", **options)


def _size(table: projseg.Table) -> dict[str, int]:
    snapshot = table.snapshot
    return {"segments": len(snapshot.segments), "stored bytes": snapshot.data_bytes}


def _answers(table: projseg.Table, queries: Mapping[str, Any]) -> dict[str, pa.Table]:
    return {name: table.query(**query) for name, query in queries.items()}


def _ask(bench: Bench, table: projseg.Table, queries: Mapping[str, Any], way: str) -> None:
    """Time each query with nothing cached, and asked again."""
    for name, query in queries.items():
        ask = partial(table.query, **query)
        KEPT.clear()
        with measured() as cold:
            ask()
        sources = ", ".join(f"{one} ({n})" for one, n in table.explain(**query).sources.items())
        values = {
            "ms": take_turn(ask).milliseconds,
            "cold ms": cold["s"] * 1000,
            "answered from": sources,
        }
        bench.add("queries", name, way, values)


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
