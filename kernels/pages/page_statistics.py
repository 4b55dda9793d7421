"""Facts of integers that choose an encoding: their range and runs, common factor, decimal zeros."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel


class PageStatistics(NamedTuple):
    """Facts of a page of at least one value.

    `delta_minimum` and `delta_maximum` are of neighbouring values' differences modulo 2**64; they
    are true differences where `maximum - minimum` fits int64.
    """

    minimum: int
    maximum: int
    run_count: int
    delta_minimum: int
    delta_maximum: int


def page_statistics(values: NDArray[np.int64]) -> PageStatistics:
    """Return the facts of int64[n], n >= 1."""
    return PageStatistics(*(int(fact) for fact in _page_statistics(values)))


@kernel
def _page_statistics(values: NDArray[np.int64]) -> tuple[Any, ...]:
    """Return what choosing an encoding needs.

    Shapes: values [n].
    Oracle: tests/oracle/page_encodings.py::page_statistics.
    """
    minimum = maximum = values[0]
    run_count = 1
    delta_minimum = np.int64(0x7FFFFFFFFFFFFFFF)
    delta_maximum = np.int64(-0x8000000000000000)
    for i in range(1, len(values)):
        value = values[i]
        delta = value - values[i - 1]
        minimum = min(minimum, value)
        maximum = max(maximum, value)
        run_count += delta != 0
        delta_minimum = min(delta_minimum, delta)
        delta_maximum = max(delta_maximum, delta)
    return minimum, maximum, run_count, delta_minimum, delta_maximum


def common_factor(values: NDArray[np.uint64], least: int) -> int:
    """Return the greatest common divisor of uint64[n], or any lower number below `least`.

    The search ends as soon as the divisor falls below `least`, so most columns cost nothing. All
    zero gives 0.
    """
    return int(_common_factor(values, np.uint64(least)))


@kernel
def _common_factor(values: NDArray[np.uint64], least: np.uint64) -> Any:
    """Return the greatest common divisor, or one below `least` once there is one.

    A value is tested against the divisor found so far without dividing: d = odd * 2**shift divides
    v if the low `shift` bits of v are zero and (v >> shift) * (1 / odd modulo 2**64) is no larger
    than (2**64 - 1) / odd. After: Granlund and Montgomery, "Division by invariant integers", 1994.

    Shapes: values [n].
    Oracle: math.gcd.
    """
    factor = np.uint64(0)
    shift, low_bits = np.uint64(0), np.uint64(0)
    inverse, limit = np.uint64(0), np.uint64(0)
    for value in values:
        if value == np.uint64(0):
            continue
        if factor and not value & low_bits and (value >> shift) * inverse <= limit:
            continue
        rest = value
        while rest:
            factor, rest = rest, factor % rest
        if factor < least:
            break
        shift = np.uint64(0)
        odd = factor
        while not odd & np.uint64(1):
            odd >>= np.uint64(1)
            shift += np.uint64(1)
        low_bits = (np.uint64(1) << shift) - np.uint64(1)
        limit = np.uint64(0xFFFFFFFFFFFFFFFF) // odd
        inverse = odd
        for _ in range(5):
            inverse *= np.uint64(2) - odd * inverse
    return factor


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
