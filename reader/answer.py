"""Answer a planned query, whatever it asks for, or a question over rows in memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from projseg.aggregation.fold import fold
from projseg.aggregation.partial import Partial, key_arrow
from projseg.algebra.planning.source_plan import AddRows
from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import CorruptionError, StorageError
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import mask_by_all
from projseg.evaluation.rows import MaskedRows, MemorySource, all_rows
from projseg.memory.deadline import answered_within, check_deadline
from projseg.reader.plan.query_plan import QueryPlan, plan_query
from projseg.reader.run.finish import finish
from projseg.reader.run.run_plan import run_partial
from projseg.reader.scan.row_scan import scan_table, sorted_rows
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.locate_storage import Storage

_LOGGER: Final = logging.getLogger("projseg.views")
MERGING: Final = b"projseg.aggregates"
"""Key of a partial answer's schema metadata: JSON of how its states are merged."""


def answer(storage: Storage, plan: QueryPlan, threads: int | None = None) -> pa.Table:
    """Return the rows of a plan's answer, with the columns of its query's `output_schema`.

    Parameters
    ----------
    storage : Storage
        Where the table is.
    plan : QueryPlan
        What to read.
    threads : int or None
        How many may work; None leaves it to the query and the machine.

    Raises
    ------
    EvaluationError
        If an expression meets a value that Spark's ANSI mode refuses.
    LimitExceededError
        If the answer is too large.
    QueryTimeoutError
        PROJSEG_QUERY_TIMEOUT if the context's timeLimit passes.
    StorageError, CorruptionError
        If a file cannot be read, or is damaged.
    """
    query = plan.query
    with answered_within(query.context.time_limit):
        if query.is_row_scan:
            return scan_table(storage, plan, threads)
        groups = run_partial(storage, plan, plan.segments, threads)
        check_deadline()
        return _states(query, groups) if query.is_partial else finish(query, groups)


def answer_without_views(
    storage: Storage,
    plan: QueryPlan,
    instead: Callable[[], QueryPlan | None],
    threads: int | None = None,
) -> pa.Table:
    """Return the rows of a plan's answer; where a view's part cannot be read, of its segments.

    Parameters
    ----------
    storage, plan, threads
        As of `answer`.
    instead : callable
        Plans the segments for which parts of a view stand; None: the error is raised.

    Raises
    ------
    ProjsegError
        As of `answer`.
    """
    try:
        return answer(storage, plan, threads)
    except (CorruptionError, StorageError) as error:
        other = instead()
        if other is None:
            raise
        _LOGGER.warning("a view cannot be read, and its segments answer instead: %s", error)
        return answer(storage, other, threads)


def segments_instead(snapshot: Snapshot, plan: QueryPlan) -> QueryPlan | None:
    """Return the plan of a query's segments; None if its plan reads no view, or must read one."""
    if not plan.is_wide or plan.query.context.force_views:
        return None
    return plan_query(snapshot, plan.query)


def _states(query: QuerySpec, groups: Partial) -> pa.Table:
    """Return one row for each group: its keys, then the columns of its states."""
    columns = {
        primitive.text: groups.state_columns(index)
        for index, primitive in enumerate(query.primitives)
    }
    arrays = [key_arrow(groups, index) for index in range(len(query.keys))]
    arrays += [
        columns[state.primitive.text][state.part].to_arrow()
        for one in query.mergeable
        for state in one.states
    ]
    merging = [
        {
            "name": one.name,
            "value": one.value,
            "states": [{"name": state.name, "merged": state.merged} for state in one.states],
        }
        for one in query.mergeable
    ]
    schema = query.output_schema.with_metadata({MERGING: json.dumps(merging)})
    return pa.Table.from_arrays(arrays, schema=schema)


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
