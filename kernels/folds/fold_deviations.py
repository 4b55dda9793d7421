"""Sums of deviations from a centre of each group, and of their squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.folds.fold_guard import GroupIds, Validity, check_rows
from projseg.kernels.runtime.array_types import Narrow
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.runtime.widen_small import widened_ids


def deviations_into(
    totals: NDArray[np.float64],
    centres: NDArray[np.float64],
    group_ids: GroupIds | None,
    values: NDArray[np.float64],
    validity: Validity = None,
) -> None:
    """Add each row's `value - centre of its group`, and the square of that, in place.

    Parameters
    ----------
    totals : float64[g, 2]
        Sums of deviations and of their squares, changed in place.
    centres : float64[g]
        What values deviate from.
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
