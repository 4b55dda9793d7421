"""What a table's metadata costs when it lists a million segments.

A segment of a day's edits is written, and then entries like it are committed, as many a day for ten
years as make the count: their files are not there, but on one day in the last month, whose entries
name copies of the segment. Then each case runs in a process that has read nothing before. Only of a
table of up to 100,000 segments is a query without an interval planned, which looks at every entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

import projseg
from projseg.algebra.time.interval import Interval
from projseg.benchmarks.generator import DAY_US, SCHEMA, EditStream
from projseg.benchmarks.runner.scenario import Bench, measured
from projseg.benchmarks.scenarios.table_life import BY_COUNTRY, HOURLY
from projseg.table_layer.commits import publish as publishing
from projseg.table_layer.commits.publish import CommitLabel, NewManifests, next_file
from projseg.table_layer.commits.rebase import rebase
from projseg.table_layer.metadata.change import Append
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import new_write_id, segment_name, snapshot_name

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


def run(bench: Bench) -> None:
    """Commit entries of many segments, then run each case in a new process."""
    location, count = bench.folder / "edits", bench["segments"]
    table, rows = _one_day(location)
    (template,) = open_snapshot(open_storage(location)).segments
    with measured() as spent:
        for step, entries in enumerate(_commits(template, location, count)):
            _append(location, entries)
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
    if publishing.publish(current.storage, made) is None:
        raise RuntimeError(f"version {made.version} was made by another commit")


def _committed(location: Path, rows: pa.Table) -> dict[str, float]:
    """Append one segment more, as everybody does."""
    before = {path: path.stat().st_size for path in location.glob("_projseg/**/*.json")}
    table = projseg.Table(location)
    with measured() as spent:
        table.append(rows)
    written = set(location.glob("_projseg/**/*.json")) - before.keys()
    return {"s": spent["s"], "metadata bytes": sum(path.stat().st_size for path in written)}
