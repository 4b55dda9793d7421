"""Number the distinct texts of rows, without sorting them.

Rows are grouped by a hash of their bytes. Then each text is compared with the first of its group:
so texts of one group are equal, and not only their hashes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.grouping import distinct_keys
from projseg.kernels.kernel import Intrinsic, inlined_kernel, kernel
from projseg.kernels.text_order import read_only
from projseg.memory.pool import empty, zeros

_U = np.uint64
_WORD: Final = 8
_FACTOR = _U(0x9FB21C651E98DF25)


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
    in_bounds = len(offsets) > 0 and int(offsets[0]) >= 0 and int(offsets[-1]) <= len(content)
    if not in_bounds or (offsets[1:] < offsets[:-1]).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "text offsets lie outside their content")
    offsets, content = read_only(offsets), read_only(content)
    hashes = empty(len(offsets) - 1, np.uint64)
    _hash_texts(offsets, content, hashes)
    ids, distinct = distinct_keys(hashes, in_order=False)
    first_rows = empty(len(distinct), np.uint32)
    are_texts = _number_texts(offsets, content, ids, zeros(len(distinct), np.uint32), first_rows)
    return (ids, first_rows) if are_texts else None


def _bytes_at(content: Any, at: Any) -> Any:
    """Return content[at:at + 8] as a number; this is not checked."""
    return _U(int.from_bytes(content[at : at + _WORD].tobytes(), "little"))


def _load_word(typing_context: Any, content: Any, at: Any) -> Any:
    """Do as `_bytes_at` in compiled code, as one load."""
    # Imported here, because this runs only where Numba compiles.
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        word = ir.IntType(64).as_pointer()
        return builder.load(builder.bitcast(builder.gep(view.data, [arguments[1]]), word), align=1)

    return types.uint64(content, types.int64), generate


_word_at: Final = Intrinsic(_bytes_at, _load_word)


@inlined_kernel
def _mixed(value: np.uint64) -> Any:
    """Mix bits; different values stay different.

    Part of: `_hash_texts`.
    """
    value *= _FACTOR
    return value ^ (value >> _U(32))


@kernel
def _hash_texts(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], hashes: NDArray[np.uint64]
) -> None:
    """Hash eight bytes at a time; the last eight may overlap those before.

    Shapes: offsets [n + 1]; content [bytes]; hashes [n].
    Oracle: tests/oracle/grouping.py::group_texts.
    """
    for row in range(len(hashes)):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        size = end - at
        found = _mixed(_U(size) + _FACTOR)
        while end - at >= 8:
            found = _mixed(found ^ _word_at(content, at))
            at += 8
        if at < end:
            word = _U(0)
            if size >= 8:
                word = _word_at(content, end - 8)
            else:
                for i in range(size):
                    word |= _U(content[at + i]) << _U(8 * i)
            found = _mixed(found ^ word)
        hashes[row] = found


@kernel
def _are_equal(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], left: int, right: int
) -> bool:
    """Compare the bytes of two texts, eight at a time.

    Shapes: offsets [n + 1]; content [bytes].
    Part of: `_number_texts`.
    """
    a, end = np.int64(offsets[left]), np.int64(offsets[left + 1])
    b, size = np.int64(offsets[right]), end - a
    if np.int64(offsets[right + 1]) - b != size:
        return False
    if size < 8:
        while a < end and content[a] == content[b]:
            a += 1
            b += 1
        return bool(a == end)
    last = b + size - 8
    while end - a > 8:
        if _word_at(content, a) != _word_at(content, b):
            return False
        a += 8
        b += 8
    return bool(_word_at(content, end - 8) == _word_at(content, last))


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
