"""Number the distinct texts of rows without sorting them, or estimate how many there are.

Rows are grouped by a hash of their bytes. Then each text is compared with the first of its group:
so texts of one group are equal, and not only their hashes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.grouping import distinct_keys
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import checked_texts, text_hash, word_at
from projseg.memory.memory_pool import empty, zeros

_U = np.uint64


def group_texts(
    offsets: NDArray[np.int32], content: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
    """Return the number of each row's text, and the first row of each text, both uint32.

    Texts are numbered in the order of their first rows; None if different texts have one hash.
    """
    offsets, content = checked_texts(offsets, content)
    hashes = empty(len(offsets) - 1, np.uint64)
    _hash_texts(offsets, content, hashes)
    ids, distinct = distinct_keys(hashes, in_order=False)
    first_rows = empty(len(distinct), np.uint32)
    are_texts = _number_texts(offsets, content, ids, zeros(len(distinct), np.uint32), first_rows)
    return (ids, first_rows) if are_texts else None


@kernel
def _hash_texts(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], hashes: NDArray[np.uint64]
) -> None:
    """Hash each text.

    Shapes: offsets [n + 1]; content [bytes]; hashes [n].
    Oracle: tests/oracle/grouping.py::group_texts.
    """
    for row in range(len(hashes)):
        hashes[row] = text_hash(content, _U(offsets[row]), _U(offsets[row + 1]))


@kernel
def _are_equal(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], left: int, right: int
) -> bool:
    """Compare the bytes of two texts, eight at a time.

    Shapes: offsets [n + 1]; content [bytes].
    Part of: `_number_texts`.
    """
    a, end = _U(offsets[left]), _U(offsets[left + 1])
    b, size = _U(offsets[right]), end - a
    if _U(offsets[right + 1]) - b != size:
        return False
    if size < _U(8):
        while a < end and content[a] == content[b]:
            a += _U(1)
            b += _U(1)
        return bool(a == end)
    last = b + size - _U(8)
    while end - a > _U(8):
        if word_at(content, a) != word_at(content, b):
            return False
        a += _U(8)
        b += _U(8)
    return bool(word_at(content, end - _U(8)) == word_at(content, last))


@kernel
def _number_texts(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    ids: NDArray[np.uint32],
    numbers: NDArray[np.uint32],
    first_rows: NDArray[np.uint32],
) -> bool:
    """Replace ids of hashes by numbers of texts, unless texts of one id differ.

    `numbers` holds 1 + the number of each id, 0 before it is seen.

    Shapes: offsets [n + 1]; content [bytes]; ids [n]; numbers, first_rows [k].
    Oracle: tests/oracle/grouping.py::group_texts.
    """
    count = 0
    for row in range(len(ids)):
        number: Any = np.int64(numbers[ids[row]])
        if number == 0:
            first_rows[count] = row
            count += 1
            numbers[ids[row]] = count
            number = count
        elif not _are_equal(offsets, content, row, np.int64(first_rows[number - 1])):
            return False
        ids[row] = number - 1
    return True


# How many different texts there are: exactly if few, closely if many; in one pass.
#
# Texts are hashed, and the hashes whose lowest bits are zero are kept, each once. When too many are
# kept, one more bit must be zero, so that half of them go. The number kept, times two for each bit,
# estimates how many there are. After: Flajolet, "On adaptive sampling", 1990.

KEPT_MAX: Final = 1 << 14  # hashes; the standard error is 1.2 / sqrt(KEPT_MAX), below 1 %
_BITS_MAX: Final = 32


class DistinctTexts:
    """Counts different texts, array after array.

    Up to `KEPT_MAX` are counted exactly, but for hashes that happen to be equal.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(2 * KEPT_MAX, np.uint64)
        self._spare = np.empty_like(self._slots)
        self._kept = self._bits = 0

    def add(self, offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> None:
        """Count texts."""
        texts = checked_texts(offsets, content)
        kept, bits = _keep_hashes(*texts, self._slots, self._spare, self._kept, self._bits)
        self._kept, self._bits = int(kept), int(bits)

    @property
    def count(self) -> int:
        """How many different texts there were, or an estimate."""
        return self._kept << self._bits


@kernel
def _drop_half(slots: NDArray[np.uint64], spare: NDArray[np.uint64], bits: int) -> int:
    """Keep the hashes whose lowest `bits` bits are zero; return how many those are.

    What `spare` holds is lost.

    Shapes: slots [s]; spare [s].
    Part of: `_keep_hashes`.
    """
    last = _U(len(slots) - 1)
    mask = (_U(1) << _U(bits)) - _U(1)
    for slot in range(len(slots)):
        spare[slot], slots[slot] = slots[slot], _U(0)
    kept = 0
    for hashed in spare:
        if hashed != _U(0) and not hashed & mask:
            place = hashed >> _U(_BITS_MAX) & last
            while slots[place] != _U(0):
                place = place + _U(1) & last
            slots[place] = hashed
            kept += 1
    return kept


@kernel
def _keep_hashes(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    slots: NDArray[np.uint64],
    spare: NDArray[np.uint64],
    kept: int,
    bits: int,
) -> tuple[Any, ...]:
    """Put hashes into the slots, each once; return (how many there are, bits that must be zero).

    An empty slot holds zero. Half the slots stay empty; the search ends where texts are chosen so
    that this cannot be.

    Shapes: offsets [n + 1]; content [bytes]; slots [s]; spare [s].
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
            kept = _drop_half(slots, spare, bits)
    return kept, bits
