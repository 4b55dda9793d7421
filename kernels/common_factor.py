"""The greatest factor all of some integers share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def common_factor(values: NDArray[np.uint64], least: int) -> int:
    """Return the greatest common divisor of uint64[n], or any lower number below `least`.

    The search ends as soon as the divisor falls below `least`, so most columns cost nothing. All
    zero gives 0.
    """
    return int(_common_factor(values, np.uint64(least)))


@njit(nogil=True, cache=True)
def _common_factor(values: NDArray[np.uint64], least: np.uint64) -> Any:
    """Oracle: math.gcd."""
    factor = np.uint64(0)
    previous = np.uint64(0)
    for value in values:
        if value == previous:
            continue
        previous = value
        rest = value
        while rest:
            factor, rest = rest, factor % rest
        if factor < least:
            break
    return factor
