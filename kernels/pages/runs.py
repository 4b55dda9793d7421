"""Expand runs, and find them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.array_types import Integers
from projseg.kernels.runtime.kernel import kernel


def run_ends(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each run of equal neighbours ends (exclusive), ascending; the last is n."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.append(changes, len(values)).astype(np.int64)


def expand_runs(ends: NDArray[np.int64], values: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Fill `out` with values[r] up to ends[r], for each run r in turn.

    Parameters
    ----------
    ends : int64[r]
        Strictly ascending from above 0 to `len(out)`.
    values : int64[r]
        One for each run; stored modulo the size of `out`'s dtype.
    out : uint8[n], uint16[n], uint32[n] or int64[n]
        Contiguous.

    Raises
    ------
    InvalidInputError
        If the ends are not as above: the kernel would write outside `out`.
    """
    ascends = len(ends) == len(values) and bool((np.diff(ends, prepend=0) > 0).all())
    if not ascends or int(ends[-1] if len(ends) else 0) != len(out):
        raise InvalidInputError("PROJSEG_INTERNAL", f"runs do not cover {len(out)} rows")
    _expand_runs(ends, values, out)


@kernel(interpretable=True)
def _expand_runs(ends: NDArray[np.int64], values: NDArray[np.int64], out: Integers) -> None:
    """Write each value as often as its run is long.

    Shapes: ends, values [r]; out [n].
    Oracle: tests/oracle/page_encodings.py::expand_runs.
    """
    start = 0
    for run in range(len(ends)):
        value = values[run]
        for i in range(start, ends[run]):
            out[i] = value
        start = ends[run]
