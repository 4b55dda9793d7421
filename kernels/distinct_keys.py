"""The distinct keys of rows, numbered, and the distinct (group, id) pairs of rows.

Keys of 64 bits are numbered in partitions if there are many, by runs if equal ones are neighbours.
Pairs are found by a mark for each possible pair, or by two counting sorts.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_count import GroupIds, Validity, check_rows
from projseg.kernels.runtime.kernel import Narrow, kernel
from projseg.memory.memory_pool import empty, zeros

_PART_BITS: Final = 8  # more parts than this are slower to write to
# Pairs are marked while at most so many are possible for each row.
_MARKS_A_ROW: Final = 8
_MARKS_MIN: Final = 1 << 16
_BLOCK: Final = 1 << 15


@kernel(interpretable=True)
def slot_of(key: np.uint64, shift: np.uint64) -> Any:
    """Fibonacci hashing: the high bits of key * 2**64 / golden ratio (Knuth, TAOCP 3, 6.4).

    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    mixed = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    return mixed >> shift


@kernel(interpretable=True)
def shift_for(slot_count: int) -> Any:
    """Return the shift that leaves as many bits as number the slots.

    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    bits = 0
    while (1 << bits) < slot_count:
        bits += 1
    return np.uint64(64 - bits)


def number_in_parts(
    packed: NDArray[np.uint64], group_ids: NDArray[np.uint32]
) -> NDArray[np.uint64]:
    """Return the distinct keys in no particular order, and write rows' positions to `group_ids`.

    There are fewer than 2^32 rows.
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
    return _front(dealt, key_count)


def _front(dealt: NDArray[np.uint64], key_count: int) -> NDArray[np.uint64]:
    """Return the first keys, which hold no memory for many more."""
    front = dealt[:key_count]
    return front if 2 * key_count > len(dealt) else front.copy()


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


def number_pairs(
    first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return (each row's position, first words, second words) of the distinct keys of two words.

    Keys come in no particular order; there are fewer than 2^32 rows.
    """
    if len(first) != len(second):
        raise InvalidInputError(
            "PROJSEG_LENGTH_MISMATCH", f"{len(second)} second words for {len(first)} first ones"
        )
    counts = np.zeros(1 << _PART_BITS, np.int64)
    hashes = empty(len(first), np.uint64)
    _hash_pairs(first, second, hashes, counts)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    dealt = (empty(len(first), np.uint64), empty(len(first), np.uint64))
    rows = empty(len(first), np.uint32)
    _deal_pairs(hashes, first, second, starts[:-1].copy(), *dealt, rows)
    table = empty(1 << (2 * int(counts.max(initial=0))).bit_length(), np.uint32)
    group_ids = empty(len(first), np.uint32)
    key_count = _number_dealt_pairs(*dealt, rows, starts, table, group_ids)
    return group_ids, _front(dealt[0], key_count), _front(dealt[1], key_count)


@kernel(interpretable=True)
def _pair_hash(first: np.uint64, second: np.uint64) -> Any:
    """Mix both words into all bits.

    Part of: `_hash_pairs`.
    """
    mixed = (first ^ (first >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(29)) ^ second) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(32))


@kernel
def _hash_pairs(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    """Hash each row's words, and count the rows of each part, which the high bits tell.

    Shapes: first, second, hashes [n]; counts [p].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    shift = shift_for(len(counts))
    for row in range(len(first)):
        hashes[row] = _pair_hash(first[row], second[row])
        counts[hashes[row] >> shift] += 1


@kernel
def _deal_pairs(
    hashes: NDArray[np.uint64],
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    ends: NDArray[np.int64],
    dealt_first: NDArray[np.uint64],
    dealt_second: NDArray[np.uint64],
    rows: NDArray[np.uint32],
) -> None:
    """Write words and rows part by part; `ends` is where each part goes on.

    Shapes: hashes, first, second, dealt_first, dealt_second, rows [n]; ends [p].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    shift = shift_for(len(ends))
    for row in range(len(hashes)):
        part = hashes[row] >> shift
        end = ends[part]
        dealt_first[end] = first[row]
        dealt_second[end] = second[row]
        rows[end] = row
        ends[part] = end + 1


@kernel
def _number_dealt_pairs(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    rows: NDArray[np.uint32],
    starts: NDArray[np.int64],
    table: NDArray[np.uint32],
    group_ids: NDArray[np.uint32],
) -> Any:
    """Do as `_number_parts` for keys of two words.

    Shapes: first, second, rows, group_ids [n]; starts [p + 1]; table [s].
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
        part_first = key_count
        for i in range(start, end):
            one, other = first[i], second[i]
            slot = _pair_hash(one, other) & last  # the low bits: a part has the high ones in common
            while True:
                entry = table[slot]
                if entry == 0:
                    first[key_count] = one
                    second[key_count] = other
                    key_count += 1
                    table[slot] = key_count - part_first
                    group_ids[rows[i]] = key_count - 1
                    break
                place = part_first + entry - 1
                if first[place] == one and second[place] == other:
                    group_ids[rows[i]] = place
                    break
                slot = (slot + np.uint64(1)) & last
    return key_count


def number_runs(
    keys: NDArray[np.uint32] | NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[Any]] | None:
    """Return (each row's position, the distinct keys, ascending) of fewer than 2^32 sorted keys.

    None if a key is less than the one before it; where that comes early, it is soon found.
    """
    ids, distinct = empty(len(keys), np.uint32), empty(len(keys), keys.dtype)
    count = _number_runs(keys, ids, distinct)
    return None if count < 0 else (ids, distinct[:count].copy())


@kernel(interpretable=True)
def _number_runs(
    keys: NDArray[np.uint32] | NDArray[np.int64],
    ids: NDArray[np.uint32],
    distinct: NDArray[np.uint32] | NDArray[np.int64],
) -> Any:
    """Count up where the key changes; -1 where it falls.

    Shapes: keys, ids, distinct [n].
    Oracle: tests/oracle/grouping.py::distinct_keys.
    """
    if len(keys) == 0:
        return 0
    last = keys[0]
    distinct[0] = last
    count: Any = 1
    for row in range(len(keys)):
        key = keys[row]
        if key != last:
            if key < last:
                return -1
            distinct[count] = key
            count += 1
            last = key
        ids[row] = count - 1
    return count


def distinct_pairs(
    group_ids: GroupIds | None,
    group_count: int,
    ids: NDArray[np.unsignedinteger[Any]],
    id_count: int,
    validity: Validity = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return (starts, ids): group i has the distinct ids[starts[i] : starts[i + 1]], ascending.

    Ids are below `id_count`; rows where `validity` is false are left out.
    """
    check_rows(group_ids, group_count, len(ids), validity)
    if len(ids) and int(ids.max()) >= id_count:
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"id {ids.max()} is not below the id count {id_count}"
        )
    if group_count * id_count <= max(_MARKS_MIN, _MARKS_A_ROW * len(ids)):
        marks = zeros(group_count * id_count + 1, np.bool_)
        _mark_until_all(group_ids, ids, validity, id_count, marks)
        return _marked_pairs(marks[:-1], group_count, id_count)
    groups_by_id = np.empty(len(ids), np.uint32)
    id_starts = np.zeros(id_count + 1, np.int64)
    _sort_by_id(group_ids, ids, validity, id_starts, groups_by_id)
    starts = np.zeros(group_count + 1, np.int64)
    last_ids = np.zeros(group_count, np.int64)
    _count_pairs(id_starts, groups_by_id, last_ids, starts)
    np.cumsum(starts, out=starts)
    pairs = np.empty(int(starts[-1]), np.uint32)
    last_ids[:] = 0
    _write_pairs(id_starts, groups_by_id, last_ids, starts[:-1].copy(), pairs)
    return starts, pairs


def _mark_until_all(
    group_ids: GroupIds | None,
    ids: NDArray[np.unsignedinteger[Any]],
    validity: Validity,
    id_count: int,
    marks: NDArray[np.bool_],
) -> None:
    """Mark the pairs of rows; where pairs are few, the first rows often have all of them."""
    step = _BLOCK if len(marks) < _BLOCK else max(len(ids), 1)
    for start in range(0, len(ids), step):
        rows = slice(start, start + step)
        wide_groups = None if group_ids is None else group_ids[rows].astype(np.uint32, copy=False)
        valid = None if validity is None else validity[rows]
        _mark_pairs(wide_groups, ids[rows].astype(np.uint32, copy=False), valid, id_count, marks)
        if step == _BLOCK and marks[:-1].all():
            return


def _marked_pairs(
    marks: NDArray[np.bool_], group_count: int, id_count: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    pairs = np.flatnonzero(marks)
    starts = np.searchsorted(pairs, np.arange(group_count + 1) * id_count)
    if group_count > 1:
        pairs -= np.repeat(np.arange(group_count) * id_count, np.diff(starts))
    return starts, pairs.astype(np.uint32)


@kernel(interpretable=True)
def _mark_pairs(
    group_ids: NDArray[np.uint32] | None,
    ids: NDArray[np.uint32],
    validity: NDArray[np.bool_] | None,
    id_count: int,
    marks: NDArray[np.bool_],
) -> None:
    """Mark group * id_count + id of each row, and the last mark for those left out.

    Shapes: group_ids, ids, validity [n]; marks [g * d + 1].
    Oracle: tests/oracle/folds.py::distinct.
    """
    for row in range(len(ids)):
        place = np.int64(ids[row])
        if group_ids is not None:
            place += np.int64(group_ids[row]) * id_count
        if validity is not None:
            left_out = np.int64(len(marks) - 1)
            place = place if validity[row] else left_out  # no branch, which would be guessed
        marks[place] = True


@kernel
def _sort_by_id(
    group_ids: Narrow | None,
    ids: Narrow,
    validity: NDArray[np.bool_] | None,
    id_starts: NDArray[np.int64],
    groups_by_id: NDArray[np.uint32],
) -> None:
    """Sort the rows' groups by id.

    Shapes: group_ids, ids, validity, groups_by_id [n]; id_starts [d + 1].
    Oracle: tests/oracle/folds.py::distinct.
    """
    for row in range(len(ids)):
        if validity is None or validity[row]:
            id_starts[np.int64(ids[row]) + 1] += 1
    for i in range(1, len(id_starts)):
        id_starts[i] += id_starts[i - 1]
    ends = id_starts.copy()
    for row in range(len(ids)):
        if validity is None or validity[row]:
            group = np.uint32(0)
            if group_ids is not None:
                group = np.uint32(group_ids[row])
            groups_by_id[ends[ids[row]]] = group
            ends[ids[row]] += 1


@kernel
def _count_pairs(
    id_starts: NDArray[np.int64],
    groups_by_id: NDArray[np.uint32],
    last_ids: NDArray[np.int64],
    starts: NDArray[np.int64],
) -> None:
    """Count into starts[group + 1]; `last_ids` holds 1 + id.

    Shapes: id_starts [d + 1]; groups_by_id [n]; last_ids [g]; starts [g + 1].
    Oracle: tests/oracle/folds.py::distinct.
    """
    for value_id in range(len(id_starts) - 1):
        for i in range(id_starts[value_id], id_starts[value_id + 1]):
            group = groups_by_id[i]
            if last_ids[group] != value_id + 1:
                last_ids[group] = value_id + 1
                starts[np.int64(group) + 1] += 1


@kernel
def _write_pairs(
    id_starts: NDArray[np.int64],
    groups_by_id: NDArray[np.uint32],
    last_ids: NDArray[np.int64],
    ends: NDArray[np.int64],
    pairs: NDArray[np.uint32],
) -> None:
    """Write each distinct pair to its group.

    Shapes: id_starts [d + 1]; groups_by_id [n]; last_ids, ends [g]; pairs [p].
    Oracle: tests/oracle/folds.py::distinct.
    """
    for value_id in range(len(id_starts) - 1):
        for i in range(id_starts[value_id], id_starts[value_id + 1]):
            group = groups_by_id[i]
            if last_ids[group] != value_id + 1:
                last_ids[group] = value_id + 1
                pairs[ends[group]] = value_id
                ends[group] += 1
