"""Rows folded into sketches: coupons of HyperLogLog, the smallest hashes of theta sketches.

Of rows of coupons, the distinct ones of few values are found, and those of one sketch are sorted.

Of hashes, a group keeps its k smallest distinct ones. `theta` is the next one, so that all hashes
below it are kept, or THETA_MAX while none had to be dropped. Both depend on the set of values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_count import GroupIds, check_rows
from projseg.kernels.runtime.kernel import Narrow, kernel
from projseg.kernels.weighted_values import shell_sort

BINS: Final = 128
BINNED_MAX: Final = 512  # so that insertion stays cheap even where coupons were made to collide
THETA_MAX: Final = (1 << 63) - 1
_PAIRS_MAX: Final = 1 << 20  # a byte each, in the second-level cache
_ROWS_PER_PAIR_MIN: Final = 8  # from which a pass over all pairs costs little beside one over rows
_BINNED_MIN: Final = 24  # below that insertion alone is faster

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class CouponRows:
    """Row i belongs to group `group_ids[i]` and has the coupon `coupons[value_ids[i]]`.

    Without value ids, row i has coupons[i]; a coupon of 0 is no value.
    """

    group_ids: GroupIds | None
    group_count: int
    value_ids: NDArray[np.unsignedinteger[Any]] | None
    coupons: NDArray[np.uint32]

    def __post_init__(self) -> None:
        """Check that every id is in range, since kernels do not."""
        check_rows(self.group_ids, self.group_count, len(self))
        ids = self.value_ids
        if ids is not None and len(ids) and int(ids.max()) >= len(self.coupons):
            raise InvalidInputError(
                "PROJSEG_BAD_GROUP_IDS", f"value id {ids.max()} is not below {len(self.coupons)}"
            )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.coupons) if self.value_ids is None else len(self.value_ids)

    def has_few_pairs(self) -> bool:
        """Whether groups and values are so few that `distinct_rows` saves time."""
        pair_count = self.group_count * len(self.coupons)
        is_small = pair_count <= min(_PAIRS_MAX, len(self) // _ROWS_PER_PAIR_MIN)
        return self.value_ids is not None and is_small


def distinct_rows(rows: CouponRows) -> CouponRows:
    """Return one row for each group and value id that occur together, by group and value id.

    Rows without value ids are returned as they are.
    """
    if rows.value_ids is None:
        return rows
    is_seen = np.zeros((rows.group_count, len(rows.coupons)), np.bool_)
    _mark_pairs(rows.group_ids, rows.value_ids, is_seen)
    pair_count = np.count_nonzero(is_seen)
    group_ids = np.empty(pair_count + 1, np.uint32)  # one more: where unseen pairs are written
    coupons = np.empty(pair_count + 1, np.uint32)
    _write_pairs(is_seen, rows.coupons, group_ids, coupons)
    return CouponRows(group_ids[:-1], rows.group_count, None, coupons[:-1])


@kernel
def _mark_pairs(group_ids: Narrow | None, value_ids: Narrow, is_seen: NDArray[np.bool_]) -> None:
    """Mark each row's group and value id.

    Shapes: group_ids, value_ids [n]; is_seen [g, m].
    Oracle: tests/oracle/hll.py::pairs.
    """
    for row in range(len(value_ids)):
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        is_seen[group, np.int64(value_ids[row])] = True


@kernel
def _write_pairs(
    is_seen: NDArray[np.bool_],
    coupons: NDArray[np.uint32],
    group_ids: NDArray[np.uint32],
    seen_coupons: NDArray[np.uint32],
) -> None:
    """Write the group and the coupon of each mark.

    Shapes: is_seen [g, m]; coupons [m]; group_ids, seen_coupons [p + 1].
    Oracle: tests/oracle/hll.py::pairs.
    """
    count = np.uint64(0)
    for group in range(is_seen.shape[0]):
        for value in range(is_seen.shape[1]):
            group_ids[count] = group
            seen_coupons[count] = coupons[value]
            count += np.uint64(is_seen[group, value])


@kernel
def sort_coupons(
    coupons: NDArray[np.uint32], unsorted: NDArray[np.uint32], ends: NDArray[np.int64]
) -> None:
    """Sort uint32[n] in place.

    Half of all hashes have rank 1, a quarter rank 2, and so on, and addresses are uniform: the
    share of smaller coupons is known. A counting sort by that share leaves little to insertion,
    which alone decides the order. Scratch: `unsorted`, uint32[BINNED_MAX], `ends`, int64[BINS + 1].

    Shapes: coupons [n]; unsorted [BINNED_MAX]; ends [BINS + 1].
    Oracle: sorted.
    """
    count = len(coupons)
    if count > BINNED_MAX:
        shell_sort(coupons)
        return
    if count >= _BINNED_MIN:
        ends[:] = 0
        for i in range(count):
            unsorted[i] = coupons[i]
            ends[_bin(coupons[i]) + 1] += 1
        for i in range(1, len(ends)):
            ends[i] += ends[i - 1]
        for i in range(count):
            place = _bin(unsorted[i])
            coupons[ends[place]] = unsorted[i]
            ends[place] += 1
    for i in range(1, count):
        coupon = coupons[i]
        j = i
        while j > 0 and coupons[j - 1] > coupon:
            coupons[j] = coupons[j - 1]
            j -= 1
        coupons[j] = coupon


@kernel
def _bin(coupon: np.uint32) -> Any:
    """Return the share of smaller coupons in units of 1 / BINS.

    Oracle: sorted.
    """
    rank = np.uint64(coupon >> np.uint32(26))
    address = np.uint64(coupon & np.uint32(0x3FFFFFF))
    share = np.uint64(1 << 32) - (np.uint64(1 << 33) >> rank) + ((address << np.uint64(6)) >> rank)
    return np.int64((share * np.uint64(BINS) >> np.uint64(32)) & np.uint64(BINS - 1))


def bucket_hashes(
    thetas: Hashes,
    group_ids: GroupIds | None,
    value_ids: NDArray[np.unsignedinteger[Any]] | None,
    hashes: Hashes,
) -> tuple[NDArray[np.int64], Hashes]:
    """Return (starts, buckets): the hashes below theta of each group, ascending, by group.

    Row i has `hashes[value_ids[i]]`, or `hashes[i]` without value ids; hash 0 is no value.
    """
    row_count = len(hashes) if value_ids is None else len(value_ids)
    check_rows(group_ids, len(thetas), row_count)
    if value_ids is not None and row_count and int(value_ids.max()) >= len(hashes):
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"value id {value_ids.max()} is not below {len(hashes)}"
        )
    starts = np.zeros(len(thetas) + 1, np.int64)
    _count_hashes(group_ids, value_ids, hashes, thetas, starts)
    np.cumsum(starts, out=starts)
    buckets = np.empty(int(starts[-1]), np.uint64)
    _fill_hashes(group_ids, value_ids, hashes, thetas, starts[:-1].copy(), buckets)
    _sort_buckets(starts, buckets)
    return starts, buckets


def merge_smallest(
    thetas: Hashes,
    left: tuple[NDArray[np.int64], Hashes],
    right: tuple[NDArray[np.int64], Hashes],
    size_max: int,
) -> tuple[NDArray[np.int64], Hashes]:
    """Return each group's smallest distinct hashes of both sides, and lower `thetas` in place.

    A side is (starts, hashes), ascending within each group, with repetitions; a group keeps
    `size_max`.
    """
    for starts, hashes in (left, right):
        is_bad = len(starts) != len(thetas) + 1 or int(starts[0]) != 0
        if is_bad or int(starts[-1]) > len(hashes) or (np.diff(starts) < 0).any():
            raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "theta parts do not fit their groups")
    merged = np.empty(len(left[1]) + len(right[1]), np.uint64)
    merged_starts = np.zeros(len(thetas) + 1, np.int64)
    _merge(*left, *right, size_max, thetas, merged_starts, merged)
    return merged_starts, merged[: merged_starts[-1]].copy()


@kernel
def _count_hashes(
    group_ids: Narrow | None,
    value_ids: Narrow | None,
    hashes: NDArray[np.uint64],
    thetas: NDArray[np.uint64],
    starts: NDArray[np.int64],
) -> None:
    """Count into starts[group + 1].

    Shapes: group_ids, value_ids [n]; hashes [m]; thetas [g]; starts [g + 1].
    Oracle: tests/oracle/theta.py::smallest.
    """
    row_count = len(hashes) if value_ids is None else len(value_ids)
    for row in range(row_count):
        value = hashes[row] if value_ids is None else hashes[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        starts[group + 1] += value != 0 and value < thetas[group]


@kernel
def _fill_hashes(
    group_ids: Narrow | None,
    value_ids: Narrow | None,
    hashes: NDArray[np.uint64],
    thetas: NDArray[np.uint64],
    ends: NDArray[np.int64],
    buckets: NDArray[np.uint64],
) -> None:
    """Write each hash to its group's bucket.

    Shapes: group_ids, value_ids, buckets [n]; hashes [m]; thetas, ends [g].
    Oracle: tests/oracle/theta.py::smallest.
    """
    row_count = len(hashes) if value_ids is None else len(value_ids)
    for row in range(row_count):
        value = hashes[row] if value_ids is None else hashes[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        if value != 0 and value < thetas[group]:
            buckets[ends[group]] = value
            ends[group] += 1


@kernel
def _sort_buckets(starts: NDArray[np.int64], buckets: NDArray[np.uint64]) -> None:
    """Sort each bucket.

    Shapes: starts [g + 1]; buckets [n].
    Oracle: tests/oracle/theta.py::smallest.
    """
    for group in range(len(starts) - 1):
        shell_sort(buckets[starts[group] : starts[group + 1]])


@kernel
def _merge(
    left_starts: NDArray[np.int64],
    left: NDArray[np.uint64],
    right_starts: NDArray[np.int64],
    right: NDArray[np.uint64],
    size_max: int,
    thetas: NDArray[np.uint64],
    starts: NDArray[np.int64],
    merged: NDArray[np.uint64],
) -> None:
    """Merge group by group.

    Shapes: left_starts, right_starts, starts [g + 1]; left [n]; right [m]; thetas [g]; merged [n +
    m].
    Oracle: tests/oracle/theta.py::smallest.
    """
    end = np.int64(0)
    for group in range(len(thetas)):
        i, i_end = left_starts[group], left_starts[group + 1]
        j, j_end = right_starts[group], right_starts[group + 1]
        start = end
        theta = thetas[group]
        while i < i_end or j < j_end:
            if j == j_end or (i < i_end and left[i] <= right[j]):
                value = left[i]
                i += 1
            else:
                value = right[j]
                j += 1
            if value >= theta:
                break
            if end > start and merged[end - 1] == value:
                continue
            if end - start == size_max:
                thetas[group] = value
                break
            merged[end] = value
            end += 1
        starts[group + 1] = end
