"""Check that texts ascend by their bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.texts import checked_texts


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
    return int(_first_disorder(*checked_texts(offsets, content)))


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
