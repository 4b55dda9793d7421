"""The distinct (group, id) pairs of rows: a mark for each possible pair, or two counting sorts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.folds.fold_count import GroupIds, Validity, check_rows
from projseg.kernels.runtime.array_types import Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import zeros

# Pairs are marked while at most so many are possible for each row.
_MARKS_A_ROW: Final = 8
_MARKS_MIN: Final = 1 << 16


def distinct_pairs(
    group_ids: GroupIds | None,
    group_count: int,
    ids: NDArray[np.unsignedinteger[Any]],
    id_count: int,
    validity: Validity = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Return (starts, ids): each group's distinct ids, ascending.

    Parameters
    ----------
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    group_count : int
        Number of groups.
    ids : unsigned[n]
        Below `id_count`.
    id_count : int
        Number of ids.
    validity : bool[n] or None
        Rows where it is false are left out.

    Returns
    -------
    starts : int64[group_count + 1]
        Group i's ids are ids[starts[i] : starts[i + 1]].
    ids : uint32[m]

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    check_rows(group_ids, group_count, len(ids), validity)
    if len(ids) and int(ids.max()) >= id_count:
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"id {ids.max()} is not below the id count {id_count}"
        )
    if group_count * id_count <= max(_MARKS_MIN, _MARKS_A_ROW * len(ids)):
        marks = zeros(group_count * id_count, np.bool_)
        wide_groups = None if group_ids is None else group_ids.astype(np.uint32, copy=False)
        _mark_pairs(wide_groups, ids.astype(np.uint32, copy=False), validity, id_count, marks)
        return _marked_pairs(marks, group_count, id_count)
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
    """Mark group * id_count + id of each row.

    Shapes: group_ids, ids, validity [n]; marks [g * d].
    Oracle: tests/oracle/folds.py::distinct.
    """
    for row in range(len(ids)):
        if validity is None or validity[row]:
            if group_ids is None:
                marks[ids[row]] = True
            else:
                marks[np.int64(group_ids[row]) * id_count + np.int64(ids[row])] = True


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
