"""Answer a planned query, or a query over rows in memory: from merged states to final rows.

Values, HAVING, ORDER BY and LIMIT are computed from the states of all groups.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from projseg.aggregation.final_values import finish_call, finish_numbers
from projseg.aggregation.fold import fold, groups_of_sets
from projseg.aggregation.partial import Partial, key_arrow
from projseg.aggregation.state import State
from projseg.algebra.aggregates.group_by import GROUPING_ID
from projseg.algebra.aggregates.parse_aggregate import AggregateCall
from projseg.algebra.expressions.evaluate import evaluate_in_parts
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import AddRows
from projseg.algebra.query.bound_query import OrderTerm, QuerySpec, ascending
from projseg.errors import CorruptionError, StorageError
from projseg.evaluation.arrow_vectors import concat_texts, grouping_vector
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import mask_by_all
from projseg.evaluation.rows import MaskedRows, MemorySource, all_rows
from projseg.memory.deadline import answered_within, check_deadline
from projseg.reader.declared_values import declared_columns_named
from projseg.reader.order_ranks import (
    Positions,
    Ranks,
    key_ranks,
    number_ranks,
    sorted_positions,
    term_ranks,
)
from projseg.reader.plan.query_plan import QueryPlan, plan_query
from projseg.reader.row_scan import scan_table
from projseg.reader.run_plan import run_in_parts
from projseg.reader.sorted_batches import sorted_rows
from projseg.segment_format.arrow_arrays import filled_values, primitive_array
from projseg.segment_format.logical_types import is_text
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.storage_contract import Storage

_LOGGER: Final = logging.getLogger("projseg.views")
# Key of a partial answer's schema metadata: JSON of how its states are merged.
_MERGING: Final = b"projseg.aggregates"


def answer(storage: Storage, plan: QueryPlan, threads: int | None = None) -> pa.Table:
    """Return the rows of a plan's answer, with the columns of its query's `output_schema`.

    Without a number of threads, the query and the machine decide.
    """
    query = plan.query
    with answered_within(query.context.time_limit), declared_columns_named(storage, query):
        if query.is_row_scan:
            return scan_table(storage, plan, threads)
        parts = run_in_parts(storage, plan, threads)
        if query.is_partial:
            return pa.concat_tables([_states(query, groups) for groups in parts])
        return _finished_parts(query, parts)


def answer_without_views(
    storage: Storage,
    plan: QueryPlan,
    instead: Callable[[], QueryPlan | None],
    threads: int | None = None,
) -> pa.Table:
    """Return the rows of a plan's answer; where a view's part cannot be read, of its segments.

    `instead` plans the segments for which parts of a view stand, or returns None, and the error is
    raised.
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
    schema = query.output_schema.with_metadata({_MERGING: json.dumps(merging)})
    return pa.Table.from_arrays(arrays, schema=schema)


def answer_over(query: QuerySpec, rows: pa.Table) -> pa.Table:
    """Return the answer of a query over rows in memory, with the query's `output_schema`."""
    vectors = {name: grouping_vector(rows.column(name)) for name in _names(query)}
    source = MaskedRows(all_rows(MemorySource(len(rows), vectors)))
    selected = mask_by_all(source, (*query.bounds, *query.conditions))
    if not query.is_row_scan:
        keys = [key.expression for key in query.keys]
        feeds = [AddRows(p.arguments, p.filter) for p in query.primitives]
        groups = fold(selected.rows, keys, query.primitives, feeds, mask=selected.mask)
        return _finished(query, groups)
    kept = selected.compact()
    arrays = [evaluate_over(named.expression, kept).to_arrow() for named in query.columns]
    answer = pa.Table.from_arrays(arrays, schema=query.output_schema)
    if query.order_by:
        return sorted_rows(answer, query.order_by, query.limit)
    return answer.slice(0, query.limit)


def _names(query: QuerySpec) -> set[str]:
    names = {column.name for column in query.columns_read}
    return names if query.interval is None else {*names, str(query.time_column)}


def _finished_parts(query: QuerySpec, parts: Iterator[Partial]) -> pa.Table:
    """Return the final rows of groups that may lie in several partials."""
    first = next(parts)
    check_deadline()
    second = next(parts, None)
    if second is None:
        return _finished(query, first)
    every = chain((first, second), parts)
    if not query.order_by and query.limit is None:
        return pa.concat_tables([_finished(query, groups) for groups in every])
    kept: dict[str, list[pa.Array]] = {}
    for groups in every:
        columns = _GroupColumns(query, groups)
        positions = _having_positions(query, columns)
        if query.limit is not None:
            positions = _ordered_positions(query, columns, positions)
        for name in columns.names:
            kept.setdefault(name, []).append(columns.column(name, positions))
    together = _FinishedColumns({name: _concatenated(kept[name]) for name in kept})
    return _rows(query, together, _ordered_positions(query, together, None))


def _concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    return concat_texts(arrays) if is_text(arrays[0].type) else pa.concat_arrays(arrays)


def _finished(query: QuerySpec, groups: Partial) -> pa.Table:
    """Return the final rows, columns in the query's order.

    Only what HAVING and ORDER BY need is finished for every group; the rest, and expressions over
    aggregates, for the rows kept.
    """
    if query.grouping_sets is not None:
        groups = groups_of_sets(groups, query.grouping_sets, query.primitives)
    columns = _GroupColumns(query, groups)
    positions = _having_positions(query, columns)
    return _rows(query, columns, _ordered_positions(query, columns, positions))


def _having_positions(query: QuerySpec, columns: _Columns) -> Positions:
    if query.having is None:
        return None
    return np.flatnonzero(filled_values(_value(columns, query.having), False))


def _ordered_positions(query: QuerySpec, columns: _Columns, kept: Positions) -> Positions:
    """Return the groups at `kept` that a limit leaves, in order.

    Ties fall to the keys in their order, so that a limit keeps the same groups whatever the
    sources. Without ORDER BY and limit, the order is not stated.
    """
    if not query.order_by and query.limit is None:
        return kept
    terms = (*query.order_by, *ascending(query.keys), *_set_terms(query))
    return _ordered(terms, columns, kept, query.limit)


def _rows(query: QuerySpec, columns: _Columns, positions: Positions) -> pa.Table:
    arrays = [columns.column(key.name, positions) for key in query.keys]
    arrays += [_value(columns, output.expression, positions) for output in query.outputs]
    return pa.Table.from_arrays(arrays, schema=query.output_schema)


def _value(columns: _Columns, expression: Expression, positions: Positions = None) -> pa.Array:
    """Return an expression's values for the groups at `positions`, or for all."""
    if isinstance(expression, Column):
        return columns.column(expression.name, positions)
    count = columns.group_count if positions is None else len(positions)
    values = {name: columns.column(name, positions) for name in expression.columns}
    return evaluate_in_parts(expression, values, count)


class _Columns(Protocol):
    """The keys and aggregates of groups by name."""

    @property
    def group_count(self) -> int: ...

    def column(self, name: str, positions: Positions = None) -> pa.Array: ...

    def ranks(self, term: OrderTerm, positions: Positions, wanted: int | None) -> Ranks:
        """Return the ranks in a term's order of the groups at `positions`, as a `RanksAt` does."""


class _FinishedColumns:
    """The keys and aggregates of groups whose states are gone."""

    def __init__(self, values: Mapping[str, pa.Array]) -> None:
        self._values = values

    @property
    def group_count(self) -> int:
        return len(next(iter(self._values.values())))

    def column(self, name: str, positions: Positions = None) -> pa.Array:
        values = self._values[name]
        return values if positions is None else values.take(primitive_array(positions))

    def ranks(self, term: OrderTerm, positions: Positions, wanted: int | None) -> Ranks:
        return term_ranks(_value(self, term.expression, positions), term, wanted)


class _GroupColumns:
    """The keys and aggregates of groups by name, each finished at its first use."""

    def __init__(self, query: QuerySpec, partial: Partial) -> None:
        self._partial = partial
        self._keys = {key.name: index for index, key in enumerate(query.keys)}
        if query.grouping_sets is not None:
            self._keys[GROUPING_ID] = len(query.keys)
        self._calls = {call.name: call for call in query.aggregates}
        self._primitives_of = query.primitives_of
        self._states = {
            primitive.text: state
            for primitive, state in zip(query.primitives, partial.states, strict=True)
        }
        self._whole: dict[str, pa.Array] = {}

    @property
    def names(self) -> Sequence[str]:
        return [*self._keys, *self._calls]

    @property
    def group_count(self) -> int:
        return self._partial.group_count

    def column(self, name: str, positions: Positions = None) -> pa.Array:
        if name in self._whole:
            whole = self._whole[name]
            return whole if positions is None else whole.take(primitive_array(positions))
        array = self._finished(name, positions)
        if positions is None:
            self._whole[name] = array
        return array

    def ranks(self, term: OrderTerm, positions: Positions, wanted: int | None) -> Ranks:
        expression = term.expression
        if isinstance(expression, Column) and expression.name in self._keys:
            key = self._partial.keys[self._keys[expression.name]]
            return key_ranks(key if positions is None else key.take(positions), term, wanted)
        ranks = self._ranks_of_numbers(term, positions)
        if ranks is not None:
            return ranks
        return term_ranks(_value(self, expression, positions), term, wanted)

    def _ranks_of_numbers(self, term: OrderTerm, positions: Positions) -> Ranks | None:
        if not isinstance(term.expression, Column) or term.expression.name in self._whole:
            return None
        call, states = self._call(term.expression.name)
        numbers = finish_numbers(call, states, self._partial.positions(positions))
        if numbers is None:
            return None
        return number_ranks(numbers.wide(), numbers.validity, term)

    def _finished(self, name: str, positions: Positions) -> pa.Array:
        if name in self._keys:
            return key_arrow(self._partial, self._keys[name], positions)
        return finish_call(*self._call(name), self._partial.positions(positions))

    def _call(self, name: str) -> tuple[AggregateCall, Sequence[State]]:
        call = self._calls[name]
        return call, [self._states[primitive.text] for primitive in self._primitives_of[name]]


def _set_terms(query: QuerySpec) -> tuple[OrderTerm, ...]:
    """Return the order of groups whose keys are the same, since nulls stand for absent keys."""
    is_alone = query.grouping_sets is None
    return () if is_alone else (OrderTerm(Column(pa.int64(), GROUPING_ID)),)


def _ordered(
    terms: Sequence[OrderTerm], columns: _Columns, kept: Positions, limit: int | None
) -> Positions:
    """Return the first `limit` of the groups at `kept`, in order."""
    row_count = columns.group_count if kept is None else len(kept)

    def ranks_at(term: OrderTerm, positions: Positions, wanted: int | None) -> Ranks:
        groups = positions if kept is None else kept if positions is None else kept[positions]
        return columns.ranks(term, groups, wanted)

    criteria = [partial(ranks_at, term) for term in terms]
    order = sorted_positions(criteria, row_count, limit)
    return order if kept is None else kept[order]
