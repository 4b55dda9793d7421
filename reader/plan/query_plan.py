"""Plan a query over a snapshot's segments, from what the manifests say alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from projseg.algebra.planning.planner import Planner, check_excluded, check_forced
from projseg.algebra.planning.source_plan import SourceChoice
from projseg.algebra.planning.why_not import Reason
from projseg.algebra.projection.spec import definition_name
from projseg.algebra.proofs.index_keys import IndexUse, KeyTree
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.cache_key import (
    depends_on_instant,
    meaning_of,
)
from projseg.algebra.query.declared_columns import DeclaredColumns
from projseg.algebra.query.request import Query
from projseg.errors import ProjectionNotUsableError
from projseg.memory.cache import KEPT, CacheKey
from projseg.memory.deadline import check_deadline
from projseg.memory.forks import cached_property, late_import
from projseg.reader.combined_sources import Stack, stacked
from projseg.reader.plan.bind_template import (
    PLAN_BYTES,
    SEGMENT_PLAN_BYTES,
    bind_asked,
    bound_by_template,
    matching_of,
    plan_key,
)
from projseg.reader.plan.plan_template import PlanTemplate
from projseg.reader.plan.reduced_fold import ReducedFold
from projseg.reader.plan.segment_plan import SegmentPlan as SegmentPlan
from projseg.reader.plan.version_facts import VersionFacts
from projseg.reader.plan.whole_table import WholeTable, stated_total
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import TableSchema, named_schema


class WiderVerdict(msgspec.Struct, frozen=True, gc=False):
    """A candidate that covers many segments, such as a view, and why it is not used.

    `parts`, `segments` and `row_count` are its parts that are read, the segments that these stand
    for, and their rows.
    """

    name: str
    parts: int
    segments: int
    row_count: int
    reason: Reason | None


class WiderSources(Protocol):
    """Sources that stand for many segments each: the step of planning above single segments."""

    @property
    def identity(self) -> Hashable:
        """The identity of these sources, by which plans are cached."""

    def plan(self, snapshot: Snapshot, query: QuerySpec) -> QueryPlan | tuple[WiderVerdict, ...]:
        """Return a plan that reads one of them, or why none is read."""


class QueryPlan(msgspec.Struct, frozen=True, dict=True):
    """Everything that running a query needs; it can be pickled and divided among processes.

    `pruned_count` segments hold no matching row by their metadata, of which indexes left out
    `index_pruned_count`. Parts of wider sources that are read are among the segments, which are a
    `WholeTable` where manifests state the answer.
    """

    query: QuerySpec
    schema: TableSchema
    segments: Sequence[SegmentPlan]
    pruned_count: int = 0
    wider: tuple[WiderVerdict, ...] = ()
    indexes: tuple[IndexUse, ...] = ()
    index_pruned_count: int = 0

    @property
    def is_wide(self) -> bool:
        """Whether a source is read that stands for many segments."""
        return any(verdict.reason is None for verdict in self.wider)

    @property
    def row_count(self) -> int:
        """Base rows of the segments to read, without those that are deleted."""
        return sum(segment.entry.live_row_count for segment in self.segments)

    @cached_property
    def combined(self) -> tuple[Stack, ...]:
        """The sources to fold, as they are to be read."""
        return tuple(combined_sources_of(self.segments))

    @cached_property
    def reduced_fold(self) -> ReducedFold | None:
        """The fold in place of all of the query's keys and primitives; None if these are folded."""
        return ReducedFold.of(self.query, [p for s in self.segments for p in s.choice.plans])

    @cached_property
    def reduced(self) -> QueryPlan:
        """The plan of `reduced_fold`, where there is one."""
        fold = self.reduced_fold
        assert fold is not None
        segments = (
            replace(s, choice=replace(s.choice, plans=tuple(map(fold.plan, s.choice.plans))))
            for s in self.segments
        )
        return replace(self, query=fold.folded_query(), segments=tuple(segments))


def combined_sources_of(segments: Iterable[SegmentPlan]) -> Iterator[Stack]:
    """Yield the sources of some of a plan's segments as they are to be read."""
    return stacked((one.entry, source) for one in segments for source in one.choice.plans)


def plan_query(
    snapshot: Snapshot,
    query: QuerySpec,
    entries: Sequence[SegmentEntry] | None = None,
    keys: KeyTree | None = None,
    wider: WiderSources | None = None,
) -> QueryPlan:
    """Choose a source for each segment of a snapshot, or for some of them.

    Each row of the answer has one of `keys`, so indexes may exclude segments by them.
    """
    if entries is not None:
        return _plan(snapshot, query, entries, len(entries))
    if keys is not None:
        return _plan_of_all(snapshot, query, keys)
    key = _above(plan_key("plan", snapshot, query), wider)
    plan: QueryPlan | None = KEPT.get(key)
    if plan is None:
        plan = _plan_above(snapshot, query, wider)
        _keep(key, plan)
    return plan


def plan_asked(
    snapshot: Snapshot,
    query: Query,
    declared: DeclaredColumns | None = None,
    wider: WiderSources | None = None,
) -> QueryPlan:
    """Bind a query to a snapshot's columns, and choose a source for each segment.

    Dashboards ask the same queries again, so plans are cached by the queries' texts: a version's
    columns and segments never change. A query that calls `now()` is bound anew each time.
    """
    meaning = meaning_of(query)
    key = plan_key("plan", snapshot, meaning if declared is None else (meaning, declared))
    key = _above(key, wider)
    plan: QueryPlan | None = KEPT.get(key)
    if plan is not None:
        return plan
    template = None
    if declared is not None or (query.filter is None and query.interval is None):
        bound = bind_asked(snapshot, query, declared)
    else:
        bound, template = bound_by_template(snapshot, query, meaning)
    plan = _plan_above(snapshot, bound, wider, None if wider else template)
    if template is not None or not depends_on_instant(query):
        _keep(key, plan, meaning.byte_count)
    return plan


def _above(key: CacheKey, wider: WiderSources | None) -> CacheKey:
    return key if wider is None else (*key, wider.identity)


def _plan_above(
    snapshot: Snapshot,
    query: QuerySpec,
    wider: WiderSources | None,
    template: PlanTemplate | None = None,
) -> QueryPlan:
    """Plan from sources that stand for many segments, or else from each segment by itself."""
    found = () if wider is None else wider.plan(snapshot, query)
    if isinstance(found, QueryPlan):
        return found
    plan = _plan_of_all(snapshot, query, template=template)
    return replace(plan, wider=found) if found else plan


def _keep(key: CacheKey, plan: QueryPlan, byte_count: int = 0) -> None:
    """Cache a plan, but for one that a damaged Bloom file made longer."""
    if not any(use.reason == "DAMAGED" for use in plan.indexes):
        KEPT.put(key, plan, _byte_count(plan) + byte_count)


def _byte_count(plan: QueryPlan) -> int:
    several = plan.segments
    count = several.listed_count if isinstance(several, WholeTable) else len(several)
    return PLAN_BYTES + SEGMENT_PLAN_BYTES * count


def _plan_of_all(
    snapshot: Snapshot,
    query: QuerySpec,
    keys: KeyTree | None = None,
    template: PlanTemplate | None = None,
) -> QueryPlan:
    """Plan from the segments alone, unless the query asks for a view."""
    total = stated_total(snapshot, query) if keys is None else None
    if total is None:
        plan = _plan_of_candidates(snapshot, query, keys, template)
    else:
        listed = snapshot.segments
        every = WholeTable(total, len(listed), lambda: _plan(snapshot, query, listed, 0).segments)
        plan = QueryPlan(query, named_schema(snapshot.properties), every)
    context = query.context
    if context.allows_views and (context.use_view or context.force_views) and plan.segments:
        what = "Force views" if context.use_view is None else f"View[{context.use_view}]"
        raise ProjectionNotUsableError(
            "PROJSEG_VIEW_NOT_USABLE",
            f"{what} specified, but no view can answer here: the table has none, or the question "
            "is planned by a task of Spark",
        )
    return plan


def _plan_of_candidates(
    snapshot: Snapshot, query: QuerySpec, keys: KeyTree | None, template: PlanTemplate | None
) -> QueryPlan:
    segment_count = len(snapshot.segments)
    if snapshot.properties.declared_indexes:
        # Imported here, so that tables without an index are asked without it.
        with late_import:
            from projseg.reader.plan.index_pruning import pruned_by_indexes

        pruned = pruned_by_indexes(snapshot, query, keys)
        if pruned is not None:
            plan = _plan(snapshot, query, pruned.entries, segment_count, template)
            return replace(plan, indexes=pruned.uses, index_pruned_count=pruned.gone_count)
    return _plan(snapshot, query, _candidates(snapshot, query), segment_count, template)


def _plan(
    snapshot: Snapshot,
    query: QuerySpec,
    entries: Iterable[SegmentEntry],
    entry_count: int,
    template: PlanTemplate | None = None,
) -> QueryPlan:
    facts = VersionFacts(snapshot)
    entries = map(snapshot.as_planned, entries)
    if template is None:
        planner = Planner(query, matching=matching_of(snapshot, facts, query))
        planned = (_segment_plan(entry, planner.choose(facts.of(entry))) for entry in entries)
    else:
        choose = template.chooser(query, facts.of)
        planned = (_segment_plan(entry, choose(entry)) for entry in entries)
    to_read = tuple(plan for plan in planned if not plan.choice.is_empty)
    check_excluded(query, _projection_names(snapshot, facts, to_read))
    check_forced(query, {plan.entry.file: plan.choice for plan in to_read})
    pruned_count = entry_count - len(to_read)
    return QueryPlan(query, named_schema(snapshot.properties), to_read, pruned_count)


def _segment_plan(entry: SegmentEntry, choice: SourceChoice) -> SegmentPlan:
    check_deadline()
    return SegmentPlan(entry, choice)


def _projection_names(
    snapshot: Snapshot, facts: VersionFacts, planned: Iterable[SegmentPlan]
) -> Iterator[str]:
    """Yield the names of projections that the table declares or declared, or a segment holds."""
    yield from (known.name for known in facts.declared_specs())
    yield from map(definition_name, snapshot.definitions.values())
    for plan in planned:
        yield from plan.choice.rejected


def _candidates(snapshot: Snapshot, query: QuerySpec) -> Iterable[SegmentEntry]:
    """Return the segments whose time may lie in the query's interval; others are not decoded."""
    if query.interval is None:
        return snapshot.segments
    return snapshot.segments_between(query.interval.start_us, query.interval.end_us)
