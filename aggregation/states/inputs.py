"""The rows that states fold, as kernels read them: numbers, or ids of one dictionary.

A column may come as ids from one segment, as narrow numbers from the next and as an Arrow array
from an evaluated expression; states see none of that.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    primitive_values,
    scalar_of,
    valid_values,
)
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.types import arrow_to_numbers, is_fixed_width
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

_NARROW: Final = (np.uint8, np.uint16, np.uint32)


def valid_rows(vector: Vector) -> NDArray[np.bool_] | None:
    """Return where a vector holds a value, or None if everywhere."""
    if isinstance(vector, Numbers):
        return vector.validity
    if isinstance(vector, Ids):
        return vector.ids != 0 if vector.dictionary.has_null else None
    return valid_values(vector.array) if vector.array.null_count else None


def both_valid(
    left: NDArray[np.bool_] | None, right: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    """Return where both hold a value, or None if everywhere."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


class NumbersReader:
    """Reads vectors of one fixed-width type as `Numbers`, one dictionary remembered."""

    def __init__(self) -> None:
        self._dictionary: Dictionary | None = None
        self._table: Numbers | None = None

    def read(self, vector: Vector) -> Numbers:
        """Return the vector's values as numbers; as they are where they are numbers already."""
        if isinstance(vector, Numbers):
            return vector
        if isinstance(vector, Opaque):
            return numbers_of_array(vector.array)
        table = self._table_of(vector.dictionary)
        values = table.values.take(vector.ids)
        return Numbers(values, table.type, table.base, valid_rows(vector))

    def _table_of(self, dictionary: Dictionary) -> Numbers:
        if self._table is None or self._dictionary is not dictionary:
            self._table = narrowed(numbers_of_array(dictionary.values))
            self._dictionary = dictionary
        return self._table


def numbers_of_array(array: pa.Array) -> Numbers:
    """Return the fixed-width form of an Arrow array."""
    values, validity = arrow_to_numbers(array)
    return Numbers(values, array.type, 0, validity)


def vector_of_array(array: pa.Array) -> Vector:
    """Return an Arrow array as a vector: numbers where its type has a fixed width."""
    return numbers_of_array(array) if is_fixed_width(array.type) else Opaque(array)


def narrowed(numbers: Numbers) -> Numbers:
    """Return the same numbers in the fewest bytes a row; nulls hold 0."""
    values = numbers.wide()
    if values.dtype != np.int64 or len(values) == 0:
        return numbers
    valid = values if numbers.validity is None else values[numbers.validity]
    low, high = (int(valid.min()), int(valid.max())) if len(valid) else (0, 0)
    dtype = next((d for d in _NARROW if high - low <= np.iinfo(d).max), None)
    if dtype is None:
        return Numbers(values, numbers.type, 0, numbers.validity)
    offsets = (values - low).astype(dtype)
    if numbers.validity is not None:
        offsets[~numbers.validity] = 0
    return Numbers(offsets, numbers.type, low, numbers.validity)


def ids_of(vector: Vector) -> Ids:
    """Return the vector as ids of a dictionary; one is built where it has none."""
    if isinstance(vector, Ids):
        return vector
    array = vector.to_arrow()
    encoded = one_form(array).dictionary_encode()
    dictionary, (ranks,) = union([encoded.dictionary])
    positions = filled_values(encoded.indices, len(ranks))
    table = np.append(ranks, 0).astype(dictionary.id_dtype)
    return Ids(table[positions], dictionary)


def union(value_lists: list[pa.Array]) -> tuple[Dictionary, list[NDArray[np.int64]]]:
    """Return one dictionary of all values, id 0 the null, and each list's ids in it.

    Parameters
    ----------
    value_lists : list of pa.Array
        At least one, all of one type; a list may repeat values.
    """
    encoded = one_form(pa.concat_arrays(value_lists)).dictionary_encode()
    distinct = encoded.dictionary
    order = primitive_values(pc.sort_indices(distinct))
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    ranks[-1] = 0  # what null positions map to
    ids = ranks[filled_values(encoded.indices, len(order))]
    null = pa.nulls(1, distinct.type)
    values = pa.concat_arrays([null, distinct.take(primitive_array(order))])
    ends = np.cumsum([len(values) for values in value_lists])
    return Dictionary(values), np.split(ids, ends[:-1])


def one_form(array: pa.Array) -> pa.Array:
    """Return floats with one zero and one NaN; other values as they are."""
    if not pa.types.is_floating(array.type):
        return array
    positive_zero = pc.add(array, scalar_of(0.0, array.type))
    return pc.if_else(pc.is_nan(array), scalar_of(np.nan, array.type), positive_zero)


def taken(vector: Vector, selection: NDArray[Any] | None) -> Vector:
    """Return the rows at `selection`, or all."""
    return vector if selection is None else vector.take(selection)
