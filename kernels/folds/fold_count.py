"""Count rows, or rows that hold a value, by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.folds.fold_guard import GroupIds, Validity, check_rows
from projseg.kernels.runtime.array_types import Integers, Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.runtime.widen_small import widened_ids, widened_values


def count_into(
    counts: NDArray[np.int64], group_ids: GroupIds | None, row_count: int, validity: Validity = None
) -> None:
    """Add each group's number of rows to `counts`, in place.

    Parameters
    ----------
    counts : int64[g]
        Changed in place.
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    row_count : int
        n.
    validity : bool[n] or None
        Only rows where it is true are counted.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    check_rows(group_ids, len(counts), row_count, validity)
    if row_count == 0:
        return
    group_ids = widened_ids(group_ids)
    if group_ids is None:
        counts[0] += row_count if validity is None else int(np.count_nonzero(validity))
    elif group_ids.dtype == np.uint8:
        _count_few(group_ids, validity, np.zeros((4, 256), np.int64), counts)
    else:
        _count(group_ids, validity, counts)


def add_counts(
    counts: NDArray[np.int64], group_ids: GroupIds, added: NDArray[Any], base: int = 0
) -> None:
    """Add stored counts to those of their groups, in place.

    Parameters
    ----------
    counts : int64[g]
        Changed in place.
    group_ids : uint8[n], uint16[n] or uint32[n]
        The group of each row.
    added : uint8[n], uint16[n], uint32[n] or int64[n]
        What each row adds, without `base`.
    base : int
        Added to every row's count.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    check_rows(group_ids, len(counts), len(added))
    _add_counts(counts, widened_ids(group_ids), widened_values(added), np.int64(base))


@kernel(interpretable=True)
def _count(
    group_ids: Narrow, validity: NDArray[np.bool_] | None, counts: NDArray[np.int64]
) -> None:
    """Add in place.

    Shapes: group_ids, validity [n]; counts [g].
    Oracle: tests/oracle/folds.py::count.
    """
    for row in range(len(group_ids)):
        if validity is None:
            counts[group_ids[row]] += 1
        else:
            counts[group_ids[row]] += np.int64(validity[row])


@kernel
def _count_few(
    group_ids: NDArray[np.uint8],
    validity: NDArray[np.bool_] | None,
    tables: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Count into four tables of zeros in turn, so that runs of a group do not wait for each other.

    Shapes: group_ids, validity [n]; tables [4, 256]; counts [g].
    Oracle: tests/oracle/folds.py::count.
    """
    for row in range(len(group_ids)):
        if validity is None:
            tables[row & 3, group_ids[row]] += 1
        else:
            tables[row & 3, group_ids[row]] += np.int64(validity[row])
    for group in range(min(256, len(counts))):
        for lane in range(4):
            counts[group] += tables[lane, group]


@kernel(interpretable=True)
def _add_counts(counts: NDArray[np.int64], group_ids: Narrow, added: Integers, base: int) -> None:
    """Add in place.

    Shapes: counts [g]; group_ids, added [n].
    Oracle: tests/oracle/folds.py::total.
    """
    for row in range(len(group_ids)):
        counts[group_ids[row]] += np.int64(added[row]) + base
