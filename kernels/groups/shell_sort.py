"""Sorting a few values inside a kernel, without a call into NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel


@kernel
def shell_sort(values: NDArray[np.uint32] | NDArray[np.uint64] | NDArray[np.int64]) -> None:
    """Sort in place; meant for up to some ten thousand values.

    After: Marcin Ciura, "Best increments for the average case of Shellsort", 2001.

    Shapes: values [n].
    Oracle: sorted.
    """
    for gap in (102_000, 45_191, 20_000, 8_861, 3_938, 1_750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, len(values)):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
