"""Run a planned query: partials side by side, then one merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from math import gcd, prod
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.bounded_groups import bounded_groups
from projseg.aggregation.fold import fold, known_partial, stored_partial
from projseg.aggregation.partial import (
    FoldedPartial,
    Partial,
    merge_partials,
    regrouped,
)
from projseg.aggregation.state_table import new_state
from projseg.aggregation.subtract_deleted import without
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import state_column_name, stored_column
from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import (
    AddRows,
    MergeStates,
    SourcePlan,
    SubtractedRows,
    columns_read,
)
from projseg.algebra.query.bound_query import QuerySpec
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.masks import mask_by_all
from projseg.evaluation.rows import MaskedRows, MemorySource, RowRange, Rows, all_rows, rows_held
from projseg.memory.deadline import check_deadline
from projseg.memory.temporary_batches import bytes_in_memory
from projseg.reader.combined_sources import Stack, StackReader
from projseg.reader.open_sources import Source, cut, open_source, rows_at_a_time, rows_to_read
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan, combined_sources_of
from projseg.reader.plan.reduced_fold import among_first, values_max
from projseg.reader.plan.whole_table import WholeTable
from projseg.reader.segment_source import SegmentSource
from projseg.reader.selection import deleted_rows_of, select_rows
from projseg.reader.threads import Workers, fetch_source, fetched_ahead, thread_count_of
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.vectors import Ids, Numbers
from projseg.table_layer.metadata.deleted_rows import deleted_rows
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.storage_contract import Storage

# A source with fewer rows than this is not worth a second thread.
_ROWS_A_TASK_MIN: Final = 4 * PAGE_ROWS_MAX
# Nor is one with fewer rows for each group that there may be.
_ROWS_A_GROUP_MIN: Final = 8
# Bytes of a row, with its columns, of which a group is made; and the share of the memory for groups
# that rows take which are folded together, if not all do.
_FOLDED_ROW_BYTES: Final = 128
_FOLDED_SHARE: Final = 8
_FOLDED_ROWS_MIN: Final = 2 * PAGE_ROWS_MAX
# All sources together with fewer rows than this are not worth a thread at all.
_ROWS_INLINE_MAX: Final = 1 << 14


def run_partial(
    storage: Storage,
    plan: QueryPlan,
    segments: Sequence[SegmentPlan],
    threads: int | None = None,
) -> Partial:
    """Return the groups and states of some of the plan's segments, merged.

    Without grouping columns there is exactly one group, however many segments there are.
    """
    (groups,) = _groups(storage, plan, segments, threads, may_part=False)
    return groups


def run_in_parts(
    storage: Storage, plan: QueryPlan, threads: int | None = None
) -> Iterator[Partial]:
    """Yield the groups and states of a plan: one partial, or several that share no group.

    There are several where memory may not hold all groups at once.
    """
    # Groups of different parts may be one group of a set.
    may_part = plan.query.grouping_sets is None
    return _groups(storage, plan, plan.segments, threads, may_part=may_part)


def _groups(
    storage: Storage,
    plan: QueryPlan,
    segments: Sequence[SegmentPlan],
    threads: int | None,
    *,
    may_part: bool,
) -> Iterator[Partial]:
    if isinstance(segments, WholeTable):
        known = known_partial([segments.total], plan.query.primitives)
        yield regrouped(known, known.keys, plan.query.primitives)
        return
    if segments is plan.segments and plan.reduced_fold is not None:
        reduced = plan.reduced
        for groups in _groups(storage, reduced, reduced.segments, threads, may_part=may_part):
            yield plan.reduced_fold.expanded(groups)
        return
    query = plan.query
    thread_count = threads or thread_count_of(query)
    tasks = list(_tasks(storage, plan, segments, thread_count, may_part=may_part))
    if not tasks:
        yield _partial_of_no_rows(query)
        return
    is_small = sum(task.row_count for task in tasks) < _ROWS_INLINE_MAX
    with (
        rows_held(query.joins),
        fetched_ahead(storage, plan, tasks, _sources_to_fetch) as ready,
    ):
        if is_small:
            # Where stored states are few, merge them once for all segments and not in each
            # segment first.
            partials = [task.run(is_merged=len(tasks) > 1) for task in ready]
            yield merge_partials(partials, query.primitives)
            return
        workers = Workers(1 if len(tasks) == 1 else thread_count)
        yield from bounded_groups(
            ready,
            _run if len(segments) == 1 else _run_to_merge,
            query.primitives,
            may_part=may_part,
            task_count=len(tasks),
            side_by_side=partial(workers.map_ahead, ahead=2 * thread_count),
        )


def _partial_of_no_rows(query: QuerySpec) -> Partial:
    group_count = 0 if query.keys else 1
    keys = [grouping_vector(pa.nulls(0, key.expression.type)) for key in query.keys]
    states = [new_state(primitive, group_count) for primitive in query.primitives]
    return FoldedPartial(keys, states, None, group_count)


class _SourceTask(msgspec.Struct, frozen=True):
    """Fold part of one source of one segment."""

    storage: Storage
    query: QuerySpec
    schema: TableSchema
    entry: SegmentEntry
    plan: SourcePlan
    row_range: RowRange
    passing: frozenset[str] = frozenset()

    @property
    def row_count(self) -> int:
        """Rows that the task reads."""
        return len(self.row_range)

    def sources_to_fetch(self) -> Sequence[Source]:
        """Return what the task reads."""
        return [(self.entry, self.plan)]

    def run(self, *, is_merged: bool = False, apart: bool = False) -> Partial:
        """Return the groups; with `is_merged` they may repeat, because the caller merges them.

        With `apart`, those of rows may repeat, too.
        """
        plan, primitives = self.plan, self.query.primitives
        if plan.is_metadata:
            only = MaskedRows(Rows(MemorySource(1, {}), self.row_range))
            return _folded([only], plan, primitives)
        source = open_source(self.storage, self.entry, plan, self.schema)
        source = replace(source, passing=self.passing)
        if plan.subtracted_rows is not None:
            return self._without_deleted(source, plan.subtracted_rows)
        batches = self._batches(source, plan, primitives)
        may_repeat = (is_merged or apart) and _merges_states(plan)
        is_answer = may_repeat or _is_stored_answer(plan, primitives)
        if len(batches) == 1 and is_answer:
            rows = self._select(source, batches[0]).compact()
            return stored_partial(rows, plan.keys, primitives, plan.feeds)
        selected = (self._select(source, part) for part in batches)
        return _folded(selected, plan, primitives, apart=apart)

    def _without_deleted(self, source: SegmentSource, taken: SubtractedRows) -> Partial:
        """Return a projection's groups without what deleted rows contributed."""
        reversal = taken.reversal
        primitives = reversal.primitives
        plan = replace(self.plan, feeds=(*self.plan.feeds, *reversal.feeds))
        batches = self._batches(source, plan, primitives)
        stored = _folded((self._select(source, part) for part in batches), plan, primitives)
        base = open_source(self.storage, self.entry, taken.rows, self.schema)
        row_ids = deleted_rows(self.storage, self.entry)
        taken_out = _matching_rows(base, row_ids, self.query, taken.rows, primitives)
        deleted = _folded(taken_out, taken.rows, primitives)
        return without(
            stored,
            deleted,
            primitives,
            row_count=reversal.row_count,
            value_counts=reversal.value_counts,
            path=f"{self.storage.location}/{self.entry.file}",
        )

    def _batches(
        self, source: SegmentSource, plan: SourcePlan, primitives: Sequence[Primitive]
    ) -> Sequence[RowRange]:
        """Return the ranges of rows to decode one after the other."""
        names, states = columns_read(self.query, plan, primitives)
        batch_rows = rows_at_a_time(source, names, states)
        if batch_rows is None:
            return [self.row_range]
        return list(cut(self.row_range, batch_rows, source, names))

    def _select(self, source: SegmentSource, row_range: RowRange) -> MaskedRows:
        check_deadline()
        selected = select_rows(
            source,
            row_range,
            condition=self.plan.filter,
            interval=self.plan.interval,
            time_column=self.plan.time_column,
            uses_postings=self.query.context.uses_postings,
        )
        if self.plan.present is not None:
            selected = _counted(selected, self.plan.present)
        # A group of which deleted rows are subtracted may have no other.
        if self.plan.subtracted_rows is None:
            selected = among_first(selected, source, self.entry, self.query, self.plan)
        return selected


def _matching_rows(
    base: SegmentSource,
    row_ids: NDArray[np.uint32],
    query: QuerySpec,
    plan: SourcePlan,
    primitives: Sequence[Primitive],
) -> Iterator[MaskedRows]:
    """Yield those of some base rows that a query would have asked for, some at a time."""
    names, _ = columns_read(query, plan, primitives)
    step = rows_at_a_time(base, names) or max(len(row_ids), 1)
    for start in range(0, max(len(row_ids), 1), step):
        yield deleted_rows_of(
            base,
            row_ids[start : start + step],
            condition=plan.filter,
            interval=plan.interval,
            time_column=plan.time_column,
        )


def partial_of_rows(
    storage: Storage,
    query: QuerySpec,
    schema: TableSchema,
    entry: SegmentEntry,
    row_ids: NDArray[np.uint32],
) -> Partial:
    """Return the groups of some base rows of a segment, uint32[k], deleted or not."""
    keys = tuple(named.expression for named in query.keys)
    feeds = tuple(AddRows(one.arguments, one.filter) for one in query.primitives)
    plan = SourcePlan(None, keys, feeds, filter=query.filter)
    with rows_held(query.joins):
        base = open_source(storage, entry, plan, schema)
        rows = _matching_rows(base, row_ids, query, plan, query.primitives)
        return _folded(rows, plan, query.primitives)


class _StackTask(msgspec.Struct, frozen=True):
    """Fold small sources of several segments together."""

    storage: Storage
    query: QuerySpec
    schema: TableSchema
    stack: Stack

    @property
    def row_count(self) -> int:
        """Rows that the task reads."""
        return self.stack.row_count

    def sources_to_fetch(self) -> Sequence[Source]:
        """Return what the task reads; nothing if all columns are in memory."""
        is_held = self.stack.plan.is_metadata or self._reader().holds_all()
        return () if is_held else self.stack.sources

    def run(self, *, is_merged: bool = False, apart: bool = False) -> Partial:
        """Return the groups as `_SourceTask.run` does."""
        check_deadline()
        primitives = self.query.primitives
        if self.stack.plan.is_metadata:
            known = known_partial([plan for _, plan in self.stack.sources], primitives)
            return known if is_merged else regrouped(known, known.keys, primitives)
        source = self._reader().read()
        if source is None:
            return merge_partials([task.run(is_merged=True) for task in self._single()], primitives)
        plan = replace(self.stack.plan, keys=self.stack.keys)
        selected = mask_by_all(MaskedRows(all_rows(source)), conjuncts(plan.filter))
        if plan.present is not None:
            selected = _counted(selected, plan.present)
        if (is_merged or apart) and _merges_states(plan):
            return stored_partial(selected.compact(), plan.keys, primitives, plan.feeds)
        return _folded([selected], plan, primitives, apart=apart)

    def _reader(self) -> StackReader:
        columns = columns_read(self.query, self.stack.plan)
        return StackReader(self.storage, self.schema, self.stack, *columns)

    def _single(self) -> Iterator[_SourceTask]:
        for entry, plan in self.stack.sources:
            rows = rows_to_read(entry, plan)
            yield _SourceTask(self.storage, self.query, self.schema, entry, plan, rows)


_Task = _SourceTask | _StackTask


def _run(task: _Task, apart: bool) -> Partial:
    return task.run(apart=apart)


def _run_to_merge(task: _Task, apart: bool) -> Partial:
    """Run a task, and decode the values by which its groups are merged with other segments'."""
    found = task.run(apart=apart)
    for key in found.keys:
        if isinstance(key, Ids):
            _ = key.dictionary.values
    return found


def _sources_to_fetch(task: _Task) -> Sequence[Source]:
    return task.sources_to_fetch()


def _counted(selected: MaskedRows, count: str) -> MaskedRows:
    """Return the rows of a projection whose stored count is not 0."""
    rows = selected.compact()
    counts = rows.vector(state_column_name(count, "count"), is_state=True)
    assert isinstance(counts, Numbers)
    return MaskedRows(rows.where(counts.wide() > 0) if len(rows) else rows)


def _folded(
    selected: Iterable[MaskedRows],
    plan: SourcePlan,
    primitives: Sequence[Primitive],
    *,
    apart: bool = False,
) -> Partial:
    """Fold rows batch by batch, at least one, and merge the results."""
    found = (
        fold(batch.rows, plan.keys, primitives, plan.feeds, mask=batch.mask, apart=apart)
        for batch in selected
    )
    return reduce(lambda before, partial: merge_partials([before, partial], primitives), found)


def _is_stored_answer(plan: SourcePlan, primitives: Sequence[Primitive]) -> bool:
    """Whether the source's rows are the query's groups, with states of the sizes asked for."""
    if plan.source is None or not plan.keys or len(plan.keys) != len(plan.source.grouping):
        return False
    stored = {stored_column(named.expression) for named in plan.source.grouping}
    if stored != set(plan.keys) or not _merges_states(plan):
        return False
    states = dict(plan.source.states)
    return all(
        isinstance(feed, MergeStates) and states[feed.prefix].parameters == primitive.parameters
        for primitive, feed in zip(primitives, plan.feeds, strict=True)
    )


def _merges_states(plan: SourcePlan) -> bool:
    """Whether every row of the source holds states, which are all that the plan uses."""
    holds_rows = plan.is_metadata or (plan.source is not None and plan.source.holds_rows)
    return not holds_rows and all(
        isinstance(feed, MergeStates) and feed.filter is None for feed in plan.feeds
    )


def _tasks(
    storage: Storage,
    plan: QueryPlan,
    segments: Sequence[SegmentPlan],
    thread_count: int,
    *,
    may_part: bool,
) -> Iterator[_Task]:
    combined = plan.combined if segments is plan.segments else tuple(combined_sources_of(segments))
    # Deal whole sources evenly to the threads; split only the remainder into row ranges.
    left_count = len(combined) % thread_count
    parts_of_left = thread_count // gcd(left_count, thread_count)
    rows_max = _rows_together(plan.query, sum(s.row_count for s in combined), may_part=may_part)
    for number, stack in enumerate(combined):
        if len(stack.sources) > 1:
            yield _StackTask(storage, plan.query, plan.schema, stack)
            continue
        ((entry, source_plan),) = stack.sources
        rows = rows_to_read(entry, source_plan)
        if source_plan.subtracted_rows is not None:
            yield _SourceTask(storage, plan.query, plan.schema, entry, source_plan, rows)
            continue
        parts = parts_of_left if number >= len(combined) - left_count else 1
        step = -(-len(rows) // max(1, min(parts, len(rows) // _ROWS_A_TASK_MIN)))
        few = rows_max or len(rows)
        passing = frozenset[str]()
        if len(rows) > min(step, few) and _has_many_groups(storage, plan, entry, source_plan):
            step = few
            if len(rows) > few:
                passing = _passing(storage, plan, entry, source_plan)
        for row_range in _ranges(rows, step):
            yield _SourceTask(
                storage, plan.query, plan.schema, entry, source_plan, row_range, passing
            )


def _rows_together(query: QuerySpec, row_count: int, *, may_part: bool) -> int | None:
    """Return how many rows of a source are folded together where they may be many groups.

    None means all: groups may take that much memory, or merging states costs more than adding.
    """
    limit = bytes_in_memory()
    are_quick = all(primitive.kind.is_quick for primitive in query.primitives)
    if not may_part or not are_quick or row_count * _FOLDED_ROW_BYTES <= limit:
        return None
    return max(limit // _FOLDED_SHARE // _FOLDED_ROW_BYTES, _FOLDED_ROWS_MIN)


def _passing(
    storage: Storage, plan: QueryPlan, entry: SegmentEntry, source_plan: SourcePlan
) -> frozenset[str]:
    """Return the columns that are decoded some rows at a time and not kept."""
    source = open_source(storage, entry, source_plan, plan.schema)
    names, _ = columns_read(plan.query, source_plan)
    return source.first_read(names - source_plan.selecting_columns)


def _has_many_groups(
    storage: Storage, plan: QueryPlan, entry: SegmentEntry, source_plan: SourcePlan
) -> bool:
    """Whether merging two halves may cost more than folding a whole.

    They may have many groups, or many values in groups that count distinct ones.
    """
    if source_plan.is_metadata:
        return False
    if storage.is_remote:
        fetch_source(storage, plan, entry, source_plan)
    source = open_source(storage, entry, source_plan, plan.schema)

    def most_values(expression: Expression) -> int:
        if not isinstance(expression, Column):
            return 1
        return values_max(source, entry, expression.name)

    fed = zip(plan.query.primitives, source_plan.feeds, strict=True)
    collected = [
        most_values(feed.arguments[0])
        for primitive, feed in fed
        if primitive.kind.holds_values and isinstance(feed, AddRows)
    ]
    group_count = prod(map(most_values, source_plan.keys)) * max(collected, default=1)
    return group_count * _ROWS_A_GROUP_MIN > source.row_count


def _ranges(rows: RowRange, step: int) -> Iterator[RowRange]:
    """Yield ranges of about `step` rows, of whole pages; one if there are no rows."""
    step = max(-(-step // PAGE_ROWS_MAX), 1) * PAGE_ROWS_MAX
    for start in range(rows.start, max(rows.end, rows.start + 1), step):
        yield RowRange(start, min(rows.end, start + step))
