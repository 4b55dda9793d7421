"""Steps of block programs over integers of 128 bits, which are two registers of 64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel


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
    """Divide integers of 128 bits by a constant below 2**31, towards zero or half away from it.

    Of the quotient, the lower or the upper half is written. It is divided as on paper, with digits
    of 32 bits, and nothing branches.

    Shapes: low, high, out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    inverse = 1.0 / divisor
    rounded_from = divisor - divisor // 2 if is_half_up else divisor
    for row in range(len(out)):
        sign = high[row] >> 63  # -1 or 0: x ^ sign, less sign, is the size of x
        lower = (low[row] ^ sign) - sign
        upper = (high[row] ^ sign) + (np.int64(lower == 0) & -sign)
        first = (upper >> 32) & 0xFFFFFFFF
        digit = _digit(first, divisor, inverse)
        above = digit << 32
        rest = ((first - digit * divisor) << 32) | (upper & 0xFFFFFFFF)
        digit = _digit(rest, divisor, inverse)
        above |= digit
        rest = ((rest - digit * divisor) << 32) | ((lower >> 32) & 0xFFFFFFFF)
        digit = _digit(rest, divisor, inverse)
        below = digit << 32
        rest = ((rest - digit * divisor) << 32) | (lower & 0xFFFFFFFF)
        digit = _digit(rest, divisor, inverse)
        below |= digit
        carry = np.int64(rest - digit * divisor >= rounded_from)
        below += carry
        above += carry & np.int64(below == 0)
        below = (below ^ sign) - sign
        above = (above ^ sign) + (np.int64(below == 0) & -sign)
        out[row] = above if is_high else below


@kernel
def _digit(number: int, divisor: int, inverse: float) -> Any:
    """Return a quotient below 2**32 of positive numbers of at most 63 bits.

    The product of doubles, which takes a fraction of a division, misses it by one at most.

    Part of: `divide_halves`.
    """
    quotient = np.int64(np.float64(number) * inverse)
    rest = number - quotient * divisor
    return quotient - np.int64(rest < 0) + np.int64(rest >= divisor)
