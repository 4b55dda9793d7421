"""Row scans: the base rows that match, as record batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import chain, count
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.expressions_over_rows import evaluate_over
from projseg.aggregation.rows import RowRange, Rows
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.evaluate import evaluate_in_parts
from projseg.algebra.expressions.functions.text_budget import TextsTooLargeError
from projseg.algebra.expressions.tree import Column
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.query.result_order import OrderTerm, ascending
from projseg.algebra.query.spec import QuerySpec
from projseg.reader.batches import BATCH_BYTES, cut, rows_at_a_time
from projseg.reader.earliest_rows import EarliestRows
from projseg.reader.fetch_ahead import fetched_ahead
from projseg.reader.plan import QueryPlan, SegmentPlan
from projseg.reader.read_columns import columns_read
from projseg.reader.selection import select_rows
from projseg.reader.sources import open_source
from projseg.reader.threads import Workers, thread_count_of
from projseg.reader.top_rows import Positions, Ranks, sorted_positions, term_ranks
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.limits import PAGE_ROWS_MAX
from projseg.segment_format.vectors import Vector, text_bytes
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.storage import Storage

Parts = Sequence[tuple[Rows, NDArray[np.intp]]]
"""Rows of several sources, and the position of each in their batch."""

# Most rows of a returned batch. A source's rows are cut into several batches, but not below the
# size worth a task, so that threads share the work.
_BATCH_ROWS_MAX: Final = 1 << 17
_BATCH_ROWS_MIN: Final = 1 << 14
_BATCHES_WANTED: Final = 8
# Most rows held for sorting where only the first of them are wanted.
_HELD_ROWS_MAX: Final = 1 << 20
_HELD_BYTES_MAX: Final = 64 << 20
# A scan that keeps a smaller share of a segment's rows decodes only the pages it needs.
_KEPT_SHARE_MIN: Final = 0.25


def scan(
    storage: Storage,
    plan: QueryPlan,
    segments: Sequence[SegmentPlan],
    threads: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of some of the plan's segments, in stored order.

    Threads work a few batches ahead of the caller. A limit without ORDER BY keeps the earliest
    rows, in order of time; of a table without a time column it ends the scan as soon as it is
    reached.
    """
    query = plan.query
    thread_count = threads or thread_count_of(query)
    if query.limit is None or query.order_by:
        yield from _batches(storage, plan, segments, thread_count)
    elif query.time_column is None:
        with closing(_batches(storage, plan, segments, thread_count)) as batches:
            yield from _first(batches, query.limit)
    else:
        earliest = EarliestRows(storage, plan, segments, thread_count)
        for parts in earliest.batches(_BATCH_ROWS_MAX):
            yield from _batches_of_parts(plan, parts)


def scan_table(storage: Storage, plan: QueryPlan, threads: int | None = None) -> pa.Table:
    """Return all matching rows, sorted and limited as the query says; ties fall to time."""
    query = plan.query
    if query.order_by:
        plan = replace(plan, query=replace(query, columns=_with_time(query)))
    batches = scan(storage, plan, plan.segments, threads)
    if not query.order_by:
        return pa.Table.from_batches(batches, plan.query.output_schema)
    criteria = (*query.order_by, *ascending(plan.query.columns[len(query.columns) :]))
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if query.limit is not None and _is_worth_cutting(held, query.limit):
            held = _sorted(pa.Table.from_batches(held), criteria, query.limit).to_batches()
    table = pa.Table.from_batches(held, plan.query.output_schema)
    return _sorted(table, criteria, query.limit).select(query.output_schema.names)


def _is_worth_cutting(batches: Sequence[pa.RecordBatch], limit: int) -> bool:
    """Whether far more rows are held than will be returned, so that dropping most now pays."""
    row_count: int = sum(batch.num_rows for batch in batches)
    byte_count: int = sum(batch.nbytes for batch in batches)
    is_much = row_count > _HELD_ROWS_MAX or byte_count > _HELD_BYTES_MAX
    return is_much and row_count > 2 * limit


def _sorted(table: pa.Table, criteria: Sequence[OrderTerm], limit: int | None) -> pa.Table:
    """Return the first rows in order; of equal ones those that come first in the table."""
    if len(table) == 0:
        return table
    outputs = {name: pa.concat_arrays(table.column(name).chunks) for name in table.column_names}

    def ranks_at(term: OrderTerm, positions: Positions) -> Ranks:
        values = evaluate_in_parts(term.expression, outputs, len(table))
        taken = values if positions is None else values.take(primitive_array(positions))
        return term_ranks(taken, term)

    order = sorted_positions([partial(ranks_at, term) for term in criteria], len(table), limit)
    return table.take(primitive_array(order))


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
    columns = sorted(set().union(*(named.expression.columns for named in plan.query.columns)))

    def select(wanted: tuple[SegmentEntry, SourcePlan, RowRange]) -> list[Rows]:
        entry, source_plan, row_range = wanted
        source = open_source(storage, entry, source_plan, plan.schema)
        rows = select_rows(
            source,
            row_range,
            condition=source_plan.filter,
            interval=source_plan.interval,
            time_column=source_plan.time_column,
        ).compact()
        if len(rows) > source.row_count * _KEPT_SHARE_MIN:
            for name in columns:
                source.keep(name)
        step = min(max(len(rows) // _BATCHES_WANTED, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)
        firsts = range(0, len(rows), step)
        return [rows.slice(first, min(first + step, len(rows))) for first in firsts]

    workers = Workers(thread_count)
    # A limit may make the first sources enough.
    is_whole = plan.query.limit is None
    fetched = fetched_ahead(storage, plan, sources, lambda one: one) if is_whole else None
    with ExitStack() as stack:
        ready = sources if fetched is None else stack.enter_context(fetched)
        cut_up = workers.map_ahead(partial(_ranges, storage, plan), ready, ahead=thread_count - 1)
        stack.callback(cut_up.close)
        ranges = chain.from_iterable(cut_up)
        selected = workers.map_ahead(select, ranges, ahead=thread_count - 1)
        stack.callback(selected.close)
        parts = chain.from_iterable(selected)
        found = workers.map_ahead(partial(_begun, plan), parts, ahead=2 * thread_count)
        yield from chain.from_iterable(found)


def _ranges(
    storage: Storage, plan: QueryPlan, wanted: tuple[SegmentEntry, SourcePlan]
) -> Iterator[tuple[SegmentEntry, SourcePlan, RowRange]]:
    """Cut a source by pages if a limit may make a few of them enough; else return it whole."""
    entry, source_plan = wanted
    source = open_source(storage, entry, source_plan, plan.schema)
    names, _ = columns_read(plan.query, source_plan)
    rows, step = RowRange(0, source.row_count), rows_at_a_time(source, names)
    if plan.query.limit is not None:
        step = min(step or source.row_count, 2 * PAGE_ROWS_MAX)
    ranges = [rows] if step is None else cut(rows, step, source, names)
    return ((entry, source_plan, row_range) for row_range in ranges)


def _begun(plan: QueryPlan, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Return the batches of rows: the first is made, further ones, of wide rows, when asked for."""
    batches = batches_of(plan, rows)
    return chain([next(batches)], batches)


def batches_of(plan: QueryPlan, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Yield a plan's columns of some rows in order, in batches that their texts fit in."""
    try:
        vectors = _vectors(plan, rows)
    except TextsTooLargeError:
        middle = len(rows) // 2
        yield from batches_of(plan, rows.slice(0, middle))
        yield from batches_of(plan, rows.slice(middle, len(rows)))
        return
    for part in _cut_by_texts(vectors, len(rows)):
        arrays = [vector.to_arrow() for vector in part]
        yield pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)


def _cut_by_texts(vectors: Sequence[Vector], row_count: int) -> Iterator[Sequence[Vector]]:
    """Cut rows in two until their texts are no more than a batch should hold, or it is a row."""
    if row_count <= 1 or sum(text_bytes(v, BATCH_BYTES) for v in vectors) <= BATCH_BYTES:
        yield vectors
        return
    middle = row_count // 2
    yield from _cut_by_texts([v.slice(0, middle) for v in vectors], middle)
    yield from _cut_by_texts([v.slice(middle, row_count) for v in vectors], row_count - middle)


def _batches_of_parts(plan: QueryPlan, parts: Parts) -> Iterator[pa.RecordBatch]:
    """Yield rows of several sources, each at its position, in batches that their texts fit in."""
    row_count = sum(len(rows) for rows, _ in parts)
    with suppress(TextsTooLargeError):
        vectors = [_vectors(plan, rows) for rows, _ in parts]
        texts = (text_bytes(vector, BATCH_BYTES) for part in vectors for vector in part)
        if row_count <= 1 or sum(texts) <= BATCH_BYTES:
            yield _joined_batch(plan, vectors, np.concatenate([at for _, at in parts]))
            return
    middle = np.sort(np.concatenate([positions for _, positions in parts]))[row_count // 2]
    for is_in_half in (np.less, np.greater_equal):
        half = []
        for rows, positions in parts:
            chosen = np.flatnonzero(is_in_half(positions, middle)).astype(np.uint32)
            if len(chosen):
                half.append((rows.subset(chosen), positions[chosen]))
        yield from _batches_of_parts(plan, half)


def _joined_batch(
    plan: QueryPlan, parts: Sequence[Sequence[Vector]], positions: NDArray[np.intp]
) -> pa.RecordBatch:
    back = primitive_array(np.argsort(positions))
    columns = zip(*parts, strict=True)
    arrays = [pa.concat_arrays([part.to_arrow() for part in c]).take(back) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)


def _vectors(plan: QueryPlan, rows: Rows) -> list[Vector]:
    return [evaluate_over(named.expression, rows) for named in plan.query.columns]
