"""The first or last row of each group by time, ties broken by value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.folds.fold_guard import GroupIds, Validity, check_rows
from projseg.kernels.runtime.kernel import kernel


def rows_by_time(
    group_ids: GroupIds | None,
    group_count: int,
    times: NDArray[np.int64],
    values: NDArray[np.int64],
    *,
    is_last: bool,
    time_validity: Validity = None,
    value_validity: Validity = None,
) -> NDArray[np.int64]:
    """Return the row of each group with the smallest (time, value), or the largest.

    Ties in time are broken by value, null smallest, so that the answer does not depend on the
    order of rows.

    Parameters
    ----------
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    group_count : int
        Number of groups.
    times, values : int64[n]
        Keys of the same order as the times and values.
    is_last : bool
        Whether the largest is asked for.
    time_validity : bool[n] or None
        Rows where it is false do not count.
    value_validity : bool[n] or None
        False where the value is null.

    Returns
    -------
    int64[group_count]
        Row ids; -1 for a group with no row that counts.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    row_count = len(times)
    check_rows(group_ids, group_count, row_count, values, time_validity, value_validity)
    ids = np.zeros(row_count, np.uint32) if group_ids is None else group_ids
    best_rows = np.full(group_count, -1, np.int64)
    best_times = np.zeros(group_count, np.int64)
    valid = time_validity, value_validity
    _rows_by_time(ids.astype(np.uint32), times, values, *valid, is_last, best_rows, best_times)
    return best_rows


@kernel
def _rows_by_time(
    group_ids: NDArray[np.uint32],
    times: NDArray[np.int64],
    values: NDArray[np.int64],
    time_validity: NDArray[np.bool_] | None,
    value_validity: NDArray[np.bool_] | None,
    is_last: bool,
    best_rows: NDArray[np.int64],
    best_times: NDArray[np.int64],
) -> None:
    """Fill `best_rows`.

    Shapes: group_ids, times, values, time_validity, value_validity [n]; best_rows, best_times [g].
    Oracle: tests/oracle/folds.py::value_by_time.
    """
    for row in range(len(times)):
        if time_validity is not None and not time_validity[row]:
            continue
        group = group_ids[row]
        time = times[row]
        best = best_rows[group]
        if best >= 0:
            if time == best_times[group]:
                has_value = has_best = True
                if value_validity is not None:
                    has_value, has_best = value_validity[row], value_validity[best]
                if has_value and has_best:
                    is_better = (
                        values[row] > values[best] if is_last else values[row] < values[best]
                    )
                else:
                    is_better = has_value > has_best if is_last else has_value < has_best
            else:
                is_better = time > best_times[group] if is_last else time < best_times[group]
            if not is_better:
                continue
        best_rows[group] = row
        best_times[group] = time
