"""Compare the ways to answer a query on one segment, and plan the cheapest."""

from __future__ import annotations

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.expressions.canonical import conjunction, conjuncts
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.match_facts import filled_plan, with_constants
from projseg.algebra.planning.match_projections import Fitting
from projseg.algebra.planning.partial_match import (
    Cover,
    cover,
    cover_by_bounds,
    covers_all_rows,
    not_true,
    share_of,
)
from projseg.algebra.planning.projection_feeds import counts_values, sum_by_columns
from projseg.algebra.planning.sorted_rows import page_share, sorted_cost, time_cost
from projseg.algebra.planning.source_cost import ReadShape
from projseg.algebra.planning.source_plan import (
    AddRows,
    Feed,
    FoldSeveral,
    Reversal,
    SourceChoice,
    SourcePlan,
    SubtractedRows,
)
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec, TimeGrouping
from projseg.algebra.proofs.exact_values import has_exact_sum
from projseg.algebra.proofs.filter_proofs import ZoneSets
from projseg.algebra.proofs.predicate_truth import cut_micros, interval_conditions, truth_of
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval
from projseg.memory.forks import cached_property
from projseg.segment_format.format_limits import PAGE_ROWS_MAX

_EVERYTHING = Cover(None)


class BaseRows(msgspec.Struct, frozen=True):
    """How base rows answer a query, in all segments that leave the same part of its filter.

    Keys are grouping columns, or what a row scan reads; of each primitive, a feed adds rows, and
    `sums` has `sum_by_columns`.
    """

    shape: ReadShape
    keys: tuple[Expression, ...]
    feeds: tuple[AddRows, ...]
    filter: Expression | None
    sums: tuple[FoldSeveral | None, ...]

    @classmethod
    def of(cls, query: QuerySpec, conditions: tuple[Expression, ...], shape: ReadShape) -> BaseRows:
        """Return how base rows answer a query whose filter has `conditions` left."""
        feeds = tuple(AddRows(p.arguments, p.filter) for p in query.primitives)
        return cls(
            shape,
            keys=query.scanned or tuple(named.expression for named in query.keys),
            feeds=feeds,
            filter=conjunction(conditions),
            sums=tuple(map(sum_by_columns, query.primitives, feeds)),
        )


class SegmentOffers:
    """The ways to answer a query on one segment that may have a matching row.

    `data` is its `data_interval`, `zones` the values that terms can have in it.
    """

    def __init__(
        self,
        query: QuerySpec,
        facts: SegmentFacts,
        base: BaseRows,
        data: Interval | None,
        zones: ZoneSets,
    ) -> None:
        self._query = query
        self._facts = facts
        self._base = base
        self._data = data
        self._zones = zones
        self._edge_plans: dict[Interval, SourcePlan] = {}
        self._covers: dict[TimeGrouping | None, Cover | Reason] = {}
        self.is_whole = self._covers_all(query.interval)

    @cached_property
    def _has_null_time(self) -> bool:
        time = self._facts.columns.get(self._query.time_column or "")
        return time is not None and time.null_count > 0

    def _covers_all(self, interval: Interval | None) -> bool:
        """Whether an interval leaves out no row of this segment."""
        return interval is None or covers_all_rows(
            interval, self._data, has_null_time=self._has_null_time
        )

    def cheapest(self, fitting: tuple[Fitting, ...], rejected: dict[str, Reason]) -> SourceChoice:
        """Return the plans of the cheapest source, with their cost as the reason against others.

        Projections of `fitting` can answer if their buckets cover the interval; reasons are added
        to `rejected`.
        """
        offers = []
        for candidate in fitting:
            if candidate.match.part is not None and not self._facts.has_base_rows:
                continue  # the reason against the whole is known
            found = self._cover(candidate)
            if isinstance(found, Cover) and found.edges and self._query.is_row_scan:
                found = Reason(ReasonCode.UNALIGNED_INTERVAL, "rows are of one source, in order")
            has_edges = isinstance(found, Cover) and bool(found.edges)
            if has_edges and not self._facts.has_base_rows:
                found = Reason(ReasonCode.UNALIGNED_INTERVAL, "there are no rows for its edges")
            if isinstance(found, Reason):
                rejected[candidate.match.spec.name] = found
            else:
                own = self._cost(candidate, found)
                cost = own + sum(p.cost for p in self._other_plans(candidate, found, fitting))
                offers.append((cost, candidate.rank, candidate, found, own))
        best = min(offers, key=lambda offer: offer[:2]) if offers else None
        base_cost = self._base_cost(self._query.interval)
        is_forced = self._query.context.is_forced or not self._facts.has_base_rows
        if best is None or (base_cost < best[0] and not is_forced):
            _explain(offers, base_cost, set(), rejected)
            return SourceChoice((self._base_plan(self._query.interval),), rejected)
        cost, _, candidate, found, own = best
        plans = [self._projection_plan(candidate, found, own)]
        plans += self._other_plans(candidate, found, fitting)
        used = {plan.source_name for plan in plans}
        _explain(offers, cost, used, rejected)
        is_base_out = not is_forced and None not in used
        base_rejected = _costlier(base_cost, cost) if is_base_out else None
        return SourceChoice(tuple(plans), rejected, base_rejected)

    def _cover(self, candidate: Fitting) -> Cover | Reason:
        if self.is_whole:
            return _EVERYTHING
        time = candidate.match.spec.time_grouping
        if time not in self._covers:
            self._covers[time] = self._cover_of(time, self._query.interval)
        found = self._covers[time]
        if isinstance(found, Cover) and not found.edges:
            return found
        by_bounds = cover_by_bounds(
            candidate.match.bounds, self._fulfilled, has_null_time=self._has_null_time
        )
        return found if by_bounds is None else by_bounds

    @cached_property
    def _fulfilled(self) -> tuple[bool, ...]:
        """Of each of the query's bounds, whether every time in the segment fulfils it."""
        data, interval = self._data, self._query.interval
        if data is None or interval is None:
            return (False,) * len(self._query.bounds)
        sides = {
            ">=": interval.start_us <= data.start_us,
            "<": data.end_us <= interval.end_us,
        }
        return tuple(sides[bound.function] for bound in self._query.bounds)

    def _cover_of(self, time: TimeGrouping | None, interval: Interval | None) -> Cover | Reason:
        return cover(time, interval, self._data, has_null_time=self._has_null_time)

    def _share(self, found: Cover) -> float:
        return 1.0 if self._data is None else found.share(self._data)

    def _cost(self, candidate: Fitting, found: Cover) -> int:
        stored, spec = self._facts.projections[candidate.index], candidate.match.spec
        share = self._share(found)
        pages = page_share(candidate.match, self._facts, share) if spec.holds_rows else 1.0
        cost = 0 if found.buckets is None else time_cost(spec, stored, pages)
        if spec.holds_rows:
            return cost + sorted_cost(
                candidate.shape,
                stored,
                pages,
                share,
                needs_row_numbers=candidate.needs_row_numbers,
                is_put_back=self._query.is_row_scan,
            )
        if candidate.reversal is not None:
            cost += self._deleted_cost(found.buckets)
        return cost + candidate.shape.cost(
            stored.row_count,
            stored.column_bytes,
            stored.byte_count,
            share,
            self._facts.row_count,
        )

    def _other_plans(
        self, candidate: Fitting, found: Cover, fitting: tuple[Fitting, ...]
    ) -> list[SourcePlan]:
        """Return the plans for rows that a projection does not answer for."""
        plans = [self._edge_plan(edge, fitting) for edge in found.edges]
        rest = self._rest_plan(candidate, found)
        return plans if rest is None else [*plans, rest]

    def _rest_plan(self, candidate: Fitting, found: Cover) -> SourcePlan | None:
        """Return the plan for base rows outside the part that a projection answers for."""
        part = candidate.match.part
        if part is None or candidate.rest is None:
            return None
        plan = self._base_plan(self._query.interval if found.buckets is None else found.buckets)
        condition = conjunction((*conjuncts(plan.filter), not_true(part)))
        examined = plan.row_count / max(self._facts.row_count, 1)
        kept = examined * candidate.rest.selectivity
        if (share := self._share_of_time(condition)) is not None:
            kept = min(examined, share)
            examined = min(examined, share + PAGE_ROWS_MAX / max(self._facts.row_count, 1))
        facts = self._facts
        cost = candidate.rest.cost_of_sorted(
            facts.row_count,
            facts.column_bytes,
            sum(facts.column_bytes.values()),
            examined=examined,
            kept=kept,
        )
        row_count = round(facts.row_count * examined)
        return replace(plan, filter=condition, row_count=row_count, cost=cost)

    def _share_of_time(self, condition: Expression | None) -> float | None:
        """Return the share of the segment's time that fulfils a condition; None for other ones."""
        truth = None if condition is None else truth_of(condition)
        column = None if truth is None else truth.term
        if truth is None or self._data is None or not isinstance(column, Column):
            return None
        if column.name != self._query.time_column:
            return None
        cuts = [cut_micros(cut, column.type) for cut in truth.true.cuts]
        ranges = zip(cuts[::2], cuts[1::2], strict=True)
        return sum(share_of(Interval(*ends), self._data) for ends in ranges)

    def _edge_plan(self, edge: Interval, fitting: tuple[Fitting, ...]) -> SourcePlan:
        """Return the cheapest plan for an edge: base rows, or a projection of finer buckets."""
        if edge not in self._edge_plans:
            plans = [self._base_plan(edge)]
            for candidate in fitting:
                if candidate.match.part is not None:
                    continue
                found = self._cover_of(candidate.match.spec.time_grouping, edge)
                if isinstance(found, Cover) and not found.edges:
                    cost = self._cost(candidate, found)
                    plans.append(self._projection_plan(candidate, found, cost))
            self._edge_plans[edge] = min(plans, key=lambda p: (p.cost, p.source_name or ""))
        return self._edge_plans[edge]

    def _projection_plan(self, candidate: Fitting, found: Cover, cost: int) -> SourcePlan:
        match = candidate.match
        stored = self._facts.projections[candidate.index]
        reversal = candidate.reversal
        share = self._share(found)
        if match.spec.holds_rows:
            share = page_share(match, self._facts, share)
        plan = SourcePlan(
            source=match.spec,
            keys=match.keys,
            feeds=match.feeds,
            filter=conjunction((*conjuncts(match.filter), *found.bounds))
            if found.bounds
            else match.filter,
            present=match.present,
            row_count=round(stored.row_count * share),
            cost=cost,
            needs_row_numbers=candidate.needs_row_numbers,
            subtracted_rows=None
            if reversal is None
            else self._subtracted_rows(reversal, found, match.part),
        )
        if candidate.has_places:
            plan = filled_plan(plan, self._zones)
        return plan if found.buckets is None else _within(plan, match.spec, found.buckets)

    def _subtracted_rows(
        self, reversal: Reversal, found: Cover, part: Expression | None
    ) -> SubtractedRows:
        """Return the plan of the deleted rows among those that the projection answers for."""
        buckets = found.buckets if found.bounds is None else self._query.interval
        rows = replace(
            self._base_plan(buckets),
            feeds=tuple(AddRows(p.arguments, p.filter) for p in reversal.primitives),
            filter=conjunction((*conjuncts(self._base.filter), *conjuncts(part))),
            row_count=round(self._facts.deleted_row_count * self._base_share(buckets)),
            cost=self._deleted_cost(buckets),
        )
        if buckets is not None:
            rows = replace(rows, interval=buckets, time_column=self._query.time_column)
        return SubtractedRows(rows, reversal)

    def _deleted_cost(self, buckets: Interval | None) -> int:
        """Return the cost of reading the deleted rows, each perhaps in a page of its own."""
        facts = self._facts
        share = min(1.0, facts.deleted_row_count * PAGE_ROWS_MAX / facts.row_count)
        column_bytes = {name: round(size * share) for name, size in facts.column_bytes.items()}
        byte_count = sum(column_bytes.values())
        return self._base.shape.cost(
            facts.deleted_row_count, column_bytes, byte_count, self._base_share(buckets)
        )

    def _base_share(self, interval: Interval | None) -> float:
        return 1.0 if interval is None or self._data is None else share_of(interval, self._data)

    def _base_cost(self, interval: Interval | None) -> int:
        facts = self._facts
        byte_count = sum(facts.column_bytes.values())
        share = self._base_share(interval)
        return self._base.shape.cost(facts.row_count, facts.column_bytes, byte_count, share)

    @cached_property
    def _base_keys(self) -> tuple[Expression, ...]:
        """The query's keys over base columns; those that have one value here are constants."""
        if self._query.is_row_scan:
            return self._base.keys
        return tuple(with_constants(key, self._zones) for key in self._base.keys)

    @cached_property
    def _base_feeds(self) -> tuple[Feed, ...]:
        """How base rows are folded: as sums of columns where that is exact."""
        return tuple(
            feed if sums is None or not self._is_sum_of_columns(feed.arguments[0]) else sums
            for feed, sums in zip(self._base.feeds, self._base.sums, strict=True)
        )

    def _is_sum_of_columns(self, argument: Expression) -> bool:
        columns = [node for node in argument.walk() if isinstance(node, Column)]
        adds_up = counts_values(argument) or not any(self._zones.of(c).has_null for c in columns)
        return adds_up and has_exact_sum(argument, self._zones, self._facts.row_count)

    def _base_plan(self, interval: Interval | None) -> SourcePlan:
        covers_all = self._covers_all(interval)
        return SourcePlan(
            source=None,
            keys=self._base_keys,
            feeds=self._base_feeds,
            filter=self._base.filter,
            interval=None if covers_all else interval,
            time_column=None if covers_all else self._query.time_column,
            row_count=round(self._facts.row_count * self._base_share(interval)),
            cost=self._base_cost(interval),
        )


_Offer = tuple[int, tuple[int, int, str], Fitting, Cover, int]


def _explain(
    offers: list[_Offer], best_cost: int, used: set[str | None], rejected: dict[str, Reason]
) -> None:
    """Add to `rejected` what the projections that are not used would have cost."""
    for cost, _, candidate, *_ in offers:
        name = candidate.match.spec.name
        if name in used:
            rejected.pop(name, None)
        elif candidate.match.part is None:  # of a part, the reason against the whole says more
            rejected[name] = _costlier(cost, best_cost)


def _costlier(cost: int, best_cost: int) -> Reason:
    return Reason(ReasonCode.COSTLIER, f"{cost:,} against {best_cost:,}")


def _within(plan: SourcePlan, spec: ProjectionSpec, buckets: Interval) -> SourcePlan:
    """Return the plan restricted to buckets: by an interval, or by a filter if time is a date."""
    time = spec.time_grouping
    assert time is not None
    column = stored_column(spec.grouping[time.index].expression)
    if pa.types.is_timestamp(column.type):
        return replace(plan, interval=buckets, time_column=column.name)
    conditions = (*conjuncts(plan.filter), *interval_conditions(buckets, column))
    return replace(plan, filter=conjunction(conditions))
