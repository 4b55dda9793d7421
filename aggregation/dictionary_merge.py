"""One dictionary for several segments' dictionaries of the same column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.keys import encode_sorted
from projseg.aggregation.part_cache import PARTS
from projseg.segment_format.dictionary import Dictionary

IdMap = NDArray[np.unsignedinteger[Any]]


def merge_dictionaries(
    dictionaries: Sequence[Dictionary],
) -> tuple[Dictionary, list[IdMap | None]]:
    """Return the sorted union of dictionaries, and each one's map from its ids to the union's.

    A map of None means that the ids stay as they are.
    """
    if all(dictionary is dictionaries[0] for dictionary in dictionaries):
        return dictionaries[0], [None] * len(dictionaries)
    # Segments are immutable: the same query over the same segments needs no second merge. The parts
    # are held, so that their identities stay theirs.
    key = ("merged", *(id(dictionary) for dictionary in dictionaries))
    _, merged, maps = PARTS.get_or_load(
        key, lambda: (dictionaries, *_merge(dictionaries)), _byte_count
    )
    return merged, maps


def _byte_count(entry: tuple[Sequence[Dictionary], Dictionary, list[IdMap | None]]) -> int:
    _, merged, maps = entry
    return int(merged.values.nbytes) + sum(ids.nbytes for ids in maps if ids is not None)


def _merge(dictionaries: Sequence[Dictionary]) -> tuple[Dictionary, list[IdMap | None]]:
    distinct = list({id(dictionary): dictionary for dictionary in dictionaries}.values())
    every = encode_sorted(pa.concat_arrays([dictionary.values for dictionary in distinct]))
    ends = np.cumsum([len(dictionary) for dictionary in distinct])
    by_identity: dict[int, IdMap] = {
        id(dictionary): every.ids[end - len(dictionary) : end]
        for dictionary, end in zip(distinct, ends, strict=True)
    }
    return every.dictionary, [by_identity[id(dictionary)] for dictionary in dictionaries]
