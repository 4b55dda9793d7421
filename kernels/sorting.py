"""The order of rows: floats and texts as integers of the same order, row ids sorted by ids.

Keys of floats have NaN greatest, all NaN equal, and -0.0 equal to 0.0. Row ids are sorted stably,
with one counting pass for each key. Texts are compared by their bytes, eight of which are a number
of the same order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_count import GroupIds, Validity, check_rows
from projseg.kernels.grouping import UnsignedIds, require_ids_below
from projseg.kernels.runtime.kernel import Narrow, inlined_kernel, kernel, widened_ids
from projseg.kernels.texts.text_bytes import checked_texts
from projseg.memory.memory_pool import empty

KEY_BYTES: Final = 8
_MAGNITUDE: Final = (1 << 63) - 1
_U = np.uint64


def as_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers as float64[n]: the same array, if it has that dtype.

    By IEEE 754 what overflows is infinite and what is invalid is NaN. NumPy warns of both, even if
    a signalling NaN is only copied; a file may hold any values.
    """
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64, copy=False)


def plain_doubles(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return floats as a new float64[n] in which equal values have equal bits: one NaN, no -0.0."""
    with np.errstate(invalid="ignore"):
        doubles = values.astype(np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles


def float_order_keys(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return an int64 key for each float, ordered as Spark orders the floats.

    `float_of_order_keys` is the inverse up to the sign of zero and the bits of NaN.
    """
    keys = empty(len(values), np.int64)
    _float_order_keys(as_doubles(values), keys.view(np.float64), keys)
    return keys


def float_of_order_keys(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats of keys made by `float_order_keys`."""
    return np.where(keys >= 0, keys, keys ^ _MAGNITUDE).view(np.float64)


@kernel(interpretable=True)
def _float_order_keys(
    values: NDArray[np.float64], as_floats: NDArray[np.float64], keys: NDArray[np.int64]
) -> None:
    """Write the keys; `as_floats` is the same memory.

    Shapes: values, as_floats, keys [n].
    Oracle: tests/oracle/folds.py::order_key.
    """
    for row in range(len(values)):
        value = values[row]
        as_floats[row] = np.nan if np.isnan(value) else value + 0.0
        if keys[row] < 0:
            keys[row] ^= _MAGNITUDE


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the different values, ascending; none of them is NaN.

    `numpy.unique` first imports modules that take longer than most first queries should.
    """
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def stable_order_by_ids(
    ids: UnsignedIds, cardinality: int, order: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return the row ids sorted by `ids`, each below `cardinality`, ties in `order`, as uint32[n].

    Sorting by several keys is calling this once for each, the least significant first; memory is 8
    bytes for each possible id.
    """
    if order is None:
        order = np.arange(len(ids), dtype=np.uint32)
    if len(order) != len(ids):
        raise InvalidInputError("PROJSEG_LENGTH_MISMATCH", f"{len(order)} rows, {len(ids)} ids")
    require_ids_below(ids, cardinality)
    require_ids_below(order, len(ids))
    starts = np.zeros(cardinality + 1, np.int64)
    sorted_order = np.empty(len(order), np.uint32)
    _counting_sort(widened_ids(ids), order, starts, sorted_order)
    return sorted_order


@kernel
def _counting_sort(
    ids: Narrow,
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    sorted_order: NDArray[np.uint32],
) -> None:
    """Sort rows by id, keeping their order within an id.

    Shapes: ids, order, sorted_order [n]; starts [d + 1].
    Oracle: numpy.argsort.
    """
    for row in range(len(ids)):
        starts[ids[row] + 1] += 1
    for value in range(1, len(starts)):
        starts[value] += starts[value - 1]
    for position in range(len(order)):
        row_id = order[position]
        value = ids[row_id]
        sorted_order[starts[value]] = row_id
        starts[value] += 1


def text_keys(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], start: int
) -> NDArray[np.int64]:
    """Return the bytes from `start` of each text as an int64; texts end with zeros.

    Of texts whose bytes before `start` are the same, one with a smaller number is the smaller text.
    """
    if start < 0:
        raise InvalidInputError("PROJSEG_INTERNAL", f"a start of {start} lies outside texts")
    offsets, content = checked_texts(offsets, content)
    keys = empty(len(offsets) - 1, np.int64)
    _text_keys(offsets, content, start, keys.view(np.uint64))
    return keys


def extreme_texts(
    group_ids: GroupIds | None,
    group_count: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    validity: Validity = None,
    *,
    is_min: bool,
) -> NDArray[np.int64]:
    """Return the first row of each group's least or greatest text by bytes, int64[g]; or -1."""
    offsets, content = checked_texts(offsets, content)
    check_rows(group_ids, group_count, len(offsets) - 1, validity)
    keys, rows = empty(group_count, np.uint64), np.full(group_count, -1)
    _extreme_texts(widened_ids(group_ids), offsets, content, validity, is_min, keys, rows)
    return rows


@inlined_kernel
def _big_word_at(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Read eight bytes, big-endian, which is compiled to one load.

    Shapes: content [bytes].
    Part of: `_first_bytes`.
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


@inlined_kernel
def _first_bytes(content: NDArray[np.uint8], begin: np.int64, size: np.int64) -> np.uint64:
    """Return up to eight bytes as a number, the first as the most significant.

    Shapes: content [bytes].
    Part of: `_text_keys`.
    """
    key = _U(0)
    if size >= KEY_BYTES:
        key = _big_word_at(content, _U(begin))
    else:
        for k in range(size):
            key |= _U(content[begin + k]) << _U(56 - 8 * k)
    return key


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
        keys[row] = _first_bytes(content, begin, np.int64(offsets[row + 1]) - begin) ^ _U(1 << 63)


@kernel(interpretable=True)
def _extreme_texts(
    group_ids: Narrow | None,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    validity: NDArray[np.bool_] | None,
    is_min: bool,
    keys: NDArray[np.uint64],
    rows: NDArray[np.int64],
) -> None:
    """Find the rows, where `rows` holds -1; `keys` are the first bytes of those found.

    Shapes: group_ids, validity [n]; offsets [n + 1]; content [bytes]; keys, rows [g].
    Oracle: tests/oracle/selecting.py::extreme_text.
    """
    for row in range(len(offsets) - 1):
        if validity is not None and not validity[row]:
            continue
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        begin = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - begin
        key = _first_bytes(content, begin, size)
        best = rows[group]
        if best >= 0:
            order = 0
            if key != keys[group]:
                order = -1 if key < keys[group] else 1
            else:
                best_begin = np.int64(offsets[best])
                best_size = np.int64(offsets[best + 1]) - best_begin
                # Zeros stand behind a short text, so of two that look the same it is the smaller.
                for k in range(KEY_BYTES, min(size, best_size)):
                    if content[begin + k] != content[best_begin + k]:
                        order = -1 if content[begin + k] < content[best_begin + k] else 1
                        break
                if order == 0:
                    order = -1 if size < best_size else int(size > best_size)
            if (is_min and order >= 0) or (not is_min and order <= 0):
                continue
        keys[group] = key
        rows[group] = row
