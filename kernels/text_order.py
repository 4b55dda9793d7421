"""Check that texts ascend by their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.kernel import kernel


def first_disorder(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> int:
    """Return the first i whose text is not below text i + 1, or -1 if all ascend strictly.

    Parameters
    ----------
    offsets : int64[n + 1]
        Text i is content[offsets[i] : offsets[i + 1]]; not descending.
    content : uint8[m]

    Raises
    ------
    InvalidInputError
        If an offset lies outside the content.
    """
    in_bounds = len(offsets) > 0 and int(offsets[0]) >= 0 and int(offsets[-1]) <= len(content)
    if not in_bounds or (np.diff(offsets) < 0).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "text offsets lie outside their content")
    return int(_first_disorder(offsets, read_only(content)))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that kernels are compiled for one kind of array."""
    view = array.view()
    view.setflags(write=False)
    return view


@kernel(interpretable=True)
def _first_disorder(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> int:
    """Return the first text that does not come after the one before it.

    Shapes: offsets [n + 1]; content [bytes].
    Oracle: tests/oracle/page_encodings.py::first_disorder.
    """
    for i in range(len(offsets) - 2):
        left, right = offsets[i], offsets[i + 1]
        left_bytes, right_bytes = right - left, offsets[i + 2] - right
        shared = min(left_bytes, right_bytes)
        k = 0
        while k < shared and content[left + k] == content[right + k]:
            k += 1
        if k == shared:
            if left_bytes >= right_bytes:
                return i
        elif content[left + k] > content[right + k]:
            return i
    return -1
