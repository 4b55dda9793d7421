"""Arrow columns of one segment to vectors: dictionary ids, numbers or opaque values."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.aggregation.arrow_vectors import encode_sorted
from projseg.aggregation.keys import make_key
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.types import arrow_to_numbers, is_fixed_width, is_text, numbers_to_arrow
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

# A fixed-width grouping column gets a dictionary if it has at most this many distinct values.
NUMBER_DICTIONARY_MAX: Final = 1 << 16
# Text with few repeated values is stored as it is: a dictionary would cost ids and save nothing.
_DISTINCT_SHARE_MAX: Final = 0.7
_DICTIONARY_ROWS_MIN: Final = 4096


def vectors_of(table: pa.Table, grouping: Collection[str], pool: Executor) -> dict[str, Vector]:
    """Return each column as the vector it is stored as.

    Parameters
    ----------
    table : pa.Table
        The rows of one segment, in the table's schema.
    grouping : collection of str
        Columns that projections group by or that rows are sorted by: these get a dictionary even
        where the base table alone would not want one, so that both share it.
    pool : Executor
        Columns are encoded side by side.
    """

    def vector(name: str) -> Vector:
        return _vector(table.column(name), wants_dictionary=name in grouping)

    return dict(zip(table.column_names, pool.map(vector, table.column_names), strict=True))


def _vector(column: pa.ChunkedArray, *, wants_dictionary: bool) -> Vector:
    if is_text(column.type):
        return text_vector(column, wants_dictionary)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, column.type)
    if pa.types.is_boolean(column.type):
        return encode_sorted(array)
    if not is_fixed_width(column.type):
        return Opaque(array)
    values, validity = arrow_to_numbers(array)
    numbers = Numbers(values, column.type, validity=validity)
    return as_ids(numbers) if wants_dictionary else numbers


def text_vector(column: pa.ChunkedArray, wants_dictionary: bool) -> Vector:
    """Return a column of texts as ids of a dictionary, or as it is where that saves nothing."""
    ids = encode_sorted(column)
    if wants_text_dictionary(ids, wants_dictionary):
        return ids
    return Opaque(pa.concat_arrays(column.chunks))


def wants_text_dictionary(ids: Ids, wants_dictionary: bool) -> bool:
    """Whether a column of texts is stored with the dictionary of its ids."""
    share = len(ids.dictionary) / max(len(ids), 1)
    return wants_dictionary or len(ids) < _DICTIONARY_ROWS_MIN or share <= _DISTINCT_SHARE_MAX


def as_ids(numbers: Numbers) -> Vector:
    """Return a fixed-width column with few distinct values as dictionary ids, others unchanged."""
    if numbers.values.dtype.kind in "fO":
        return numbers
    key = make_key(numbers)
    if key.cardinality > NUMBER_DICTIONARY_MAX:
        return numbers
    every_id = np.arange(key.cardinality, dtype=np.uint32)
    return _with_dictionary(key.values_of(every_id), key.ids)


def _with_dictionary(values_by_id: Vector, ids: np.ndarray) -> Ids:
    """Return ids into a dictionary of the values that occur, given the value of each id."""
    used = np.zeros(len(values_by_id), np.bool_)
    used[ids] = True
    rank = (np.cumsum(used) - 1).astype(np.uint32)
    assert isinstance(values_by_id, Numbers)
    kept = values_by_id.take(np.flatnonzero(used))
    dictionary = Dictionary(numbers_to_arrow(kept.wide(), kept.type, kept.validity))
    return Ids(rank[ids].astype(dictionary.id_dtype), dictionary)
