"""Turn the states of a call's primitives into the call's final values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.arrow_vectors import numbers_of_array
from projseg.aggregation.states.distinct import DistinctState
from projseg.aggregation.states.final_values import average_to_arrow
from projseg.aggregation.states.inputs import taken
from projseg.aggregation.states.moments import MomentsState
from projseg.aggregation.states.state import State
from projseg.algebra.aggregates.call import AggregateCall
from projseg.segment_format.vectors import Numbers, Vector

if TYPE_CHECKING:
    from projseg.aggregation.states.hll import HllState


def finish_call(
    call: AggregateCall, states: Sequence[State], selection: NDArray[Any] | None = None
) -> pa.Array:
    """Return a call's final values.

    Parameters
    ----------
    call : AggregateCall
        What was asked.
    states : sequence of State
        One for each of `decompose(call)`, over the same groups.
    selection : int[m] or None
        The groups to finish, in that order; None: all.

    Raises
    ------
    EvaluationError
        PROJSEG_OVERFLOW, if a value does not fit the result type.
    """
    first = states[0]
    if call.function == "avg":
        return _average(call, first, states[1].columns()["count"], selection)
    if call.function == "approx_count_distinct":
        return cast("HllState", first).estimates(selection)
    if isinstance(first, MomentsState):
        return first.spread(call.function, selection)
    if isinstance(first, DistinctState) and call.function != "count_distinct":
        sums = first.sums()
        if call.function == "sum_distinct":
            return sums.finish(selection)
        counts = numbers_of_array(first.finish())
        return _average(call, sums, counts, selection)
    return first.finish(selection)


def _average(
    call: AggregateCall, sums: State, counts: Vector, selection: NDArray[Any] | None
) -> pa.Array:
    values = _values(sums.columns()["sum"], selection)
    divisors = _values(counts, selection)
    return average_to_arrow(values, divisors, call.arguments[0].type, call.name)


def _values(column: Vector, selection: NDArray[Any] | None) -> NDArray[Any]:
    chosen = taken(column, selection)
    assert isinstance(chosen, Numbers)
    return chosen.wide()
