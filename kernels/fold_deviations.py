"""Sums of squared deviations from each group's mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.few_rows import widened_ids
from projseg.kernels.fold_guard import GroupIds, Validity, check_rows
from projseg.kernels.kernel import kernel


def deviations_into(
    squares: NDArray[np.float64],
    means: NDArray[np.float64],
    group_ids: GroupIds | None,
    values: NDArray[np.float64],
    validity: Validity = None,
) -> None:
    """Add each row's `(value - mean of its group) ** 2` to `squares`, in place.

    Parameters
    ----------
    squares, means : float64[g]
        Squares are changed in place.
    group_ids : uint8[n], uint16[n], uint32[n] or None
        The group of each row; None: all are of group 0.
    values : float64[n]
        What deviates.
    validity : bool[n] or None
        Rows where it is false do not count.

    Raises
    ------
    InvalidInputError
        If lengths differ or an id is out of range.
    """
    check_rows(group_ids, len(squares), len(values), validity)
    if len(means) != len(squares):
        raise InvalidInputError(
            "PROJSEG_BAD_GROUP_IDS", f"{len(means)} means for {len(squares)} groups"
        )
    _deviations(widened_ids(group_ids), values, validity, means, squares)


@kernel
def _deviations(group_ids: Any, values: Any, validity: Any, means: Any, squares: Any) -> None:
    """Add in place. Oracle: tests/oracle/folds.py::spread."""
    for row in range(len(values)):
        group = np.int64(0)
        if group_ids is not None:
            group = np.int64(group_ids[row])
        if validity is None or validity[row]:
            deviation = values[row] - means[group]
            squares[group] += deviation * deviation
