"""Calls into primitives, and the primitives' states into final columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregate_call import AggregateCall
from projseg.algebra.aggregators.inputs import taken
from projseg.algebra.aggregators.primitive import Primitive, State
from projseg.algebra.aggregators.results import average_to_arrow
from projseg.segment_format.vectors import Numbers

_PRIMITIVES: Final[dict[str, tuple[str, ...]]] = {
    "count": ("count",),
    "sum": ("sum",),
    "avg": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
    "bool_and": ("min",),
    "bool_or": ("max",),
}


def decompose(call: AggregateCall) -> tuple[Primitive, ...]:
    """Return the primitives whose states make a call's value, in the order of `finish_call`."""
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
    if call.function == "avg":
        sums, counts = (
            _numbers(s, n, selection) for s, n in zip(states, ("sum", "count"), strict=True)
        )
        return average_to_arrow(sums, counts, call.arguments[0].type, call.name)
    return states[0].finish(selection)


def _numbers(state: State, part: str, selection: NDArray[Any] | None) -> NDArray[Any]:
    column = taken(state.columns()[part], selection)
    assert isinstance(column, Numbers)
    return np.asarray(column.values)
