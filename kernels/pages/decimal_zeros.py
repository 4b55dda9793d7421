"""How many decimal zeros all of some integers end with."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel

ZEROS_MAX: Final = 18
_DIGITS_A_STEP: Final = 9  # of a divisor of 32 bits


def common_zeros(halves: NDArray[np.int64]) -> int:
    """Return the greatest number of zeros, at most ZEROS_MAX, that all integers end with.

    Parameters
    ----------
    halves : int64[n, 2]
        The lower and the upper half of each integer of 128 bits.

    Raises
    ------
    InvalidInputError
        If there are not two halves.
    """
    if halves.shape[1:] != (2,):
        raise InvalidInputError("PROJSEG_INTERNAL", f"{halves.shape} are no halves")
    return int(_common_zeros(halves, ZEROS_MAX))


@kernel(interpretable=True)
def _common_zeros(halves: NDArray[np.int64], zeros: int) -> Any:
    """Return how many zeros, at most `zeros`, all integers end with.

    Shapes: halves [n, 2].
    Oracle: tests/oracle/decimal_zeros.py::zeros_of.
    """
    shift, digit = np.uint64(32), np.uint64(0xFFFFFFFF)
    for row in range(len(halves)):
        while zeros > 0:
            lower, upper = np.uint64(halves[row, 0]), np.uint64(halves[row, 1])
            if halves[row, 1] < 0:  # as a size without sign
                upper = ~upper + np.uint64(lower == np.uint64(0))
                lower = ~lower + np.uint64(1)
            left, rest = zeros, np.uint64(0)
            while left > 0 and rest == np.uint64(0):
                digits = min(left, _DIGITS_A_STEP)
                by = np.uint64(10**digits)
                above = upper // by
                rest = ((upper - above * by) << shift) | (lower >> shift)
                first = rest // by
                rest = ((rest - first * by) << shift) | (lower & digit)
                second = rest // by
                rest -= second * by
                lower, upper = (first << shift) | second, above
                left -= digits
            if rest == np.uint64(0):
                break
            zeros -= 1
        if zeros == 0:
            break
    return zeros
