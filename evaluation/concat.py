"""Several vectors one after the other, over one dictionary for several segments' dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import LimitExceededError
from projseg.evaluation.arrow_vectors import encode_sorted, grouping_vector, merge_values
from projseg.memory.cache import KEPT, CacheKey, Owner
from projseg.memory.memory_pool import empty
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.vectors.arrow_arrays import text_buffers
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector
from projseg.segment_format.vectors.wide_integers import WIDE

IdMap = NDArray[np.unsignedinteger[Any]]
Merged = tuple[Sequence[Dictionary], Dictionary, list[IdMap | None]]


def _merge_dictionaries(
    dictionaries: Sequence[Dictionary], owner: Owner | None = None
) -> tuple[Dictionary, list[IdMap | None]]:
    """Return the sorted union of dictionaries, and each one's map from its ids to the union's.

    Parameters
    ----------
    dictionaries : sequence of Dictionary
        At least one.
    owner : Owner or None
        The cache entry that keeps the union; None: the cache keeps it while it keeps the others.

    Returns
    -------
    Dictionary, list of (unsigned integer[cardinality] or None)
        A map of None means that the ids stay as they are.
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
        known = _kept(key, dictionaries)
    _, merged, maps = known
    return merged, maps


def _kept(key: CacheKey, dictionaries: Sequence[Dictionary]) -> Merged:
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
    kept: Merged = KEPT.put(
        key, (held, merged, maps), byte_count, owners=tuple(owners), stands_for=owner
    )
    return kept


def _merge(dictionaries: Sequence[Dictionary]) -> tuple[Dictionary, list[IdMap | None]]:
    distinct = list({id(dictionary): dictionary for dictionary in dictionaries}.values())
    merged, maps = merge_values([dictionary.values for dictionary in distinct])
    by_identity = {id(dictionary): ids for dictionary, ids in zip(distinct, maps, strict=True)}
    return merged, [by_identity[id(dictionary)] for dictionary in dictionaries]


# Where rows are fewer than 1 / this of their dictionaries' values, only the values used are merged.
_SPARSE_SHARE: Final = 4
_TEXT_BYTES_MAX: Final = (1 << 31) - 1  # what Arrow's 32-bit offsets reach


def concat_vectors(vectors: Sequence[Vector], owner: Owner | None = None) -> Vector:
    """Return the rows of all vectors, one after the other, as one vector.

    Parameters
    ----------
    vectors : sequence of Vector
        At least one, all of one type.
    owner : Owner or None
        The cache entry that keeps the result and its dictionary; None: the cache keeps the latter.
    """
    if len(vectors) == 1:
        return vectors[0]
    if all(isinstance(vector, Ids) for vector in vectors):
        return _concat_ids([vector for vector in vectors if isinstance(vector, Ids)], owner)
    if all(isinstance(vector, Numbers) for vector in vectors):
        return _concat_numbers([vector for vector in vectors if isinstance(vector, Numbers)])
    return grouping_vector(pa.concat_arrays([vector.to_arrow() for vector in vectors]))


def concat_texts(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return the strings or binary values of several arrays, one after the other.

    Raises
    ------
    LimitExceededError
        PROJSEG_TEXT_TOO_LONG, if they pass what one array may hold.
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
