"""AND, OR and XOR of 64-bit integers by group."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.folds.fold_guard import GroupIds, Validity, check_rows
from projseg.kernels.runtime.array_types import Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.runtime.widen_small import widened_ids

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
    """Combine each group's values into `bits`, in place.

    Parameters
    ----------
    bits : int64[g]
        Changed in place; starts as -1 for AND, else 0.
    seen : bool[g]
        Set where a row counted.
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    values : int64[n]
        What is combined.
    operation : int
        BIT_AND, BIT_OR or BIT_XOR.
    validity : bool[n] or None
        Rows where it is false do not count.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
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
