"""Values with weights, sorted and merged by group; a sort of few values inside a kernel."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_count import GroupIds, check_rows
from projseg.kernels.runtime.kernel import Narrow, kernel, widened_ids


@kernel
def shell_sort(values: NDArray[np.uint32] | NDArray[np.uint64] | NDArray[np.int64]) -> None:
    """Sort in place; meant for up to some ten thousand values.

    After: Marcin Ciura, "Best increments for the average case of Shellsort", 2001.

    Shapes: values [n].
    Oracle: sorted.
    """
    for gap in (102_000, 45_191, 20_000, 8_861, 3_938, 1_750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, len(values)):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value


# Keys of groups with weights: sorted within each group, and thinned to few that stand for all.
#
# Groups are runs: group i has keys[starts[i] : starts[i + 1]], ascending. A weight says how many
# rows a key stands for; one of weight 0 is the least or greatest key of its group and stands for
# none.

Keys = NDArray[np.int64]

_SMALL_GROUP: Final = 512  # larger ones are sorted by NumPy, one call each


def keys_by_group(group_ids: GroupIds | None, group_count: int, keys: Keys) -> tuple[Keys, Keys]:
    """Return (starts, keys): the rows' keys group by group, each group's ascending."""
    check_rows(group_ids, group_count, len(keys))
    if group_ids is None or group_count == 1:
        starts = np.full(group_count + 1, len(keys), np.int64)
        starts[0] = 0
        return starts, np.sort(keys)
    starts = np.zeros(group_count + 1, np.int64)
    found = np.empty(len(keys), np.int64)
    _bucket(widened_ids(group_ids), keys, starts, found)
    _sort_small(starts, found, np.int64(_SMALL_GROUP))
    for group in np.flatnonzero(np.diff(starts) > _SMALL_GROUP).tolist():
        found[starts[group] : starts[group + 1]].sort()
    return starts, found


def key_order(group_ids: GroupIds, group_count: int, keys: Keys) -> tuple[Keys, Keys]:
    """Return (starts, order): the rows group by group, each group's by ascending key.

    Parameters and errors are those of `keys_by_group`; order is int64[n].
    """
    check_rows(group_ids, group_count, len(keys))
    starts = np.zeros(group_count + 1, np.int64)
    order = np.empty(len(keys), np.int64)
    by_key = np.argsort(keys, kind="stable")
    _bucket(widened_ids(group_ids.take(by_key)), by_key, starts, order)
    return starts, order


def thinned_keys(
    starts: Keys, keys: Keys, weights: Keys, block_counts: Keys, levels: Keys
) -> tuple[Keys, Keys, NDArray[np.uint8]]:
    """Return (starts, keys, levels): each group's ranks cut into blocks, and a key of each.

    A block of level h covers 2^h ranks, and its key is that of the rank in its middle. Smaller
    blocks come first, at most one of each level below the greatest, which is levels[i];
    `block_counts` has the blocks of that level: the group's total weight shifted right by it. Keys
    ascend within a group.
    """
    if not len(starts) - 1 == len(block_counts) == len(levels) or len(keys) != len(weights):
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "keys do not fit their groups")
    totals = totals_of(starts, weights)
    rests = totals - (block_counts << levels)
    if (rests < 0).any() or (rests >> levels).any():
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "blocks do not fit their groups")
    found_starts = np.zeros(len(starts), np.int64)
    np.cumsum(block_counts + np.bitwise_count(rests), out=found_starts[1:])
    found = np.empty(int(found_starts[-1]), np.int64)
    found_levels = np.empty(len(found), np.uint8)
    _thin(starts, keys, weights, levels, rests, found_starts, found, found_levels)
    return found_starts, found, found_levels


def totals_of(starts: Keys, weights: Keys) -> Keys:
    """Return the total weight of each group, int64[g]."""
    below = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights, dtype=np.int64)])
    return np.diff(below[starts])


@kernel
def _bucket(
    group_ids: Narrow, keys: NDArray[np.int64], starts: NDArray[np.int64], found: NDArray[np.int64]
) -> None:
    """Write the keys group by group, in the order of the rows.

    Shapes: group_ids, keys, found [n]; starts [g + 1].
    Oracle: tests/oracle/quantiles.py::by_group.
    """
    for row in range(len(group_ids)):
        starts[np.int64(group_ids[row]) + 1] += 1
    for group in range(1, len(starts)):
        starts[group] += starts[group - 1]
    ends = starts.copy()
    for row in range(len(group_ids)):
        found[ends[group_ids[row]]] = keys[row]
        ends[group_ids[row]] += 1


@kernel
def _sort_small(starts: NDArray[np.int64], keys: NDArray[np.int64], most: int) -> None:
    """Sort the groups of at most `most` keys, in place.

    Shapes: starts [g + 1]; keys [n].
    Oracle: sorted.
    """
    for group in range(len(starts) - 1):
        if starts[group + 1] - starts[group] <= most:
            shell_sort(keys[starts[group] : starts[group + 1]])


@kernel
def _thin(
    starts: NDArray[np.int64],
    keys: NDArray[np.int64],
    weights: NDArray[np.int64],
    levels: NDArray[np.int64],
    rests: NDArray[np.int64],
    found_starts: NDArray[np.int64],
    found: NDArray[np.int64],
    found_levels: NDArray[np.uint8],
) -> None:
    """Write the key in the middle of each block.

    Shapes: starts, found_starts [g + 1]; keys, weights [n]; levels, rests [g]; found, found_levels
    [m].
    Oracle: tests/oracle/quantiles.py::thinned.
    """
    for group in range(len(levels)):
        at = starts[group]
        covered = np.int64(0)
        if starts[group + 1] > at:
            covered = weights[at]
        rank = np.int64(0)
        level = np.int64(0)
        for i in range(found_starts[group], found_starts[group + 1]):
            while level < levels[group] and (rests[group] >> level) & 1 == 0:
                level += 1
            size = np.int64(1) << level
            while covered <= rank + (size >> 1):
                at += 1
                covered += weights[at]
            found[i] = keys[at]
            found_levels[i] = level
            rank += size
            if level < levels[group]:
                level += 1
