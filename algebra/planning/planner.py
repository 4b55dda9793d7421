"""Choose the cheapest source that can answer a query on each segment, with reasons against others.

`Planner` keeps what depends only on the query and on sets of projections, so that each of many
segments costs little; `choose` plans a single segment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Extreme, Primitive
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.choose_source import BaseRows, SegmentOffers
from projseg.algebra.planning.match_facts import SeparatedQuery
from projseg.algebra.planning.partial_match import data_interval
from projseg.algebra.planning.shared_matching import MatchedGroup, SharedMatching
from projseg.algebra.planning.source_cost import ReadShape, base_shape
from projseg.algebra.planning.source_plan import Known, SourceChoice, SourcePlan
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.renamed_projection import mentioned_columns
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_proofs import ZoneSets, outcomes, simplify
from projseg.algebra.proofs.segment_facts import ColumnFacts, SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, ProjectionNotUsableError, did_you_mean
from projseg.memory.forks import cached_property

_SEGMENTS_SHOWN: Final = 3


def check_forced(query: QuerySpec, choices: Mapping[str, SourceChoice]) -> None:
    """Raise if the query context asks for projections and a segment is read without one.

    Segments that need not be read are ignored.
    """
    context = query.context
    if not context.is_forced:
        return
    failed = {
        name: choice
        for name, choice in choices.items()
        if not choice.is_empty and choice.projection is None
    }
    if not failed:
        return
    what, hint = "Force projections specified, but none satisfy query", ""
    if context.use_projection is not None:
        what = f"Projection[{context.use_projection}] specified, but does not satisfy query"
        known = {name for choice in failed.values() for name in choice.rejected}
        hint = (
            "" if context.use_projection in known else did_you_mean(context.use_projection, known)
        )
    shown = "; ".join(_explained(*item, context.use_projection) for item in _first(failed))
    more = len(failed) - _SEGMENTS_SHOWN
    tail = f"; and {more} more segments" if more > 0 else ""
    raise ProjectionNotUsableError("PROJSEG_PROJECTION_NOT_USABLE", f"{what}: {shown}{tail}{hint}")


def check_excluded(query: QuerySpec, known: Iterable[str]) -> None:
    """Raise if `excludeProjections` names something that is not a projection of the table.

    `known` are all projections that the table declares or its segments hold.
    """
    if not query.context.exclude_projections:
        return
    names = sorted(set(known))
    for name in sorted(query.context.exclude_projections.difference(names)):
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"excludeProjections names '{name}'{did_you_mean(name, names)}; the table's "
            f"projections are {', '.join(names) or 'none'}",
        )


def _first(failed: Mapping[str, SourceChoice]) -> list[tuple[str, SourceChoice]]:
    return list(failed.items())[:_SEGMENTS_SHOWN]


def _explained(segment: str, choice: SourceChoice, wanted: str | None) -> str:
    reasons = choice.rejected
    if wanted is not None:
        found = reasons.get(wanted)
        return f"segment {segment}: {'NOT_IN_SEGMENT' if found is None else found}"
    listed = ", ".join(f"{name} {reason}" for name, reason in sorted(reasons.items()))
    return f"segment {segment}: {listed or 'it holds no projection'}"


def _metadata_plan(query: QuerySpec, facts: SegmentFacts, zones: ZoneSets) -> SourcePlan | None:
    """Return the plan that takes every primitive from metadata; None if one is not exact there.

    Each key must have one value in the segment, and some row must be left to have it. The caller
    has checked that no filter and no interval leaves out a row of the segment.
    """
    if query.is_row_scan or (query.keys and facts.deleted_row_count >= facts.row_count):
        return None
    feeds = []
    for primitive in query.primitives:
        feed = _known_value(primitive, facts, zones)
        if feed is None:
            return None
        feeds.append(feed)
    keys = [zones.constant(named.expression) for named in query.keys]
    known = tuple(key for key in keys if key is not None)
    if len(known) < len(keys):
        return None
    return SourcePlan(source=None, keys=known, feeds=tuple(feeds), is_metadata=True)


def _known_value(primitive: Primitive, facts: SegmentFacts, zones: ZoneSets) -> Known | None:
    kind = primitive.kind
    if not kind.counts and kind.extreme is None:
        return None
    if primitive.filter is not None:
        found = outcomes(primitive.filter, zones)
        if not found.true:
            return Known(0 if kind.counts else None)
        if not found.is_always_true:
            return None
    if not primitive.arguments:
        return Known(facts.row_count - facts.deleted_row_count)
    column = primitive.arguments[0]
    if not isinstance(column, Column) or len(primitive.arguments) > 1:
        return None
    return _known_of_column(kind.extreme, facts.columns.get(column.name), facts)


def _known_of_column(
    extreme: Extreme | None, values: ColumnFacts | None, facts: SegmentFacts
) -> Known | None:
    """Return an extreme of a column, or the count of its values.

    A column that the segment lacks is null in all rows.

    Of the rows that are left where some are deleted, neither the nulls nor the extremes are known.
    """
    if values is not None and not values.is_known:
        return None
    if values is None or values.null_count == facts.row_count:
        return Known(0 if extreme is None else None)
    if facts.deleted_row_count and (extreme is not None or values.null_count):
        return None
    if extreme is None:
        return Known(facts.row_count - facts.deleted_row_count - values.null_count)
    return _extreme(extreme, values)


def _extreme(extreme: Extreme, values: ColumnFacts) -> Known | None:
    """Return the exact extreme, NaN being the largest value."""
    if not values.is_exact:
        return None
    if values.has_nan and (extreme is Extreme.GREATEST or values.minimum is None):
        return Known(math.nan)
    value = values.minimum if extreme is Extreme.LEAST else values.maximum
    return None if value is None else Known(value)


__all__ = ["Planner", "check_forced", "choose"]

_EMPTY = SourceChoice(())
_OF_EXPRESSIONS = (
    ReasonCode.MISSING_GROUPING_COLUMN,
    ReasonCode.MISSING_VIRTUAL_COLUMN,
    ReasonCode.GRANULARITY_TOO_COARSE,
    ReasonCode.FILTER_NOT_IMPLIED,
    ReasonCode.FILTER_COLUMN_NOT_STORED,
    ReasonCode.AGGREGATOR_NOT_STORED,
)
_COSTLIER_THAN_METADATA = Reason(ReasonCode.COSTLIER, "than metadata, which is not read")


class Planner:
    """Chooses sources for one query, segment after segment.

    `declared` are the table's current projections: those that a segment lacks are reported.
    """

    def __init__(
        self,
        query: QuerySpec,
        declared: Sequence[ProjectionSpec] = (),
        matching: SharedMatching | None = None,
    ) -> None:
        self._query = query
        self._matching = matching or SharedMatching(SeparatedQuery(query), declared)
        self._base: dict[tuple[Expression, ...], BaseRows] = {}

    def choose(self, facts: SegmentFacts) -> SourceChoice:
        """Return the plans for a segment and the reasons against other sources.

        There are no plans if no row of the segment can match.
        """
        query = self._query
        data = data_interval(facts)
        if facts.row_count == 0 or not self._may_overlap(data):
            return _EMPTY
        zones = ZoneSets(facts)
        conditions, is_empty = simplify(query.conditions, zones)
        if is_empty:
            return _EMPTY
        offers = SegmentOffers(query, facts, self._base_rows(conditions), data, zones)
        context, group = query.context, self._matching.group(facts)
        may_be_metadata = not conditions and offers.is_whole
        if may_be_metadata and not context.is_forced and not context.no_projections:
            plan = _metadata_plan(query, facts, zones)
            if plan is not None:
                reasons = _LateReasons(partial(_costlier_than_metadata, group, facts, query))
                return SourceChoice((plan,), reasons, _COSTLIER_THAN_METADATA)
        verdicts = group.candidates.verdicts(facts, zones, conditions, query.bounds)
        rejected = {**group.barred, **verdicts.rejected}
        if query.declared_casts:
            rejected = _with_declared_types(rejected, facts, query)
        choice = offers.cheapest(verdicts.fitting, rejected)
        if context.use_projection is None and not group.more_names:
            return choice
        plans = tuple(map(self._under_asked_name, choice.plans))
        rejected = group.by_every_name(choice.rejected)
        return replace(choice, plans=plans, rejected=rejected)

    def shape_of_rows(self, facts: SegmentFacts) -> ReadShape:
        """Return the shape of an answer from the base rows of a segment."""
        conditions, _ = simplify(self._query.conditions, ZoneSets(facts))
        return self._base_rows(conditions).shape

    def _under_asked_name(self, plan: SourcePlan) -> SourcePlan:
        """Return a plan whose projection has the name that the query context uses."""
        name, spec = self._query.context.use_projection, plan.source
        if spec is None or name not in spec.other_names:
            return plan
        others = tuple(other for other in spec.names if other != name)
        own = replace(spec, name=name, other_names=others, table_name=spec.stored_name)
        return replace(plan, source=own)

    def _may_overlap(self, data: Interval | None) -> bool:
        wanted = self._query.interval
        return wanted is None or (data is not None and wanted.overlaps(data))

    def _base_rows(self, conditions: tuple[Expression, ...]) -> BaseRows:
        if conditions not in self._base:
            shape = base_shape(self._query, conditions)
            self._base[conditions] = BaseRows.of(self._query, conditions, shape)
        return self._base[conditions]


class _LateReasons(Mapping[str, Reason]):
    """Reasons by projection, found when one is first asked for: answers do not need them."""

    def __init__(self, find: Callable[[], Mapping[str, Reason]]) -> None:
        self._find = find

    @cached_property
    def _reasons(self) -> Mapping[str, Reason]:
        return self._find()

    def __getitem__(self, name: str) -> Reason:
        return self._reasons[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    def __reduce__(self) -> tuple[type[dict[str, Reason]], tuple[Mapping[str, Reason]]]:
        return dict, (self._reasons,)


def _costlier_than_metadata(
    group: MatchedGroup, facts: SegmentFacts, query: QuerySpec
) -> Mapping[str, Reason]:
    """Return the reasons against other sources where metadata answers.

    Sources that cannot answer have their own reasons.
    """
    verdicts = group.candidates.verdicts(facts, ZoneSets(facts), (), query.bounds)
    able = [fitting.match.spec.name for fitting in verdicts.fitting]
    found = dict.fromkeys(able, _COSTLIER_THAN_METADATA)
    return group.by_every_name({**found, **group.barred, **verdicts.rejected})


def _with_declared_types(
    rejected: Mapping[str, Reason], facts: SegmentFacts, query: QuerySpec
) -> dict[str, Reason]:
    """Say DECLARED_TYPE where a projection has a column that the query reads in another type."""
    cast = frozenset[str]().union(*(one.columns for one in query.declared_casts))
    found = dict(rejected)
    for spec in (stored.spec for stored in facts.projections):
        reason = found.get(spec.name)
        if reason is None or reason.code not in _OF_EXPRESSIONS:
            continue
        if any(name in reason.detail for name in mentioned_columns(spec) & cast):
            found[spec.name] = Reason(ReasonCode.DECLARED_TYPE, str(reason))
    return found


def choose(
    query: QuerySpec, facts: SegmentFacts, declared: Sequence[ProjectionSpec] = ()
) -> SourceChoice:
    """Return the choice of sources for a query on one segment; see `Planner` for many."""
    return Planner(query, declared).choose(facts)
