"""Steps of block programs over integers of 128 bits, which are two registers of 64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.kernel import kernel


@kernel
def multiply_high(x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Compute the upper 64 bits of products of 128. After: Warren, "Hacker's Delight", 8-2.

    Shapes: x, y, out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    for row in range(len(out)):
        x_low, x_high = x[row] & 0xFFFFFFFF, x[row] >> 32
        y_low, y_high = y[row] & 0xFFFFFFFF, y[row] >> 32
        lowest = np.int64((np.uint64(x_low) * np.uint64(y_low)) >> np.uint64(32))
        middle = x_high * y_low + lowest
        other = x_low * y_high + (middle & 0xFFFFFFFF)
        out[row] = x_high * y_high + (middle >> 32) + (other >> 32)


@kernel
def divide_halves(
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    divisor: int,
    is_half_up: bool,
    is_high: bool,
    out: NDArray[np.int64],
) -> None:
    """Divide integers of 128 bits by a constant of 32, towards zero or half away from it.

    Of the quotient, the lower or the upper half is written. It is divided as on paper, with digits
    of 32 bits.

    Shapes: low, high, out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    by, digit = np.uint64(divisor), np.uint64(0xFFFFFFFF)
    shift, one = np.uint64(32), np.uint64(1)
    half = by - by // np.uint64(2)
    for row in range(len(out)):
        lower, upper = np.uint64(low[row]), np.uint64(high[row])
        is_negative = high[row] < 0
        if is_negative:
            lower, upper = ~lower + one, ~upper + np.uint64(low[row] == 0)
        above = upper // by if upper >= by else np.uint64(0)
        left = upper - above * by
        if is_high and left != np.uint64(0) and left != by - one:
            # The lower half of the quotient is neither 0 nor the greatest: nothing is carried.
            out[row] = np.int64(~above if is_negative else above)
            continue
        rest = (left << shift) | (lower >> shift)
        first = rest // by
        rest = ((rest - first * by) << shift) | (lower & digit)
        second = rest // by
        rest -= second * by
        # `left` is below 2**32, so `first` and `second` are digits.
        below = (first << shift) | second
        if is_half_up and rest >= half:
            below += one
            above += np.uint64(below == np.uint64(0))
        if is_negative:
            below, above = ~below + one, ~above + np.uint64(below == np.uint64(0))
        out[row] = np.int64(above if is_high else below)
