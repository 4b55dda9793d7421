"""Turn key ids into group ids: by mixed radix if their product is small, else by hashing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.distinct_keys import number_in_parts, shift_for, slot_of
from projseg.kernels.runtime.kernel import Narrow, kernel, widened_ids
from projseg.memory.memory_pool import empty

# From so many keys on, and for so many rows, rows are dealt to small tables.
_DEALT_KEYS_MIN: Final = 1 << 16
_DEALT_ROWS_MIN: Final = 1 << 18

UnsignedIds = NDArray[np.unsignedinteger[Any]]


def append_digit(group_ids: UnsignedIds, ids: UnsignedIds, cardinality: int) -> None:
    """Replace each group id by `group_id * cardinality + id`, in place, which must fit."""
    _require_equal_length(len(group_ids), len(ids))
    _append_digit(group_ids, widened_ids(ids), np.uint32(cardinality))


@kernel(interpretable=True)
def _append_digit(
    group_ids: NDArray[np.uint8] | NDArray[np.uint32] | NDArray[np.uint64],
    ids: Narrow,
    cardinality: np.uint32 | np.uint64,
) -> None:
    """Append a digit to each mixed-radix number, in place.

    Shapes: group_ids, ids [n].
    Oracle: tests/oracle/grouping.py::mixed_radix.
    """
    for row in range(len(group_ids)):
        group_ids[row] = group_ids[row] * cardinality + ids[row]


def append_wide_digit(packed: NDArray[np.uint64], ids: UnsignedIds, cardinality: int) -> None:
    """Do as `append_digit`, for packed keys, uint64[n]."""
    _require_equal_length(len(packed), len(ids))
    _append_digit(packed, widened_ids(ids), np.uint64(cardinality))


def distinct_keys(
    packed: NDArray[np.uint64], *, in_order: bool = True
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Return (each row's position, the distinct keys) of fewer than 2^32 keys.

    The distinct keys ascend if `in_order`; otherwise they come in no particular order.
    """
    if len(packed) >= 1 << 32:
        raise InvalidInputError(
            "PROJSEG_TOO_MANY_ROWS", f"{len(packed)} rows in one grouping; at most 2**32 - 1"
        )
    group_ids = empty(len(packed), np.uint32)
    table = np.zeros(1 << 12, np.uint32)
    keys = np.empty(1 << 11, np.uint64)
    row = key_count = 0
    while True:
        row, key_count = _number_keys(packed, row, group_ids, table, keys, key_count)
        if row == len(packed):
            break
        if key_count >= _DEALT_KEYS_MIN and len(packed) >= _DEALT_ROWS_MIN:
            keys = number_in_parts(packed, group_ids)
            key_count = len(keys)
            break
        table, keys = _grown(keys, key_count)
    keys = keys[:key_count]
    if not in_order:
        return group_ids, keys
    order = np.argsort(keys)
    rank = np.empty(key_count, np.uint32)
    rank[order] = np.arange(key_count, dtype=np.uint32)
    _relabel(group_ids, rank)
    return group_ids, keys[order]


def _grown(
    keys: NDArray[np.uint64], key_count: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    table = np.zeros(8 * len(keys), np.uint32)
    larger = empty(4 * len(keys), np.uint64)
    larger[:key_count] = keys[:key_count]
    _rehash(larger, key_count, table)
    return table, larger


@kernel(interpretable=True)
def _rehash(keys: NDArray[np.uint64], key_count: int, table: NDArray[np.uint32]) -> None:
    """Fill an empty table with the keys found so far.

    Shapes: keys [k]; table [s].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    shift = shift_for(len(table))
    last = np.uint64(len(table) - 1)
    for number in range(key_count):
        slot = slot_of(keys[number], shift)
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & last
        table[slot] = number + 1


@kernel(interpretable=True)
def _number_keys(
    packed: NDArray[np.uint64],
    row: int,
    group_ids: NDArray[np.uint32],
    table: NDArray[np.uint32],
    keys: NDArray[np.uint64],
    key_count: int,
) -> Any:
    """Give keys numbers by first appearance until full.

    `table` holds number + 1 of the key in a slot, 0 where empty; it is at most half full.

    Shapes: packed, group_ids [n]; table [s]; keys [k].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    shift = shift_for(len(table))
    last = np.uint64(len(table) - 1)
    while row < len(packed):
        key = packed[row]
        slot = slot_of(key, shift)
        while True:
            entry = table[slot]
            if entry == 0:
                if key_count == len(keys):
                    return row, key_count
                keys[key_count] = key
                key_count += 1
                table[slot] = key_count
                group_ids[row] = key_count - 1
                break
            if keys[entry - 1] == key:
                group_ids[row] = entry - 1
                break
            slot = (slot + np.uint64(1)) & last
        row += 1
    return row, key_count


@kernel(interpretable=True)
def _relabel(group_ids: NDArray[np.uint32], rank: NDArray[np.uint32]) -> None:
    """Replace each id by its rank, in place.

    Shapes: group_ids [n]; rank [k].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    for row in range(len(group_ids)):
        group_ids[row] = rank[group_ids[row]]


def occupied_groups(group_ids: UnsignedIds, group_count: int) -> NDArray[np.bool_]:
    """Return which groups have a row, bool[group_count]; refuse ids from `group_count` on."""
    occupied = np.zeros(group_count, np.bool_)
    if len(group_ids):
        require_ids_below(group_ids, group_count)
        _mark(widened_ids(group_ids), occupied)
    return occupied


def ranks_of(occupied: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return how many positions before each are occupied, uint32[n]; n is below 2**32."""
    ranks = empty(len(occupied), np.uint32)
    _rank(occupied, ranks)
    return ranks


@kernel(interpretable=True)
def _rank(occupied: NDArray[np.bool_], ranks: NDArray[np.uint32]) -> None:
    """Add up.

    Shapes: occupied, ranks [n].
    Oracle: numpy.cumsum.
    """
    count: Any = 0
    for position in range(len(occupied)):
        ranks[position] = count
        count += np.int64(occupied[position])


def require_ids_below(ids: UnsignedIds, cardinality: int) -> None:
    """Raise InvalidInputError unless every id is below `cardinality`."""
    may_pass = len(ids) > 0 and 1 << 8 * ids.dtype.itemsize > cardinality
    if may_pass and int(np.maximum.reduce(ids)) >= cardinality:
        raise InvalidInputError(
            "PROJSEG_ID_OUT_OF_RANGE", f"id {ids.max()} is not below {cardinality}"
        )


@kernel(interpretable=True)
def _mark(group_ids: Narrow, occupied: NDArray[np.bool_]) -> None:
    """Mark groups with a row.

    Shapes: group_ids [n]; occupied [g].
    Oracle: numpy.unique.
    """
    for row in range(len(group_ids)):
        occupied[group_ids[row]] = True


def _require_equal_length(expected: int, found: int) -> None:
    if expected != found:
        raise InvalidInputError("PROJSEG_LENGTH_MISMATCH", f"{found} ids for {expected} rows")
