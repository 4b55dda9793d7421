"""What a table meets in its years: late projections, small segments, deletes, a million segments.

After each step the answers of the same queries must be the same as before it, and base bytes that
are said to be copied are compared.

Of a million segments: a segment of a day's edits is written, and then entries like it are
committed, as many a day for ten years as make the count: their files are not there, but on one day
in the last month, whose entries name copies of the segment. Then each case runs in a process that
has read nothing before. Only of a table of up to 100,000 segments is a query without an interval
planned, which looks at every entry.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

import projseg
from projseg.algebra.time.interval import Interval
from projseg.benchmarks.bench import Bench, measured
from projseg.benchmarks.generator import DAY_US, SCHEMA, EditStream
from projseg.benchmarks.measuring import take_turn
from projseg.benchmarks.peers.engine import stored_bytes
from projseg.benchmarks.peers.projseg_engine import declared, query_arguments
from projseg.benchmarks.written_workloads import EDITS
from projseg.memory.cache import KEPT
from projseg.segment_format.footer import BASE_TABLE
from projseg.spark_engine.warehouse import set_properties
from projseg.table_layer.commits.footer_match import open_uncached
from projseg.table_layer.commits.publish import CommitLabel, NewManifests, next_file, publish
from projseg.table_layer.commits.rebase import rebase
from projseg.table_layer.metadata.change import Append
from projseg.table_layer.metadata.known_properties import MAX_DELETED_RATIO
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import new_write_id, segment_name, snapshot_name

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

_DAYS: Final = 3653
_DAYS_AFTER: Final = 10  # of the table, after the day that is asked
_COMMIT_SEGMENTS: Final = 4096
_DAY_ROWS: Final = 2_000
_PLANNED_MOST: Final = 100_000
_ASK: Final = """
import json, re, time
started = time.perf_counter()
import projseg
imported = time.perf_counter()
location, interval = {location!r}, {interval!r}
asked = dict(group_by="channel", aggregators="sum(added) AS added", interval=interval)
{code}
done = time.perf_counter()
kilobytes = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(json.dumps([done - imported, kilobytes]))
"""
_CASES: Final = {
    "open": "projseg.Table(location).version",
    "plan one day": "projseg.Table(location).explain(**asked)",
    "answer one day": "assert projseg.Table(location).query(**asked).num_rows > 0",
    "open the tag and plan one day": (
        "projseg.Table(location, tag='month-ago').explain(**{**asked, 'interval': {earlier!r}})"
    ),
    "answer one day again": (
        "table = projseg.Table(location); table.query(**asked)\n"
        "imported = time.perf_counter(); table.query(**{**asked, 'filter': 'robot'})"
    ),
    "plan all": "projseg.Table(location).explain(**{**asked, 'interval': None})",
}


def late_projections(bench: Bench) -> None:
    """Add two projections to a table of half-day segments: one day, then all; then write anew."""
    options: dict[str, Any] = {"segment_granularity": "PT12H", "cluster_by": ["channel"]}
    rows = EditStream(bench["rows"])
    table = _written_table(bench.folder / "t", **options)
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
        again = _written_table(bench.folder / "again", projections=[HOURLY, BY_COUNTRY], **options)
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
    table = _written_table(
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
    table = _written_table(
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


def _written_table(folder: Path, **options: Any) -> projseg.Table:
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


def many_segments(bench: Bench) -> None:
    """Commit entries of many segments, then run each case in a new process."""
    location, count = bench.folder / "edits", bench["segments"]
    table, rows = _one_day(location)
    (template,) = open_snapshot(open_storage(location)).segments
    with measured() as spent:
        for step in _commit_like(template, location, count):
            if (step + 1) * _COMMIT_SEGMENTS <= count * (1 - 31 / _DAYS):
                month_ago = step + 1
    values = {"making s": spent["s"]}
    table.refresh()
    table.tag("month-ago", month_ago)
    values["snapshot bytes"] = (location / snapshot_name(table.version)).stat().st_size
    manifests = location.glob("_projseg/manifests/*")
    values["manifest bytes"] = sum(one.stat().st_size for one in manifests)
    bench.add("metadata", f"{count:,} segments", "", values)
    assert template.interval is not None
    day = template.interval[0]
    asked, earlier = (Interval(one, one + DAY_US) for one in (day, day - 40 * DAY_US))
    for name, code in _CASES.items():
        if name == "plan all" and count > _PLANNED_MOST:
            continue
        text = _ASK.format(
            location=str(location),
            interval=str(asked),
            code=code.replace("{earlier!r}", repr(str(earlier))),
        )
        done = bench.in_new_process(text)
        seconds, kilobytes = done.printed
        figure = {"s": seconds, "s with start": done.seconds, "peak memory": 1024 * kilobytes}
        bench.add("cases", name, "", figure)
    bench.add("cases", "commit one segment", "", _committed(location, rows))


def table_of_segments(location: Path, count: int) -> projseg.Table:
    """Make a table of so many segments in ten years; most of their files are not there."""
    table, _ = _one_day(location)
    (template,) = table.snapshot.segments
    for _ in _commit_like(template, location, count):
        pass
    table.refresh()
    return table


def _commit_like(template: SegmentEntry, location: Path, count: int) -> Iterator[int]:
    """Commit entries like a segment's, and yield the number of each commit."""
    for step, entries in enumerate(_commits(template, location, count)):
        _append(location, entries)
        yield step


def _one_day(location: Path) -> tuple[projseg.Table, pa.Table]:
    """Make the table, with a segment of one day."""
    edits = EditStream(_DAY_ROWS * 30).table()
    first = edits["time"][0].as_py().replace(hour=0, minute=0, second=0, microsecond=0)
    days = pc.floor_temporal(edits["time"], unit="day")
    rows = edits.filter(pc.equal(days, pa.scalar(first, days.type)))
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        projections=[HOURLY, BY_COUNTRY],
    )
    table.append(rows)
    return table, rows


def _commits(
    template: SegmentEntry, location: Path, count: int
) -> Iterator[tuple[str, list[SegmentEntry]]]:
    """Yield write ids with entries, ordered by time; those of the template's day have files."""
    write_id, entries = new_write_id(), list[SegmentEntry]()
    for number in range(count - 1):
        day = (number * _DAYS) // count - (_DAYS - 1 - _DAYS_AFTER)
        name = segment_name(write_id, len(entries), 0, 0)
        if day == 0:
            os.link(location / template.file, location / name)
        entries.append(_moved(template, name, write_id, day * DAY_US))
        if len(entries) == _COMMIT_SEGMENTS:
            yield write_id, entries
            write_id, entries = new_write_id(), []
    if entries:
        yield write_id, entries


def _moved(template: SegmentEntry, name: str, write_id: str, shift_us: int) -> SegmentEntry:
    """Return the entry of a segment like the template, of another day."""
    assert template.interval is not None
    assert template.min_time_us is not None
    assert template.max_time_us is not None
    zone = template.columns["time"]
    moved = replace(zone, min=int(zone.min or 0) + shift_us, max=int(zone.max or 0) + shift_us)
    return replace(
        template,
        file=name,
        write_id=write_id,
        interval=(template.interval[0] + shift_us, template.interval[1] + shift_us),
        min_time_us=template.min_time_us + shift_us,
        max_time_us=template.max_time_us + shift_us,
        columns={**template.columns, "time": moved},
    )


def _append(location: Path, commit: tuple[str, list[SegmentEntry]]) -> None:
    """Publish the next version as a commit does, but that it would look at each file."""
    write_id, entries = commit
    current = open_snapshot(open_storage(location))
    draft = rebase(Append(tuple(entries)), current, ())
    label = CommitLabel(write_id, "append")
    made = next_file(draft, current, current, label, NewManifests([]))
    if publish(current.storage, made) is None:
        raise RuntimeError(f"version {made.version} was made by another commit")


def _committed(location: Path, rows: pa.Table) -> dict[str, float]:
    """Append one segment more, as everybody does."""
    before = {path: path.stat().st_size for path in location.glob("_projseg/**/*.json")}
    table = projseg.Table(location)
    with measured() as spent:
        table.append(rows)
    written = set(location.glob("_projseg/**/*.json")) - before.keys()
    return {"s": spent["s"], "metadata bytes": sum(path.stat().st_size for path in written)}
