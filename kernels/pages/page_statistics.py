"""The facts of a page of integers that the choice of an encoding needs, found in one pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
