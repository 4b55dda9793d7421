"""Choose the cheapest source that can answer a query on each segment, with reasons against others.

`Planner` keeps what depends only on the query and on sets of projections, so that each of many
segments costs little; `choose` plans a single segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from projseg.algebra.expressions.tree import Expression
from projseg.algebra.planning.candidate_group import CandidateGroup
from projseg.algebra.planning.forced_projections import check_forced
from projseg.algebra.planning.interval_cover import data_interval
from projseg.algebra.planning.segment_metadata import metadata_plan
from projseg.algebra.planning.segment_offers import BaseRows, SegmentOffers
from projseg.algebra.planning.source_cost import base_shape
from projseg.algebra.planning.source_plan import (
    Reason,
    ReasonCode,
    SourceChoice,
    SourcePlan,
)
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_simplify import ZoneSets, simplify
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.spec import QuerySpec
from projseg.algebra.time.interval import Interval

__all__ = ["Planner", "check_forced", "choose"]

_EMPTY = SourceChoice(())
_COSTLIER_THAN_METADATA = Reason(ReasonCode.COSTLIER, "than metadata, which is not read")


class _Group(msgspec.Struct, frozen=True):
    """What segments with the same projections share: those to match, and reasons against others.

    Parameters
    ----------
    candidates : CandidateGroup
        The projections to match.
    barred : dict of str to Reason
        Reasons that are known before matching.
    more_names : list of (str, str)
        A projection's name and another that the table gives it.
    """

    candidates: CandidateGroup
    barred: dict[str, Reason]
    more_names: list[tuple[str, str]]

    def by_every_name(self, rejected: Mapping[str, Reason]) -> dict[str, Reason]:
        """Return reasons against projections by every name that the table gives them."""
        more = {other: rejected[name] for name, other in self.more_names if name in rejected}
        return {**rejected, **more}


class Planner:
    """Chooses sources for one query, segment after segment.

    Parameters
    ----------
    query : QuerySpec
        The query.
    declared : sequence of ProjectionSpec
        The table's current projections; those that a segment lacks are reported.
    """

    def __init__(self, query: QuerySpec, declared: Sequence[ProjectionSpec] = ()) -> None:
        self._query = query
        self._declared = tuple(declared)
        self._groups: dict[tuple[str, ...], _Group] = {}
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
        context, group = query.context, self._group(facts)
        may_be_metadata = not conditions and offers.is_whole
        if may_be_metadata and not context.is_forced and not context.no_projections:
            plan = metadata_plan(query, facts, zones)
            if plan is not None:
                rejected = _costlier_than_metadata(group, facts, zones)
                return SourceChoice((plan,), rejected, _COSTLIER_THAN_METADATA)
        verdicts = group.candidates.verdicts(facts, zones, conditions)
        choice = offers.cheapest(verdicts.fitting, {**group.barred, **verdicts.rejected})
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

    def _group(self, facts: SegmentFacts) -> _Group:
        deleted = "deleted" if facts.deleted_row_count else ""
        specs = [stored.spec for stored in facts.projections]
        key = (deleted, *[t for one in specs for t in (one.table_name, one.as_stored.definition)])
        if facts.not_built:
            key = (*key, *map(str, sorted(facts.not_built.items())))
        known = self._groups.get(key)
        if known is None:
            barred = self._barred(specs, facts)
            allowed = [index for index, spec in enumerate(specs) if spec.name not in barred]
            group = CandidateGroup(
                self._query, specs, frozenset(allowed), has_deleted_rows=bool(deleted)
            )
            more_names = [(spec.name, other) for spec in specs for other in spec.other_names]
            known = self._groups[key] = _Group(group, barred, more_names)
        return known

    def _barred(self, specs: Sequence[ProjectionSpec], facts: SegmentFacts) -> dict[str, Reason]:
        """Return the reasons against projections that are known before matching."""
        names = {name: spec for spec in specs for name in spec.names}
        absent = [spec.name for spec in self._declared if spec.name not in names]
        barred = {name: Reason(ReasonCode.NOT_IN_SEGMENT) for name in absent}
        for name, why in facts.not_built.items():
            if name not in names:
                barred[name] = Reason(ReasonCode.NOT_IN_SEGMENT, f"not built: {why}")
        for name in barred:
            if (reason := self._ban((name,))) is not None:
                barred[name] = reason
        for spec in specs:
            if (reason := self._ban(spec.names)) is not None:
                barred[spec.name] = reason
            elif spec.changed_zones:
                barred[spec.name] = Reason(
                    ReasonCode.TIME_ZONE_RULES, ", ".join(spec.changed_zones)
                )
        return barred

    def _ban(self, names: tuple[str, ...]) -> Reason | None:
        """Return the reason in the query context against what has these names; None without one."""
        context = self._query.context
        if context.no_projections:
            return Reason(ReasonCode.DISABLED, "noProjections is set")
        if not context.exclude_projections.isdisjoint(names):
            return Reason(ReasonCode.EXCLUDED, "excludeProjections names it")
        if context.use_projection not in (None, *names):
            return Reason(ReasonCode.EXCLUDED, f"useProjection names '{context.use_projection}'")
        return None


def _costlier_than_metadata(
    group: _Group, facts: SegmentFacts, zones: ZoneSets
) -> Mapping[str, Reason]:
    """Return the reasons where metadata answers; what could not answer either has its own."""
    verdicts = group.candidates.verdicts(facts, zones, ())
    able = [fitting.match.spec.name for fitting in verdicts.fitting]
    found = dict.fromkeys(able, _COSTLIER_THAN_METADATA)
    return group.by_every_name({**found, **group.barred, **verdicts.rejected})


def choose(
    query: QuerySpec, facts: SegmentFacts, declared: Sequence[ProjectionSpec] = ()
) -> SourceChoice:
    """Return what answers a query on one segment; see `Planner` for many."""
    return Planner(query, declared).choose(facts)
