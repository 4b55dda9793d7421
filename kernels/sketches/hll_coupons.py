"""Coupons of HyperLogLog sketches by group: the exact content of small sketches.

A coupon is what one distinct value adds to a sketch: 6 bits of rank above 26 bits of address
(`value_hash`). Apache DataSketches keeps coupons while they are few, and registers when they are
more. Coupon 0 means no value.

After: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", 2007; the DataSketches HLL format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import Narrow, kernel
from projseg.kernels.sketches.sketch_rows import BINNED_MAX, BINS, CouponRows, sort_coupons

LG_K_MIN: Final = 4
LG_K_MAX: Final = 21
LIST_COUNT_MAX: Final = 7

_SET_SLOTS_LG: Final = 12  # 16 KiB: half a first-level cache


def coupon_count_max(lg_k: int) -> int:
    """Return how many coupons a sketch holds before it turns into registers."""
    return LIST_COUNT_MAX if lg_k < 8 else 3 << (lg_k - 5)


@dataclass(frozen=True)
class Buckets:
    """Coupons brought together by group: group i's begin at starts[i] of `coupons`.

    counts[i] distinct ones stand there, ascending; or -1 if the group needs registers, whose
    coupons are all of the bucket, in any order.
    """

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    coupons: NDArray[np.uint32]


def bucket_coupons(
    rows: CouponRows, slots: NDArray[np.int32], lg_k: int, is_left_out: NDArray[np.bool_]
) -> Buckets:
    """Bring the distinct coupons of each group together: a counting sort, then one small set each.

    Groups that `slots` gives registers, and those left out, have empty buckets.
    """
    if len(slots) != rows.group_count or len(is_left_out) != rows.group_count:
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "group columns differ in length")
    starts = np.zeros(len(slots) + 1, np.int64)
    buckets = np.empty(len(rows), np.uint32)
    group_ids = np.zeros(len(rows), np.uint32) if rows.group_ids is None else rows.group_ids
    group_ids = group_ids.astype(np.uint32, copy=False)  # one kernel, not one for each width
    _fill_buckets(group_ids, rows.value_ids, rows.coupons, is_left_out, starts, buckets)
    counts = np.zeros(len(slots), np.int64)
    coupon_set = np.zeros(_set_slots(lg_k), np.uint32)
    _deduplicate(starts, slots, np.int64(coupon_count_max(lg_k)), coupon_set, buckets, counts)
    return Buckets(starts, counts, buckets)


def pairs_of_buckets(buckets: Buckets) -> NDArray[np.uint64]:
    """Return the distinct `group << 32 | coupon`, ascending, of groups that need no registers."""
    pairs = np.empty(int(np.maximum(buckets.counts, 0).sum()), np.uint64)
    _pairs_of_buckets(buckets.starts, buckets.counts, buckets.coupons, pairs)
    return pairs


def pair_starts(pairs: NDArray[np.uint64], group_count: int) -> NDArray[np.int64]:
    """Return where each group's pairs start, and their end: int64[group_count + 1]."""
    if len(pairs) and int(pairs[-1]) >> 32 >= group_count:
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"pairs of group {int(pairs[-1]) >> 32} of {group_count}"
        )
    starts = np.zeros(group_count + 1, np.int64)
    _pair_starts(pairs, starts)
    return starts


def merged_pairs(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct pairs of two ascending, distinct lists, ascending."""
    if not len(left) or not len(right):
        return right if len(right) else left
    merged = np.empty(len(left) + len(right), np.uint64)
    return merged[: _merge(left, right, merged)]


def _set_slots(lg_k: int) -> int:
    """Return the size of a hash set that is never fuller than a tenth, up to lgK 12, or 3/4."""
    return 1 << max(lg_k - 3, min(lg_k, _SET_SLOTS_LG), 6)


@kernel
def _fill_buckets(
    group_ids: NDArray[np.uint32],
    value_ids: Narrow | None,
    coupons: NDArray[np.uint32],
    is_left_out: NDArray[np.bool_],
    starts: NDArray[np.int64],
    buckets: NDArray[np.uint32],
) -> None:
    """Sort coupons by group, those of no value left out.

    Shapes: group_ids, value_ids, buckets [n]; coupons [m]; is_left_out [g]; starts [g + 1].
    Oracle: tests/oracle/hll.py::pairs.
    """
    row_count = len(buckets)
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(group_ids[row])
        starts[group + 1] += (coupon != 0) & ~is_left_out[group]
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]
    ends = starts.copy()
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(group_ids[row])
        if coupon != 0 and not is_left_out[group]:
            buckets[ends[group]] = coupon
            ends[group] += 1


@kernel
def _deduplicate(
    starts: NDArray[np.int64],
    slots: NDArray[np.int32],
    limit: int,
    coupon_set: NDArray[np.uint32],
    buckets: NDArray[np.uint32],
    counts: NDArray[np.int64],
) -> None:
    """Leave distinct, ascending coupons in each bucket.

    A bucket given up half-way still holds all its coupons: what was overwritten was a repetition.

    Shapes: starts [g + 1]; slots, counts [g]; coupon_set [s]; buckets [n].
    Oracle: tests/oracle/hll.py::pairs.
    """
    used = np.zeros(limit + 1, np.int64)
    unsorted = np.empty(BINNED_MAX, np.uint32)
    ends = np.empty(BINS + 1, np.int64)
    for group in range(len(slots)):
        start = starts[group]
        count: Any = np.int64(0)
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
            sort_coupons(buckets[start : start + count], unsorted, ends)


@kernel
def _find(coupon_set: NDArray[np.uint32], coupon: np.uint32) -> Any:
    """Return the slot where a coupon is, or belongs.

    Shapes: coupon_set [s].
    Oracle: tests/oracle/hll.py::pairs.
    """
    mask = np.uint32(len(coupon_set) - 1)
    slot = coupon & mask
    while coupon_set[slot] != 0 and coupon_set[slot] != coupon:
        slot = (slot + np.uint32(1)) & mask
    return slot


@kernel
def _pairs_of_buckets(
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    buckets: NDArray[np.uint32],
    pairs: NDArray[np.uint64],
) -> None:
    """Write the pairs of all buckets.

    Shapes: starts [g + 1]; counts [g]; buckets [n]; pairs [p].
    Oracle: tests/oracle/hll.py::pairs.
    """
    count = 0
    for group in range(len(counts)):
        for i in range(starts[group], starts[group] + max(counts[group], 0)):
            pairs[count] = (np.uint64(group) << np.uint64(32)) | np.uint64(buckets[i])
            count += 1


@kernel
def _pair_starts(pairs: NDArray[np.uint64], starts: NDArray[np.int64]) -> None:
    """Write where each group starts and ends.

    Shapes: pairs [p]; starts [g + 1].
    Oracle: tests/oracle/hll.py::pairs.
    """
    group = np.int64(0)
    for i in range(len(pairs)):
        pair_group = np.int64(pairs[i] >> np.uint64(32))
        while group < pair_group and group < len(starts) - 1:
            group += 1
            starts[group] = i
    starts[group + 1 :] = len(pairs)


@kernel
def _merge(left: NDArray[np.uint64], right: NDArray[np.uint64], merged: NDArray[np.uint64]) -> Any:
    """Merge two ascending lists; return the length.

    Shapes: left [n]; right [m]; merged [n + m].
    Oracle: tests/oracle/hll.py::pairs.
    """
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
