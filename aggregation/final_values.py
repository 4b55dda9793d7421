"""Turn the states of a call's primitives into the call's final values, as Spark computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.aggregation.state import State, rows_at
from projseg.algebra.aggregates.call import AggregateCall
from projseg.algebra.aggregates.result_types import average_type
from projseg.errors import EvaluationError
from projseg.evaluation.arrow_vectors import numbers_of_array
from projseg.kernels.fold_extremum import INT64_MAX
from projseg.segment_format.arrow_arrays import (
    primitive_array,
    valid_values,
    validity_bitmap,
)
from projseg.segment_format.logical_types import number_limits, numbers_to_arrow, type_name
from projseg.segment_format.vectors import Numbers, Vector

_EXACT_AS_DOUBLE: Final = 1 << 53


def exact_to_arrow(
    values: NDArray[Any],
    final: pa.DataType,
    validity: NDArray[np.bool_] | None,
    text: str,
    *,
    or_null: bool = False,
) -> pa.Array:
    """Return values, unscaled integers for decimals, as their final type.

    Values that do not fit become null if `or_null`; otherwise EvaluationError (PROJSEG_OVERFLOW)
    says by `text` what was computed. Null values hold 0.
    """
    if or_null and final != pa.float64():
        low, high = number_limits(final)
        fits = (values >= low) & (values <= high)
        if not fits.all():
            validity = np.asarray(fits if validity is None else fits & validity, np.bool_)
            values = np.where(fits, values, 0)
    else:
        check_fits(values, final, text)
    return numbers_to_arrow(values, final, validity)


def check_fits(values: NDArray[Any], final: pa.DataType, text: str) -> None:
    """Raise EvaluationError (PROJSEG_OVERFLOW) unless a final type holds all values.

    Arguments are those of `exact_to_arrow`.
    """
    if final == pa.float64() or len(values) == 0:
        return
    low, high = number_limits(final)
    smallest, largest = int(values.min()), int(values.max())
    if smallest < low or largest > high:
        raise EvaluationError(
            "PROJSEG_OVERFLOW",
            f"{text} is {largest if largest > high else smallest} (unscaled), which"
            f" {type_name(final)} does not hold; cast its input to a wider type or to double",
        )


def average_to_arrow(
    sums: NDArray[Any],
    counts: NDArray[np.int64],
    input_type: pa.DataType,
    text: str,
    *,
    or_null: bool = False,
) -> pa.Array:
    """Return `sums / counts`: null of no value, decimals rounded half away from zero.

    Sums of integers and decimals are exact and unscaled. Averages that do not fit become null if
    `or_null`; otherwise EvaluationError (PROJSEG_OVERFLOW) says by `text` what was computed.
    """
    final = average_type(input_type)
    has_value = counts > 0
    validity = None if has_value.all() else has_value
    divisors = np.where(has_value, counts, 1)
    if final == pa.float64():
        return numbers_to_arrow(_quotients(sums, divisors), final, validity)
    shift: int = 10 ** (final.scale - input_type.scale)
    if not _fit_when_doubled(sums, shift, divisors):
        sums, divisors = sums.astype(object), divisors.astype(object)
    scaled = sums * shift
    halves = (abs(scaled) * 2 + divisors) // (divisors * 2)
    rounded = np.where(scaled < 0, -halves, halves) if len(scaled) else scaled
    return exact_to_arrow(rounded, final, validity, text, or_null=or_null)


def _fit_when_doubled(sums: NDArray[Any], shift: int, divisors: NDArray[np.int64]) -> bool:
    """Whether 64 bits hold twice the shifted sums, and a divisor more."""
    if sums.dtype == object:
        return False
    largest = max(abs(int(sums.min())), abs(int(sums.max()))) if len(sums) else 0
    return 2 * (largest * shift + int(divisors.max(initial=1))) <= INT64_MAX


def _quotients(sums: NDArray[Any], divisors: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divide; integers too wide for a double are divided exactly and rounded once."""
    is_narrow = sums.dtype != object and (
        sums.dtype.kind == "f" or len(sums) == 0 or abs(sums).max() <= _EXACT_AS_DOUBLE
    )
    if is_narrow:
        return np.asarray(sums / divisors, np.float64)
    pairs = zip(sums.tolist(), divisors.tolist(), strict=True)
    return np.array([total / count for total, count in pairs], np.float64)


def _lists_of_length(values: pa.Array, length: int) -> pa.Array:
    """Return every `length` values as a list; null where the first is null."""
    is_valid = valid_values(values)[::length]
    ends = np.cumsum(np.where(is_valid, length, 0), dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    bitmap, null_count = validity_bitmap(None if is_valid.all() else is_valid)
    kept = values.filter(primitive_array(np.repeat(is_valid, length)))
    buffers = [bitmap, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(
        pa.list_(values.type), len(is_valid), buffers, null_count, children=[kept]
    )


def finish_call(
    call: AggregateCall, states: Sequence[State], selection: NDArray[Any] | None = None
) -> pa.Array:
    """Return a call's final values from a state for each of `decompose(call)`.

    `selection` has the groups to finish, in order. Raises EvaluationError (PROJSEG_OVERFLOW) if a
    value does not fit the result type.
    """
    finish = _FINISHES.get(call.function)
    return states[0].finish(selection) if finish is None else finish(call, states, selection)


def finish_numbers(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
) -> Numbers | None:
    """Return what `finish_call` returns as numbers, if that saves work; else None."""
    numbers: Callable[..., Numbers] | None = getattr(states[0], "numbers", None)
    return None if numbers is None or call.function in _FINISHES else numbers(selection)


_Finish = Callable[[AggregateCall, Sequence[Any], NDArray[Any] | None], pa.Array]


def _finish_average(
    call: AggregateCall,
    states: Sequence[Any],
    selection: NDArray[Any] | None,
    or_null: bool = False,
) -> pa.Array:
    return _average(call, states[0], states[1].columns()["count"], selection, or_null)


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
        return _lists_of_length(of_shares(shares, selection), len(shares))

    return finish


def _average(
    call: AggregateCall,
    sums: State,
    counts: Vector,
    selection: NDArray[Any] | None,
    or_null: bool = False,
) -> pa.Array:
    values = _values(sums.columns()["sum"], selection)
    divisors = _values(counts, selection)
    return average_to_arrow(values, divisors, call.arguments[0].type, call.name, or_null=or_null)


def _values(column: Vector, selection: NDArray[Any] | None) -> NDArray[Any]:
    chosen = rows_at(column, selection)
    assert isinstance(chosen, Numbers)
    return chosen.wide()


_FINISHES: Final[dict[str, _Finish]] = {
    "avg": _finish_average,
    "try_avg": partial(_finish_average, or_null=True),
    "try_sum": lambda _, states, selection: states[0].tried(selection),
    "approx_count_distinct": lambda _, states, selection: states[0].estimates(selection),
    "approx_percentile": _at_shares("percentiles"),
    "percentile": _at_shares("interpolated"),
    "percentile_disc": _at_shares("discrete"),
    **dict.fromkeys(
        ("collect_set", "collect_list"), lambda _, states, selection: states[0].lists(selection)
    ),
    **dict.fromkeys(("listagg", "listagg_distinct"), _finish_listed),
    "covar_samp": lambda _, states, selection: states[0].covariance(selection, is_sample=True),
    "corr": lambda _, states, selection: states[0].correlation(selection),
    "kurtosis": lambda _, states, selection: states[0].kurtosis(selection),
    "sum_distinct": lambda _, states, selection: states[0].sums().finish(selection),
    "avg_distinct": _finish_distinct_average,
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _finish_spread),
}
"""How values are made of states, where that is not the state's own `finish`."""
