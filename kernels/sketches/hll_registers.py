"""Registers of HyperLogLog sketches: at each address the largest rank among a group's coupons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.array_types import Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.sketches.hll_coupons import Buckets
from projseg.kernels.sketches.hll_rows import CouponRows


def fold_rows(
    registers: NDArray[np.uint8], rows: CouponRows, start: int = 0, end: int | None = None
) -> None:
    """Fold the rows from `start` to before `end` into their groups' registers, in place.

    Parameters
    ----------
    registers : uint8[rows.group_count, 2**lg_k]
        Changed in place.
    rows : CouponRows
        Already proved, all of them.
    start, end : int
        Half-open.

    Raises
    ------
    InvalidInputError
        If there is not one row of registers for each group.
    """
    if len(registers) != rows.group_count:
        raise _no_place(rows.group_count)
    group_ids = None if rows.group_ids is None else rows.group_ids[start:end]
    if rows.value_ids is None:
        _fold_rows(group_ids, None, rows.coupons[start:end], registers)
    else:
        _fold_rows(group_ids, rows.value_ids[start:end], rows.coupons, registers)


def occupied_counts(registers: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many registers of each row are not zero: int64[g]."""
    counts = np.empty(len(registers), np.int64)
    _count_occupied(registers, counts)
    return counts


def fold_buckets(registers: NDArray[np.uint8], slots: NDArray[np.int32], buckets: Buckets) -> None:
    """Fold the buckets of count -1 into their groups' rows of `registers`, in place.

    Raises
    ------
    InvalidInputError
        If such a group has no row there.
    """
    groups = np.flatnonzero(buckets.counts < 0)
    if len(groups) == 0:
        return
    rows = slots[groups]
    if int(rows.min()) < 0 or int(rows.max()) >= len(registers):
        raise _no_place(int(groups[rows.argmin()]))
    _fold_buckets(buckets.starts, buckets.counts, buckets.coupons, slots, registers)


def fold_pairs(
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
    if len(pairs) == 0 or len(registers) == 0:
        return pairs
    largest_group = int(pairs.max() >> np.uint64(32))
    if largest_group >= len(slots) or int(slots.max()) >= len(registers):
        raise _no_place(largest_group)
    others = np.empty(len(pairs), np.uint64)
    return others[: _fold_pairs(pairs, slots, registers, others)]


def _no_place(group: int) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_GROUP_IDS", f"group {group} has no place in the registers"
    )


@kernel
def _fold_rows(
    group_ids: Narrow | None,
    value_ids: Narrow | None,
    coupons: NDArray[np.uint32],
    registers: NDArray[np.uint8],
) -> None:
    """Fold all rows, without a branch on what they hold.

    Half of all coupons can raise a register of a group with few rows, so a test whether one does
    would be mispredicted more often than the store costs.

    Shapes: group_ids, value_ids [n]; coupons [m]; registers [g, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    row_count = len(coupons) if value_ids is None else len(value_ids)
    mask = np.uint32(registers.shape[1] - 1)
    for row in range(row_count):
        coupon = coupons[row] if value_ids is None else coupons[value_ids[row]]
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        index = coupon & mask
        rank = np.uint8(coupon >> np.uint32(26))
        registers[group, index] = max(registers[group, index], rank)


@kernel
def _count_occupied(registers: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
    """Write how many registers of each row are not zero.

    Shapes: registers [r, k]; counts [r].
    Oracle: tests/oracle/hll.py::registers.
    """
    for row in range(len(registers)):
        ranks = registers[row]
        count = 0
        for i in range(len(ranks)):
            count += ranks[i] != 0
        counts[row] = count


@kernel
def register_sums(ranks: NDArray[np.uint8]) -> Any:
    """Return (sum of 2**-rank below rank 32, that sum from 32 on, registers of rank 0), exactly.

    The sums are gathered as integers, which the compiler vectorises: multiples of 2**-31 and of
    2**-63 that fit a double.

    Shapes: ranks [k].
    Oracle: tests/oracle/hll.py::sketch.
    """
    low = np.uint64(0)
    high = np.uint64(0)
    for i in range(len(ranks)):
        rank = np.uint64(ranks[i] & np.uint8(63))
        low += np.uint64(1 << 31) >> rank
        high += (np.uint64(1 << 63) >> rank) & np.uint64(0xFFFFFFFF)
    zero_count = 0
    for i in range(len(ranks)):
        zero_count += ranks[i] == 0
    return low * 2.0**-31, high * 2.0**-63, zero_count


@kernel
def _fold_buckets(
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    buckets: NDArray[np.uint32],
    slots: NDArray[np.int32],
    registers: NDArray[np.uint8],
) -> None:
    """Fold large buckets into registers.

    Shapes: starts [g + 1]; counts, slots [g]; buckets [n]; registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    for group in range(len(counts)):
        if counts[group] < 0:
            for i in range(starts[group], starts[group + 1]):
                _raise_register(registers, slots[group], buckets[i])


@kernel
def _fold_pairs(
    pairs: NDArray[np.uint64],
    slots: NDArray[np.int32],
    registers: NDArray[np.uint8],
    others: NDArray[np.uint64],
) -> Any:
    """Fold or keep each pair; return how many are kept.

    Shapes: pairs, others [p]; slots [g]; registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    count = 0
    for i in range(len(pairs)):
        slot = slots[pairs[i] >> np.uint64(32)]
        if slot >= 0:
            _raise_register(registers, slot, np.uint32(pairs[i] & np.uint64(0xFFFFFFFF)))
        else:
            others[count] = pairs[i]
            count += 1
    return count


@kernel
def _raise_register(registers: NDArray[np.uint8], row: int, coupon: np.uint32) -> None:
    """Let one coupon count in a row of registers.

    Shapes: registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    index = np.int64(coupon & np.uint32(registers.shape[1] - 1))
    rank = np.uint8(coupon >> np.uint32(26))
    registers[row, index] = max(registers[row, index], rank)
