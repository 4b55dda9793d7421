"""Eight bytes of each text as a number of the same order, to find extreme texts among many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.kernel import kernel
from projseg.kernels.texts import checked_texts
from projseg.memory.pool import empty

KEY_BYTES = 8


def text_keys(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], start: int
) -> NDArray[np.int64]:
    """Return the bytes from `start` of each text as a number; texts end with zeros.

    Of texts whose bytes before `start` are the same, one with a smaller number is the smaller text.

    Parameters
    ----------
    offsets : int32[n + 1]
        Text i is content[offsets[i] : offsets[i + 1]]; not descending.
    content : uint8[m]
    start : int
        Not negative.

    Returns
    -------
    int64[n]

    Raises
    ------
    InvalidInputError
        If an offset lies outside the content.
    """
    if start < 0:
        raise InvalidInputError("PROJSEG_INTERNAL", f"a start of {start} lies outside texts")
    offsets, content = checked_texts(offsets, content)
    keys = empty(len(offsets) - 1, np.int64)
    _text_keys(offsets, content, start, keys)
    return keys


@kernel(interpretable=True)
def _text_keys(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], start: int, keys: NDArray[np.int64]
) -> None:
    """Read the bytes, the first as the most significant; the highest bit is turned over.

    Shapes: offsets [n + 1]; content [bytes]; keys [n].
    Oracle: tests/oracle/selecting.py::text_key.
    """
    for row in range(len(keys)):
        begin = np.int64(offsets[row]) + start
        end = np.int64(offsets[row + 1])
        key = np.int64(0)
        for k in range(8):
            if begin + k >= end:
                break
            key |= np.int64(content[begin + k]) << np.int64(56 - 8 * k)
        keys[row] = key ^ np.int64(-(1 << 63))
