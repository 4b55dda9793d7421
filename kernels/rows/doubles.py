"""Floats as doubles, by IEEE 754: what overflows is infinite and what is invalid is NaN.

NumPy warns of both, even if a signalling NaN is only copied. The warnings are switched off, since a
file may hold any values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers as float64[n]: the same array, if it has that dtype."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64, copy=False)


def plain_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return floats as a new float64[n] in which equal values have equal bits: one NaN, no -0.0."""
    with np.errstate(invalid="ignore"):
        doubles = values.astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles
