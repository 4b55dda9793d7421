"""Sums and extremes by group of integers of 128 bits, each two halves of 64 bits."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_count import GroupIds, Validity, check_rows
from projseg.kernels.runtime.kernel import Narrow, kernel, widened_ids

LIMBS: Final = 4
LIMB_BITS: Final = 32
LIMB_ROWS_MAX: Final = 1 << 30
"""How many rows may be added to limbs of zero; more might overflow one."""


def sum_wide_into(
    limbs: NDArray[np.int64],
    counts: NDArray[np.int64],
    group_ids: GroupIds | None,
    halves: NDArray[np.int64],
    validity: Validity = None,
) -> None:
    """Add each group's values, int64[n, 2], and their number to `limbs` and `counts`, in place.

    A group's sum is `limbs[:, 0] + limbs[:, 1] * 2**32 + limbs[:, 2] * 2**64 + ...`; rows that are
    null hold 0.
    """
    check_rows(group_ids, len(limbs), len(halves), validity)
    if limbs.shape != (len(counts), LIMBS) or halves.shape[1:] != (2,):
        raise _misfit(limbs, halves)
    _sum_wide(widened_ids(group_ids), halves, validity, limbs, counts)


def extreme_rows(
    group_ids: GroupIds | None,
    group_count: int,
    halves: NDArray[np.int64],
    validity: Validity = None,
    *,
    is_min: bool,
) -> NDArray[np.int64]:
    """Return the first row of each group's smallest or largest value, int64[g]; -1 for no value.

    `halves`, int64[n, 2], has the lower and the upper half of each value.
    """
    check_rows(group_ids, group_count, len(halves), validity)
    rows = np.full(group_count, -1)
    if halves.shape[1:] != (2,):
        raise _misfit(rows, halves)
    _extreme_rows(widened_ids(group_ids), halves, validity, is_min, rows)
    return rows


def _misfit(table: NDArray[np.int64], halves: NDArray[np.int64]) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_INTERNAL", f"halves {halves.shape} and a table {table.shape} do not fit"
    )


@kernel(interpretable=True)
def _sum_wide(
    group_ids: Narrow | None,
    halves: NDArray[np.int64],
    validity: NDArray[np.bool_] | None,
    limbs: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Add in place.

    Shapes: group_ids, validity [n]; halves [n, 2]; limbs [g, 4]; counts [g].
    Oracle: tests/oracle/folds.py::total.
    """
    for row in range(len(halves)):
        if validity is not None and not validity[row]:
            continue
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        low, high = halves[row, 0], halves[row, 1]
        limbs[group, 0] += low & 0xFFFFFFFF
        limbs[group, 1] += (low >> 32) & 0xFFFFFFFF
        limbs[group, 2] += high & 0xFFFFFFFF
        limbs[group, 3] += high >> 32
        counts[group] += 1


@kernel(interpretable=True)
def _extreme_rows(
    group_ids: Narrow | None,
    halves: NDArray[np.int64],
    validity: NDArray[np.bool_] | None,
    is_min: bool,
    rows: NDArray[np.int64],
) -> None:
    """Find the rows, where `rows` holds -1.

    Shapes: group_ids, validity [n]; halves [n, 2]; rows [g].
    Oracle: tests/oracle/folds.py::smallest.
    """
    for row in range(len(halves)):
        if validity is not None and not validity[row]:
            continue
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        best = rows[group]
        if best >= 0:
            high, best_high = halves[row, 1], halves[best, 1]
            # Of unsigned lower halves, one is less where it is less as signed, both moved by 2**63.
            low = halves[row, 0] ^ np.int64(-0x8000000000000000)
            best_low = halves[best, 0] ^ np.int64(-0x8000000000000000)
            if is_min:
                is_better = high < best_high or (high == best_high and low < best_low)
            else:
                is_better = high > best_high or (high == best_high and low > best_low)
            if not is_better:
                continue
        rows[group] = row
