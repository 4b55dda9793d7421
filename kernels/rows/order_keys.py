"""Floats as 64-bit integers of the same order: NaN greatest, all NaN equal, -0.0 equal to 0.0."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.rows.doubles import as_doubles
from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import empty

_MAGNITUDE: Final = (1 << 63) - 1


def float_order_keys(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return an int64 key for each float, ordered as Spark orders the floats.

    Parameters
    ----------
    values : float32[n] or float64[n]
        Any values.

    Returns
    -------
    int64[n]
        Equal keys for equal values; `float_of_order_keys` is the inverse up to the sign of zero
        and the bits of NaN.
    """
    keys = empty(len(values), np.int64)
    _float_order_keys(as_doubles(values), keys.view(np.float64), keys)
    return keys


def float_of_order_keys(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats of keys made by `float_order_keys`."""
    return np.where(keys >= 0, keys, keys ^ _MAGNITUDE).view(np.float64)


@kernel(interpretable=True)
def _float_order_keys(
    values: NDArray[np.float64], as_floats: NDArray[np.float64], keys: NDArray[np.int64]
) -> None:
    """Write the keys; `as_floats` is the same memory.

    Shapes: values, as_floats, keys [n].
    Oracle: tests/oracle/folds.py::order_key.
    """
    for row in range(len(values)):
        value = values[row]
        as_floats[row] = np.nan if np.isnan(value) else value + 0.0
        if keys[row] < 0:
            keys[row] ^= _MAGNITUDE
