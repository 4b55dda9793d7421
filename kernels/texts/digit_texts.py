"""Numbers in digits of base 2 or 16."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import read_only
from projseg.memory.memory_pool import empty

_U = np.uint64
_DIGITS: Final = read_only(np.frombuffer(b"0123456789ABCDEF", np.uint8))


def digit_counts(values: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Return how many digits each number has, one at least: int64[n]."""
    counts = np.ones(len(values), np.int64)
    for count in range(1, 64 // bits):
        counts += values >= _U(1 << bits * count)
    return counts


def number_digits(
    values: NDArray[np.uint64], bits: int, offsets: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Return numbers in digits, one after the other, as uint8[m].

    Parameters
    ----------
    values : uint64[n]
        The numbers.
    bits : int
        How many bits a digit stands for: 1 or 4.
    offsets : int32[n + 1]
        Where each begins: by `digit_counts`; no digits, and the number is left out.

    Raises
    ------
    InvalidInputError
        PROJSEG_INTERNAL, if offsets do not fit.
    """
    if len(offsets) != len(values) + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "offsets do not fit the numbers")
    content = empty(int(offsets[-1]), np.dtype(np.uint8))
    _number_digits(read_only(values), bits, _DIGITS, offsets, content)
    return content


@kernel
def _number_digits(
    values: NDArray[np.uint64],
    bits: int,
    digits: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
) -> None:
    """Write each number from its last digit to its first.

    Shapes: values [n]; digits [16]; offsets [n + 1]; content [bytes].
    Oracle: tests/oracle/byte_hashes.py::digits.
    """
    last = _U((1 << bits) - 1)
    for row in range(len(values)):
        value = values[row]
        for at in range(np.int64(offsets[row + 1]) - 1, np.int64(offsets[row]) - 1, -1):
            content[at] = digits[value & last]
            value >>= _U(bits)
