"""Coupons of HyperLogLog sketches by group: what a small sketch holds, exactly.

A coupon is what one distinct value leaves in a sketch: 6 bits of rank above 26 bits of address
(`value_hash`). Apache DataSketches keeps the coupons themselves while they are few; only then do
they become registers. Coupon 0 means no value.

After: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", 2007; the DataSketches HLL format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_guard import GroupIds, check_rows
from projseg.kernels.shell_sort import shell_sort

ADDRESS_BITS: Final = 26
LG_K_MIN: Final = 4
LG_K_MAX: Final = 21
LIST_COUNT_MAX: Final = 7


def coupon_count_max(lg_k: int) -> int:
    """Return how many coupons a sketch holds before it turns into registers."""
    return LIST_COUNT_MAX if lg_k < 8 else 3 << (lg_k - 5)


def set_slots(lg_k: int) -> int:
    """Return the size of a hash set for the coupons of one sketch: a power of two."""
    return 1 << max(lg_k - 3, 5)


@dataclass(frozen=True)
class Buckets:
    """Coupons brought together by group.

    Parameters
    ----------
    starts : int64[g + 1]
        Group i's coupons start at starts[i] of `coupons`.
    counts : int64[g]
        How many distinct coupons stand there, ascending; -1 for groups that need registers, whose
        coupons are all of the bucket, in any order.
    coupons : uint32[n]
        The buckets.
    """

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    coupons: NDArray[np.uint32]


def bucket_coupons(
    slots: NDArray[np.int32],
    group_ids: GroupIds | None,
    value_ids: NDArray[np.unsignedinteger[Any]] | None,
    coupons: NDArray[np.uint32],
    lg_k: int,
) -> Buckets:
    """Bring the distinct coupons of each group together: a counting sort, then one small set each.

    Parameters
    ----------
    slots : int32[g]
        Groups where it is not negative have registers already.
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    value_ids : unsigned[n] or None
        Row i has `coupons[value_ids[i]]`; None: `coupons[i]`.
    coupons : uint32[m]
        0 for no value.
    lg_k : int
        Logarithm of the number of registers.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    row_count = _checked_rows(group_ids, len(slots), value_ids, coupons)
    starts = np.zeros(len(slots) + 1, np.int64)
    buckets = np.empty(row_count, np.uint32)
    _fill_buckets(group_ids, value_ids, coupons, starts, buckets)
    counts = np.zeros(len(slots), np.int64)
    coupon_set = np.zeros(set_slots(lg_k), np.uint32)
    _deduplicate(starts, slots, np.int64(coupon_count_max(lg_k)), coupon_set, buckets, counts)
    return Buckets(starts, counts, buckets)


def pairs_of_buckets(buckets: Buckets) -> NDArray[np.uint64]:
    """Return the distinct `group << 32 | coupon`, ascending, of groups that need no registers."""
    pairs = np.empty(int(np.maximum(buckets.counts, 0).sum()), np.uint64)
    _pairs_of_buckets(buckets.starts, buckets.counts, buckets.coupons, pairs)
    return pairs


def fold_buckets(registers: NDArray[np.uint8], slots: NDArray[np.int32], buckets: Buckets) -> None:
    """Fold the buckets of count -1 into their groups' rows of `registers`, in place.

    Raises
    ------
    InvalidInputError
        If such a group has no row there.
    """
    rows = slots[buckets.counts < 0]
    if int(rows.min(initial=0)) < 0 or int(rows.max(initial=-1)) >= len(registers):
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "a group has no place in the registers")
    _fold_buckets(buckets.starts, buckets.counts, buckets.coupons, slots, registers)


def pair_starts(pairs: NDArray[np.uint64], group_count: int) -> NDArray[np.int64]:
    """Return where each group's pairs start, and their end: int64[group_count + 1]."""
    first = np.arange(group_count + 1, dtype=np.uint64) << np.uint64(32)
    return np.searchsorted(pairs, first)


def fold_into_sets(
    sets: NDArray[np.uint32],
    counts: NDArray[np.int32],
    registers: NDArray[np.uint8],
    group_ids: GroupIds | None,
    value_ids: NDArray[np.unsignedinteger[Any]] | None,
    coupons: NDArray[np.uint32],
    lg_k: int,
) -> None:
    """Fold rows into one hash set of coupons a group, and into registers once a set is full.

    Parameters
    ----------
    sets : uint32[g, set_slots(lg_k)]
        Changed in place; 0 is an empty slot.
    counts : int32[g]
        Coupons in each set; -1 where the group has turned into registers.
    registers : uint8[g, 2**lg_k]
        Changed in place.
    group_ids, value_ids, coupons
        The rows, as in `bucket_coupons`.
    lg_k : int
        Logarithm of the number of registers.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    group_count = len(sets)
    _checked_rows(group_ids, group_count, value_ids, coupons)
    shapes = sets.shape, counts.shape, registers.shape
    wanted = (group_count, set_slots(lg_k)), (group_count,), (group_count, 1 << lg_k)
    if shapes != wanted:
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", f"{shapes} do not fit lgK {lg_k}")
    limit = np.int32(coupon_count_max(lg_k))
    _fold_into_sets(group_ids, value_ids, coupons, limit, sets, counts, registers)


def merged_pairs(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct pairs of two ascending, distinct lists, ascending."""
    if not len(left) or not len(right):
        return right if len(right) else left
    merged = np.empty(len(left) + len(right), np.uint64)
    return merged[: _merge(left, right, merged)]


def fold_into_registers(
    registers: NDArray[np.uint8], slots: NDArray[np.int32], pairs: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Fold the pairs of groups that have registers into them, and return the other pairs.

    Parameters
    ----------
    registers : uint8[p, 2**lg_k]
        Changed in place.
    slots : int32[g]
        Each group's row of `registers`, -1 for none.
    pairs : uint64[n]
        Any order.

    Raises
    ------
    InvalidInputError
        If a group or a slot is out of range.
    """
    if len(pairs):
        largest_group = int(pairs.max() >> np.uint64(32))
        if largest_group >= len(slots) or int(slots.max()) >= len(registers):
            raise InvalidInputError(
                "PROJSEG_BAD_GROUP_IDS", f"group {largest_group} has no place in the registers"
            )
    others = np.empty(len(pairs), np.uint64)
    return others[: _fold_into_registers(pairs, slots, registers, others)]


def _checked_rows(
    group_ids: GroupIds | None,
    group_count: int,
    value_ids: NDArray[Any] | None,
    coupons: NDArray[np.uint32],
) -> int:
    row_count = len(coupons) if value_ids is None else len(value_ids)
    check_rows(group_ids, group_count, row_count)
    if value_ids is not None and row_count and int(value_ids.max()) >= len(coupons):
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"value id {value_ids.max()} is not below {len(coupons)}"
        )
    return row_count


@njit(nogil=True, cache=True)
def _fill_buckets(group_ids: Any, value_ids: Any, coupons: Any, starts: Any, buckets: Any) -> None:
    """Sort coupons by group, those of no value left out. Oracle: tests/oracle/hll.py::pairs."""
    row_count = len(buckets)
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        starts[group + 1] += coupon != 0
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]
    ends = starts.copy()
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        if coupon != 0:
            buckets[ends[group]] = coupon
            ends[group] += 1


@njit(nogil=True, cache=True)
def _deduplicate(
    starts: Any, slots: Any, limit: Any, coupon_set: Any, buckets: Any, counts: Any
) -> None:
    """Leave distinct, ascending coupons in each bucket. Oracle: tests/oracle/hll.py::pairs.

    A bucket given up half-way still holds all its coupons: what was overwritten was a repetition.
    """
    used = np.zeros(limit + 1, np.int64)
    for group in range(len(slots)):
        start = starts[group]
        count = np.int64(0)
        for i in range(start, starts[group + 1]):
            if slots[group] >= 0 or count > limit:
                count = limit + 1
                break
            coupon = buckets[i]
            slot = _find(coupon_set, coupon)
            if coupon_set[slot] == 0:
                coupon_set[slot] = coupon
                used[count] = slot
                buckets[start + count] = coupon
                count += 1
        for i in range(min(count, limit + 1)):
            coupon_set[used[i]] = 0
        counts[group] = -1 if count > limit else count
        if count <= limit:
            shell_sort(buckets[start : start + count])


@njit(nogil=True, cache=True)
def _find(coupon_set: Any, coupon: Any) -> Any:
    """Return the slot where a coupon is, or belongs. Oracle: tests/oracle/hll.py::pairs."""
    mask = np.uint32(len(coupon_set) - 1)
    slot = coupon & mask
    while coupon_set[slot] != 0 and coupon_set[slot] != coupon:
        slot = (slot + np.uint32(1)) & mask
    return slot


@njit(nogil=True, cache=True)
def _pairs_of_buckets(starts: Any, counts: Any, buckets: Any, pairs: Any) -> None:
    """Write the pairs of all buckets. Oracle: tests/oracle/hll.py::pairs."""
    count = 0
    for group in range(len(counts)):
        for i in range(starts[group], starts[group] + max(counts[group], 0)):
            pairs[count] = (np.uint64(group) << np.uint64(32)) | np.uint64(buckets[i])
            count += 1


@njit(nogil=True, cache=True)
def _fold_buckets(starts: Any, counts: Any, buckets: Any, slots: Any, registers: Any) -> None:
    """Fold large buckets into registers. Oracle: tests/oracle/hll.py::registers."""
    for group in range(len(counts)):
        if counts[group] < 0:
            for i in range(starts[group], starts[group + 1]):
                _raise_register(registers, slots[group], buckets[i])


@njit(nogil=True, cache=True)
def _merge(left: Any, right: Any, merged: Any) -> Any:
    """Merge two ascending lists; return the length. Oracle: tests/oracle/hll.py::pairs."""
    i = j = count = 0
    while i < len(left) and j < len(right):
        pair = min(left[i], right[j])
        merged[count] = pair
        count += 1
        i += left[i] == pair
        j += right[j] == pair
    while i < len(left):
        merged[count] = left[i]
        i += 1
        count += 1
    while j < len(right):
        merged[count] = right[j]
        j += 1
        count += 1
    return count


@njit(nogil=True, cache=True)
def _raise_register(registers: Any, row: Any, coupon: Any) -> None:
    """Let one coupon count in a row of registers. Oracle: tests/oracle/hll.py::registers."""
    index = np.int64(coupon & np.uint32(registers.shape[1] - 1))
    rank = np.uint8(coupon >> np.uint32(26))
    if rank > registers[row, index]:
        registers[row, index] = rank


@njit(nogil=True, cache=True)
def _fold_into_registers(pairs: Any, slots: Any, registers: Any, others: Any) -> Any:
    """Fold or keep each pair; return how many are kept. Oracle: tests/oracle/hll.py::registers."""
    count = 0
    for i in range(len(pairs)):
        slot = slots[pairs[i] >> np.uint64(32)]
        if slot >= 0:
            _raise_register(registers, slot, np.uint32(pairs[i] & np.uint64(0xFFFFFFFF)))
        else:
            others[count] = pairs[i]
            count += 1
    return count


@njit(nogil=True, cache=True)
def _fold_into_sets(
    group_ids: Any,
    value_ids: Any,
    coupons: Any,
    limit: Any,
    sets: Any,
    counts: Any,
    registers: Any,
) -> None:
    """Fold rows in place. Oracle: tests/oracle/hll.py::registers."""
    row_count = len(coupons) if value_ids is None else len(value_ids)
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        if coupon == 0:
            continue
        if counts[group] < 0:
            _raise_register(registers, group, coupon)
            continue
        slot = _find(sets[group], coupon)
        counts[group] += sets[group, slot] == 0
        sets[group, slot] = coupon
        if counts[group] > limit:
            counts[group] = -1
            for i in range(sets.shape[1]):
                if sets[group, i] != 0:
                    _raise_register(registers, group, sets[group, i])
                    sets[group, i] = 0
