"""The sorted distinct values of one column, shared by the base table and every projection.

Order of ids = order of values (Spark's order: strings by UTF-8 bytes, nulls first), so a range or a
prefix of values is a range of ids. If the column has nulls, id 0 is the null.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Values by id; identity, not equality, tells two dictionaries apart.

    Parameters
    ----------
    values : pa.Array[cardinality]
        Strictly ascending; only `values[0]` may be null.
    hashes : uint64[cardinality] or None
        `kernels.value_hash` of each value (0 for null); None until somebody asks.
    """

    values: pa.Array
    stored_hashes: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def type(self) -> pa.DataType:
        """The logical type of the values."""
        return self.values.type

    @property
    def has_null(self) -> bool:
        """Whether id 0 is the null."""
        return len(self.values) > 0 and not self.values[0].is_valid

    @cached_property
    def id_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The narrowest unsigned integer that holds every id."""
        return narrow_id_dtype(len(self.values))


def narrow_id_dtype(cardinality: int) -> np.dtype[np.unsignedinteger]:
    """Return uint8, uint16 or uint32: the narrowest that holds ids below `cardinality`."""
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16 if cardinality <= 1 << 16 else np.uint32)
