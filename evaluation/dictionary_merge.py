"""One dictionary for several segments' dictionaries of the same column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.evaluation.arrow_vectors import merge_values
from projseg.memory.cache import KEPT, CacheKey, Owner
from projseg.segment_format.dictionaries.dictionary import Dictionary

IdMap = NDArray[np.unsignedinteger[Any]]
Merged = tuple[Sequence[Dictionary], Dictionary, list[IdMap | None]]


def merge_dictionaries(
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
