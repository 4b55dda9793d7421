"""Turn the states of a call's primitives into the call's final values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.aggregation.states.final_values import average_to_arrow, lists_of_length
from projseg.aggregation.states.folded_rows import taken
from projseg.aggregation.states.state import State
from projseg.algebra.aggregates.call import AggregateCall
from projseg.evaluation.arrow_vectors import numbers_of_array
from projseg.segment_format.vectors.vectors import Numbers, Vector


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
    finish = _FINISHES.get(call.function)
    return states[0].finish(selection) if finish is None else finish(call, states, selection)


def finish_numbers(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None = None
) -> Numbers | None:
    """Return what `finish_call` returns as numbers, if that saves work; else None."""
    numbers: Numbers | None = states[0].numbers(selection) if call.function == "sum" else None
    return numbers


_Finish = Callable[[AggregateCall, Sequence[Any], NDArray[Any] | None], pa.Array]


def _finish_average(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
) -> pa.Array:
    return _average(call, states[0], states[1].columns()["count"], selection)


def _finish_distinct_average(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
) -> pa.Array:
    counts = numbers_of_array(states[0].finish())
    return _average(call, states[0].sums(), counts, selection)


def _finish_spread(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
) -> pa.Array:
    return states[0].spread(call.function, selection)


def _finish_listed(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
) -> pa.Array:
    """Join all values of each group; null of no value."""
    lists = states[0].lists(selection)
    joined = pc.binary_join(lists, str(call.parameters[0]))
    return pc.if_else(pc.greater(pc.list_value_length(lists), 0), joined, None)


def _at_shares(method: str) -> _Finish:
    """Return what finishes percentiles by a method of their state."""

    def finish(
        call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
    ) -> pa.Array:
        shares = call.parameters[0]
        of_shares = getattr(states[0], method)
        if not isinstance(shares, tuple):
            return of_shares((shares,), selection)
        return lists_of_length(of_shares(shares, selection), len(shares))

    return finish


def _average(
    call: AggregateCall, sums: State, counts: Vector, selection: NDArray[Any] | None
) -> pa.Array:
    values = _values(sums.columns()["sum"], selection)
    divisors = _values(counts, selection)
    or_null = call.function == "try_avg"
    return average_to_arrow(values, divisors, call.arguments[0].type, call.name, or_null=or_null)


def _values(column: Vector, selection: NDArray[Any] | None) -> NDArray[Any]:
    chosen = taken(column, selection)
    assert isinstance(chosen, Numbers)
    return chosen.wide()


_FINISHES: Final[dict[str, _Finish]] = {
    **dict.fromkeys(("avg", "try_avg"), _finish_average),
    "try_sum": lambda _, states, selection: states[0].tried(selection),
    "approx_count_distinct": lambda _, states, selection: states[0].estimates(selection),
    "approx_percentile": _at_shares("percentiles"),
    "percentile": _at_shares("interpolated"),
    "percentile_disc": _at_shares("discrete"),
    **dict.fromkeys(
        ("collect_set", "collect_list"), lambda _, states, selection: states[0].lists(selection)
    ),
    **dict.fromkeys(("listagg", "listagg_distinct"), _finish_listed),
    **dict.fromkeys(
        ("covar_pop", "covar_samp"),
        lambda call, states, selection: states[0].covariance(call.function, selection),
    ),
    "corr": lambda _, states, selection: states[0].correlation(selection),
    **dict.fromkeys(
        ("skewness", "kurtosis"),
        lambda call, states, selection: states[0].shape(call.function, selection),
    ),
    "sum_distinct": lambda _, states, selection: states[0].sums().finish(selection),
    "avg_distinct": _finish_distinct_average,
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _finish_spread),
}
"""How values are made of states, where that is not the state's own `finish`."""
