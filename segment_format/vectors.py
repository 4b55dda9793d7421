"""Columns in memory: what decoding yields, what encoding takes, what kernels read.

Three kinds, one for each way a column can be worked on:

`Ids`      ids into a sorted `Dictionary`; ids stay 8, 16 or 32 bits wide
`Numbers`  fixed-width values; integers stay as narrow as their page range allows
`Opaque`   anything else as an Arrow array: long text, nested values, sketches

All are immutable by agreement; `take` and `slice` return vectors of the same kind.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.kernels.integer_codes import common_zeros
from projseg.kernels.row_selection import gather, gather_text
from projseg.memory.forks import cached_property
from projseg.segment_format.arrow_arrays import (
    WIDE,
    as_wide,
    halves,
    limits,
    primitive_array,
    text_array,
    text_buffers,
    to_objects,
    valid_values,
)
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.logical_types import is_text, numbers_to_arrow

_MANY_TEXTS: Final = 1 << 16
_HASHES_BYTES: Final = 16  # of one value: for HLL and for theta sketches

_ZEROS_SCALE_MIN: Final = 10  # of decimals whose products may pass 128 bits

# Greatest values of types that are so narrow that bounds need no look at the values.
_NARROW_MAX: Final = {np.dtype(np.uint8): (1 << 8) - 1, np.dtype(np.uint16): (1 << 16) - 1}


class Ids(msgspec.Struct, frozen=True, eq=False):
    """Dictionary ids, one a row, below `len(dictionary)`; decoding proves this of stored ids."""

    ids: NDArray[np.unsignedinteger[Any]]
    dictionary: Dictionary

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def type(self) -> pa.DataType:
        """The logical type."""
        return self.dictionary.type

    @property
    def nbytes(self) -> int:
        """Bytes held, the shared dictionary not counted."""
        return self.ids.nbytes

    def take(self, row_ids: NDArray[Any]) -> Ids:
        """Return the rows at `row_ids`, integer[k], in that order."""
        return replace(self, ids=gather(self.ids, row_ids))

    def slice(self, start: int, end: int) -> Ids:
        """Return rows [start, end) as views."""
        return replace(self, ids=self.ids[start:end])

    def to_arrow(self) -> pa.Array:
        """Return the values themselves."""
        return self.dictionary.values_of(self.ids)


class Numbers(msgspec.Struct, frozen=True, eq=False):
    """Fixed-width values, one a row: value = base + values[row].

    Physical meaning by logical type: integers as they are; decimal(p, s) as the unscaled integer;
    date as days and timestamps as microseconds since 1970-01-01; boolean as 0 or 1; float and
    double as they are, with base 0.

    Values are uint8/16/32, int64 or float32/64; or WIDE (integers of 128 bits, `arrow_arrays.py`),
    with base 0, in columns of which some value passes 64 bits; or Python integers, of sums and
    states that do. Else base + values fits int64. Null rows hold 0; `bounds` encloses every item of
    integer `values`. All values end with at least `zeros` decimal zeros.
    """

    values: NDArray[Any]
    type: pa.DataType
    base: int = 0
    validity: NDArray[np.bool_] | None = None
    bounds: tuple[int, int] | None = None
    zeros: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.values.nbytes + (0 if self.validity is None else self.validity.nbytes)

    def take(self, row_ids: NDArray[Any]) -> Numbers:
        """Return the rows at `row_ids`, integer[k], in that order."""
        validity = None if self.validity is None else gather(self.validity, row_ids)
        return replace(self, values=gather(self.values, row_ids), validity=validity)

    def slice(self, start: int, end: int) -> Numbers:
        """Return rows [start, end) as views."""
        validity = None if self.validity is None else self.validity[start:end]
        return replace(self, values=self.values[start:end], validity=validity)

    def with_bounds(self) -> Numbers:
        """Return the same numbers; integers get facts of theirs that callers need often."""
        is_wide = self.values.dtype == WIDE
        if len(self.values) == 0 or not (is_wide or self.values.dtype.kind in "iu"):
            return self
        return replace(self, bounds=limits(self.values), zeros=self._common_zeros())

    def _common_zeros(self) -> int:
        """Return how many zeros all decimals of many digits end with; 0 of other numbers."""
        if not pa.types.is_decimal(self.type) or self.type.scale < _ZEROS_SCALE_MIN:
            return 0
        return common_zeros(halves(self.in_halves()))

    def limits(self) -> tuple[int, int]:
        """Return bounds (low, high) on the values of an integer column; (base, base) without rows.

        They may be loose: a slice keeps the bounds of its column.
        """
        if self.bounds is not None:
            low, high = self.bounds
        elif self.values.dtype in _NARROW_MAX:
            low, high = 0, _NARROW_MAX[self.values.dtype]
        else:
            low, high = limits(self.values)
        return self.base + low, self.base + high

    def in_halves(self) -> NDArray[Any]:
        """Return base + values of integers as WIDE[n], contiguous."""
        return as_wide(self.values if self.values.dtype == WIDE else self.wide())

    def wide(self) -> NDArray[Any]:
        """Return base + values as int64[n], or as object[n] where values pass 64 bits.

        object[n], float32[n] and float64[n] are returned as they are.
        """
        if self.values.dtype.kind in "fO":
            return self.values
        if self.values.dtype == WIDE:
            return to_objects(self.values)
        wide = self.values.astype(np.int64, copy=False)
        return wide + self.base if self.base else wide

    def to_arrow(self) -> pa.Array:
        """Return the values as their logical type."""
        return numbers_to_arrow(self.values, self.type, self.validity, self.base)


class Opaque(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Values that no kernel reads, as an Arrow array of the logical type.

    If `rows` are given, the values are those rows of `whole`, copied when they are read.
    """

    whole: pa.Array
    rows: NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.whole if self.rows is None else self.rows)

    @cached_property
    def array(self) -> pa.Array:
        """Their values, copied at the first use."""
        return self.whole if self.rows is None else _rows_of(self.whole, self.rows)

    @property
    def type(self) -> pa.DataType:
        """The logical type."""
        return self.whole.type

    @property
    def nbytes(self) -> int:
        """Bytes held; of values that are not yet copied, about as many as they will take."""
        if self.rows is None:
            return int(self.whole.nbytes)
        whole_bytes = int(self.whole.nbytes)
        return self.rows.nbytes + whole_bytes * len(self.rows) // max(len(self.whole), 1)

    def take(self, row_ids: NDArray[Any]) -> Opaque:
        """Return the rows at `row_ids`, integer[k], in that order."""
        if self.rows is not None:
            return Opaque(self.whole, self.rows[row_ids])
        return Opaque(_rows_of(self.whole, row_ids))

    def slice(self, start: int, end: int) -> Opaque:
        """Return rows [start, end) as views."""
        if self.rows is not None:
            return Opaque(self.whole, self.rows[start:end])
        return Opaque(self.whole.slice(start, end - start))

    def to_arrow(self) -> pa.Array:
        """Return the array."""
        return self.array


Vector = Ids | Numbers | Opaque


def text_bytes(vector: Vector, enough: int) -> int:
    """Return the bytes of the texts of all rows of a vector of ids; 0 for other vectors.

    An upper bound may be returned instead if it is at most `enough`.
    """
    return vector.dictionary.text_bytes(vector.ids, enough) if isinstance(vector, Ids) else 0


def held_bytes(vector: Vector) -> int:
    """Return the bytes that a vector keeps in memory, with a dictionary that no entry owns.

    Hashes of such a dictionary's values may be added later, and are counted from the start.
    """
    if not isinstance(vector, Ids) or vector.dictionary.owner is not None:
        return vector.nbytes
    return vector.nbytes + vector.dictionary.nbytes + _HASHES_BYTES * len(vector.dictionary)


def _rows_of(array: pa.Array, row_ids: NDArray[Any]) -> pa.Array:
    return _taken_texts(array, row_ids) or array.take(primitive_array(row_ids))


def _taken_texts(array: pa.Array, row_ids: NDArray[Any]) -> pa.Array | None:
    """Return many texts of an array quicker than Arrow does, or None."""
    is_many = len(row_ids) >= _MANY_TEXTS and row_ids.dtype == np.uint32
    if not is_many or not is_text(array.type):
        return None
    gathered = gather_text(*text_buffers(array), row_ids)
    validity = gather(valid_values(array), row_ids) if array.null_count else None
    return None if gathered is None else text_array(*gathered, array.type, validity)
