"""Arrow columns of one segment to vectors: dictionary ids, numbers or opaque values."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from projseg.aggregation.keys import make_key
from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.kernels.texts.text_groups import DistinctTexts
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.layout.logical_types import is_fixed_width, is_text, numbers_to_arrow
from projseg.segment_format.vectors.vectors import Ids, Numbers, Opaque, Vector
from projseg.writer.number_columns import numbers_of

# A fixed-width grouping column gets a dictionary if it has at most this many distinct values.
NUMBER_DICTIONARY_MAX: Final = 1 << 16
# Text with few repeated values is stored as it is: a dictionary would cost ids and save nothing.
_DISTINCT_SHARE_MAX: Final = 0.7
_DICTIONARY_ROWS_MIN: Final = 4096
# Counting texts takes a fiftieth of the time of a dictionary, and errs by 1 %.
_SURE_SHARE_MIN: Final = 0.75
# Rows in the middle that tell, where many repeat each other, that most of all rows do.
_SAMPLE_ROWS: Final = 4096
_SAMPLE_SHARE_MIN: Final = 0.5


def column_vector(column: pa.ChunkedArray, *, wants_dictionary: bool) -> Vector:
    """Return a column of a segment as the vector it is stored as.

    Parameters
    ----------
    column : pa.ChunkedArray
        All rows of the segment.
    wants_dictionary : bool
        Whether projections group by it or rows are sorted by it: such a column gets a dictionary
        even where the base table alone would not want one, so that both share it.
    """
    if is_text(column.type):
        return text_vector(column, wants_dictionary)
    if pa.types.is_boolean(column.type):
        return encode_sorted(column)
    if not is_fixed_width(column.type):
        chunks = column.chunks
        return Opaque(pa.concat_arrays(chunks) if chunks else pa.nulls(0, column.type))
    numbers = numbers_of(column)
    return as_ids(numbers) if wants_dictionary else numbers


def text_vector(column: pa.ChunkedArray, wants_dictionary: bool) -> Vector:
    """Return a column of texts as ids of a dictionary, or as it is where that saves nothing."""
    if not wants_dictionary and _is_surely_distinct(column):
        return Opaque(pa.concat_arrays(column.chunks))
    ids = encode_sorted(column)
    if wants_text_dictionary(ids, wants_dictionary):
        return ids
    return Opaque(pa.concat_arrays(column.chunks))


def wants_text_dictionary(ids: Ids, wants_dictionary: bool) -> bool:
    """Whether a column of texts is stored with the dictionary of its ids."""
    share = len(ids.dictionary) / max(len(ids), 1)
    return wants_dictionary or len(ids) < _DICTIONARY_ROWS_MIN or share <= _DISTINCT_SHARE_MAX


def _is_surely_distinct(column: pa.ChunkedArray) -> bool:
    """Whether so few texts are repeated that no dictionary need be built to know it saves nothing.

    An estimate close to `_DISTINCT_SHARE_MAX` is no answer, so that the dictionary decides.
    """
    row_count = len(column)
    if row_count < _DICTIONARY_ROWS_MIN:
        return False
    sample = column.slice(row_count // 2, _SAMPLE_ROWS)
    if _distinct_texts(sample) < _SAMPLE_SHARE_MIN * len(sample):
        return False
    return _distinct_texts(column) > _SURE_SHARE_MIN * row_count


def _distinct_texts(column: pa.ChunkedArray) -> int:
    found = DistinctTexts()
    for chunk in column.chunks:
        found.add(*text_parts(chunk))
    return found.count


def as_ids(numbers: Numbers) -> Vector:
    """Return a fixed-width column with few distinct values as dictionary ids, others unchanged."""
    if numbers.values.dtype.kind in "fOV":
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
