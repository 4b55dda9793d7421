"""How long choosing sources takes, for many segments and for many projections.

Times are processor time of this process, so that a busy machine changes them little; segments exist
as planning facts only, no file is read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.planning.planner import Planner
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.segment_facts import ColumnFacts, ProjectionFacts, SegmentFacts
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.benchmarks.runner.scenario import Bench, Scenario
from projseg.segment_format.layout.logical_types import TIMESTAMP

__all__ = ["PLANNING"]

_SEGMENT_ROWS: Final = 3_000_000
_FIRST_DAY: Final = datetime(2000, 1, 1, 0, 0, 30, tzinfo=UTC)
_DIMENSIONS: Final = ("channel", "page", "user", "country", "robot")
_EDITS: Final = pa.schema(
    [("time", TIMESTAMP), *((name, pa.string()) for name in _DIMENSIONS), ("added", pa.int64())]
)
_WIDE: Final = pa.schema(
    [("time", TIMESTAMP), *((f"c{n}", pa.string()) for n in range(40)), ("added", pa.int64())]
)
_SEGMENT_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "by channel": {"group_by": "channel", "aggregators": "sum(added), count(*)"},
    "filter and interval": {
        "group_by": "date_trunc('DAY', time) AS day, channel",
        "aggregators": "avg(added)",
        "filter": "page > 'B' AND channel > 'c'",
        "interval": "2005-01-01/2025-01-01",
    },
    "ragged interval": {"aggregators": "sum(added)", "interval": "2000-01-05T00:30/P20Y"},
    "days of Los Angeles": {
        "group_by": "date_trunc('DAY', time) AS day",
        "aggregators": "sum(added)",
        "context": {"timezone": "America/Los_Angeles"},
    },
    "count from metadata": {"aggregators": "count(*)"},
}
_WIDE_QUERIES: Final[dict[str, dict[str, Any]]] = {
    "one key": {"group_by": "c7", "aggregators": "sum(added)"},
    "two keys and a filter": {
        "group_by": "c7, c3",
        "aggregators": "sum(added)",
        "filter": "c1 > 'b'",
    },
    "no key, so all fit": {"aggregators": "sum(added)"},
}


def _run(bench: Bench) -> None:
    twenty = [_declared(_EDITS, f"p{n}", _edit_keys(n)) for n in range(20)]
    segments = [_segment(_EDITS, twenty, day) for day in range(bench["segments"])]
    for name, parts in _SEGMENT_QUERIES.items():
        _plan(bench, name, _EDITS, parts, twenty, segments)
    many = [_declared(_WIDE, f"p{n}", _wide_keys(n)) for n in range(bench["projections"])]
    for name, parts in _WIDE_QUERIES.items():
        _plan(bench, name, _WIDE, parts, many, [_segment(_WIDE, many, 0)])


def _declared(schema: pa.Schema, name: str, keys: Sequence[str]) -> ProjectionSpec:
    declaration = {"name": name, "group_by": keys, "aggregators": ["sum(added) s", "count(*) n"]}
    return parse_projection(declaration, schema, time_column="time")


def _edit_keys(number: int) -> list[str]:
    """Return a floor and one to five dimensions, different for each number."""
    unit = "DAY" if number % 2 else "HOUR"
    chosen = [n for i, n in enumerate(_DIMENSIONS) if number >> i & 1 or i == number % 5]
    return [f"date_trunc('{unit}', time) AS floor", *chosen]


def _wide_keys(number: int) -> list[str]:
    """Return a floor and up to three of forty columns."""
    numbers = dict.fromkeys((number * 7 % 40, (number * 13 + 1) % 40, number * 3 // 40 % 40))
    return ["date_trunc('HOUR', time) AS floor", *(f"c{n}" for n in numbers)]


def _segment(schema: pa.Schema, specs: Sequence[ProjectionSpec], day: int) -> SegmentFacts:
    start = _FIRST_DAY + timedelta(days=day)
    end = start + timedelta(hours=23)
    columns = {field.name: ColumnFacts("a", "z") for field in schema}
    columns |= {"time": ColumnFacts(start, end), "added": ColumnFacts(0, 9_000)}
    return SegmentFacts(
        name=f"segment {day}",
        row_count=_SEGMENT_ROWS,
        columns=columns,
        column_bytes=dict.fromkeys(columns, 4 * _SEGMENT_ROWS),
        time_minimum_us=round(start.timestamp()) * 1_000_000,
        time_maximum_us=round(end.timestamp()) * 1_000_000,
        projections=tuple(ProjectionFacts(spec, 9_000, 200_000) for spec in specs),
    )


def _plan(
    bench: Bench,
    name: str,
    schema: pa.Schema,
    parts: Mapping[str, Any],
    specs: Sequence[ProjectionSpec],
    segments: Sequence[SegmentFacts],
) -> None:
    query = bind_query(schema, "time", Query(**parts))
    started = time.process_time()
    planner = Planner(query, specs)
    choices = [planner.choose(segment) for segment in segments]
    milliseconds = (time.process_time() - started) * 1000
    used = Counter(plan.source_name or "base rows" for one in choices for plan in one.plans)
    sources = ", ".join(f"{source} ({count})" for source, count in used.most_common(3))
    case = f"{len(segments):,} segments of {len(specs):,} projections: {name}"
    bench.add("planning", case, "", {"cpu ms": milliseconds, "answered from": sources})


PLANNING: Final = Scenario(
    "planning",
    "How long choosing sources takes, for many segments and for many projections.",
    {"segments": 10_000, "projections": 1000},
    _run,
    {"segments": 20, "projections": 20},
)
