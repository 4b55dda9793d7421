"""Number the distinct texts of rows, without sorting them.

Rows are grouped by a hash of their bytes. Then each text is compared with the first of its group:
so texts of one group are equal, and not only their hashes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.groups.grouping import distinct_keys
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.texts import checked_texts, text_hash, word_at
from projseg.memory.memory_pool import empty, zeros

_U = np.uint64


def group_texts(
    offsets: NDArray[np.int32], content: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
    """Return the number of each row's text, and the first row of each text.

    Parameters
    ----------
    offsets : int32[n + 1]
        Text i is content[offsets[i] : offsets[i + 1]]; not descending.
    content : uint8[m]

    Returns
    -------
    (uint32[n], uint32[k]), or None if different texts have one hash
        Texts are numbered from 0 in the order of their first rows, which ascend.

    Raises
    ------
    InvalidInputError
        If an offset lies outside the content.
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
