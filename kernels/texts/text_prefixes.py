"""Eight bytes of each text as a number of the same order, to find extreme texts among many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.folds.fold_count import GroupIds, check_rows
from projseg.kernels.runtime.array_types import Narrow, widened_ids
from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.texts import checked_texts
from projseg.memory.memory_pool import empty

KEY_BYTES = 8

_U = np.uint64


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
    _text_keys(offsets, content, start, keys.view(np.uint64))
    return keys


def rows_of_best(
    group_ids: GroupIds | None,
    keys: NDArray[np.int64],
    validity: NDArray[np.bool_] | None,
    best: NDArray[np.int64],
) -> NDArray[np.uint32]:
    """Return the rows whose key is their group's best, uint32[m] ascending.

    Parameters
    ----------
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    keys : int64[n]
        n is below 2**32.
    validity : bool[n] or None
        True for rows that count; None: all do.
    best : int64[g]
        A key for each group.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    check_rows(group_ids, len(best), len(keys), validity)
    rows = empty(len(keys), np.uint32)
    ids = None if group_ids is None else widened_ids(group_ids)
    count = _rows_of_best(ids, keys, validity, best, rows)
    return rows[:count].copy()


@inlined_kernel
def _big_word_at(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Read eight bytes, big-endian, which is compiled to one load.

    Shapes: content [bytes].
    Part of: `_text_keys`.
    """
    return (
        _U(content[start]) << _U(56)
        | _U(content[start + _U(1)]) << _U(48)
        | _U(content[start + _U(2)]) << _U(40)
        | _U(content[start + _U(3)]) << _U(32)
        | _U(content[start + _U(4)]) << _U(24)
        | _U(content[start + _U(5)]) << _U(16)
        | _U(content[start + _U(6)]) << _U(8)
        | _U(content[start + _U(7)])
    )


@kernel(interpretable=True)
def _text_keys(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], start: int, keys: NDArray[np.uint64]
) -> None:
    """Read the bytes, the first as the most significant; the highest bit is turned over.

    Shapes: offsets [n + 1]; content [bytes]; keys [n].
    Oracle: tests/oracle/selecting.py::text_key.
    """
    for row in range(len(keys)):
        begin = np.int64(offsets[row]) + start
        size = np.int64(offsets[row + 1]) - begin
        key = _U(0)
        if size >= 8:
            key = _big_word_at(content, _U(begin))
        else:
            for k in range(size):
                key |= _U(content[begin + k]) << _U(56 - 8 * k)
        keys[row] = key ^ _U(1 << 63)


@kernel(interpretable=True)
def _rows_of_best(
    group_ids: Narrow | None,
    keys: NDArray[np.int64],
    validity: NDArray[np.bool_] | None,
    best: NDArray[np.int64],
    rows: NDArray[np.uint32],
) -> Any:
    """Write the rows, and return how many.

    Shapes: group_ids, keys, validity, rows [n]; best [g].
    Oracle: numpy.flatnonzero.
    """
    count = 0
    for row in range(len(keys)):
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        if keys[row] == best[group] and (validity is None or validity[row]):
            rows[count] = row
            count += 1
    return count
