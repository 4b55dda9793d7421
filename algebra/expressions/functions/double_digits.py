"""Doubles by their shortest digits: as decimals, and rounded, as Java's BigDecimal does.

Most are rounded by arithmetic on doubles, exactly away from ties; the others by their texts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.datum import doubles, overflow, valid_mask
from projseg.algebra.expressions.functions.decimal_arithmetic import decimals
from projseg.kernels.decimals.wide_arithmetic import Rounding
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import (
    WIDE,
    as_wide,
    halves,
    primitive_array,
    scalar_of,
    text_array,
    text_buffers,
)
from projseg.segment_format.logical_types import DECIMAL_DIGITS_MAX, DOUBLE_DIGITS, type_name

DOUBLE_BITS: Final = 53
"""Whole numbers of so many bits are doubles."""
DOUBLE_POWER_MAX: Final = 22
"""Ten to this power, and to all below, is a double."""
ROUNDED_DIGITS_MAX: Final = 400
"""Beyond so many digits, no number changes, or all become 0."""
_TOLERANCES: Final = {pa.float64(): (2.0**-49, 2.0**44), pa.float32(): (2.0**-21, 2.0**17)}
"""Twice the relative distance of a float from its digits, and the sizes for which it is small."""


def double_to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return floats as decimals, by way of the shortest text of each as a double, as Spark does.

    NaN and the infinities become null. Raises PROJSEG_EVALUATION_OVERFLOW if a value has too many
    digits.
    """
    array = array.cast(pa.float64())
    values = doubles(array, len(array))
    valid = valid_mask(array, len(array)) & np.isfinite(values)
    units, is_sure = _nearest_units(array, values, wanted.scale)
    sizes = np.where(is_sure & valid, np.copysign(units, values), 0.0).astype(np.int64)
    unscaled = as_wide(sizes)
    is_outside = abs(sizes) >= 10 ** min(wanted.precision, 18)
    rest = valid & ~is_sure
    if rest.any():
        read, readings = _read(array.filter(primitive_array(rest)), wanted.precision, wanted.scale)
        unscaled[rest] = read
        is_outside[rest] = readings != 0
    if is_outside.any():
        first = array[int(np.flatnonzero(is_outside)[0])].as_py()
        error = overflow(f"{first} does not fit {type_name(wanted)}")
        error.rows = is_outside
        raise error
    return decimals(halves(unscaled), wanted, valid)


def rounded_doubles(array: pa.Array, digits: int, rounding: Rounding) -> pa.Array:
    """Return floats rounded to decimal digits, half up or half to even; NaN and infinities stay."""
    digits = max(min(digits, ROUNDED_DIGITS_MAX), -ROUNDED_DIGITS_MAX)
    values = doubles(array, len(array))
    valid = valid_mask(array, len(array))
    units, is_sure = _nearest_units(array, values, digits)
    is_finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        quick = np.copysign(units / 10.0 ** min(max(digits, 0), DOUBLE_POWER_MAX), values) + 0.0
    rounded = primitive_array(np.where(is_finite, quick, values), valid).cast(
        array.type, safe=False
    )
    rest = valid & is_finite & ~is_sure
    if not rest.any():
        return rounded
    of_texts = _rounded_texts(array.filter(primitive_array(rest)), digits, rounding)
    return pc.replace_with_mask(rounded, primitive_array(rest), of_texts)


def _nearest_units(
    array: pa.Array, values: NDArray[np.float64], digits: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return (sizes in units of the last digit, rounded; where that is sure, as no tie is near)."""
    if not 0 <= digits <= DOUBLE_POWER_MAX:
        return np.zeros(len(values)), np.zeros(len(values), np.bool_)
    tolerance, most = _TOLERANCES[array.type]
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.abs(values) * 10.0**digits
        units = np.floor(sizes + 0.5)
        is_sure = np.abs(sizes - np.floor(sizes) - 0.5) > tolerance * sizes
        is_sure &= sizes < most
        if array.type == pa.float64():
            # Two decimals of so few digits are never nearest to the same double.
            is_sure |= (units < 10.0**DOUBLE_DIGITS) & (units / 10.0**digits == np.abs(values))
    return units, is_sure


def _read(
    array: pa.Array, precision: int, scale: int, rounding: Rounding = Rounding.HALF_UP
) -> tuple[NDArray[np.void], NDArray[np.uint8]]:
    """Return finite floats by their texts: WIDE[n], and how each was read."""
    with late_import:
        from projseg.kernels.decimals.decimal_texts import read_decimals
    every = np.ones(len(array), np.bool_)
    texts = text_buffers(array.cast(pa.string()))
    found, readings = read_decimals(*texts, every, precision, scale, rounding)
    return found.view(WIDE).reshape(-1), readings


def _rounded_texts(array: pa.Array, digits: int, rounding: Rounding) -> pa.Array:
    """Round finite floats by their texts; what has too many digits before has none to lose."""
    with late_import:
        from projseg.kernels.decimals.decimal_texts import decimal_texts
    found, readings = _read(array, DECIMAL_DIGITS_MAX, digits, rounding)
    is_read = readings == 0
    written = decimal_texts(halves(found), 0, np.ones(len(array), np.bool_))
    assert written is not None, "doubles have few digits"
    whole = text_array(*written, pa.string(), None)
    power = scalar_of(f"e{-digits}", pa.string())
    texts = pc.binary_join_element_wise(whole, power, scalar_of("", pa.string()))
    moved = texts.cast(pa.float64()).cast(array.type, safe=False)
    return pc.if_else(primitive_array(is_read), moved, array)
