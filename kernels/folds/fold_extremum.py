"""The smallest or largest 64-bit key by group, over keys that are stored narrow.

Keys are integers, dictionary ids, or the order keys of floats (`order_keys`), so one kernel for
each direction serves every type; floats without nulls are compared as they are.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.folds.fold_guard import GroupIds, Validity, check_rows
from projseg.kernels.runtime.array_types import Integers, Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.runtime.widen_small import widened_ids, widened_values

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

    Parameters
    ----------
    best : int64[g]
        Changed in place; INT64_MAX where nothing was seen.
    seen : bool[g]
        Set where a row counted.
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    keys : uint8[n], uint16[n], uint32[n] or int64[n]
        What is compared.
    base : int
        Added to every key.
    first_key : int
        Rows whose `base + key` is smaller do not count: 1 skips the null of a dictionary.
    validity : bool[n] or None
        Rows where it is false do not count.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
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
    group_ids: GroupIds, group_count: int, values: NDArray[np.float64], *, is_min: bool
) -> NDArray[np.float64]:
    """Return each group's smallest or largest value.

    Parameters
    ----------
    group_ids : uint8[n], uint16[n] or uint32[n]
        The group of each row.
    group_count : int
        g.
    values : float64[n]
        NaN is greater than every number.
    is_min : bool
        Whether the smallest is wanted.

    Returns
    -------
    float64[g]
        The smallest: infinity for a group of no row, and for one of NaN or infinity alone. The
        largest: minus infinity for a group of no row.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    check_rows(group_ids, group_count, len(values))
    group_ids = widened_ids(group_ids)
    best = np.full(group_count, np.inf if is_min else -np.inf)
    if is_min:
        _min_floats(group_ids, values, best)
    else:
        _max_floats(group_ids, values, best)
    return best


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
def _min_floats(group_ids: Narrow, values: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """Fold in place.

    Shapes: group_ids, values [n]; best [g].
    Oracle: tests/oracle/folds.py::smallest.
    """
    for row in range(len(values)):
        if values[row] < best[group_ids[row]]:
            best[group_ids[row]] = values[row]


@kernel
def _max_floats(group_ids: Narrow, values: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """Fold in place.

    Shapes: group_ids, values [n]; best [g].
    Oracle: tests/oracle/folds.py::largest.
    """
    for row in range(len(values)):
        value = values[row]
        if value > best[group_ids[row]] or value != value:  # noqa: PLR0124 - NaN
            best[group_ids[row]] = value
