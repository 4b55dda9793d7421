"""Words in bytes, in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel


@kernel
def write_word(content: NDArray[np.uint8], at: int, word: np.uint64, byte_count: int) -> None:
    """Write the low bytes of a word, little-endian.

    Shapes: content [bytes].
    Oracle: int.to_bytes.
    """
    for i in range(byte_count):
        content[at + i] = np.uint8((word >> np.uint64(8 * i)) & np.uint64(255))


@kernel
def read_word(content: NDArray[np.uint8], at: int, byte_count: int) -> Any:
    """Read a word, little-endian, as uint64.

    Shapes: content [bytes].
    Oracle: int.from_bytes.
    """
    word = np.uint64(0)
    for i in range(byte_count):
        word |= np.uint64(content[at + i]) << np.uint64(8 * i)
    return word
