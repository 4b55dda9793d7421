"""From merged states to a query's final rows: values, HAVING, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from projseg.aggregation.partial import Partial, key_arrow
from projseg.aggregation.states.finish import finish_call
from projseg.algebra.aggregates.decompose import decompose
from projseg.algebra.expressions.evaluate import evaluate_in_parts
from projseg.algebra.expressions.tree import Column
from projseg.algebra.query.result_order import OrderTerm, ascending
from projseg.algebra.query.spec import QuerySpec
from projseg.reader.top_rows import Positions, Ranks, key_ranks, sorted_positions, term_ranks
from projseg.segment_format.arrow_arrays import filled_values, primitive_array


def finish(query: QuerySpec, groups: Partial) -> pa.Table:
    """Return the final rows, columns in the query's order.

    Only what HAVING and ORDER BY need is finished for every group; the rest for the rows kept.
    Ties fall to the keys in their order, so that a limit keeps the same groups whatever the
    sources. Without ORDER BY and limit, the order is not stated.

    Raises
    ------
    EvaluationError
        PROJSEG_OVERFLOW, if a final value does not fit its type.
    """
    outputs = _Outputs(query, groups)
    positions: Positions = None
    if query.having is not None:
        columns = {name: outputs.column(name) for name in query.having.columns}
        kept = evaluate_in_parts(query.having, columns, groups.group_count)
        positions = np.flatnonzero(filled_values(kept, False))
    if query.order_by or query.limit is not None:
        terms = (*query.order_by, *ascending(query.keys))
        positions = _ordered(terms, outputs, positions, query.limit)
    schema = query.output_schema
    return pa.Table.from_arrays([outputs.column(n, positions) for n in schema.names], schema=schema)


class _Outputs:
    """Output columns by name, each finished when it is asked for."""

    def __init__(self, query: QuerySpec, partial: Partial) -> None:
        self._partial = partial
        self._keys = {key.name: index for index, key in enumerate(query.keys)}
        self._calls = {call.name: call for call in query.aggregates}
        self._states = {
            primitive.text: state
            for primitive, state in zip(query.primitives, partial.states, strict=True)
        }
        self._whole: dict[str, pa.Array] = {}

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

    def ranks(self, term: OrderTerm, positions: Positions) -> Ranks:
        """Return the ranks in a term's order of the groups at `positions`."""
        expression = term.expression
        if isinstance(expression, Column) and expression.name in self._keys:
            key = self._partial.keys[self._keys[expression.name]]
            return key_ranks(key if positions is None else key.take(positions), term)
        count = self.group_count if positions is None else len(positions)
        columns = {name: self.column(name, positions) for name in expression.columns}
        return term_ranks(evaluate_in_parts(expression, columns, count), term)

    def _finished(self, name: str, positions: Positions) -> pa.Array:
        if name in self._keys:
            return key_arrow(self._partial, self._keys[name], positions)
        call = self._calls[name]
        states = [self._states[primitive.text] for primitive in decompose(call)]
        return finish_call(call, states, self._partial.positions(positions))


def _ordered(
    terms: Sequence[OrderTerm], outputs: _Outputs, kept: Positions, limit: int | None
) -> Positions:
    """Return the first `limit` of the groups at `kept`, in order."""
    row_count = outputs.group_count if kept is None else len(kept)

    def ranks_at(term: OrderTerm, positions: Positions) -> Ranks:
        groups = positions if kept is None else kept if positions is None else kept[positions]
        return outputs.ranks(term, groups)

    criteria = [partial(ranks_at, term) for term in terms]
    order = sorted_positions(criteria, row_count, limit)
    return order if kept is None else kept[order]
