"""What each source of a plan reads, planned or measured, and about how many groups it makes."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.planning.source_plan import (
    SourceChoice,
    SourcePlan,
    columns_read,
)
from projseg.algebra.planning.why_not import Reason
from projseg.algebra.time.interval import Interval, micros_to_iso
from projseg.memory.metrics import ReadFigures, SourceKind
from projseg.reader.answer import answer
from projseg.reader.open_sources import (
    listed_projection,
    open_source,
    rows_to_read,
    source_row_count,
)
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.plan.version_facts import column_bytes
from projseg.reader.plan.whole_table import WholeTable
from projseg.reader.row_scan import scan_table
from projseg.reader.run_plan import run_partial
from projseg.reader.selection import postings_used, select_rows
from projseg.table_layer.metadata.segment_entry import ColumnZone, SegmentEntry
from projseg.table_layer.storage.storage_contract import Storage

BASE_ROWS: Final = "base"
"""What base rows are called where sources are named."""
FOREIGN_ROWS: Final = "foreign"
"""The name of base rows that are in foreign files."""
_INTERVALS_KEPT: Final = 4096


class SourceRead(msgspec.Struct, frozen=True):
    """One source of one segment: what is read of it, and why each other source is not used.

    `source` is a projection's name, None for base rows, `foreign` for rows in a foreign file
    (`file`), or `metadata`. `interval` is the time that it answers for, None for the whole segment.
    Bytes are the stored bytes of the columns touched, in proportion to rows; rows and bytes count
    deleted rows that are subtracted from a projection's. `cost`, by which planning chose, is about
    a nanosecond of one processor each.
    """

    segment: str
    interval: str | None
    source: str | None
    row_count: int
    byte_count: int
    rejected: Mapping[str, Reason]
    cost: int = 0
    milliseconds: float | None = None
    file: str | None = None

    @property
    def name(self) -> str:
        """The file that rows are read of, as a person knows it."""
        return self.segment if self.file is None else self.file


def planned_reads(plan: QueryPlan) -> Iterator[SourceRead]:
    """Yield the expected figures of every source of a plan."""
    for segment in plan.segments:
        for source in segment.choice.plans:
            yield _planned(plan, segment, source)


def read_figures(plan: QueryPlan) -> ReadFigures:
    """Return the expected figures of a plan; they are computed once."""
    found: ReadFigures | None = vars(plan).get("_read_figures")
    if found is None:
        kinds, rows, byte_count = Counter[SourceKind](), 0, 0
        several = plan.segments
        if is_stated := isinstance(several, WholeTable):
            kinds["metadata"] = several.listed_count
        for segment, source in () if is_stated else _single_reads(plan):
            kinds[_kind(source)] += 1
            own_rows, own_bytes = _rows_and_bytes(plan, segment.entry, source)
            rows, byte_count = rows + own_rows, byte_count + own_bytes
        found = ReadFigures(kinds, rows, byte_count)
        vars(plan)["_read_figures"] = found
    return found


def _kind(source: SourcePlan) -> SourceKind:
    if source.source is None:
        return "metadata" if source.is_metadata else "base"
    return "view" if source.source.name.startswith("view:") else "projection"


class PlanFigures(msgspec.Struct, frozen=True):
    """Figures of a plan, known before it runs: the rows and bytes that it reads and returns.

    Metadata proves that pruned segments hold no matching row; indexes left out some of these.
    Metadata alone answers for segments that are not opened. Bytes are stored bytes of the columns
    that the query touches.
    """

    segments: int
    pruned_segments: int
    rows: int
    bytes: int
    rows_returned_max: int
    opened_segments: int = 0
    index_pruned_segments: int = 0


def plan_figures(plan: QueryPlan, reads: Sequence[SourceRead]) -> PlanFigures:
    """Return the figures of a plan, whose reads are `planned_reads` or were measured."""
    query = plan.query
    rows = sum(read.row_count for read in reads)
    is_total = not query.keys and not query.is_row_scan
    returned = 1 if is_total else rows
    return PlanFigures(
        segments=len(plan.segments),
        pruned_segments=plan.pruned_count,
        rows=rows,
        bytes=sum(read.byte_count for read in reads),
        rows_returned_max=returned if query.limit is None else min(returned, query.limit),
        opened_segments=sum(
            not all(source.is_metadata for source in segment.choice.plans)
            for segment in plan.segments
        ),
        index_pruned_segments=plan.index_pruned_count,
    )


def returned_bytes(plan: QueryPlan) -> int:
    """Return the stored bytes of the columns that are returned, without those of conditions."""
    return sum(
        _rows_and_bytes(plan, segment.entry, replace(source, filter=None, interval=None))[1]
        for segment, source in _single_reads(plan)
    )


def run_and_measure(storage: Storage, plan: QueryPlan) -> tuple[list[SourceRead], float]:
    """Run a plan; return each source's read, timed alone, and the whole query's milliseconds."""
    start = time.perf_counter()
    answer(storage, plan)
    total = (time.perf_counter() - start) * 1000
    return [_measured(storage, plan, read) for read in _single_reads(plan)], total


def false_segments(storage: Storage, plan: QueryPlan) -> int:
    """Return how many segments of a plan are opened and hold no row that it wants."""
    return sum(
        all(_is_without_rows(storage, plan, segment, source) for source in segment.choice.plans)
        for segment in plan.segments
    )


def postings_segments(storage: Storage, plan: QueryPlan) -> Counter[str]:
    """Return how many segments' postings name values, by the hash of their definition."""
    found: Counter[str] = Counter()
    for segment in plan.segments if plan.query.context.uses_postings else ():
        used: set[str] = set()
        for source in segment.choice.plans:
            if not source.is_metadata and source.filter is not None:
                opened = open_source(storage, segment.entry, source, plan.schema)
                used |= postings_used(opened, source.filter)
        found.update(used)
    return found


def _is_without_rows(
    storage: Storage, plan: QueryPlan, segment: SegmentPlan, source: SourcePlan
) -> bool:
    if source.is_metadata or (source.filter is None and source.interval is None):
        return False
    rows = select_rows(
        open_source(storage, segment.entry, source, plan.schema),
        rows_to_read(segment.entry, source),
        condition=source.filter,
        interval=source.interval,
        time_column=source.time_column,
        uses_postings=plan.query.context.uses_postings,
    ).compact()
    return len(rows) == 0


def _single_reads(plan: QueryPlan) -> Iterator[tuple[SegmentPlan, SourcePlan]]:
    for segment in plan.segments:
        for source in segment.choice.plans:
            yield segment, source


def _measured(
    storage: Storage, plan: QueryPlan, read: tuple[SegmentPlan, SourcePlan]
) -> SourceRead:
    segment, source = read
    alone = replace(segment, choice=replace(segment.choice, plans=(source,)))
    start = time.perf_counter()
    if plan.query.is_row_scan:
        scan_table(storage, replace(plan, segments=(alone,)))
    else:
        run_partial(storage, plan, (alone,), threads=1)
    took = (time.perf_counter() - start) * 1000
    return replace(_planned(plan, segment, source), milliseconds=took)


def _planned(plan: QueryPlan, segment: SegmentPlan, source: SourcePlan) -> SourceRead:
    row_count, byte_count = _rows_and_bytes(plan, segment.entry, source)
    foreign = segment.entry.foreign
    is_foreign = foreign is not None and source.source is None and not source.is_metadata
    return SourceRead(
        segment=segment.entry.file,
        file=foreign.path if foreign is not None and is_foreign else None,
        interval=_interval(segment.entry, source.interval),
        source=FOREIGN_ROWS if is_foreign else source.source_name,
        row_count=row_count,
        byte_count=byte_count,
        rejected=_rejected(segment.choice),
        cost=source.cost,
    )


def _rejected(choice: SourceChoice) -> Mapping[str, Reason]:
    if choice.base_rejected is None:
        return choice.rejected
    return {BASE_ROWS: choice.base_rejected, **choice.rejected}


def _rows_and_bytes(plan: QueryPlan, entry: SegmentEntry, source: SourcePlan) -> tuple[int, int]:
    """Return how many rows of a source are read, and the stored bytes of what is read of them."""
    if source.is_metadata:
        return 0, 0
    held = source_row_count(entry, source)
    rows = min(source.row_count or held, held)
    names, states = columns_read(plan.query, source)
    stored = _stored_bytes(plan, entry, source, names | states)
    byte_count = int(stored * rows / max(held, 1))
    if (taken := source.subtracted_rows) is None:
        return rows, byte_count
    feeds = taken.rows.feeds[: len(plan.query.primitives)]
    deleted = _rows_and_bytes(plan, entry, replace(taken.rows, feeds=feeds))
    return rows + deleted[0], byte_count + deleted[1]


def _interval(entry: SegmentEntry, interval: Interval | None) -> str | None:
    if interval is not None:
        return str(interval)
    if entry.interval is None:
        return None
    return _written(*entry.interval)


@lru_cache(maxsize=_INTERVALS_KEPT)
def _written(start: int, end: int) -> str:
    return f"{micros_to_iso(start)}/{micros_to_iso(end)}"


def _stored_bytes(
    plan: QueryPlan, entry: SegmentEntry, source: SourcePlan, names: Iterable[str]
) -> int:
    listed = listed_projection(entry, source)
    if source.source is None or listed is None:
        zones = (plan.schema.zone(entry, name) for name in names)
        return sum(zone.bytes for zone in zones if zone is not None)
    sizes = column_bytes(listed, source.source)
    return sum(sizes.get(name, 0) for name in names)


GROUPS_SHARE_MAX: Final = 0.5
"""Groups before a join pay if they are at most this share of the rows of their segments."""


def is_reducing(plan: QueryPlan) -> bool:
    """Return whether a plan's groups are few enough, against the rows that they stand for."""
    return _estimated_groups(plan) <= GROUPS_SHARE_MAX * plan.row_count


def _estimated_groups(plan: QueryPlan) -> int:
    """Return about how many groups the sources of a plan give, each by itself.

    A source gives at most as many as it has rows, and as its key columns have different values
    between their bounds. Conditions that name values of a column (`=` and `IN`) keep as many of
    those rows as they name of its possible values, if values are about equally frequent.
    """
    zones = {segment.entry.file: plan.schema.zones(segment.entry) for segment in plan.segments}
    named = _values_named(plan.query.conditions)
    keys = {column for key in plan.query.keys for column in key.expression.columns}
    types = {field.name: field.type for field in plan.schema}
    total = 0
    for read in planned_reads(plan):
        spans = {
            name: _span(zones[read.segment].get(name), types[name]) for name in keys | set(named)
        }
        kept = {name: min(count, spans[name]) for name, count in named.items()}
        shares = (count / spans[name] for name, count in kept.items() if spans[name] < math.inf)
        rows = read.row_count * math.prod(shares)
        values = math.prod(kept.get(name, spans[name]) for name in keys)
        total += math.ceil(min(rows, values))
    return total


def _span(zone: ColumnZone | None, type_: pa.DataType) -> float:
    """Return how many values, null among them, a column of a segment has at most."""
    if zone is None:  # a column added later: null in all rows
        return 1.0
    is_whole = pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_boolean(type_)
    if is_whole and isinstance(zone.min, int) and isinstance(zone.max, int):
        return float(zone.max - zone.min + 1 + bool(zone.null_count))
    return math.inf


def _values_named(conditions: Iterable[Expression]) -> Mapping[str, int]:
    """Return how many values each column may have by conditions that list them."""
    named: dict[str, int] = {}
    for condition in conditions:
        if not isinstance(condition, Call) or condition.function not in ("=", "in"):
            continue
        column, *values = condition.arguments
        if isinstance(column, Column) and all(isinstance(one, Literal) for one in values):
            named[column.name] = min(len(values), named.get(column.name, len(values)))
    return named
