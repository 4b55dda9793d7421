"""The projections that may answer some queries, matched once for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from projseg.algebra.planning.match_facts import SeparatedQuery
from projseg.algebra.planning.match_projections import CandidateGroup
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.segment_facts import SegmentFacts


class MatchedGroup(msgspec.Struct, frozen=True):
    """What segments with the same projections share: those to match, and reasons against others.

    `more_names` has pairs of a projection's name and another that the table gives it.
    """

    candidates: CandidateGroup
    barred: dict[str, Reason]
    more_names: list[tuple[str, str]]

    def by_every_name(self, rejected: Mapping[str, Reason]) -> dict[str, Reason]:
        """Return reasons against projections by every name that the table gives them."""
        more = {other: rejected[name] for name, other in self.more_names if name in rejected}
        return {**rejected, **more}


class SharedMatching:
    """Which projections can answer queries that differ in separable conditions.

    `declared` are the table's current projections: those that a segment lacks are reported. Several
    threads may use one at once.
    """

    def __init__(self, query: SeparatedQuery, declared: Sequence[ProjectionSpec] = ()) -> None:
        self._query = query
        self._declared = tuple(declared)
        self._groups: dict[tuple[str | None, ...], MatchedGroup] = {}

    @property
    def separated_names(self) -> frozenset[str]:
        """The columns of the conditions that the queries may differ in."""
        return self._query.names

    @property
    def has_separated_interval(self) -> bool:
        """Whether the queries may differ in their intervals."""
        return self._query.has_interval

    def group(self, facts: SegmentFacts) -> MatchedGroup:
        """Return the group of segments with the projections of this one."""
        deleted = "deleted" if facts.deleted_row_count and facts.has_base_rows else ""
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
            known = self._groups[key] = MatchedGroup(group, barred, more_names)
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
        """Return the reason in the query context against a projection of these names, or None."""
        context = self._query.rest.context
        if context.no_projections:
            return Reason(ReasonCode.DISABLED, "noProjections is set")
        if not context.exclude_projections.isdisjoint(names):
            return Reason(ReasonCode.EXCLUDED, "excludeProjections names it")
        if context.use_projection not in (None, *names):
            return Reason(ReasonCode.EXCLUDED, f"useProjection names '{context.use_projection}'")
        return None
