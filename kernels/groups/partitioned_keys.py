"""Number many distinct keys: rows are dealt by hash first, so that each table stays in cache."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.groups.hash_slots import shift_for, slot_of
from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import empty

_PART_BITS: Final = 8  # more parts than this are slower to write to


def number_in_parts(
    packed: NDArray[np.uint64], group_ids: NDArray[np.uint32]
) -> NDArray[np.uint64]:
    """Return the distinct keys in no particular order, and write each row's position among them.

    Parameters
    ----------
    packed : uint64[n]
        The key of each row; n is below 2**32.
    group_ids : uint32[n]
        Overwritten.

    Returns
    -------
    uint64[m]

    Raises
    ------
    InvalidInputError
        If lengths differ.
    """
    if len(packed) != len(group_ids):
        raise InvalidInputError(
            "PROJSEG_LENGTH_MISMATCH", f"{len(group_ids)} ids for {len(packed)} rows"
        )
    ends = np.zeros(1 << _PART_BITS, np.int64)
    _count_parts(packed, ends)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends)])
    dealt = empty(len(packed), np.uint64)
    rows = empty(len(packed), np.uint32)
    _deal(packed, starts[:-1].copy(), dealt, rows)
    slot_count = 1 << (2 * int(ends.max())).bit_length()
    table = empty(slot_count, np.uint32)
    key_count = _number_parts(dealt, rows, starts, table, group_ids)
    return dealt[:key_count].copy()


@kernel
def _part_of(key: np.uint64, shift: np.uint64) -> Any:
    """Hash unlike `slot_of`: keys that come part by part must not crowd a table's slots.

    Part of: `_deal`.
    """
    mixed = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return mixed >> shift


@kernel
def _count_parts(packed: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Count the keys of each part.

    Shapes: packed [n]; counts [p].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    shift = shift_for(len(counts))
    for row in range(len(packed)):
        counts[_part_of(packed[row], shift)] += 1


@kernel
def _deal(
    packed: NDArray[np.uint64],
    ends: NDArray[np.int64],
    dealt: NDArray[np.uint64],
    rows: NDArray[np.uint32],
) -> None:
    """Write keys and their rows part by part; `ends` is where each part goes on.

    Shapes: packed, dealt, rows [n]; ends [p].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    shift = shift_for(len(ends))
    for row in range(len(packed)):
        key = packed[row]
        part = _part_of(key, shift)
        end = ends[part]
        dealt[end] = key
        rows[end] = row
        ends[part] = end + 1


@kernel
def _number_parts(
    dealt: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    starts: NDArray[np.int64],
    table: NDArray[np.uint32],
    group_ids: NDArray[np.uint32],
) -> Any:
    """Give keys numbers part by part, and leave the distinct ones at the front of `dealt`.

    A table holds 1 + the number of the key in a slot within its part, 0 where empty; it is at most
    half full. Keys move to places whose own have been read.

    Shapes: dealt, rows, group_ids [n]; starts [p + 1]; table [s].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    key_count = 0
    for part in range(len(starts) - 1):
        start, end = starts[part], starts[part + 1]
        slot_count = 2
        while slot_count < 2 * (end - start):
            slot_count *= 2
        table[:slot_count] = 0
        last = np.uint64(slot_count - 1)
        shift = shift_for(slot_count)
        first = key_count
        for i in range(start, end):
            key = dealt[i]
            slot = slot_of(key, shift)
            while True:
                entry = table[slot]
                if entry == 0:
                    dealt[key_count] = key
                    key_count += 1
                    table[slot] = key_count - first
                    group_ids[rows[i]] = key_count - 1
                    break
                if dealt[first + entry - 1] == key:
                    group_ids[rows[i]] = first + entry - 1
                    break
                slot = (slot + np.uint64(1)) & last
    return key_count
