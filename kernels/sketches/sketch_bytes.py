"""Bytes of sketches of every kind: words in kernels, and the checks of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import CorruptSegmentError, LimitExceededError
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


SKETCH_BYTES_MAX: Final = (1 << 31) - 1  # Arrow's binary offsets


def room_for(
    sizes: NDArray[np.int64], what: str, parameter: str
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return (offsets, content) of a column of sketches of these sizes, the content still zeros.

    An error names the sketches and what makes them smaller: "KLL sketches", "k". Raises
    LimitExceededError if the sketches together pass 2 GiB.
    """
    total = int(sizes.sum())
    if total > SKETCH_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_LIMIT_EXCEEDED",
            f"{what} of {len(sizes)} groups take {total} bytes, more than {SKETCH_BYTES_MAX};"
            f" group by less or use a smaller {parameter}",
        )
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets, np.zeros(total, np.uint8)


def check_offsets(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> None:
    """Raise CorruptSegmentError unless sketches lie in their content, one after the other."""
    ends_inside = len(offsets) > 0 and int(offsets[0]) >= 0 and int(offsets[-1]) <= len(content)
    if not ends_inside or (np.diff(offsets) < 0).any():
        raise CorruptSegmentError("PROJSEG_CORRUPT_SEGMENT", "sketch offsets leave their content")


def require_sound(kind: str, row: int, problem: int, problems: Mapping[int, str]) -> None:
    """Raise CorruptSegmentError, naming the row, unless a kernel's problem is 0, which is none."""
    if problem:
        raise CorruptSegmentError(
            "PROJSEG_CORRUPT_SEGMENT", f"{kind} sketch of row {row} {problems[problem]}"
        )
