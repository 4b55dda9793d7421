"""Choose the cheapest source that can answer a query on each segment, with reasons against others.

`Planner` keeps what depends only on the query and on sets of projections, so that each of many
segments costs little; `choose` plans a single segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from projseg.algebra.expressions.tree import Expression
from projseg.algebra.planning.choose_source import BaseRows, SegmentOffers
from projseg.algebra.planning.forced_projections import check_forced
from projseg.algebra.planning.interval_cover import data_interval
from projseg.algebra.planning.segment_metadata import metadata_plan
from projseg.algebra.planning.separable_conditions import SeparatedQuery
from projseg.algebra.planning.shared_matching import MatchedGroup, SharedMatching
from projseg.algebra.planning.source_cost import base_shape
from projseg.algebra.planning.source_plan import (
    Reason,
    ReasonCode,
    SourceChoice,
    SourcePlan,
)
from projseg.algebra.projection.renamed_projection import mentioned_columns
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_simplify import ZoneSets, simplify
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval

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

    Parameters
    ----------
    query : QuerySpec
        The query.
    declared : sequence of ProjectionSpec
        The table's current projections; those that a segment lacks are reported.
    matching : SharedMatching or None
        What queries like this one have in common; None: of this one alone.
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
            plan = metadata_plan(query, facts, zones)
            if plan is not None:
                rejected = _costlier_than_metadata(group, facts, zones, query)
                return SourceChoice((plan,), rejected, _COSTLIER_THAN_METADATA)
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

    def _under_asked_name(self, plan: SourcePlan) -> SourcePlan:
        """Return a plan whose projection has the name that the query asks for it by."""
        name, spec = self._query.context.use_projection, plan.source
        if spec is None or name not in spec.other_names:
            return plan
        others = tuple(other for other in spec.names if other != name)
        own = replace(
            spec, name=name, other_names=others, table_name=(spec.table_name or spec.name)
        )
        return replace(plan, source=own)

    def _may_overlap(self, data: Interval | None) -> bool:
        wanted = self._query.interval
        return wanted is None or (data is not None and wanted.overlaps(data))

    def _base_rows(self, conditions: tuple[Expression, ...]) -> BaseRows:
        if conditions not in self._base:
            shape = base_shape(self._query, conditions)
            self._base[conditions] = BaseRows.of(self._query, conditions, shape)
        return self._base[conditions]


def _costlier_than_metadata(
    group: MatchedGroup, facts: SegmentFacts, zones: ZoneSets, query: QuerySpec
) -> Mapping[str, Reason]:
    """Return the reasons where metadata answers; what could not answer either has its own."""
    verdicts = group.candidates.verdicts(facts, zones, (), query.bounds)
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
    """Return what answers a query on one segment; see `Planner` for many."""
    return Planner(query, declared).choose(facts)
