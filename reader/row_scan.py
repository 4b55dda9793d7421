"""Row scans: the base rows that match, as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.aggregation.expressions_over_rows import evaluate_over
from projseg.aggregation.rows import RowRange, Rows
from projseg.algebra.expressions.evaluate import evaluate
from projseg.reader.query import QueryPlan, SegmentPlan, open_source
from projseg.reader.selection import select_rows
from projseg.reader.top_rows import sorted_positions
from projseg.table_layer.storage import Storage

# Rows that are selected and turned into a batch at a time.
BATCH_ROWS: Final = 1 << 17


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
            source = open_source(storage, segment.entry, source_plan, plan.schema)
            for start in range(0, source.row_count, BATCH_ROWS):
                if left is not None and left <= 0:
                    return
                rows = select_rows(
                    source,
                    RowRange(start, min(start + BATCH_ROWS, source.row_count)),
                    condition=source_plan.filter,
                    interval=source_plan.interval,
                    time_column=source_plan.time_column,
                )
                if left is not None and len(rows) > left:
                    rows = rows.subset(np.arange(left))
                if len(rows):
                    left = None if left is None else left - len(rows)
                    yield _batch(plan, rows)


def scan_table(storage: Storage, plan: QueryPlan) -> pa.Table:
    """Return all matching rows, sorted and limited as the query says."""
    table = pa.Table.from_batches(scan(storage, plan, plan.segments), plan.query.output_schema)
    query = plan.query
    if not query.order_by or len(table) == 0:
        return table
    whole = table.combine_chunks()
    outputs = {name: pa.concat_arrays(whole.column(name).chunks) for name in whole.column_names}
    columns = [evaluate(term.expression, outputs, len(whole)) for term in query.order_by]
    positions = sorted_positions(columns, query.order_by, query.limit)
    return whole.take(pa.array(positions))


def _batch(plan: QueryPlan, rows: Rows) -> pa.RecordBatch:
    arrays = [evaluate_over(named.expression, rows).to_arrow() for named in plan.query.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=plan.query.output_schema)
