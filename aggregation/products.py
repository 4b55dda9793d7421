"""Products of exact numbers, as wide as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.states.folded_rows import both_valid
from projseg.kernels.folds.fold_extremum import INT64_MAX
from projseg.segment_format.vectors.vectors import Numbers


def multiplied(left: Numbers, right: Numbers | int) -> Numbers:
    """Return the products of unscaled integers, row by row; null where an operand is.

    Parameters
    ----------
    left : Numbers
        Integers or decimals, whose type the products keep.
    right : Numbers or int
        As many, or one for all.
    """
    factors: NDArray[Any] | int
    if isinstance(right, int):
        low = high = right
        factors, validity = right, left.validity
    else:
        low, high = right.limits()
        factors, validity = right.wide(), both_valid(left.validity, right.validity)
    values = left.wide()
    least, largest = left.limits()
    if max(abs(least), abs(largest), 1) * max(abs(low), abs(high), 1) > INT64_MAX:
        values = values.astype(object)
    found = values * factors
    if validity is not None:
        found = np.where(validity, found, 0)
    return Numbers(found, left.type, validity=validity)
