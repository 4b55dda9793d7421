"""Calls into primitives, and the primitives' states into final columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregators.distinct import DistinctState
from projseg.algebra.aggregators.functions import HLL_LG_K
from projseg.algebra.aggregators.inputs import numbers_of_array, taken
from projseg.algebra.aggregators.moments import MomentsState
from projseg.algebra.aggregators.primitive import Primitive, State
from projseg.algebra.aggregators.results import average_to_arrow
from projseg.segment_format.vectors import Numbers, Vector

if TYPE_CHECKING:
    from projseg.algebra.aggregators.hll import HllState

_PRIMITIVES: Final[dict[str, tuple[str, ...]]] = {
    "count": ("count",),
    "sum": ("sum",),
    "avg": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
    "bool_and": ("min",),
    "bool_or": ("max",),
    "bit_and": ("bit_and",),
    "bit_or": ("bit_or",),
    "bit_xor": ("bit_xor",),
    "first": ("min_by",),
    "last": ("max_by",),
    "min_by": ("min_by",),
    "max_by": ("max_by",),
    "var_pop": ("moments",),
    "var_samp": ("moments",),
    "stddev_pop": ("moments",),
    "stddev_samp": ("moments",),
    "hll_sketch_agg": ("hll",),
    "theta_sketch_agg": ("theta",),
    "count_distinct": ("distinct",),
    "sum_distinct": ("distinct",),
    "avg_distinct": ("distinct",),
}


def decompose(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives whose states make a call's value, in the order of `finish_call`."""
    if call.function == "approx_count_distinct":
        return (Primitive("hll", call.arguments, call.filter, (HLL_LG_K,)),)
    return tuple(
        Primitive(function, call.arguments, call.filter, call.parameters)
        for function in _PRIMITIVES[call.function]
    )


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
