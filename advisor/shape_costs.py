"""What shapes cost, by the planner that answers: as the table is, and as if it stored more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import ProjsegError
from projseg.maintenance.sampled_segments import ProjectionSizes
from projseg.reader.plan.query_plan import QueryPlan, WiderSources, plan_query
from projseg.reader.plan.what_if import HypotheticalSnapshot
from projseg.reader.plan_figures import BASE_ROWS
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot

_ENTRIES_MAX: Final = 32
_OPENING: Final = 15_000
"""Nanoseconds for each segment that is read, whatever is read of it."""


class ShapeCost(msgspec.Struct, frozen=True):
    """A plan's cost, and what it reads.

    Parameters
    ----------
    cost : int
        About nanoseconds of one processor, over the segments that were planned.
    sources : dict of str to int
        Segments by source.
    reasons : dict of str to str
        Codes of reasons against the others, where base rows are read.
    """

    cost: int
    sources: dict[str, int]
    reasons: dict[str, str]

    @property
    def source(self) -> str:
        """The source that most segments answer from."""
        return max(self.sources, key=lambda name: self.sources[name], default="metadata")


class Planning:
    """Plans queries over some segments of a version.

    Parameters
    ----------
    snapshot : Snapshot
        The version.
    wider : WiderSources or None
        Its views.
    """

    def __init__(self, snapshot: Snapshot, wider: WiderSources | None = None) -> None:
        self.snapshot = snapshot
        self._wider = wider
        self._entries = list(snapshot.segments)
        self._chosen: dict[int, tuple[QuerySpec, Sequence[SegmentEntry]]] = {}

    def cost(
        self,
        query: QuerySpec,
        added: Sequence[ProjectionSizes] = (),
        without: Collection[str] = (),
    ) -> ShapeCost | None:
        """Return what a query costs as if projections were there and others not; None: it fails."""
        snapshot = self.snapshot
        if added or without:
            snapshot = HypotheticalSnapshot(snapshot, added, without)
        return self.cost_over(snapshot, query)

    def cost_over(self, snapshot: Snapshot, query: QuerySpec) -> ShapeCost | None:
        """Return what a query costs over a version, or one as if."""
        try:
            if self._wider is not None:
                plan = plan_query(snapshot, query, wider=self._wider)
            else:
                plan = plan_query(snapshot, query, self._entries_for(query))
        except ProjsegError:
            return None
        return _cost_of(plan)

    def _entries_for(self, query: QuerySpec) -> Sequence[SegmentEntry]:
        """Return the segments of a query's interval, or some of them if they are many."""
        if id(query) not in self._chosen:
            interval = query.interval
            within = [
                one
                for one in self._entries
                if interval is None
                or one.min_time_us is None
                or one.max_time_us is None
                or (one.min_time_us < interval.end_us and one.max_time_us >= interval.start_us)
            ]
            step = max(len(within) // _ENTRIES_MAX, 1)
            self._chosen[id(query)] = query, within[::step]
        return self._chosen[id(query)][1]


def _cost_of(plan: QueryPlan) -> ShapeCost:
    cost = 0
    sources: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for segment in plan.segments:
        for source in segment.choice.plans:
            name = source.source_name or BASE_ROWS
            sources[name] = sources.get(name, 0) + 1
            cost += source.cost + (0 if source.is_metadata else _OPENING)
            if source.is_base:
                rejected = segment.choice.rejected
                reasons |= {name: str(reason.code) for name, reason in rejected.items()}
    return ShapeCost(cost, sources, reasons)


def without_steering(query: QuerySpec) -> QuerySpec:
    """Return a query that any source may answer."""
    context = query.context
    return replace(query, context=type(context)(timezone=context.timezone))
