"""Sums of each group; sums of deviations from its centre, and of their squares."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.fold_count import GroupIds, Validity, check_rows
from projseg.kernels.runtime.kernel import (
    Integers,
    Narrow,
    are_few,
    kernel,
    widened_ids,
    widened_values,
)

# Sum fixed-width values by group, together with the number of values.
#
# A sum and its count share a cache line, so the count, which tells "no value" from zero and is
# needed for an average, costs little. Integer sums are exact: the caller proves that no partial sum
# overflows int64, or uses the two halves of `sum_halves_into`.

_COUNT_SHIFT: Final = 40  # in a packed word: the count above, the sum below
_PACKED_ROWS_MAX: Final = 1 << (62 - _COUNT_SHIFT)
HALVES_ROWS_MAX: Final = 1 << 30
_SAMPLE_ROWS: Final = 1024


def sum_into(
    totals: NDArray[Any],
    group_ids: GroupIds | None,
    values: NDArray[Any],
    base: int = 0,
    validity: Validity = None,
    *,
    largest: int | None = None,
    row_counts: NDArray[np.int64] | None = None,
) -> None:
    """Add each group's sum of `base + values` and its number of values to `totals`, in place.

    `totals` is int64[g, 2], or float64[g, 2] for floats; rows that are null hold 0. Integer sums
    wrap if the caller has not proved that they fit. `largest`, an upper bound on unsigned values,
    and `row_counts`, the rows of each group if none is null, spare a pass over the values.
    """
    row_count = len(values)
    check_rows(group_ids, len(totals), row_count, validity)
    if row_count == 0:
        return
    group_ids, values = widened_ids(group_ids), widened_values(values)
    if group_ids is None:
        _sum_all(totals, values, base, validity)
    elif group_ids.dtype == np.uint8 and values.dtype.kind == "u":
        largest = int(values.max()) if largest is None else largest
        _sum_narrow_few(totals, group_ids, values, base, validity, largest)
    elif group_ids.dtype == np.uint8 and values.dtype.kind == "f" and row_counts is not None:
        _sum_floats_few(group_ids, values, np.zeros((4, 256)), totals)
        totals[:, 1] += row_counts
    elif group_ids.dtype == np.uint8:
        tables = np.zeros((4, 256, 2), totals.dtype)
        _sum_few(group_ids, values, np.int64(base), validity, tables, totals)
    elif values.dtype.kind == "f" and _is_clustered(group_ids):
        _sum_clustered(group_ids, values, validity, totals)
    else:
        _sum(group_ids, values, np.int64(base), validity, totals)


def sum_halves_into(
    high: NDArray[np.int64],
    totals: NDArray[np.int64],
    group_ids: GroupIds | None,
    values: NDArray[np.int64],
    validity: Validity = None,
) -> None:
    """Add exact sums of any int64 values as two halves: `sum = high * 2**32 + totals[:, 0]`.

    `high` is int64[g], `totals` int64[g, 2], low halves and counts; rows that are null hold 0.
    Halves add without overflow for `HALVES_ROWS_MAX` rows; more are refused. Afterwards the low
    halves are below 2**32 again.
    """
    row_count = len(values)
    check_rows(group_ids, len(totals), row_count, validity)
    if len(high) != len(totals) or row_count > HALVES_ROWS_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS",
            f"{len(high)} high halves for {len(totals)} groups and {row_count} rows do not fit",
        )
    carry_halves(high, totals)
    _sum_halves(widened_ids(group_ids), values, validity, high, totals)
    carry_halves(high, totals)


def carry_halves(high: NDArray[np.int64], totals: NDArray[np.int64]) -> None:
    """Move what exceeds 32 bits in each low half, totals[:, 0], to its high half, in place."""
    high += totals[:, 0] >> 32
    totals[:, 0] &= 0xFFFFFFFF


def _sum_all(totals: NDArray[Any], values: NDArray[Any], base: int, validity: Validity) -> None:
    count = len(values) if validity is None else int(np.count_nonzero(validity))
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            totals[0, 0] += values.sum(dtype=np.float64)
    else:
        totals[0, 0] += _total(values) + base * count
    totals[0, 1] += count


def _is_clustered(group_ids: GroupIds) -> bool:
    """Whether most rows follow one of the same group, judged by a sample; False of few rows."""
    if are_few(len(group_ids)):
        return False
    step = max(1, len(group_ids) // _SAMPLE_ROWS)
    before, after = group_ids[:-1:step], group_ids[1::step]
    return 2 * int(np.count_nonzero(before == after)) > len(before)


def _sum_narrow_few(
    totals: NDArray[np.int64],
    group_ids: GroupIds,
    values: NDArray[Any],
    base: int,
    validity: Validity,
    largest: int,
) -> None:
    step = min(_PACKED_ROWS_MAX, (1 << _COUNT_SHIFT) // max(1, largest) - 1)
    for start in range(0, len(values), step):
        end = start + step
        part = None if validity is None else validity[start:end]
        tables = np.zeros((4, 256), np.uint64)
        ids, part_of_values = group_ids[start:end], values[start:end]
        _sum_packed(ids, part_of_values, np.int64(base), part, tables, totals)


@kernel(interpretable=True)
def _sum(
    group_ids: Narrow,
    values: Integers | NDArray[np.float64],
    base: int,
    validity: NDArray[np.bool_] | None,
    totals: NDArray[np.int64] | NDArray[np.float64],
) -> None:
    """Add in place.

    Shapes: group_ids, values, validity [n]; totals [g, 2].
    Oracle: tests/oracle/folds.py::total.
    """
    for row in range(len(group_ids)):
        group = group_ids[row]
        if validity is None or validity[row]:
            totals[group, 0] += values[row] + base
            totals[group, 1] += 1


@kernel
def _sum_few(
    group_ids: NDArray[np.uint8],
    values: Integers | NDArray[np.float64],
    base: int,
    validity: NDArray[np.bool_] | None,
    tables: NDArray[np.int64] | NDArray[np.float64],
    totals: NDArray[np.int64] | NDArray[np.float64],
) -> None:
    """Add into four tables of zeros in turn, so that rows of a group do not wait for each other.

    Shapes: group_ids, values, validity [n]; tables [4, 256, 2]; totals [g, 2].
    Oracle: tests/oracle/folds.py::total.
    """
    for row in range(len(group_ids)):
        if validity is None or validity[row]:
            tables[row & 3, group_ids[row], 0] += values[row] + base
            tables[row & 3, group_ids[row], 1] += 1
    for group in range(min(256, len(totals))):
        for lane in range(4):
            totals[group, 0] += tables[lane, group, 0]
            totals[group, 1] += tables[lane, group, 1]


@kernel
def _sum_floats_few(
    group_ids: NDArray[np.uint8],
    values: NDArray[np.float64],
    tables: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Do as `_sum_few` without counting.

    Shapes: group_ids, values [n]; tables [4, 256]; totals [g, 2].
    Oracle: tests/oracle/folds.py::total.
    """
    for row in range(len(group_ids)):
        tables[row & 3, group_ids[row]] += values[row]
    for group in range(min(256, len(totals))):
        for lane in range(4):
            totals[group, 0] += tables[lane, group]


@kernel
def _sum_clustered(
    group_ids: Narrow,
    values: NDArray[np.float64],
    validity: NDArray[np.bool_] | None,
    totals: NDArray[np.float64],
) -> None:
    """Add four quarters of the rows side by side.

    Where rows of a group follow each other, each float addition would wait for the one before.

    Shapes: group_ids, values, validity [n]; totals [g, 2].
    Oracle: tests/oracle/folds.py::total.
    """
    quarter = (len(group_ids) + 3) // 4
    for i in range(quarter):
        for part in range(4):
            row = part * quarter + i
            if row < len(group_ids) and (validity is None or validity[row]):
                totals[group_ids[row], 0] += values[row]
                totals[group_ids[row], 1] += 1


@kernel
def _sum_packed(
    group_ids: NDArray[np.uint8],
    values: Narrow,
    base: int,
    validity: NDArray[np.bool_] | None,
    tables: NDArray[np.uint64],
    totals: NDArray[np.int64],
) -> None:
    """Add value and count as one word, into four tables of zeros in turn.

    One addition a row instead of two, and neighbours of one group do not wait for each other.

    Shapes: group_ids, values, validity [n]; tables [4, 256]; totals [g, 2].
    Oracle: tests/oracle/folds.py::total.
    """
    one = np.uint64(1 << _COUNT_SHIFT)
    for row in range(len(group_ids)):
        if validity is None:
            word = np.uint64(values[row]) + one
        else:
            word = np.uint64(values[row]) + (np.uint64(validity[row]) << np.uint64(_COUNT_SHIFT))
        tables[row & 3, group_ids[row]] += word
    for group in range(min(256, len(totals))):
        for lane in range(4):
            word = tables[lane, group]
            count = np.int64(word >> np.uint64(_COUNT_SHIFT))
            totals[group, 0] += np.int64(word & (one - np.uint64(1))) + base * count
            totals[group, 1] += count


@kernel
def _sum_halves(
    group_ids: Narrow | None,
    values: NDArray[np.int64],
    validity: NDArray[np.bool_] | None,
    high: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Add in place.

    Shapes: group_ids, values, validity [n]; high [g]; totals [g, 2].
    Oracle: tests/oracle/folds.py::total.
    """
    for row in range(len(values)):
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        high[group] += values[row] >> 32
        totals[group, 0] += values[row] & 0xFFFFFFFF
        if validity is None:
            totals[group, 1] += 1
        else:
            totals[group, 1] += np.int64(validity[row])


@kernel(interpretable=True)
def _total(values: Integers) -> Any:
    """Return the sum as int64.

    Shapes: values [n].
    Oracle: tests/oracle/folds.py::total.
    """
    total = np.int64(0)
    for row in range(len(values)):
        total += np.int64(values[row])
    return total


def deviations_into(
    totals: NDArray[np.float64],
    centres: NDArray[np.float64],
    group_ids: GroupIds | None,
    values: NDArray[np.float64],
    validity: Validity = None,
) -> None:
    """Add each row's `value - centre of its group`, and the square of that, in place.

    `totals` is float64[g, 2]: sums of deviations and of their squares.
    """
    check_rows(group_ids, len(totals), len(values), validity)
    if len(centres) != len(totals):
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"{len(centres)} centres for {len(totals)} groups"
        )
    _deviations(widened_ids(group_ids), values, validity, centres, totals)


@kernel
def _deviations(
    group_ids: Narrow | None,
    values: NDArray[np.float64],
    validity: NDArray[np.bool_] | None,
    centres: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Add in place.

    Shapes: group_ids, values, validity [n]; centres [g]; totals [g, 2].
    Oracle: tests/oracle/folds.py::deviations.
    """
    for row in range(len(values)):
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        if validity is None or validity[row]:
            deviation = values[row] - centres[group]
            totals[group, 0] += deviation
            totals[group, 1] += deviation * deviation
