"""The sorted distinct values of one column, shared by the base table and every projection.

Order of ids = order of values (Spark's order: strings by UTF-8 bytes, nulls first), so a range or a
prefix of values is a range of ids. If the column has nulls, id 0 is the null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.gather import gather_text
from projseg.memory.cache import KEPT, CacheKey, Owner
from projseg.memory.lazy import cached_property
from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    text_array,
    text_buffers,
)
from projseg.segment_format.types import is_text

Memo = TypeVar("Memo")


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Values by id; identity, not equality, tells two dictionaries apart.

    Parameters
    ----------
    values : pa.Array[cardinality]
        Strictly ascending; only `values[0]` may be null.
    stored_hashes : uint64[cardinality] or None
        `kernels.value_hash` of each value (0 for null), if the file has them.
    owner : Owner or None
        The cache entry that this dictionary belongs to; None if it belongs to none.
    """

    values: pa.Array
    stored_hashes: NDArray[np.uint64] | None = None
    owner: Owner | None = None
    _own_memos: dict[CacheKey, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def type(self) -> pa.DataType:
        """The logical type of the values."""
        return self.values.type

    @property
    def value_sizes(self) -> NDArray[np.int64]:
        """Return the bytes of each value of a dictionary of texts: int64[cardinality]."""

        def compute() -> NDArray[np.int64]:
            if self._text is None:
                return np.zeros(len(self), np.int64)
            return np.diff(self._text[0]).astype(np.int64)

        return self.memo(("value sizes",), compute, lambda sizes: sizes.nbytes)

    @cached_property
    def longest_value(self) -> int:
        """Bytes of the longest text; 0 if the values are no texts."""
        return 0 if self._text is None else int(np.diff(self._text[0]).max(initial=0))

    @property
    def value_bytes(self) -> int:
        """Bytes of the values: texts as they are and 4 bytes each, other values 8 bytes."""
        sizes = 4 * len(self) + int(self.value_sizes.sum())
        return sizes if self._text is not None else 8 * len(self)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        hashes = 0 if self.stored_hashes is None else self.stored_hashes.nbytes
        return int(self.values.nbytes) + hashes

    def memo(
        self, key: CacheKey, compute: Callable[[], Memo], byte_count_of: Callable[[Memo], int]
    ) -> Memo:
        """Return a result computed from the values alone, once; it is kept as long as they are.

        Parameters
        ----------
        key : tuple
            Its first item says what is computed.
        compute : callable
        byte_count_of : callable
            From the result to the bytes it takes.
        """
        if self.owner is None:
            if key not in self._own_memos:
                self._own_memos[key] = compute()
            known: Memo = self._own_memos[key]
            return known
        kind, *rest = key
        kept: Memo = KEPT.get_or_load(
            (kind, id(self), *rest), compute, byte_count_of, owners=(self.owner,)
        )
        return kept

    @cached_property
    def has_null(self) -> bool:
        """Whether id 0 is the null."""
        return len(self.values) > 0 and not self.values[0].is_valid

    @cached_property
    def id_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The narrowest unsigned integer that holds every id."""
        return narrow_id_dtype(len(self.values))

    def values_of(self, ids: NDArray[np.unsignedinteger[Any]]) -> pa.Array:
        """Return the values of `ids`, in that order.

        Parameters
        ----------
        ids : uint8[n], uint16[n] or uint32[n]
            Below `len(self)`.
        """
        validity = ids != 0 if self.has_null else None
        if self._text is not None:
            gathered = gather_text(*self._text, ids)
            if gathered is not None:
                return text_array(*gathered, self.type, validity)
        elif pa.types.is_boolean(self.type):
            return primitive_array(self._truths.take(ids), validity)
        return self.values.take(primitive_array(ids))

    @cached_property
    def _truths(self) -> NDArray[np.bool_]:
        """The values of a dictionary of booleans, false for null."""
        return filled_values(self.values, False)

    @cached_property
    def _text(self) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
        """Offsets and bytes of the values as Arrow holds them; None if they are no text."""
        return text_buffers(self.values) if is_text(self.type) else None


def narrow_id_dtype(cardinality: int) -> np.dtype[np.unsignedinteger]:
    """Return uint8, uint16 or uint32: the narrowest that holds ids below `cardinality`."""
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16 if cardinality <= 1 << 16 else np.uint32)
