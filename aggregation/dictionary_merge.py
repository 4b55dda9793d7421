"""One dictionary for several segments' dictionaries of the same column."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.keys import encode_sorted
from projseg.segment_format.dictionary import Dictionary

IdMap = NDArray[np.unsignedinteger[Any]]

# Merged dictionaries by the identities of their parts: segments are immutable, so the same query
# over the same segments needs no second merge. The parts are held, so identities stay theirs.
_MEMO_ENTRIES_MAX: Final = 64
_memo: OrderedDict[tuple[int, ...], tuple[Sequence[Dictionary], Dictionary, list[IdMap | None]]] = (
    OrderedDict()
)
_memo_lock = Lock()


def merge_dictionaries(
    dictionaries: Sequence[Dictionary],
) -> tuple[Dictionary, list[IdMap | None]]:
    """Return the sorted union of dictionaries, and each one's map from its ids to the union's.

    A map of None means that the ids stay as they are.
    """
    if all(dictionary is dictionaries[0] for dictionary in dictionaries):
        return dictionaries[0], [None] * len(dictionaries)
    key = tuple(id(dictionary) for dictionary in dictionaries)
    with _memo_lock:
        if (known := _memo.get(key)) is not None:
            _memo.move_to_end(key)
            return known[1], known[2]
    merged, maps = _merge(dictionaries)
    with _memo_lock:
        _memo[key] = (dictionaries, merged, maps)
        while len(_memo) > _MEMO_ENTRIES_MAX:
            _memo.popitem(last=False)
    return merged, maps


def _merge(dictionaries: Sequence[Dictionary]) -> tuple[Dictionary, list[IdMap | None]]:
    distinct = list({id(dictionary): dictionary for dictionary in dictionaries}.values())
    every = encode_sorted(pa.concat_arrays([dictionary.values for dictionary in distinct]))
    ends = np.cumsum([len(dictionary) for dictionary in distinct])
    by_identity: dict[int, IdMap] = {
        id(dictionary): every.ids[end - len(dictionary) : end]
        for dictionary, end in zip(distinct, ends, strict=True)
    }
    return every.dictionary, [by_identity[id(dictionary)] for dictionary in dictionaries]
