"""The smallest or largest value of each group, and its first or last row by time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.fold_count import GroupIds, Validity, check_rows
from projseg.kernels.runtime.kernel import Integers, Narrow, kernel, widened_ids, widened_values

# The smallest or largest 64-bit key by group, over keys that are stored narrow.
#
# Keys are integers, dictionary ids, or `float_order_keys`, so one kernel for each direction serves
# every type; floats without nulls are compared as they are.

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


def min_into(
    best: NDArray[np.int64],
    seen: NDArray[np.bool_],
    group_ids: GroupIds | None,
    keys: NDArray[Any],
    *,
    base: int = 0,
    first_key: int = INT64_MIN,
    validity: Validity = None,
) -> None:
    """Lower each group's `best` to its smallest `base + key`, in place.

    `best`, int64[g], starts as INT64_MAX; `seen`, bool[g], is set where a row counted. Rows below
    `first_key` do not count: 1 skips the null of a dictionary.
    """
    check_rows(group_ids, len(best), len(keys), validity)
    check_rows(None, 1, len(best), seen)
    if len(keys) == 0:
        return
    if group_ids is None and validity is None:
        smallest = int(keys.min()) + base
        if smallest >= first_key:
            best[0], seen[0] = min(int(best[0]), smallest), True
            return
    group_ids, keys = widened_ids(group_ids), widened_values(keys)
    _min(group_ids, keys, np.int64(base), np.int64(first_key), validity, best, seen)


def max_into(
    best: NDArray[np.int64],
    seen: NDArray[np.bool_],
    group_ids: GroupIds | None,
    keys: NDArray[Any],
    *,
    base: int = 0,
    first_key: int = INT64_MIN,
    validity: Validity = None,
) -> None:
    """Raise each group's `best` to its largest `base + key`; INT64_MIN where nothing was seen.

    Otherwise as `min_into`.
    """
    check_rows(group_ids, len(best), len(keys), validity)
    check_rows(None, 1, len(best), seen)
    if len(keys) == 0:
        return
    if group_ids is None and validity is None:
        largest = int(keys.max()) + base
        if largest >= first_key:
            best[0], seen[0] = max(int(best[0]), largest), True
        return
    group_ids, keys = widened_ids(group_ids), widened_values(keys)
    _max(group_ids, keys, np.int64(base), np.int64(first_key), validity, best, seen)


def extreme_floats(
    group_ids: GroupIds,
    group_count: int,
    values: NDArray[np.float64],
    *,
    is_min: bool,
    validity: Validity = None,
) -> NDArray[np.float64]:
    """Return each group's smallest or largest value, float64[g]; NaN is greater than every number.

    The smallest is infinity in a group of no row, or of NaN alone; the largest is minus infinity in
    a group of no row.
    """
    check_rows(group_ids, group_count, len(values), validity)
    best = np.full(group_count + 1, np.inf if is_min else -np.inf)
    kernel = _min_floats if is_min else _max_floats
    kernel(widened_ids(group_ids), values, validity, best)
    return best[:group_count]


def extreme_of_floats(values: NDArray[np.float64], *, is_min: bool) -> NDArray[np.float64]:
    """Return the result of `extreme_floats` for rows that are one group, float64[1]."""
    with np.errstate(invalid="ignore"):
        found = values.min(initial=np.inf) if is_min else values.max(initial=-np.inf)
        if is_min and np.isnan(found):
            found = values[~np.isnan(values)].min(initial=np.inf)  # fmin: not of signalling ones
    return np.array([found])


@kernel(interpretable=True)
def _min(
    group_ids: Narrow | None,
    keys: Integers,
    base: int,
    first_key: int,
    validity: NDArray[np.bool_] | None,
    best: NDArray[np.int64],
    seen: NDArray[np.bool_],
) -> None:
    """Fold in place.

    Shapes: group_ids, keys, validity [n]; best, seen [g].
    Oracle: tests/oracle/folds.py::smallest.
    """
    for row in range(len(keys)):
        key = np.int64(keys[row]) + base
        if key < first_key or (validity is not None and not validity[row]):
            continue
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        seen[group] = True
        if key < best[group]:
            best[group] = key


@kernel(interpretable=True)
def _max(
    group_ids: Narrow | None,
    keys: Integers,
    base: int,
    first_key: int,
    validity: NDArray[np.bool_] | None,
    best: NDArray[np.int64],
    seen: NDArray[np.bool_],
) -> None:
    """Fold in place.

    Shapes: group_ids, keys, validity [n]; best, seen [g].
    Oracle: tests/oracle/folds.py::largest.
    """
    for row in range(len(keys)):
        key = np.int64(keys[row]) + base
        if key < first_key or (validity is not None and not validity[row]):
            continue
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        seen[group] = True
        if key > best[group]:
            best[group] = key


@kernel
def _min_floats(
    group_ids: Narrow,
    values: NDArray[np.float64],
    validity: NDArray[np.bool_] | None,
    best: NDArray[np.float64],
) -> None:
    """Fold in place; the last of `best` is of rows that do not count.

    Shapes: group_ids, values, validity [n]; best [g + 1].
    Oracle: tests/oracle/folds.py::smallest.
    """
    rest = len(best) - 1
    for row in range(len(values)):
        group, value = np.int64(group_ids[row]), values[row]
        if validity is not None:
            group = rest + (group - rest) * np.int64(validity[row])  # a branch would cost more
        if value < best[group]:
            best[group] = value


@kernel
def _max_floats(
    group_ids: Narrow,
    values: NDArray[np.float64],
    validity: NDArray[np.bool_] | None,
    best: NDArray[np.float64],
) -> None:
    """Fold in place; the last of `best` is of rows that do not count.

    Shapes: group_ids, values, validity [n]; best [g + 1].
    Oracle: tests/oracle/folds.py::largest.
    """
    rest = len(best) - 1
    for row in range(len(values)):
        group, value = np.int64(group_ids[row]), values[row]
        if validity is not None:
            group = rest + (group - rest) * np.int64(validity[row])  # a branch would cost more
        if value > best[group] or value != value:  # noqa: PLR0124 - NaN
            best[group] = value


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
    """Return the row of each group with the smallest (time, value), or the largest; -1 for none.

    Times and values are int64 keys of their order. Ties in time are broken by value, null smallest,
    so that the answer does not depend on the order of rows.
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
