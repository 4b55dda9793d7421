"""Counts of rows and the ends of time of a whole table, from manifests as they are.

No entry is decoded, so each of many segments costs little more than its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from msgspec import UNSET

from projseg.algebra.aggregates.primitive import Extreme, Primitive
from projseg.algebra.expressions.tree import Column, is_timestamp, micros_datetime
from projseg.algebra.planning.source_plan import Known, SourcePlan
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.memory.forks import cached_property
from projseg.reader.plan.segment_plan import SegmentPlan
from projseg.table_layer.metadata.manifest import NO_TIME_MAX, NO_TIME_MIN
from projseg.table_layer.metadata.snapshot import Snapshot


class WholeTable(Sequence[SegmentPlan]):
    """All segments of a table, which are planned if somebody looks at one of them.

    `total` is the answer for all of them; `listed_count` is how many are listed.
    """

    def __init__(
        self, total: SourcePlan, listed_count: int, plan: Callable[[], Sequence[SegmentPlan]]
    ) -> None:
        self.total, self.listed_count = total, listed_count
        self._plan = plan

    @cached_property
    def _planned(self) -> tuple[SegmentPlan, ...]:
        return tuple(self._plan())

    def __len__(self) -> int:
        return len(self._planned)

    def __iter__(self) -> Iterator[SegmentPlan]:
        return iter(self._planned)

    @overload
    def __getitem__(self, index: int) -> SegmentPlan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SegmentPlan]: ...
    def __getitem__(self, index: int | slice) -> SegmentPlan | Sequence[SegmentPlan]:
        return self._planned[index]

    def __reduce__(self) -> tuple[type[tuple[SegmentPlan, ...]], tuple[object, ...]]:
        return tuple, (self._planned,)


def stated_total(snapshot: Snapshot, query: QuerySpec) -> SourcePlan | None:
    """Return the answer of a query over all rows that manifests state; None if they do not."""
    context = query.context
    is_narrowed = query.filter is not None or query.interval is not None or bool(query.joins)
    is_grouped = bool(query.keys) or query.grouping_sets is not None or query.is_row_scan
    is_steered = context.is_forced or context.no_projections or bool(context.exclude_projections)
    is_foreign = snapshot.properties.source is not UNSET
    if is_narrowed or is_grouped or is_steered or is_foreign or not len(snapshot.segments):
        return None
    wanted = [_total_of(primitive, query) for primitive in query.primitives]
    if None in wanted or not wanted:
        return None
    reads_time = any(isinstance(one, Extreme) for one in wanted)
    row_count, low, high = 0, NO_TIME_MIN, NO_TIME_MAX
    for manifest in snapshot.load_all():
        if reads_time and manifest.has_deleted_rows:
            return None  # the ends may be of deleted rows
        row_count += manifest.live_row_count
        low = int(manifest.min_times.min(initial=low))
        high = int(manifest.max_times.max(initial=high))
    if reads_time and low <= high and not MIN_MICROS <= low <= high < MAX_MICROS:
        return None  # Python has no such time
    ends = {Extreme.LEAST: low, Extreme.GREATEST: high}
    feeds = []
    for primitive, one in zip(query.primitives, wanted, strict=True):
        value: object = row_count
        if isinstance(one, Extreme):
            is_there = low <= high
            value = micros_datetime(ends[one], primitive.arguments[0].type) if is_there else None
        feeds.append(Known(value))
    return SourcePlan(source=None, keys=(), feeds=tuple(feeds), is_metadata=True)


def _total_of(primitive: Primitive, query: QuerySpec) -> Extreme | int | None:
    """Return which end of time a primitive is, 0 for the count of rows; None if it is another."""
    if primitive.filter is not None:
        return None
    if not primitive.arguments:
        return 0 if primitive.kind.counts else None
    column, *more = primitive.arguments
    is_time = isinstance(column, Column) and column.name == query.time_column
    return primitive.kind.extreme if is_time and not more and is_timestamp(column.type) else None
