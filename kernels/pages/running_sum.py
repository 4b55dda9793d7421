"""Turn differences into values, in place."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from projseg.kernels.runtime.array_types import Integers
from projseg.kernels.runtime.kernel import kernel


def accumulate(values: NDArray[Any]) -> None:
    """Replace each value by the sum of all values up to it, modulo the range of the dtype.

    Parameters
    ----------
    values : uint8[n], uint16[n], uint32[n] or int64[n]
        Contiguous; changed in place.
    """
    _accumulate(values)


@kernel(interpretable=True)
def _accumulate(values: Integers) -> None:
    """Add up in place.

    Shapes: values [n].
    Oracle: tests/oracle/page_encodings.py::accumulate.
    """
    for i in range(1, len(values)):
        values[i] += values[i - 1]
