"""Row scans: the rows that match, as record batches in the order of the base rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import chain, count, pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import SourcePlan, columns_read
from projseg.algebra.query.bound_query import QuerySpec, ascending
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import RowRange, Rows, rows_held
from projseg.kernels.sorting import distinct
from projseg.memory.deadline import Deadline, check_deadline, deadline_of_thread, each_under
from projseg.reader.declared_values import declared_columns_named
from projseg.reader.first_rows import FirstRows, column_names
from projseg.reader.open_sources import (
    BATCH_BYTES,
    cut,
    open_source,
    rows_at_a_time,
    rows_to_read,
)
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.segment_source import SegmentSource, row_numbers
from projseg.reader.selection import select_rows
from projseg.reader.sorted_batches import sorted_batches
from projseg.reader.threads import Workers, fetched_ahead, thread_count_of
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.logical_types import is_fixed_width
from projseg.segment_format.vectors import Vector, text_bytes
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.storage_contract import Storage


class Part(msgspec.Struct, frozen=True):
    """Rows of one source, in its order, and what is returned of them.

    `positions` are theirs in the batch, None if they are the whole batch in order. `is_copied` says
    that they are neighbouring rows of fixed-width columns in memory.
    """

    rows: Rows
    outputs: tuple[Expression, ...]
    positions: NDArray[np.intp] | None = None
    is_copied: bool = False

    def vectors(self) -> list[Vector]:
        """Return the outputs' values."""
        return [evaluate_over(output, self.rows) for output in self.outputs]

    def sliced(self, first: int, end: int) -> Part:
        """Return some neighbouring rows of one batch as a batch."""
        return replace(self, rows=self.rows.slice(first, end))

    def among(self, is_in_half: np.ufunc, middle: int) -> Part:
        """Return those of the rows whose position compares so with the middle one."""
        assert self.positions is not None, "rows of a batch of their own are sliced"
        places = np.flatnonzero(is_in_half(self.positions, middle)).astype(np.uint32)
        return replace(self, rows=self.rows.subset(places), positions=self.positions[places])


# Most rows of a returned batch. A source's rows are cut into several batches, but not below the
# size worth a task, so that threads share the work.
_BATCH_ROWS_MAX: Final = 1 << 17
_BATCH_ROWS_MIN: Final = 1 << 14
_BATCHES_WANTED: Final = 8
# A scan that keeps a smaller share of a segment's rows decodes only the pages it needs.
_KEPT_SHARE_MIN: Final = 0.25


def scan(
    storage: Storage,
    plan: QueryPlan,
    segments: Sequence[SegmentPlan],
    threads: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of some of the plan's segments, in the query's or in stored order.

    Threads work a few batches ahead of the caller. With a limit and without ORDER BY the rows come
    in order of time; of a table without a time column such a limit ends
    the scan as soon as it is reached. The context's timeLimit begins with the call.
    """
    batches = _scanned(storage, plan, segments, threads)
    limit = plan.query.context.time_limit
    deadline = deadline_of_thread() or (None if limit is None else Deadline(limit))
    return batches if deadline is None else each_under(deadline, batches)


def _scanned(
    storage: Storage, plan: QueryPlan, segments: Sequence[SegmentPlan], threads: int | None
) -> Generator[pa.RecordBatch]:
    with rows_held(plan.query.joins), declared_columns_named(storage, plan.query):
        yield from _scanned_with_joins(storage, plan, segments, threads)


def _scanned_with_joins(
    storage: Storage, plan: QueryPlan, segments: Sequence[SegmentPlan], threads: int | None
) -> Generator[pa.RecordBatch]:
    query = plan.query
    thread_count = threads or thread_count_of(query)
    if query.limit is None:
        of_all = _ordered_batches if query.order_by else _batches
        yield from of_all(storage, plan, segments, thread_count)
    elif query.time_column is None and not query.order_by:
        with closing(_batches(storage, plan, segments, thread_count)) as batches:
            yield from _first(batches, query.limit)
    else:
        first = FirstRows(storage, plan, segments, thread_count)
        count = len(query.columns)
        for found in first.batches(_BATCH_ROWS_MAX):
            parts = [Part(rows, source.keys[:count], at) for rows, source, at in found]
            if len(parts) == 1 and np.all(np.diff(found[0][2]) > 0):
                yield from batches_of(plan, replace(parts[0], positions=None))
            else:
                yield from _batches_of_parts(plan, parts)


def scan_table(storage: Storage, plan: QueryPlan, threads: int | None = None) -> pa.Table:
    """Return all matching rows, sorted and limited as the query says; ties fall to time."""
    batches = scan(storage, plan, plan.segments, threads)
    return pa.Table.from_batches(batches, plan.query.output_schema)


def _ordered_batches(
    storage: Storage, plan: QueryPlan, segments: Sequence[SegmentPlan], thread_count: int
) -> Generator[pa.RecordBatch]:
    """Yield all matching rows in the query's order; ties fall to time."""
    query = plan.query
    timed = replace(plan, query=replace(query, columns=_with_time(query)))
    criteria = (*query.order_by, *ascending(timed.query.columns[len(query.columns) :]))
    with closing(_batches(storage, timed, segments, thread_count)) as batches:
        for batch in sorted_batches(batches, timed.query.output_schema, criteria):
            yield batch.select(query.output_schema.names)


def _with_time(query: QuerySpec) -> tuple[NamedExpression, ...]:
    """Return the columns of a row scan, and the table's time under a name of its own."""
    if query.time_column is None or query.time_type is None:
        return query.columns
    names = {named.name for named in query.columns}
    name = next(name for n in count() if (name := f"time {n}") not in names)
    time = NamedExpression(name, Column(query.time_type, query.time_column))
    return (*query.columns, time)


def _first(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return


def _batches(
    storage: Storage, plan: QueryPlan, segments: Sequence[SegmentPlan], thread_count: int
) -> Generator[pa.RecordBatch]:
    """Yield all matching rows: rows are selected by source, batches built of what is selected."""
    sources = ((segment.entry, p) for segment in segments for p in segment.choice.plans)
    count = len(plan.query.columns)

    def select(wanted: tuple[SegmentEntry, SourcePlan, RowRange, frozenset[str]]) -> list[Part]:
        check_deadline()
        entry, source_plan, row_range, passing = wanted
        source = open_source(storage, entry, source_plan, plan.schema)
        source = replace(source, passing=passing)
        rows = select_rows(
            source,
            row_range,
            condition=source_plan.filter,
            interval=source_plan.interval,
            time_column=source_plan.time_column,
            uses_postings=plan.query.context.uses_postings,
        ).compact()
        outputs = source_plan.keys[:count]
        if len(rows) > len(rows_to_read(entry, source_plan)) * _KEPT_SHARE_MIN:
            for name in sorted(column_names(outputs) - passing):
                source.keep(name)
        order = _base_order(rows) if source_plan.needs_row_numbers else None
        step = min(max(len(rows) // _BATCHES_WANTED, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)
        starts = _page_starts(rows, step) if passing else range(0, len(rows), step)
        ranges = list(pairwise([*starts, len(rows)]))
        if order is None:
            is_copied = _are_copied(source, rows, outputs)
            return [Part(rows.slice(*one), outputs, is_copied=is_copied) for one in ranges]
        return [_scattered(rows, outputs, order[first:end]) for first, end in ranges]

    workers = Workers(thread_count)
    # A limit may make the first sources enough.
    is_whole = plan.query.limit is None
    fetched = fetched_ahead(storage, plan, sources, lambda one: [one]) if is_whole else None
    with ExitStack() as stack:
        ready = sources if fetched is None else stack.enter_context(fetched)
        cut_up = workers.map_ahead(partial(_ranges, storage, plan), ready, ahead=thread_count - 1)
        stack.callback(cut_up.close)
        ranges = chain.from_iterable(cut_up)
        selected = workers.map_ahead(select, ranges, ahead=thread_count - 1)
        stack.callback(selected.close)
        found = workers.map_ahead(partial(_begun, plan), _tasks(selected), ahead=2 * thread_count)
        yield from chain.from_iterable(found)


def _page_starts(rows: Rows, step: int) -> Iterable[int]:
    """Return where batches of about `step` rows begin, no two of which read the same page."""
    selection = rows.selection
    if isinstance(selection, RowRange):
        starts = np.arange(selection.start, selection.end, step) // PAGE_ROWS_MAX * PAGE_ROWS_MAX
        return map(int, distinct(np.maximum(starts - selection.start, 0)))
    pages = selection.ids[::step] // PAGE_ROWS_MAX * PAGE_ROWS_MAX
    return map(int, distinct(np.searchsorted(selection.ids, pages)))


def _are_copied(source: SegmentSource, rows: Rows, outputs: Sequence[Expression]) -> bool:
    return isinstance(rows.selection, RowRange) and all(
        isinstance(output, Column) and is_fixed_width(output.type) and source.is_cached(output.name)
        for output in outputs
    )


def _tasks(selected: Iterable[list[Part]]) -> Iterator[list[Part]]:
    """Yield the parts of each task.

    All parts of a source that are only copied, or one other part.
    """
    for parts in selected:
        if all(part.is_copied for part in parts):
            yield parts
        else:
            yield from ([part] for part in parts)


def _base_order(rows: Rows) -> NDArray[np.intp] | None:
    """Return rows of a projection in the order of the base rows.

    None if they are in order already.
    """
    numbers = row_numbers(rows)
    if np.all(numbers[1:] > numbers[:-1]):
        return None
    return np.argsort(numbers)


def _scattered(rows: Rows, outputs: tuple[Expression, ...], order: NDArray[np.intp]) -> Part:
    """Return a batch of rows in an order that is not the source's."""
    positions = np.argsort(order)
    return Part(rows.subset(order[positions].astype(np.uint32)), outputs, positions)


def _ranges(
    storage: Storage, plan: QueryPlan, wanted: tuple[SegmentEntry, SourcePlan]
) -> Iterator[tuple[SegmentEntry, SourcePlan, RowRange, frozenset[str]]]:
    """Cut a source by pages if a limit may make a few of them enough; else return it whole.

    Beside it are the columns that are not kept: none of what rows are selected by.

    Rows of a projection are put back into the order of the base rows, so all are selected together,
    unless their columns would take far more memory than the file.
    """
    entry, source_plan = wanted
    source = open_source(storage, entry, source_plan, plan.schema)
    names, states = columns_read(plan.query, source_plan)
    rows, step = rows_to_read(entry, source_plan), rows_at_a_time(source, names, states)
    if plan.query.limit is not None and not source_plan.needs_row_numbers:
        step = min(step or len(rows), 2 * PAGE_ROWS_MAX)
    ranges = [rows] if step is None else cut(rows, step, source, names)
    outputs = column_names(source_plan.keys[: len(plan.query.columns)])
    passing = source.first_read(outputs - source_plan.selecting_columns)
    return ((entry, source_plan, row_range, passing) for row_range in ranges)


def _begun(plan: QueryPlan, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    """Return the batches of rows; the first batch is made by this call.

    Further ones, of wide rows, are made when they are used. So are all that are only copied:
    memory that one thread fills and frees stays in its cache, which is worth more than a second
    thread.
    """
    if all(part.is_copied for part in parts):
        return chain.from_iterable(batches_of(plan, part) for part in parts)
    (part,) = parts
    batches = batches_of(plan, part) if part.positions is None else _batches_of_parts(plan, [part])
    return chain([next(batches)], batches)


def batches_of(plan: QueryPlan, part: Part) -> Iterator[pa.RecordBatch]:
    """Yield a plan's columns of some rows in order, in batches that their texts fit in."""
    check_deadline()
    row_count = len(part.rows)
    try:
        vectors = part.vectors()
    except TextsTooLargeError:
        middle = row_count // 2
        yield from batches_of(plan, part.sliced(0, middle))
        yield from batches_of(plan, part.sliced(middle, row_count))
        return
    for few in _cut_by_texts(vectors, row_count):
        arrays = [vector.to_arrow() for vector in few]
        yield pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)


def _cut_by_texts(vectors: Sequence[Vector], row_count: int) -> Iterator[Sequence[Vector]]:
    """Cut rows in two until their texts are no more than a batch should hold, or it is a row."""
    if row_count <= 1 or sum(text_bytes(v, BATCH_BYTES) for v in vectors) <= BATCH_BYTES:
        yield vectors
        return
    middle = row_count // 2
    yield from _cut_by_texts([v.slice(0, middle) for v in vectors], middle)
    yield from _cut_by_texts([v.slice(middle, row_count) for v in vectors], row_count - middle)


def _batches_of_parts(plan: QueryPlan, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
    """Yield rows of several sources, each at its position, in batches that their texts fit in."""
    row_count = sum(len(part.rows) for part in parts)
    positions = np.concatenate([part.positions for part in parts if part.positions is not None])
    with suppress(TextsTooLargeError):
        vectors = [part.vectors() for part in parts]
        texts = (text_bytes(vector, BATCH_BYTES) for few in vectors for vector in few)
        if row_count <= 1 or sum(texts) <= BATCH_BYTES:
            yield _joined_batch(plan, vectors, positions)
            return
    middle = np.sort(positions)[row_count // 2]
    for is_in_half in (np.less, np.greater_equal):
        halves = [part.among(is_in_half, int(middle)) for part in parts]
        yield from _batches_of_parts(plan, [half for half in halves if len(half.rows)])


def _joined_batch(
    plan: QueryPlan, parts: Sequence[Sequence[Vector]], positions: NDArray[np.intp]
) -> pa.RecordBatch:
    back = primitive_array(np.argsort(positions))
    columns = zip(*parts, strict=True)
    arrays = [pa.concat_arrays([part.to_arrow() for part in c]).take(back) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)
