"""A column of several segments as one column of a new segment, in the form that it is stored in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from projseg.evaluation.arrow_vectors import concat_vectors, encode_sorted, merge_values
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_fixed_width, is_text
from projseg.segment_format.vectors.vectors import Ids, Numbers, Opaque, Vector
from projseg.segment_format.vectors.wide_integers import WIDE
from projseg.writer.column_vectors import (
    NUMBER_DICTIONARY_MAX,
    as_ids,
    text_vector,
    wants_text_dictionary,
)


def merged_column(vectors: Sequence[Vector], *, wants_dictionary: bool) -> Vector:
    """Return the rows of all vectors, one after the other.

    Dictionaries are merged by value; rows are not turned into values where all have one.

    Parameters
    ----------
    vectors : sequence of Vector
        At least one, all of one type. A dictionary holds only values that occur in its vector.
    wants_dictionary : bool
        As of `column_vectors.vectors_of`.
    """
    arrow_type = vectors[0].type
    if is_text(arrow_type):
        return _text(vectors, wants_dictionary)
    if pa.types.is_boolean(arrow_type):
        return _all_ids(vectors) or encode_sorted(_arrays(vectors))
    if not is_fixed_width(arrow_type):
        return Opaque(pa.concat_arrays(_arrays(vectors).chunks))
    merged = _all_ids(vectors) if wants_dictionary else None
    if merged is not None and len(merged.dictionary) <= NUMBER_DICTIONARY_MAX:
        return merged
    numbers = _numbers(vectors)
    return as_ids(numbers) if wants_dictionary else numbers


def with_values_in_use(vector: Vector) -> Vector:
    """Return a column whose dictionary, if it has one, holds only values that occur in it."""
    if not isinstance(vector, Ids):
        return vector
    is_used = np.zeros(len(vector.dictionary), np.bool_)
    is_used[vector.ids] = True
    if is_used.all():
        return vector
    dictionary = Dictionary(vector.dictionary.values.filter(pa.array(is_used)))
    new_ids = (np.cumsum(is_used) - 1).astype(dictionary.id_dtype)
    return Ids(new_ids[vector.ids], dictionary)


def with_dictionary_of(vector: Vector, base: Vector | None) -> Vector:
    """Return the ids of a projection's column as ids of the base column that it groups by.

    So the two share one dictionary. Other vectors stay as they are.
    """
    if not isinstance(vector, Ids) or not isinstance(base, Ids) or vector.type != base.type:
        return vector
    own, shared = vector.dictionary, base.dictionary
    if own.values.equals(shared.values):
        return Ids(vector.ids, shared)
    union, (to_union, from_own) = merge_values([shared.values, own.values])
    if len(union) != len(shared):
        return vector
    assert np.array_equal(to_union, np.arange(len(shared))), "the union is the dictionary itself"
    return Ids(from_own.take(vector.ids).astype(shared.id_dtype, copy=False), shared)


def _text(vectors: Sequence[Vector], wants_dictionary: bool) -> Vector:
    merged = _all_ids(vectors)
    if merged is None:
        return text_vector(_arrays(vectors), wants_dictionary)
    if wants_text_dictionary(merged, wants_dictionary):
        return merged
    return Opaque(merged.to_arrow())


def _all_ids(vectors: Sequence[Vector]) -> Ids | None:
    if not all(isinstance(vector, Ids) for vector in vectors):
        return None
    merged = concat_vectors(vectors)
    assert isinstance(merged, Ids), "ids of one type are joined as ids"
    return merged


def _numbers(vectors: Sequence[Vector]) -> Numbers:
    if all(isinstance(vector, Numbers) for vector in vectors):
        merged = concat_vectors(vectors)
        assert isinstance(merged, Numbers), "numbers of one type are joined as numbers"
        # Pages are encoded from Python integers where some pass 64 bits.
        is_wide = merged.values.dtype == WIDE
        return replace(merged, values=merged.wide(), bounds=None) if is_wide else merged
    array = pa.concat_arrays(_arrays(vectors).chunks)
    values, validity = arrow_to_numbers(array)
    return Numbers(values, array.type, validity=validity)


def _arrays(vectors: Sequence[Vector]) -> pa.ChunkedArray:
    return pa.chunked_array([vector.to_arrow() for vector in vectors])
