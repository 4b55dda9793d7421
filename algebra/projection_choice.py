"""Which source answers each segment, and why no other: the cheapest that fits.

`Planner` keeps what depends on the query and on sets of projections, so that a table of many
segments costs little for each; `choose` is the same for one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from projseg.algebra.candidate_group import CandidateGroup, Fitting
from projseg.algebra.expressions.predicates import conjunction, conjuncts
from projseg.algebra.expressions.tree import Expression
from projseg.algebra.filter_simplify import ZoneSets, simplify
from projseg.algebra.forced_projections import check_forced
from projseg.algebra.interval import Interval
from projseg.algebra.interval_cover import Cover, cover, data_interval, is_no_condition, share_of
from projseg.algebra.projection_spec import ProjectionSpec
from projseg.algebra.query_spec import QuerySpec
from projseg.algebra.segment_facts import SegmentFacts
from projseg.algebra.segment_metadata import metadata_plan
from projseg.algebra.source_cost import ReadShape, base_shape
from projseg.algebra.source_plan import AddRows, Choice, Reason, ReasonCode, SourcePlan
from projseg.algebra.stored_names import stored_column
from projseg.algebra.time_bounds import interval_conditions

__all__ = ["Planner", "check_forced", "choose"]

_EMPTY = Choice(())


@dataclass(frozen=True)
class _Offer:
    """A way to answer, its price, and what decides between equal prices."""

    plans: tuple[SourcePlan, ...]
    cost: int
    rank: tuple[int, int, str]
    name: str


class Planner:
    """Chooses sources for one query, segment after segment.

    Parameters
    ----------
    query : QuerySpec
        The query.
    declared : sequence of ProjectionSpec
        The table's present projections, so that those a segment lacks are reported.
    """

    def __init__(self, query: QuerySpec, declared: Sequence[ProjectionSpec] = ()) -> None:
        self._query = query
        self._declared = tuple(declared)
        self._groups: dict[tuple[str, ...], tuple[CandidateGroup, dict[str, Reason]]] = {}
        self._base_shapes: dict[tuple[Expression, ...], ReadShape] = {}

    def choose(self, facts: SegmentFacts) -> Choice:
        """Return what answers the query's part of a segment; without plans if no row can match."""
        query = self._query
        data = data_interval(facts)
        if facts.row_count == 0 or not self._may_overlap(data):
            return _EMPTY
        zones = ZoneSets(facts)
        conditions, is_empty = simplify(query.conditions, zones)
        if is_empty:
            return _EMPTY
        task = _SegmentTask(query, facts, conditions, self._base_shape(conditions), data)
        context = query.context
        if (
            not conditions
            and task.is_whole
            and not context.is_forced
            and not context.no_projections
        ):
            plan = metadata_plan(query, facts)
            if plan is not None:
                return Choice((plan,), self._skipped(facts))
        group, barred = self._group(facts)
        verdicts = group.verdicts(facts, zones, conditions)
        return task.choose(verdicts.fitting, {**barred, **verdicts.rejected})

    def _may_overlap(self, data: Interval | None) -> bool:
        wanted = self._query.interval
        return wanted is None or (data is not None and wanted.overlaps(data))

    def _base_shape(self, conditions: tuple[Expression, ...]) -> ReadShape:
        if conditions not in self._base_shapes:
            self._base_shapes[conditions] = base_shape(self._query, conditions)
        return self._base_shapes[conditions]

    def _skipped(self, facts: SegmentFacts) -> dict[str, Reason]:
        """Return why projections are not read where metadata answers."""
        reason = Reason(ReasonCode.COSTLIER, "than metadata, which is not read")
        _, barred = self._group(facts)
        return {**{stored.spec.name: reason for stored in facts.projections}, **barred}

    def _group(self, facts: SegmentFacts) -> tuple[CandidateGroup, dict[str, Reason]]:
        deleted = "deleted" if facts.deleted_row_count else ""
        key = (deleted, *(stored.spec.definition for stored in facts.projections))
        if facts.not_built:
            key = (*key, *map(str, sorted(facts.not_built.items())))
        if key not in self._groups:
            specs = [stored.spec for stored in facts.projections]
            barred = self._barred(specs, facts)
            allowed = [index for index, spec in enumerate(specs) if spec.name not in barred]
            self._groups[key] = (CandidateGroup(self._query, specs, frozenset(allowed)), barred)
        return self._groups[key]

    def _barred(self, specs: Sequence[ProjectionSpec], facts: SegmentFacts) -> dict[str, Reason]:
        """Return why projections are out before any matching."""
        names = [spec.name for spec in specs]
        absent = [spec.name for spec in self._declared if spec.name not in names]
        barred = {name: Reason(ReasonCode.NOT_IN_SEGMENT) for name in absent}
        for name, why in facts.not_built.items():
            if name not in names:
                barred[name] = Reason(ReasonCode.NOT_IN_SEGMENT, f"not built: {why}")
        for name in (*names, *barred):
            if (reason := self._ban(name)) is not None:
                barred[name] = reason
        if facts.deleted_row_count:
            stale = Reason(ReasonCode.NOT_IN_SEGMENT, "rows were deleted after it was built")
            barred = {**dict.fromkeys(names, stale), **barred}
        return barred

    def _ban(self, name: str) -> Reason | None:
        """Return what the query context has against a projection."""
        context = self._query.context
        if context.no_projections:
            return Reason(ReasonCode.DISABLED, "noProjections is set")
        if name in context.exclude_projections:
            return Reason(ReasonCode.EXCLUDED, "excludeProjections names it")
        if context.use_projection not in (None, name):
            return Reason(ReasonCode.EXCLUDED, f"useProjection names '{context.use_projection}'")
        return None


def choose(
    query: QuerySpec, facts: SegmentFacts, declared: Sequence[ProjectionSpec] = ()
) -> Choice:
    """Return what answers a query on one segment; see `Planner` for many."""
    return Planner(query, declared).choose(facts)


@dataclass(frozen=True)
class _SegmentTask:
    """One segment's part of the query, and the offers for it."""

    query: QuerySpec
    facts: SegmentFacts
    conditions: tuple[Expression, ...]
    base: ReadShape
    data: Interval | None

    @property
    def has_null_time(self) -> bool:
        time = self.facts.columns.get(self.query.time_column or "")
        return time is not None and time.null_count > 0

    @property
    def is_whole(self) -> bool:
        """Whether the interval leaves out no row."""
        return self.is_free(self.query.interval)

    def is_free(self, interval: Interval | None) -> bool:
        """Whether an interval leaves out no row of this segment."""
        return is_no_condition(interval, self.data, has_null_time=self.has_null_time)

    def choose(self, fitting: tuple[Fitting, ...], rejected: dict[str, Reason]) -> Choice:
        """Return the cheapest offer, with the price of the others as their reason."""
        offers = []
        for candidate in fitting:
            offer = self.offer(candidate, fitting)
            if isinstance(offer, Reason):
                rejected[candidate.match.spec.name] = offer
            else:
                offers.append(offer)
        if not (offers and self.query.context.is_forced):
            offers.append(self.base_offer())
        best = min(offers, key=lambda offer: (offer.cost, offer.rank))
        used = {plan.source.name for plan in best.plans if plan.source is not None}
        for offer in offers:
            if offer.name and offer.name not in used:
                text = f"{offer.cost:,} against {best.cost:,}"
                rejected[offer.name] = Reason(ReasonCode.COSTLIER, text)
        return Choice(best.plans, rejected)

    def offer(self, candidate: Fitting, fitting: tuple[Fitting, ...]) -> _Offer | Reason:
        """Return how a projection answers, its ragged edges left to the cheapest other source."""
        spec = candidate.match.spec
        found = self.cover_of(candidate, self.query.interval)
        if isinstance(found, Reason):
            return found
        plans = [self.projection_plan(candidate, found)]
        plans += [self.edge_plan(edge, fitting) for edge in found.edges]
        cost = sum(plan.cost for plan in plans)
        time = spec.time_grouping
        fineness = _COARSEST if time is None else -time.granularity.length_micros
        rank = (fineness, len(spec.grouping), spec.name)
        return _Offer(tuple(plans), cost, rank, spec.name)

    def cover_of(self, candidate: Fitting, interval: Interval | None) -> Cover | Reason:
        spec = candidate.match.spec
        return cover(spec, interval, self.data, has_null_time=self.has_null_time)

    def edge_plan(self, edge: Interval, fitting: tuple[Fitting, ...]) -> SourcePlan:
        """Return the cheapest plan for an edge: base rows, or a projection of finer buckets."""
        plans = [self.base_plan(edge)]
        for candidate in fitting:
            found = self.cover_of(candidate, edge)
            if isinstance(found, Cover) and not found.edges and found.buckets is not None:
                plans.append(self.projection_plan(candidate, found))
        return min(plans, key=lambda plan: (plan.cost, plan.source_name or ""))

    def projection_plan(self, candidate: Fitting, found: Cover) -> SourcePlan:
        match = candidate.match
        stored = self.facts.projections[candidate.index]
        share = 1.0 if self.data is None else found.share(self.data)
        cost = candidate.shape.cost(
            stored.row_count,
            stored.column_bytes,
            stored.byte_count,
            share,
            self.facts.row_count,
        )
        plan = SourcePlan(
            source=match.spec,
            keys=match.keys,
            feeds=match.feeds,
            filter=match.filter,
            row_count=round(stored.row_count * share),
            cost=cost,
        )
        return plan if found.buckets is None else _within(plan, match.spec, found.buckets)

    def base_offer(self) -> _Offer:
        plan = self.base_plan(self.query.interval)
        return _Offer((plan,), plan.cost, (1, 0, ""), "")

    def base_plan(self, interval: Interval | None) -> SourcePlan:
        query, facts = self.query, self.facts
        share = 1.0
        if interval is not None and self.data is not None:
            share = share_of(interval, self.data)
        is_free = self.is_free(interval)
        cost = self.base.cost(
            facts.row_count, facts.column_bytes, sum(facts.column_bytes.values()), share
        )
        return SourcePlan(
            source=None,
            keys=tuple(n.expression for n in (query.columns if query.is_row_scan else query.keys)),
            feeds=tuple(AddRows(p.arguments, p.filter) for p in query.primitives),
            filter=conjunction(self.conditions),
            interval=None if is_free else interval,
            time_column=None if is_free else query.time_column,
            row_count=round(facts.row_count * share),
            cost=cost,
        )


_COARSEST = -(1 << 62)


def _within(plan: SourcePlan, spec: ProjectionSpec, buckets: Interval) -> SourcePlan:
    """Return the plan restricted to buckets; by its filter where time is kept as a date."""
    time = spec.time_grouping
    assert time is not None
    column = stored_column(spec.grouping[time.index].expression)
    if pa.types.is_timestamp(column.type):
        return replace(plan, interval=buckets, time_column=column.name)
    conditions = (*conjuncts(plan.filter), *interval_conditions(buckets, column))
    return replace(plan, filter=conjunction(conditions))
