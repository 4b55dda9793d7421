"""Types of arrays that kernels accept with several dtypes: Numba compiles a form for each dtype."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Narrow: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]
"""Ids of groups or of a dictionary, or numbers above a base."""

Integers: TypeAlias = Narrow | NDArray[np.int64]
"""Whole numbers, narrow or as wide as they come."""

Words: TypeAlias = Narrow | NDArray[np.uint64]
"""Values of one, two, four or eight bytes, whatever they mean."""
