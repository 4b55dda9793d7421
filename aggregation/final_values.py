"""Turn the states of a call's primitives into the call's final values, as Spark computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.aggregation.state import State, rows_at
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.parse_aggregate import AggregateCall
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
from projseg.segment_format.vectors import Numbers

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
    function = AGGREGATES[call.function]
    if function.is_average:
        return _average(call, states, selection, or_null=function.or_null)
    finish: Callable[..., pa.Array] = getattr(states[0], function.finisher)
    if function.takes_shares:
        return _at_shares(finish, call.parameters[0], selection)
    if function.takes_separator:
        return _joined(finish(selection), str(call.parameters[0]))
    return finish(selection)


def finish_numbers(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None
) -> Numbers | None:
    """Return the values of `finish_call` as numbers, if that saves work; else None."""
    function = AGGREGATES[call.function]
    numbers: Callable[..., Numbers] | None = getattr(states[0], "numbers", None)
    is_plain = function.finisher == "finish" and not function.is_average
    return numbers(selection) if numbers is not None and is_plain else None


def _joined(lists: pa.Array, separator: str) -> pa.Array:
    """Join all values of each group; null of no value."""
    joined = pc.binary_join(lists, separator)
    return pc.if_else(pc.greater(pc.list_value_length(lists), 0), joined, None)


def _at_shares(
    finish: Callable[..., pa.Array], shares: Any, selection: NDArray[Any] | None
) -> pa.Array:
    """Return percentiles, of several shares as lists."""
    if not isinstance(shares, tuple):
        return finish((shares,), selection)
    return _lists_of_length(finish(shares, selection), len(shares))


def _average(
    call: AggregateCall, states: Sequence[Any], selection: NDArray[Any] | None, *, or_null: bool
) -> pa.Array:
    """Return sums by counts, of two states or of one that has both."""
    sums, counts = (states[0].sums(), states[0]) if len(states) == 1 else states
    values = rows_at(sums.columns()["sum"], selection)
    assert isinstance(values, Numbers)
    divisors = numbers_of_array(counts.finish(selection)).wide()
    return average_to_arrow(
        values.wide(), divisors, call.arguments[0].type, call.name, or_null=or_null
    )
