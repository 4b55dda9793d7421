"""Count rows by group, and combine bits by AND, OR and XOR; the check that every fold begins with.

Numba does not check array bounds: an id out of range would write outside the accumulators. So
lengths and ids are checked by `check_rows`, once for each call, before a kernel runs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import Integers, Narrow, kernel, widened_ids, widened_values

GroupIds = NDArray[np.unsignedinteger[Any]]
Validity = NDArray[np.bool_] | None

_ID_DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))


def check_rows(
    group_ids: GroupIds | None, group_count: int, row_count: int, *columns: NDArray[Any] | None
) -> None:
    """Check that every column has `row_count` rows and every group id is below `group_count`.

    Raises InvalidInputError (PROJSEG_BAD_GROUP_IDS) otherwise, and if ids are of another type.
    """
    for column in columns:
        if column is not None and len(column) != row_count:
            raise _bad(f"a column of {len(column)} rows was given for {row_count} rows")
    if group_ids is None:
        if row_count and group_count < 1:
            raise _bad(f"{row_count} rows were given for no group")
        return
    if group_ids.dtype not in _ID_DTYPES:
        raise _bad(f"group ids are {group_ids.dtype}, not uint8, uint16 or uint32")
    if len(group_ids) != row_count:
        raise _bad(f"{len(group_ids)} group ids were given for {row_count} rows")
    if row_count and int(np.maximum.reduce(group_ids)) >= group_count:
        raise _bad(f"group id {group_ids.max()} is not below the group count {group_count}")


def _bad(message: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_GROUP_IDS", message)


def count_into(
    counts: NDArray[np.int64], group_ids: GroupIds | None, row_count: int, validity: Validity = None
) -> None:
    """Add each group's number of rows where `validity` is true to `counts`, int64[g], in place."""
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
    """Add `base` and the stored count of each row to `counts`, int64[g], in place."""
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


BIT_AND: Final = 0
BIT_OR: Final = 1
BIT_XOR: Final = 2


def bits_into(
    bits: NDArray[np.int64],
    seen: NDArray[np.bool_],
    group_ids: GroupIds | None,
    values: NDArray[np.int64],
    operation: int,
    validity: Validity = None,
) -> None:
    """Combine each group's values into `bits` by BIT_AND, BIT_OR or BIT_XOR, in place.

    `bits`, int64[g], starts as -1 for AND, else as 0; `seen`, bool[g], is set where a row counted.
    """
    check_rows(group_ids, len(bits), len(values), validity)
    check_rows(None, 1, len(bits), seen)
    _bits(widened_ids(group_ids), values, validity, operation, bits, seen)


@kernel
def _bits(
    group_ids: Narrow | None,
    values: NDArray[np.int64],
    validity: NDArray[np.bool_] | None,
    operation: int,
    bits: NDArray[np.int64],
    seen: NDArray[np.bool_],
) -> None:
    """Fold in place.

    Shapes: group_ids, values, validity [n]; bits, seen [g].
    Oracle: tests/oracle/folds.py::combined_bits.
    """
    for row in range(len(values)):
        if validity is not None and not validity[row]:
            continue
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        seen[group] = True
        if operation == 0:
            bits[group] &= values[row]
        elif operation == 1:
            bits[group] |= values[row]
        else:
            bits[group] ^= values[row]
