"""Answer a question over rows that are in memory, such as the answer of another question."""

from __future__ import annotations

import pyarrow as pa

from projseg.aggregation.fold import fold
from projseg.algebra.planning.source_plan import AddRows
from projseg.algebra.query.bound_query import QuerySpec
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import mask_by_all
from projseg.evaluation.rows import MaskedRows, MemorySource, all_rows
from projseg.reader.run.finish import finish
from projseg.reader.scan.row_scan import sorted_rows


def answer_over(query: QuerySpec, rows: pa.Table) -> pa.Table:
    """Return the answer of a query over rows in memory, with the query's `output_schema`.

    Parameters
    ----------
    query : QuerySpec
        Bound to the columns of `rows`.
    rows : pa.Table
        The rows, of projseg's types.

    Raises
    ------
    EvaluationError
        If an expression meets a value that Spark's ANSI mode refuses.
    """
    vectors = {name: grouping_vector(rows.column(name)) for name in _names(query)}
    source = MaskedRows(all_rows(MemorySource(len(rows), vectors)))
    selected = mask_by_all(source, (*query.bounds, *query.conditions))
    if not query.is_row_scan:
        keys = [key.expression for key in query.keys]
        feeds = [AddRows(p.arguments, p.filter) for p in query.primitives]
        groups = fold(selected.rows, keys, query.primitives, feeds, mask=selected.mask)
        return finish(query, groups)
    kept = selected.compact()
    arrays = [evaluate_over(named.expression, kept).to_arrow() for named in query.columns]
    answer = pa.Table.from_arrays(arrays, schema=query.output_schema)
    if query.order_by:
        return sorted_rows(answer, query.order_by, query.limit)
    return answer.slice(0, query.limit)


def _names(query: QuerySpec) -> set[str]:
    names = {column.name for column in query.columns_read}
    return names if query.interval is None else {*names, str(query.time_column)}
