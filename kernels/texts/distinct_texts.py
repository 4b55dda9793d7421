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

from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.texts import checked_texts, text_hash

KEPT_MAX: Final = 1 << 14  # hashes; the standard error is 1.2 / sqrt(KEPT_MAX), below 1 %
_BITS_MAX: Final = 32

_U = np.uint64


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
        texts = checked_texts(offsets, content)
        kept, bits = _keep_hashes(*texts, self._slots, self._kept, self._bits)
        self._kept, self._bits = int(kept), int(bits)

    @property
    def count(self) -> int:
        """How many different texts there were, or an estimate."""
        return self._kept << self._bits


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
        hashed = text_hash(content, _U(offsets[row]), _U(offsets[row + 1]))
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
