"""Columns of one new segment as vectors, from Arrow or from several segments, and their zones.

A vector holds dictionary ids, numbers or opaque values; a zone has bounds, nulls and size for a
manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.keys import make_key
from projseg.evaluation.arrow_vectors import concat_vectors, encode_sorted, merge_values
from projseg.kernels.texts.text_groups import DistinctTexts
from projseg.memory.memory_pool import empty
from projseg.segment_format.arrow_arrays import WIDE, limits
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.logical_types import (
    MICROS_A_DAY,
    arrow_to_numbers,
    is_fixed_width,
    is_text,
    numbers_to_arrow,
)
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector
from projseg.table_layer.metadata.column_bounds import encode_bounds
from projseg.table_layer.metadata.segment_entry import ColumnZone

_ROWS: Final = 1 << 16  # that are converted at a time
_NARROW: Final[tuple[np.dtype[Any], ...]] = tuple(map(np.dtype, ("u1", "u2", "u4")))
# A fixed-width grouping column gets a dictionary if it has at most this many distinct values.
_NUMBER_DICTIONARY_MAX: Final = 1 << 16
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

    A column that projections group by or rows are sorted by wants a dictionary even where the base
    table alone would not, so that both share it.
    """
    if is_text(column.type):
        return text_vector(column, wants_dictionary)
    if pa.types.is_boolean(column.type):
        return encode_sorted(column)
    if not is_fixed_width(column.type):
        chunks = column.chunks
        return Opaque(pa.concat_arrays(chunks) if chunks else pa.nulls(0, column.type))
    numbers = numbers_of(column)
    return _as_ids(numbers) if wants_dictionary else numbers


def text_vector(column: pa.ChunkedArray, wants_dictionary: bool) -> Vector:
    """Return a column of texts as ids of a dictionary, or as it is where that saves nothing."""
    if not wants_dictionary and _is_surely_distinct(column):
        return Opaque(pa.concat_arrays(column.chunks))
    ids = encode_sorted(column)
    if _wants_text_dictionary(ids, wants_dictionary):
        return ids
    return Opaque(pa.concat_arrays(column.chunks))


def _wants_text_dictionary(ids: Ids, wants_dictionary: bool) -> bool:
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


def _as_ids(numbers: Numbers) -> Vector:
    """Return a fixed-width column with few distinct values as dictionary ids, others unchanged."""
    if numbers.values.dtype.kind in "fOV":
        return numbers
    key = make_key(numbers)
    if key.cardinality > _NUMBER_DICTIONARY_MAX:
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


def numbers_of(column: pa.ChunkedArray) -> Numbers:
    """Return a fixed-width column as `Numbers`; integers are as narrow as their range allows.

    A stretch of rows stays in the processor's cache while it is converted, and only the column, in
    the bytes that its range takes, is left in memory.
    """
    stretches = [_stretch(*arrow_to_numbers(rows)) for rows in _pieces(column)]
    validity = _joined_validity(stretches)
    if any(stretch.values.dtype.kind in "fO" for stretch in stretches):
        values = [_complete(stretch) for stretch in stretches]
        return Numbers(np.concatenate(values), column.type, validity=validity)
    low = min((s.low for s in stretches if s.low is not None), default=0)
    high = max((s.high for s in stretches if s.high is not None), default=0)
    base, dtype = _form(low, high)
    joined = empty(len(column), dtype)
    start = 0
    for stretch in stretches:
        _put(stretch, joined[start : start + len(stretch.values)], base)
        start += len(stretch.values)
    bounds = min(0, low - base), max(0, high - base)  # nulls hold 0
    return Numbers(joined, column.type, base, validity, bounds)


class _Stretch(NamedTuple):
    """Rows of a column: base + values, which lie from `low` to `high` where they are not null."""

    values: NDArray[Any]
    validity: NDArray[np.bool_] | None
    base: int
    low: int | None
    high: int | None


def _pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the rows as arrays of at most `_ROWS`, at least one."""
    if len(column) == 0:
        yield pa.nulls(0, column.type)
    for chunk in column.chunks:
        for start in range(0, len(chunk), _ROWS):
            yield chunk.slice(start, _ROWS)


def _stretch(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> _Stretch:
    known = values if validity is None else values[validity]
    if values.dtype.kind in "fO" or len(known) == 0:
        return _Stretch(values, validity, 0, None, None)
    low, high = int(known.min()), int(known.max())
    base, dtype = _form(low, high)
    return _Stretch((values - base).astype(dtype, copy=False), validity, base, low, high)


def _form(low: int, high: int) -> tuple[int, np.dtype[Any]]:
    """Return the base and the dtype of integers in a range."""
    for dtype in _NARROW:
        if high - low <= np.iinfo(dtype).max:
            return low, dtype
    return 0, np.dtype(np.int64)


def _put(stretch: _Stretch, target: NDArray[Any], base: int) -> None:
    """Write a stretch as values less `base`; 0 for nulls."""
    if stretch.low is None:
        target.fill(0)
        return
    np.copyto(target, stretch.values, casting="unsafe")
    target += target.dtype.type(stretch.base - base)
    if stretch.validity is not None:
        target[~stretch.validity] = 0


def _complete(stretch: _Stretch) -> NDArray[Any]:
    """Return floats, or integers of which others do not fit 64 bits, as they are."""
    if stretch.values.dtype.kind in "fO":
        return stretch.values
    complete = stretch.values.astype(object) + stretch.base
    if stretch.validity is not None:
        complete[~stretch.validity] = 0
    return complete


def _joined_validity(stretches: Sequence[_Stretch]) -> NDArray[np.bool_] | None:
    if all(stretch.validity is None for stretch in stretches):
        return None
    present = [
        np.ones(len(stretch.values), np.bool_) if stretch.validity is None else stretch.validity
        for stretch in stretches
    ]
    return np.concatenate(present)


def merged_column(vectors: Sequence[Vector], *, wants_dictionary: bool) -> Vector:
    """Return the rows of all vectors, of one type, one after the other.

    Dictionaries, which hold only values that occur in their vectors, are merged by value; rows are
    not turned into values where all have one.
    """
    arrow_type = vectors[0].type
    if is_text(arrow_type):
        return _merged_text(vectors, wants_dictionary)
    if pa.types.is_boolean(arrow_type):
        return _all_ids(vectors) or encode_sorted(_arrays(vectors))
    if not is_fixed_width(arrow_type):
        return Opaque(pa.concat_arrays(_arrays(vectors).chunks))
    merged = _all_ids(vectors) if wants_dictionary else None
    if merged is not None and len(merged.dictionary) <= _NUMBER_DICTIONARY_MAX:
        return merged
    numbers = _merged_numbers(vectors)
    return _as_ids(numbers) if wants_dictionary else numbers


def _merged_text(vectors: Sequence[Vector], wants_dictionary: bool) -> Vector:
    merged = _all_ids(vectors)
    if merged is None:
        return text_vector(_arrays(vectors), wants_dictionary)
    if _wants_text_dictionary(merged, wants_dictionary):
        return merged
    return Opaque(merged.to_arrow())


def _all_ids(vectors: Sequence[Vector]) -> Ids | None:
    if not all(isinstance(vector, Ids) for vector in vectors):
        return None
    merged = concat_vectors(vectors)
    assert isinstance(merged, Ids), "ids of one type are joined as ids"
    return merged


def _merged_numbers(vectors: Sequence[Vector]) -> Numbers:
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


def column_zone(vector: Vector, byte_count: int) -> ColumnZone:
    """Return the zone of a whole base column.

    The dictionary of an `Ids` vector must hold only values that occur in it.
    """
    if isinstance(vector, Opaque):
        return ColumnZone(None, None, vector.array.null_count, False, False, byte_count)
    if isinstance(vector, Ids):
        return _ids_zone(vector, byte_count)
    return _numbers_zone(vector, byte_count)


def _ids_zone(vector: Ids, byte_count: int) -> ColumnZone:
    values = vector.dictionary.values
    null_count = 0
    if vector.dictionary.has_null:
        null_count = int(np.count_nonzero(vector.ids == 0))
        values = values.slice(1)
    ends = pa.concat_arrays([values.slice(0, 1), values.slice(max(len(values) - 1, 0))])
    return zone_of(ends, null_count, False, byte_count)


def _numbers_zone(vector: Numbers, byte_count: int) -> ColumnZone:
    values, null_count = vector.values, 0
    if vector.validity is not None:
        null_count = int(np.count_nonzero(~vector.validity))
        values = values[vector.validity]
    has_nan = False
    if values.dtype.kind == "f":
        nans = np.isnan(values)
        has_nan = bool(nans.any())
        values = values[~nans] if has_nan else values
    if values.dtype == WIDE:
        ends = np.array(limits(values) if len(values) else [], dtype=object)
    else:
        ends = np.array([values.min(), values.max()] if len(values) else [], dtype=values.dtype)
    found = numbers_to_arrow(ends, vector.type, base=vector.base)
    return zone_of(found, null_count, has_nan, byte_count)


def zone_of(ends: pa.Array, null_count: int, has_nan: bool, byte_count: int) -> ColumnZone:
    """Return the zone of a column from its smallest and largest value that is no null and no NaN.

    `ends` holds the two, each once or more often, and is empty if there is no such value.
    """
    if pa.types.is_timestamp(ends.type):
        ends = ends.cast(pa.timestamp("us"))  # pyarrow makes aware datetimes by pandas
    try:
        minimum, maximum = ends.to_pylist() if len(ends) else (None, None)
    except (ValueError, OverflowError):  # a timestamp beyond the years that Python can say
        return ColumnZone(None, None, null_count, has_nan, False, byte_count)
    low, high, exact = encode_bounds(minimum, maximum, ends.type)
    return ColumnZone(low, high, null_count, has_nan, exact, byte_count)


def time_bounds(
    vectors: Mapping[str, Vector], time_column: str | None
) -> tuple[int | None, int | None]:
    """Return the smallest and largest time of a segment's rows, microseconds; None without time."""
    if time_column is None:
        return None, None
    vector, base = vectors[time_column], 0
    if isinstance(vector, Ids):
        values, _ = arrow_to_numbers(vector.dictionary.values)
    else:
        assert isinstance(vector, Numbers)
        values, base = vector.values, vector.base
    unit = MICROS_A_DAY if pa.types.is_date32(vector.type) else 1
    return (base + int(values.min())) * unit, (base + int(values.max())) * unit
