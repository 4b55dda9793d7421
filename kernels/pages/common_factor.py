"""The greatest common divisor of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel


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
