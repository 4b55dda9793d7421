"""Row scans: the base rows that match, as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from projseg.aggregation.expressions_over_rows import evaluate_over
from projseg.aggregation.rows import RowIds, RowRange, Rows
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.result_order import OrderTerm
from projseg.algebra.source_plan import SourcePlan
from projseg.reader.query import QueryPlan, SegmentPlan, open_source, thread_pool
from projseg.reader.selection import select_rows
from projseg.reader.top_rows import Positions, sorted_positions
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.limits import PAGE_ROWS_MAX
from projseg.table_layer.storage import Storage

# Rows of a returned batch, at most.
BATCH_ROWS: Final = 1 << 16


def scan(
    storage: Storage, plan: QueryPlan, segments: Sequence[SegmentPlan]
) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows of some of the plan's segments, in stored order.

    A limit without ORDER BY ends the scan as soon as it is reached.
    """
    query = plan.query
    left = query.limit if query.limit is not None and not query.order_by else None
    for segment in segments:
        for source_plan in segment.choice.plans:
            for part in _selected_parts(storage, plan, segment, source_plan):
                batch = _batch(plan, part)
                if left is not None and batch.num_rows >= left:
                    yield batch.slice(0, left)
                    return
                left = None if left is None else left - batch.num_rows
                yield batch


def scan_table(storage: Storage, plan: QueryPlan) -> pa.Table:
    """Return all matching rows, sorted and limited as the query says."""
    query = plan.query
    if query.limit is not None and not query.order_by:
        return pa.Table.from_batches(scan(storage, plan, plan.segments), query.output_schema)

    parts = [
        part
        for segment in plan.segments
        for source_plan in segment.choice.plans
        for part in _selected_parts(storage, plan, segment, source_plan)
    ]
    batches = list(thread_pool(query).map(lambda part: _batch(plan, part), parts))
    table = pa.Table.from_batches(batches, query.output_schema)
    if not query.order_by or len(table) == 0:
        return table
    outputs = {name: pa.concat_arrays(table.column(name).chunks) for name in table.column_names}

    def column_of(term: OrderTerm, positions: Positions) -> pa.Array:
        values = evaluate(term.expression, outputs, len(table))
        return values if positions is None else values.take(primitive_array(positions))

    return table.take(
        primitive_array(sorted_positions(column_of, query.order_by, len(table), query.limit))
    )


def _selected_parts(
    storage: Storage, plan: QueryPlan, segment: SegmentPlan, source_plan: SourcePlan
) -> Iterator[Rows]:
    """Yield the matching rows of a source, at most `BATCH_ROWS` at a time."""
    source = open_source(storage, segment.entry, source_plan, plan.schema)
    # With a limit, few pages may do; without one, selecting all rows at once costs least.
    step = source.row_count if plan.query.limit is None else 2 * PAGE_ROWS_MAX
    for start in range(0, source.row_count, max(step, 1)):
        rows = select_rows(
            source,
            RowRange(start, min(start + step, source.row_count)),
            condition=source_plan.filter,
            interval=source_plan.interval,
            time_column=source_plan.time_column,
        )
        for first in range(0, len(rows), BATCH_ROWS):
            yield _part(rows, first, min(first + BATCH_ROWS, len(rows)))


def _part(rows: Rows, first: int, end: int) -> Rows:
    if end - first == len(rows):
        return rows
    selection = rows.selection
    if isinstance(selection, RowIds):
        return Rows(rows.source, RowIds(selection.ids[first:end]))
    return Rows(rows.source, RowRange(selection.start + first, selection.start + end))


def _batch(plan: QueryPlan, rows: Rows) -> pa.RecordBatch:
    arrays = [evaluate_over(named.expression, rows).to_arrow() for named in plan.query.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)
