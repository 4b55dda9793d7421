"""What shapes cost, by the planner that answers: as the table is, and as if it stored more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import ProjsegError
from projseg.maintenance.sampled_indexes import IndexSizes
from projseg.maintenance.sampled_segments import ProjectionSizes
from projseg.reader.plan.imagined_indexes import Left, segments_left
from projseg.reader.plan.index_pruning import pruned_by_indexes
from projseg.reader.plan.query_plan import SegmentPlan, WiderSources, plan_query
from projseg.reader.plan.what_if import HypotheticalSnapshot
from projseg.reader.plan_figures import BASE_ROWS
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.imagined_views import ImaginedView, plans_of_parts

Imagined: TypeAlias = ProjectionSizes | IndexSizes | ImaginedView
"""What a table does not store, with the sizes that it would have."""

OPENING: Final = 15_000
"""Nanoseconds for each segment that is read, whatever is read of it."""
_ENTRIES_MAX: Final = 32
_FILTER_WORK: Final = 20_000
"""Nanoseconds for a query whose keys filters are asked about."""


class ShapeCost(msgspec.Struct, frozen=True):
    """A plan's cost, in about nanoseconds of one processor, and what it reads.

    `sources` counts the planned segments by source; where base rows are read, `reasons` has codes
    against the others; `opened` sources are read in all segments; `indexes` has imagined ones that
    leave segments out.
    """

    cost: int
    sources: dict[str, int]
    reasons: dict[str, str]
    opened: float = 0.0
    indexes: frozenset[str] = frozenset()

    @property
    def source(self) -> str:
        """The source that most segments answer from."""
        return max(self.sources, key=lambda name: self.sources[name], default="metadata")

    @property
    def used(self) -> frozenset[str]:
        """The names of all that it reads or asks."""
        return self.indexes | self.sources.keys()


class Planning:
    """Plans queries over some segments of a version and its views.

    `knows_values` says that queries have the values of the log, and none in their place.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        wider: WiderSources | None = None,
        *,
        knows_values: bool = False,
    ) -> None:
        self.snapshot, self._knows_values = snapshot, knows_values
        self._wider = wider
        self._entries = list(snapshot.segments)
        self._chosen: dict[int, tuple[QuerySpec, Sequence[SegmentEntry], float]] = {}

    def cost(
        self,
        query: QuerySpec,
        added: Sequence[Imagined] = (),
        without: Collection[str] = (),
    ) -> ShapeCost | None:
        """Return the cost of a query as if more were there and some projections not.

        None means that it cannot be planned.
        """
        snapshot = self.snapshot
        projections = [one for one in added if isinstance(one, ProjectionSizes)]
        if projections or without:
            snapshot = HypotheticalSnapshot(snapshot, projections, without)
        indexes = [one for one in added if isinstance(one, IndexSizes)]
        try:
            found = self._of_segments(snapshot, query, indexes)
            for one in added:
                if isinstance(one, ImaginedView):
                    found = self._of_view(one, query, found)
        except ProjsegError:
            return None
        return found

    def _of_segments(
        self, snapshot: Snapshot, query: QuerySpec, indexes: Sequence[IndexSizes]
    ) -> ShapeCost:
        entries, scale = self._entries_for(query)
        if self._wider is not None:
            plan, scale = plan_query(snapshot, query, wider=self._wider), 1.0
        else:
            plan = plan_query(snapshot, query, entries)
        left = Left([1.0] * len(plan.segments), ())
        if indexes:
            read = [segment.entry for segment in plan.segments]
            count = round(scale * len(read))
            left = segments_left(
                query, read, indexes, of_how_many=count, knows_values=self._knows_values
            )
        return _cost_of(plan.segments, left, scale)

    def _of_view(self, view: ImaginedView, query: QuerySpec, otherwise: ShapeCost) -> ShapeCost:
        """Return the cost of a query from a view, or another cost if that is less."""
        parts = plans_of_parts(self.snapshot, view, query)
        if parts is None:
            return otherwise
        found = _cost_of(parts, Left([1.0] * len(parts), ()), 1.0)
        sources = {view.name: len(parts)}
        found = replace(found, sources=sources)
        return found if found.cost < otherwise.cost else otherwise

    def _entries_for(self, query: QuerySpec) -> tuple[Sequence[SegmentEntry], float]:
        """Return the segments of a query, or some of them, and for how many each stands."""
        if id(query) not in self._chosen:
            within = self._left_by_indexes(query)
            step = max(len(within) // _ENTRIES_MAX, 1)
            chosen = within[::step]
            self._chosen[id(query)] = query, chosen, len(within) / max(len(chosen), 1)
        return self._chosen[id(query)][1:]

    def _left_by_indexes(self, query: QuerySpec) -> list[SegmentEntry]:
        """Return the segments of a query's interval that the table's own indexes leave."""
        if self.snapshot.properties.declared_indexes:
            pruned = pruned_by_indexes(self.snapshot, query, None)
            if pruned is not None:
                return list(pruned.entries)
        interval = query.interval
        return [
            one
            for one in self._entries
            if interval is None
            or one.min_time_us is None
            or one.max_time_us is None
            or (one.min_time_us < interval.end_us and one.max_time_us >= interval.start_us)
        ]


def _cost_of(segments: Sequence[SegmentPlan], left: Left, scale: float) -> ShapeCost:
    cost = opened = 0.0
    sources: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for segment, share in zip(segments, left.shares, strict=True):
        for source in segment.choice.plans:
            name = source.source_name or BASE_ROWS
            sources[name] = sources.get(name, 0) + 1
            is_opened = not source.is_metadata
            cost += share * (source.cost + is_opened * OPENING)
            opened += share * is_opened
            if source.is_base:
                rejected = segment.choice.rejected
                reasons |= {name: str(reason.code) for name, reason in rejected.items()}
    used = frozenset(use.index for use in left.uses if use.used)
    asking = _FILTER_WORK * len(used)
    return ShapeCost(round(cost * scale + asking), sources, reasons, opened * scale, used)
