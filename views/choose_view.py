"""Answer a query from the parts of a view, and from the segments that it does not stand for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from projseg.algebra.planning.partial_match import share_of
from projseg.algebra.planning.planner import Planner
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.join import refused_join
from projseg.algebra.time.interval import Interval
from projseg.errors import CorruptionError, ProjectionNotUsableError, ProjsegError, without_secrets
from projseg.memory.deadline import check_deadline
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan, WiderVerdict, plan_query
from projseg.reader.plan.version_facts import VersionFacts
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.cover_test import (
    Coverage,
    among,
    coverage,
    covered_names,
    covered_rows,
    times_of_parts,
)
from projseg.views.definitions.definition import view_spec
from projseg.views.nominated_views import SpecsOfParts, listed_views, nominated_views
from projseg.views.part_files import readable
from projseg.views.view_records import GROUPS, ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion, check_names, has_views, open_store

LOGGER: Final = logging.getLogger("projseg.views")

_OPENING_COST: Final = 20_000
"""What a segment costs that is opened, beside what is read of it, in the units of a source's."""
_TRIED_MAX: Final = 64
"""Views that are matched with one query."""
_TRIED_ALWAYS: Final = 3
"""So many are matched even where a smaller one answers alone."""
_REASONS_SHOWN: Final = 3

_CODES: Final = {
    "PROJSEG_NOT_A_STAR": ReasonCode.NOT_A_STAR,
    "PROJSEG_JOIN_KEY_NOT_UNIQUE": ReasonCode.KEY_NOT_UNIQUE,
}


class ViewSources(msgspec.Struct, frozen=True):
    """The views of a table, at a version of its store, as sources that stand for many segments.

    With `for_tasks`, a plan says what its parts stand for: tasks that cannot read one know no
    store.
    """

    store: StoreVersion
    for_tasks: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """The store's version, and the form of plans."""
        return (*self.store.identity, self.for_tasks)

    def plan(self, snapshot: Snapshot, query: QuerySpec) -> QueryPlan | tuple[WiderVerdict, ...]:
        """Return a plan that reads a view, or why none is read."""
        context = query.context
        if not context.allows_views:
            return ()
        try:
            listed = listed_views(self.store).views
        except ProjsegError as error:
            if context.use_view or context.force_views:
                raise
            _warn(self.store, error)
            return ()
        check_names(query, listed, self.store)
        choice = _Choice(snapshot, self, query)
        found = choice.plan()
        if found is None and (context.use_view or context.force_views):
            raise choice.unusable()
        return choice.all_verdicts() if found is None else found


def sources_of(snapshot: Snapshot, *, for_tasks: bool = False) -> ViewSources | None:
    """Return the views of a table at their newest version, or None as `readable_sources` does."""
    if not has_views(snapshot):
        return None
    found = readable_sources(lambda: open_store(snapshot))
    return found and replace(found, for_tasks=for_tasks)


def readable_sources(opened: Callable[[], StoreVersion | None]) -> ViewSources | None:
    """Return a table's views.

    None if there are none, or if they cannot be read, which is then logged.
    """
    try:
        store = opened()
    except ProjsegError as error:
        LOGGER.warning("views cannot be read, and queries are answered without them: %s", error)
        return None
    return None if store is None else ViewSources(store)


def reasons_of_views(tables: Iterable[Snapshot], error: ProjsegError) -> dict[str, Reason]:
    """Return why views, by name, do not answer a statement over several tables that was refused.

    There is a reason for each view that joins two of the tables or more; none for another error.
    """
    why = refused_join(error)
    if error.code not in _CODES or why is None:
        return {}
    by_id = {table.properties.table_id: table for table in tables}
    found: dict[str, Reason] = {}
    for table_id, fact in by_id.items():
        sources = sources_of(fact)
        for view in () if sources is None else listed_views(sources.store).views:
            joined = {one.table_id for one in view.dimensions}
            if view.fact.table_id == table_id and not joined.isdisjoint(by_id):
                found[view.name] = Reason(_CODES[error.code], why)
    return found


class _Answer(msgspec.Struct, frozen=True):
    """How a view answers: from some of its parts, and from segments.

    `used` includes parts without a matching row; parts in `left_out` are valid and cannot answer.
    Segments answer for the times of `edges` and those that no valid part stands for (`uncovered`).
    `saving` is the cost of the segments that are not read.
    """

    view: ViewEntry
    parts: tuple[SegmentPlan, ...]
    used: tuple[ViewPart, ...]
    left_out: tuple[ViewPart, ...]
    saving: float
    edges: tuple[Interval, ...]
    uncovered: tuple[SegmentEntry, ...]

    @property
    def rank(self) -> tuple[float, int, str]:
        """Order among answers: the best first."""
        return (-self.saving, self.view.row_count, self.view.name)

    def is_cheaper_than(self, view: ViewEntry) -> bool:
        """Whether it needs no segment, and the view has no fewer groups and parts."""
        is_alone = not (self.left_out or self.edges or self.uncovered)
        own = self.view
        return is_alone and view.row_count >= own.row_count and view.part_count >= own.part_count


class _Choice:
    """The choice of a view for one query."""

    def __init__(
        self,
        snapshot: Snapshot,
        sources: ViewSources,
        query: QuerySpec,
    ) -> None:
        self._snapshot, self._store, self._query = snapshot, sources.store, query
        self._for_tasks = sources.for_tasks
        self._nominated = nominated_views(sources.store, snapshot, query)
        self.verdicts: dict[str, WiderVerdict] = {}

    def all_verdicts(self) -> tuple[WiderVerdict, ...]:
        """Return the verdict on each view, first on those that were nominated."""
        return (*self.verdicts.values(), *self._nominated.refused)

    def plan(self) -> QueryPlan | None:
        """Return the plan that reads the best view; None if none is to be read."""
        answers: list[_Answer] = []
        for tried, view in enumerate(self._nominated.views):
            check_deadline()
            if tried >= _TRIED_MAX:
                self._refuse(view, Reason(ReasonCode.NOT_TRIED))
            elif tried >= _TRIED_ALWAYS and any(one.is_cheaper_than(view) for one in answers):
                self._refuse(view, Reason(ReasonCode.OTHER_VIEW_CHOSEN))
            elif isinstance(found := self._tried(view), _Answer):
                answers.append(found)
            else:
                self._refuse(view, found)
        is_asked = self._query.context.use_view is not None or self._query.context.force_views
        plan: QueryPlan | None = None
        for answer in sorted(answers, key=lambda one: one.rank):
            if plan is not None:
                self._refuse(answer.view, Reason(ReasonCode.OTHER_VIEW_CHOSEN))
            elif not is_asked and answer.saving <= 0:
                self._refuse(answer.view, Reason(ReasonCode.COSTLIER, "than the segments"))
            else:
                plan = self._planned(answer, is_asked=is_asked)
        return None if plan is None else replace(plan, wider=self.all_verdicts())

    def unusable(self) -> ProjectionNotUsableError:
        """Return the error of a query that asks for views and cannot be answered from one."""
        context = self._query.context
        what = "Force views specified, but none satisfy query"
        if context.use_view is not None:
            what = f"View[{context.use_view}] specified, but does not satisfy query"
        shown = [f"{v.name}: {v.reason}" for v in self.all_verdicts() if v.reason is not None]
        asked = [one for one in shown if one.startswith(f"{context.use_view}:")] or shown
        return ProjectionNotUsableError(
            "PROJSEG_VIEW_NOT_USABLE",
            f"{what}: {'; '.join(asked[:_REASONS_SHOWN]) or 'the table has no view'}",
        )

    def _refuse(self, view: ViewEntry, reason: Reason) -> None:
        self.verdicts[view.name] = WiderVerdict(view.name, 0, 0, 0, reason)

    def _tried(self, view: ViewEntry) -> _Answer | Reason:
        """Return how a view answers, or why it cannot; what is wrong with it harms no query."""
        try:
            return self._matched(view)
        except (CorruptionError, OSError) as error:
            _warn(self._store, error)
            return Reason(ReasonCode.VIEW_BROKEN, str(error))

    def _matched(self, view: ViewEntry) -> _Answer | Reason:
        spec = view_spec(view, self._snapshot.properties)
        if isinstance(spec, str):
            return Reason(ReasonCode.VIEW_BROKEN, spec)
        if spec.changed_zones:
            return Reason(ReasonCode.TIME_ZONE_RULES, ", ".join(spec.changed_zones))
        found = coverage(self._snapshot, self._store, view)
        if not found.valid:
            return Reason(ReasonCode.NOT_COVERED, str(len(found.uncovered)))
        bounds = times_of_parts(self._query.interval, spec, found.valid)
        if isinstance(bounds, Reason):
            return bounds
        return self._planned_parts(view, spec, found, *bounds)

    def _planned_parts(
        self,
        view: ViewEntry,
        spec: ProjectionSpec,
        found: Coverage,
        inner: Interval | None,
        edges: tuple[Interval, ...],
    ) -> _Answer | Reason:
        query, snapshot = self._query, self._snapshot
        planner = Planner(query if not edges else query.among(query.filter, inner))
        others = Planner(query)
        plans: list[SegmentPlan] = []
        used: list[ViewPart] = []
        left_out: list[ViewPart] = []
        reason: Reason | None = None
        saving = 0.0
        facts = VersionFacts(snapshot, known={(GROUPS, view.definition_hash): spec})
        specs = SpecsOfParts(snapshot, view, query)
        for part in found.valid:
            check_deadline()
            entry = readable(part)
            if view.dimensions:
                one = specs.of(part)
                if isinstance(one, Reason):
                    left_out.append(part)
                    reason = reason or one
                    continue
                facts = one
            deleted = part.segment.row_count - part.cover.live_row_count
            known = replace(facts.of(entry), has_base_rows=False, deleted_row_count=deleted)
            choice = planner.choose(known)
            if any(plan.is_base for plan in choice.plans):
                left_out.append(part)
                refused = choice.rejected.get(spec.name)
                reason = reason or specs.reason(part, refused)
                continue
            used.append(part)
            if not choice.is_empty:
                rows = covered_rows(snapshot, self._store, part, inner) if self._for_tasks else None
                plans.append(SegmentPlan(entry, choice, rows))
                saving += self._saving(part, choice.plans, others, facts)
        if not used:
            return reason or Reason(ReasonCode.NOT_COVERED, str(len(found.uncovered)))
        return _Answer(
            view, tuple(plans), tuple(used), tuple(left_out), saving, edges, found.uncovered
        )

    def _saving(
        self, part: ViewPart, plans: Sequence[object], others: Planner, facts: VersionFacts
    ) -> float:
        """Return how much less a part costs than the segments that it stands for."""
        known = self._snapshot.definitions
        embedded = tuple(one for one in part.embedded if one.definition_hash in known)
        instead = others.choose(facts.of(replace(part.segment, projections=embedded)))
        interval = self._query.interval
        low, high = part.segment.min_time_us, part.segment.max_time_us
        share = 1.0
        if interval is not None and low is not None and high is not None:
            share = share_of(interval, Interval(low, high + 1))
        opened = _OPENING_COST * max(1.0, part.cover.segment_count * share)
        cost = _OPENING_COST + sum(getattr(plan, "cost", 0) for plan in plans)
        return opened + sum(plan.cost for plan in instead.plans) - cost

    def _planned(self, answer: _Answer, *, is_asked: bool) -> QueryPlan | None:
        """Return the plan of a view's parts with the segments that answer for themselves."""
        query, snapshot = self._query, self._snapshot
        try:
            left_out = covered_names(self._store, answer.left_out)
        except CorruptionError as error:
            self._refuse(answer.view, Reason(ReasonCode.VIEW_BROKEN, str(error)))
            return None
        opened = (*answer.uncovered, *(among(snapshot, left_out) if left_out else ()))
        own = plan_query(snapshot, query, opened)
        edges = self._edge_segments(answer.edges, {entry.listed_as for entry in opened})
        cost = sum(_OPENING_COST + sum(p.cost for p in one.choice.plans) for one in edges)
        if not is_asked and cost >= answer.saving:
            self._refuse(answer.view, Reason(ReasonCode.COSTLIER, "than the segments"))
            return None
        left = len(own.segments) + len({one.entry.file for one in edges})
        if query.context.force_views and left:
            self._refuse(answer.view, Reason(ReasonCode.NOT_COVERED, str(left)))
            return None
        used = [part.cover for part in answer.used]
        self.verdicts[answer.view.name] = WiderVerdict(
            answer.view.name,
            len(answer.parts),
            sum(cover.segment_count for cover in used),
            sum(cover.live_row_count for cover in used),
            None,
        )
        pruned = len(answer.used) - len(answer.parts) + own.pruned_count
        segments = (*answer.parts, *own.segments, *edges)
        return QueryPlan(query, own.schema, segments, pruned)

    def _edge_segments(
        self, edges: Iterable[Interval], opened: set[str]
    ) -> tuple[SegmentPlan, ...]:
        """Return the plans of the rows that buckets do not tell apart from others."""
        found: list[SegmentPlan] = []
        for edge in edges:
            entries = self._snapshot.segments_between(edge.start_us, edge.end_us)
            rest = [entry for entry in entries if entry.listed_as not in opened]
            query = self._query.among(self._query.filter, edge)
            found += plan_query(self._snapshot, query, rest).segments
        return tuple(found)


def _warn(store: StoreVersion, error: Exception) -> None:
    LOGGER.warning(
        "a view in %s cannot be read, and queries are answered without it: %s",
        without_secrets(store.storage.location),
        error,
    )
