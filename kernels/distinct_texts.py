"""How many different texts there are: exactly if few, closely if many; in one pass.

Texts are hashed, and the hashes whose lowest bits are zero are kept, each once. When too many are
kept, one more bit must be zero, so that half of them go. The number kept, times two for each bit,
estimates how many there are.
After: Flajolet, "On adaptive sampling", 1990.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.kernel import inlined_kernel, kernel
from projseg.kernels.text_order import read_only

KEPT_MAX: Final = 1 << 14  # hashes; the standard error is 1.2 / sqrt(KEPT_MAX), below 1 %
_BITS_MAX: Final = 32

_U = np.uint64
_FACTOR: Final = _U(0x9E3779B97F4A7C15)


class DistinctTexts:
    """Counts different texts, array after array.

    Up to `KEPT_MAX` are counted exactly, but for hashes that happen to be equal.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(2 * KEPT_MAX, np.uint64)
        self._kept = self._bits = 0

    def add(self, offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> None:
        """Count texts.

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
        if not in_bounds or (offsets[1:] < offsets[:-1]).any():
            raise InvalidInputError("PROJSEG_INTERNAL", "text offsets lie outside their content")
        texts = read_only(offsets), read_only(content)
        kept, bits = _keep_hashes(*texts, self._slots, self._kept, self._bits)
        self._kept, self._bits = int(kept), int(bits)

    @property
    def count(self) -> int:
        """How many different texts there were, or an estimate."""
        return self._kept << self._bits


@inlined_kernel
def _word(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Read eight bytes.

    Shapes: content [bytes].
    Part of: `_text_hash`.
    """
    return (
        _U(content[start])
        | _U(content[start + _U(1)]) << _U(8)
        | _U(content[start + _U(2)]) << _U(16)
        | _U(content[start + _U(3)]) << _U(24)
        | _U(content[start + _U(4)]) << _U(32)
        | _U(content[start + _U(5)]) << _U(40)
        | _U(content[start + _U(6)]) << _U(48)
        | _U(content[start + _U(7)]) << _U(56)
    )


@inlined_kernel
def _mixed(word: np.uint64) -> np.uint64:
    """Let every bit of a word reach every other.

    Part of: `_text_hash`.
    """
    word *= _FACTOR
    word ^= word >> _U(32)
    word *= _FACTOR
    return word ^ (word >> _U(29))


@inlined_kernel
def _text_hash(content: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> Any:
    """Hash a text. One of eight bytes or more ends with its last eight, some of them read twice.

    Shapes: content [bytes].
    Part of: `_keep_hashes`.
    """
    mixed = _mixed(end - start + _U(1))
    if end - start < _U(8):
        tail = _U(0)
        while start < end:
            tail = tail << _U(8) | _U(content[start])
            start += _U(1)
        return _mixed(mixed ^ tail)
    while end - start > _U(8):
        mixed = (mixed ^ _word(content, start)) * _FACTOR
        mixed ^= mixed >> _U(32)
        start += _U(8)
    return _mixed(mixed ^ _word(content, end - _U(8)))


@kernel
def _drop_half(slots: NDArray[np.uint64], bits: int) -> int:
    """Keep the hashes whose lowest `bits` bits are zero; return how many those are.

    Shapes: slots [s].
    Part of: `_keep_hashes`.
    """
    last = _U(len(slots) - 1)
    mask = (_U(1) << _U(bits)) - _U(1)
    all_hashes = slots.copy()
    slots[:] = _U(0)
    kept = 0
    for hashed in all_hashes:
        if hashed != _U(0) and not hashed & mask:
            slot = hashed >> _U(_BITS_MAX) & last
            while slots[slot] != _U(0):
                slot = slot + _U(1) & last
            slots[slot] = hashed
            kept += 1
    return kept


@kernel
def _keep_hashes(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    slots: NDArray[np.uint64],
    kept: int,
    bits: int,
) -> tuple[Any, ...]:
    """Put hashes into the slots, each once; return (how many there are, bits that must be zero).

    An empty slot holds zero. Half the slots stay empty; the search ends where texts are chosen so
    that this cannot be.

    Shapes: offsets [n + 1]; content [bytes]; slots [s].
    Oracle: tests/oracle/selecting.py::distinct_texts.
    """
    last = _U(len(slots) - 1)
    for row in range(len(offsets) - 1):
        hashed = _text_hash(content, _U(offsets[row]), _U(offsets[row + 1]))
        if hashed & ((_U(1) << _U(bits)) - _U(1)) or hashed == _U(0):
            continue
        slot = hashed >> _U(_BITS_MAX) & last
        while slots[slot] != _U(0) and slots[slot] != hashed:
            slot = slot + _U(1) & last
        if slots[slot] == hashed:
            continue
        slots[slot] = hashed
        kept += 1
        while 2 * kept > len(slots):
            if bits == _BITS_MAX:
                return kept - 1, bits
            bits += 1
            kept = _drop_half(slots, bits)
    return kept, bits
