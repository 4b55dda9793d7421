"""Writing words into bytes, in kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.kernel import kernel


@kernel
def write_word(content: NDArray[np.uint8], at: int, word: np.uint64, byte_count: int) -> None:
    """Write the low bytes of a word, little-endian.

    Shapes: content [bytes].
    Oracle: int.to_bytes.
    """
    for i in range(byte_count):
        content[at + i] = np.uint8((word >> np.uint64(8 * i)) & np.uint64(255))
