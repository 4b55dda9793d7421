"""Arrow arrays as vectors, values by dictionary id, and vectors one after the other.

Vectors of several segments are concatenated over one dictionary of all their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.datum import plain_floats
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.errors import LimitExceededError
from projseg.kernels.grouping import UnsignedIds
from projseg.memory.cache import KEPT, CacheKey, Owner
from projseg.memory.memory_pool import empty
from projseg.segment_format.arrow_arrays import (
    WIDE,
    filled_values,
    primitive_array,
    primitive_values,
    text_buffers,
    valid_values,
)
from projseg.segment_format.dictionary import Dictionary, TextValue, narrow_id_dtype
from projseg.segment_format.logical_types import (
    arrow_to_numbers,
    decimal_integers,
    is_fixed_width,
    is_text,
)
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector, held_bytes

_SOUGHT_MAX: Final = 64  # more texts are sought all at once
# Where rows are fewer than 1 / this of their dictionaries' values, only the values used are merged.
_SPARSE_SHARE: Final = 4
_TEXT_BYTES_MAX: Final = (1 << 31) - 1  # what Arrow's 32-bit offsets reach

Search = Callable[[Expression], NDArray[np.bool_] | None]
"""Finds which values make a condition true, bool[ids], without all of them; None if it cannot."""
_IdMap = NDArray[np.unsignedinteger[Any]]
_Merged = tuple[Sequence[Dictionary], Dictionary, list[_IdMap | None]]


def numbers_of_array(array: pa.Array) -> Numbers:
    """Return the fixed-width form of an Arrow array; of booleans in bytes."""
    if array.type == pa.bool_():
        truths = filled_values(array, False).view(np.uint8)
        return Numbers(truths, array.type, 0, valid_values(array) if array.null_count else None)
    if pa.types.is_decimal(array.type):
        validity = valid_values(array) if array.null_count else None
        return Numbers(decimal_integers(array), array.type, 0, validity)
    values, validity = arrow_to_numbers(array)
    return Numbers(values, array.type, 0, validity)


def vector_of_array(array: pa.Array) -> Vector:
    """Return an Arrow array as a vector without building a dictionary: text stays Arrow's."""
    return numbers_of_array(array) if is_fixed_width(array.type) else Opaque(array)


def computed_vector(array: pa.Array) -> Vector:
    """Return values of an expression as a vector; texts get a dictionary once they are grouped."""
    return Opaque(array) if is_text(array.type) else grouping_vector(array)


def grouping_vector(array: pa.Array | pa.ChunkedArray) -> Vector:
    """Return an Arrow array as a vector to group by: text becomes ids of a sorted dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if is_text(array.type) or pa.types.is_null(array.type):
        return encode_sorted(array)
    return vector_of_array(array)


def encode_sorted(array: pa.Array | pa.ChunkedArray, *, with_null: bool = False) -> Ids:
    """Return an array, not nested, as ids of its distinct values: ascending, null first, NaN last.

    Id 0 is reserved for null if `with_null`, even if the array has none.
    """
    encoded = plain_floats(array).dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values = encoded.dictionary
    order = primitive_values(pc.array_sort_indices(values))  # the null comes last
    if values.null_count:
        order = np.roll(order, 1)
    missing = int(with_null and not values.null_count)
    count = missing + len(values)
    rank = np.empty(len(values), narrow_id_dtype(count))
    rank[order] = np.arange(missing, count)
    in_order = values.take(primitive_array(order))
    if missing:
        in_order = pa.concat_arrays([pa.nulls(1, values.type), in_order])
    return Ids(rank[primitive_values(encoded.indices)], Dictionary(in_order))


def merge_values(
    value_lists: Sequence[pa.Array], *, with_null: bool = False
) -> tuple[Dictionary, list[UnsignedIds]]:
    """Return one dictionary of all values, of one type, and each list's ids in it.

    A list may repeat values; id 0 is reserved for null if `with_null`, even if no list has one.
    """
    every = encode_sorted(pa.concat_arrays(value_lists), with_null=with_null)
    ends = np.cumsum([len(values) for values in value_lists])
    return every.dictionary, np.split(every.ids, ends[:-1])


def values_by_id(expression: Expression, name: str, dictionary: Dictionary) -> Vector:
    """Return the value of `expression` for each id of the dictionary of its one column.

    It is computed once and kept with the dictionary, for all queries and pages.
    """

    def compute() -> Vector:
        values = dictionary.values
        return grouping_vector(evaluate(expression, {name: values}, len(values)))

    return dictionary.memo(("values by id", expression), compute, held_bytes)


def truth_by_id(
    condition: Expression, name: str, dictionary: Dictionary, search: Search | None
) -> NDArray[np.bool_]:
    """Return where a condition over one column is true, not false or null, as bool[ids]; cached.

    `search` may find the answer without evaluating the condition on all values.
    """

    def compute() -> NDArray[np.bool_]:
        texts = _equal_texts(condition)
        if texts is not None:
            truths = np.zeros(len(dictionary), np.bool_)
            truths[[found for one in texts if (found := dictionary.id_of(one)) is not None]] = True
            return truths
        sought = None if search is None else search(condition)
        if sought is not None:
            return sought
        values = dictionary.values
        return filled_values(evaluate(condition, {name: values}, len(values)), False)

    return dictionary.memo(("truth by id", condition), compute, lambda truths: truths.nbytes)


def _equal_texts(condition: Expression) -> list[TextValue] | None:
    """Return the few texts that a condition `column IN (...)` names; None if it is another."""
    if not isinstance(condition, Call) or condition.function not in ("=", "in"):
        return None
    value, *constants = condition.arguments
    if not isinstance(value, Column) or len(constants) > _SOUGHT_MAX:
        return None
    texts = [one.value for one in constants if isinstance(one, Literal) and one.type == value.type]
    found = [text for text in texts if isinstance(text, str | bytes)]
    return found if len(found) == len(constants) else None


def concat_vectors(vectors: Sequence[Vector], owner: Owner | None = None) -> Vector:
    """Return the rows of all vectors, one after the other, as one vector of their type.

    Texts get no dictionary where some have none. `owner` is the cache entry that keeps the result
    and its dictionary; without one, the cache keeps the latter.
    """
    if len(vectors) == 1:
        return vectors[0]
    if all(isinstance(vector, Ids) for vector in vectors):
        return _concat_ids([vector for vector in vectors if isinstance(vector, Ids)], owner)
    if all(isinstance(vector, Numbers) for vector in vectors):
        return _concat_numbers([vector for vector in vectors if isinstance(vector, Numbers)])
    arrays = [vector.to_arrow() for vector in vectors]
    if is_text(arrays[0].type):
        return Opaque(concat_texts(arrays))
    return vector_of_array(pa.concat_arrays(arrays))


def _concat_ids(vectors: Sequence[Ids], owner: Owner | None) -> Ids:
    row_count = sum(len(vector) for vector in vectors)
    if row_count < sum(len(vector.dictionary) for vector in vectors) // _SPARSE_SHARE:
        return encode_sorted(pa.concat_arrays([vector.to_arrow() for vector in vectors]))
    merged, maps = _merge_dictionaries([vector.dictionary for vector in vectors], owner)
    ids: list[NDArray[Any]] = [
        vector.ids if to_merged is None else to_merged.take(vector.ids)
        for vector, to_merged in zip(vectors, maps, strict=True)
    ]
    together = empty(row_count, merged.id_dtype)
    np.concatenate(ids, out=together, casting="unsafe")
    return Ids(together, merged)


def _merge_dictionaries(
    dictionaries: Sequence[Dictionary], owner: Owner | None
) -> tuple[Dictionary, list[_IdMap | None]]:
    """Return the sorted union of dictionaries, and each one's map of ids; None if they stay.

    Without an owner, the cache keeps the union while it keeps the dictionaries.
    """
    if all(dictionary is dictionaries[0] for dictionary in dictionaries):
        return dictionaries[0], [None] * len(dictionaries)
    if owner is not None:
        merged, maps = _merge(dictionaries)
        return replace(merged, owner=owner), maps
    # Segments are immutable: the same query over the same segments needs no second merge.
    key = ("merged", *(id(dictionary) for dictionary in dictionaries))
    known = KEPT.get(key)
    if known is None:
        known = _merged_and_cached(key, dictionaries)
    _, merged, maps = known
    return merged, maps


def _merged_and_cached(key: CacheKey, dictionaries: Sequence[Dictionary]) -> _Merged:
    """Merge dictionaries, and keep the result in the cache while it keeps their owners.

    Dictionaries without an owner are held with the result: the key contains their `id()`, which
    Python would otherwise give to another object.
    """
    owners = {dictionary.owner for dictionary in dictionaries if dictionary.owner is not None}
    held = [dictionary for dictionary in dictionaries if dictionary.owner is None]
    owner = Owner(key)
    merged, maps = _merge(dictionaries)
    merged = replace(merged, owner=owner)
    if not owners:
        return held, merged, maps
    byte_count = merged.nbytes + sum(dictionary.nbytes for dictionary in held)
    byte_count += sum({id(ids): ids.nbytes for ids in maps if ids is not None}.values())
    kept: _Merged = KEPT.put(
        key, (held, merged, maps), byte_count, owners=tuple(owners), stands_for=owner
    )
    return kept


def _merge(dictionaries: Sequence[Dictionary]) -> tuple[Dictionary, list[_IdMap | None]]:
    distinct = list({id(dictionary): dictionary for dictionary in dictionaries}.values())
    merged, maps = merge_values([dictionary.values for dictionary in distinct])
    by_identity = {id(dictionary): ids for dictionary, ids in zip(distinct, maps, strict=True)}
    return merged, [by_identity[id(dictionary)] for dictionary in dictionaries]


def _concat_numbers(vectors: Sequence[Numbers]) -> Numbers:
    if any(vector.values.dtype == WIDE for vector in vectors):
        values = np.concatenate([vector.in_halves() for vector in vectors])
    else:
        values = np.concatenate([vector.wide() for vector in vectors])
    validity = None
    if any(vector.validity is not None for vector in vectors):
        validity = np.concatenate(
            [
                np.ones(len(vector), np.bool_) if vector.validity is None else vector.validity
                for vector in vectors
            ]
        )
        values[~validity] = 0  # a null of a vector with a base is that base
    return Numbers(values, vectors[0].type, validity=validity)


def concat_texts(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the strings or binary values of several arrays, one after the other.

    Raises LimitExceededError (PROJSEG_TEXT_TOO_LONG) if they pass what one array may hold.
    """
    ends = (text_buffers(array)[0] for array in arrays if len(array))
    byte_count = sum(int(offsets[-1]) - int(offsets[0]) for offsets in ends)
    if byte_count > _TEXT_BYTES_MAX:
        raise LimitExceededError(
            "PROJSEG_TEXT_TOO_LONG",
            f"the distinct texts of several sources take {byte_count} bytes together; one grouping "
            f"takes {_TEXT_BYTES_MAX}: filter rows, or group by a hash or a part of the text",
        )
    return pa.concat_arrays(arrays)
