"""NumPy arrays as Arrow arrays, without copying and without `pyarrow.array`.

Given a NumPy array, `pyarrow.array` imports pandas where it is installed, which costs the first
query of a process more than the query itself does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def primitive_array(values: NDArray[Any], validity: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array of booleans, integers or floats.

    Parameters
    ----------
    values : bool[n], integer[n] or float[n]
        Shared with the result, save for booleans: do not change them afterwards.
    validity : bool[n] or None
        True where there is a value; None means everywhere.
    """
    arrow_type = pa.from_numpy_dtype(values.dtype)
    content = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    bitmap, null_count = validity_bitmap(validity)
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, null_count)


def validity_bitmap(validity: NDArray[np.bool_] | None) -> tuple[pa.Buffer | None, int]:
    """Return (Arrow's validity bitmap, how many rows are null)."""
    if validity is None:
        return None, 0
    null_count = len(validity) - int(np.count_nonzero(validity))
    return pa.py_buffer(np.packbits(validity, bitorder="little")), null_count
