"""Turn exact numbers into final columns, with Spark's overflow and rounding."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregates.result_types import average_type
from projseg.errors import EvaluationError
from projseg.kernels.folds.fold_extremum import INT64_MAX
from projseg.segment_format.layout.logical_types import number_limits, numbers_to_arrow, type_name
from projseg.segment_format.vectors.arrow_arrays import (
    primitive_array,
    valid_values,
    validity_bitmap,
)

_EXACT_AS_DOUBLE: Final = 1 << 53


def exact_to_arrow(
    values: NDArray[Any],
    final: pa.DataType,
    validity: NDArray[np.bool_] | None,
    text: str,
    *,
    or_null: bool = False,
) -> pa.Array:
    """Return values as their final type.

    Parameters
    ----------
    values : float64[n], int64[n] or object[n]
        Unscaled integers for decimals; 0 where null.
    final : pa.DataType
        double, bigint or a decimal.
    validity : bool[n] or None
        True where there is a value.
    text : str
        What was computed, for the message.
    or_null : bool
        Whether a value that does not fit becomes null.

    Raises
    ------
    EvaluationError
        PROJSEG_OVERFLOW, if a value does not fit.
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
    """Check that a final type holds all values; parameters are those of `exact_to_arrow`.

    Raises
    ------
    EvaluationError
        PROJSEG_OVERFLOW, if a value does not fit.
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

    Parameters
    ----------
    sums : float64[n], int64[n] or object[n]
        Exact unscaled sums for integers and decimals.
    counts : int64[n]
        How many values each sum is of.
    input_type : pa.DataType
        The type of what was averaged.
    text : str
        What was computed, for the message.
    or_null : bool
        Whether an average that does not fit becomes null.

    Raises
    ------
    EvaluationError
        PROJSEG_OVERFLOW, if a decimal average does not fit its type.
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


def lists_of_length(values: pa.Array, length: int) -> pa.Array:
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
