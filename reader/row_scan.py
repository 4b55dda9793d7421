"""Row scans: the base rows that match, as record batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.expressions_over_rows import evaluate_over
from projseg.aggregation.rows import RowRange, Rows
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Column
from projseg.algebra.query_spec import QuerySpec
from projseg.algebra.result_order import OrderTerm, ascending
from projseg.algebra.source_plan import SourcePlan
from projseg.reader.earliest_rows import EarliestRows
from projseg.reader.query import QueryPlan, SegmentPlan, open_source, source_row_count
from projseg.reader.selection import select_rows
from projseg.reader.threads import Workers, thread_count_of
from projseg.reader.top_rows import Positions, Ranks, sorted_positions, term_ranks
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.limits import PAGE_ROWS_MAX
from projseg.table_layer.manifest import SegmentEntry
from projseg.table_layer.storage import Storage

# Rows of a returned batch, at most; a source's rows are cut into several, down to the least worth
# a task, so that threads share the work.
_BATCH_ROWS_MAX: Final = 1 << 17
_BATCH_ROWS_MIN: Final = 1 << 14
_BATCHES_WANTED: Final = 8
# A scan that wants fewer of the rows of a segment decodes only the pages it needs.
_KEPT_SHARE_MIN: Final = 0.25


def scan(
    storage: Storage,
    plan: QueryPlan,
    segments: Sequence[SegmentPlan],
    threads: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of some of the plan's segments, in stored order.

    Threads work a few batches ahead of who asks. A limit without ORDER BY keeps the earliest rows,
    in order of time; of a table without a time column it ends the scan as soon as it is reached.
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
            yield _batch_of_parts(plan, parts)


def scan_table(storage: Storage, plan: QueryPlan) -> pa.Table:
    """Return all matching rows, sorted and limited as the query says; ties fall to time."""
    query = plan.query
    if query.order_by:
        plan = replace(plan, query=replace(query, columns=_with_time(query)))
    schema = plan.query.output_schema
    table = pa.Table.from_batches(scan(storage, plan, plan.segments), schema)
    if not query.order_by or len(table) == 0:
        return table
    outputs = {name: pa.concat_arrays(table.column(name).chunks) for name in table.column_names}

    def ranks_at(term: OrderTerm, positions: Positions) -> Ranks:
        values = evaluate(term.expression, outputs, len(table))
        taken = values if positions is None else values.take(primitive_array(positions))
        return term_ranks(taken, term)

    time = plan.query.columns[len(query.columns) :]
    criteria = [partial(ranks_at, term) for term in (*query.order_by, *ascending(time))]
    order = sorted_positions(criteria, len(table), query.limit)
    return table.select(query.output_schema.names).take(primitive_array(order))


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
    ranges = [
        (segment.entry, source_plan, row_range)
        for segment in segments
        for source_plan in segment.choice.plans
        for row_range in _ranges(plan.query, source_row_count(segment.entry, source_plan))
    ]
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
    selected = workers.map_ahead(select, ranges, ahead=thread_count - 1)
    parts = chain.from_iterable(selected)
    with closing(selected):
        yield from workers.map_ahead(lambda part: _batch(plan, part), parts, ahead=2 * thread_count)


def _ranges(query: QuerySpec, row_count: int) -> list[RowRange]:
    """Cut a source: with a limit a few pages may do, without one selecting all at once is best."""
    step = row_count if query.limit is None else 2 * PAGE_ROWS_MAX
    starts = range(0, row_count, max(step, 1))
    return [RowRange(start, min(start + step, row_count)) for start in starts]


def _batch(plan: QueryPlan, rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(_arrays(plan, rows), schema=plan.query.output_schema)


def _batch_of_parts(
    plan: QueryPlan, parts: Sequence[tuple[Rows, NDArray[np.intp]]]
) -> pa.RecordBatch:
    """Return rows of several sources as one batch, each at its position."""
    back = primitive_array(np.argsort(np.concatenate([positions for _, positions in parts])))
    columns = zip(*(_arrays(plan, rows) for rows, _ in parts), strict=True)
    arrays = [pa.concat_arrays(column).take(back) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)


def _arrays(plan: QueryPlan, rows: Rows) -> list[pa.Array]:
    return [evaluate_over(named.expression, rows).to_arrow() for named in plan.query.columns]
