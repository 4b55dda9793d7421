"""Answer a planned query, whatever it asks for: rows, final groups or states."""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa

from projseg.aggregation.partial import Partial, key_arrow
from projseg.algebra.query.bound_query import QuerySpec
from projseg.memory.deadline import answered_within, check_deadline
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.run.finish import finish
from projseg.reader.run.run_plan import run_partial
from projseg.reader.scan.row_scan import scan_table
from projseg.table_layer.storage.locate_storage import Storage

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
