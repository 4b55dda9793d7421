"""The smallest hashes of each group: what a theta sketch holds.

A group keeps its k smallest distinct hashes. `theta` is the next one, so that all hashes below it
are kept, or THETA_MAX while none had to be dropped. Both depend on the set of values only.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.folds.fold_count import GroupIds, check_rows
from projseg.kernels.groups.weighted_values import shell_sort
from projseg.kernels.runtime.array_types import Narrow
from projseg.kernels.runtime.kernel import kernel

THETA_MAX: Final = (1 << 63) - 1

Hashes = NDArray[np.uint64]


def bucket_hashes(
    thetas: Hashes,
    group_ids: GroupIds | None,
    value_ids: NDArray[np.unsignedinteger[Any]] | None,
    hashes: Hashes,
) -> tuple[NDArray[np.int64], Hashes]:
    """Return (starts, buckets): the hashes below theta of each group, ascending, by group.

    Parameters
    ----------
    thetas : uint64[g]
        Hashes of a group from its theta on are left out, as is hash 0: no value.
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    value_ids : unsigned[n] or None
        Row i has `hashes[value_ids[i]]`; None: `hashes[i]`.
    hashes : uint64[m]
        Below 2**63.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
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

    Parameters
    ----------
    thetas : uint64[g]
        Changed in place.
    left, right : (int64[g + 1], uint64[n])
        Starts and hashes, ascending within each group; repetitions allowed.
    size_max : int
        Hashes kept for each group.

    Raises
    ------
    InvalidInputError
        If starts leave their hashes.
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
