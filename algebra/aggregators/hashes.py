"""Value hashes of rows, for sketches: through the dictionary where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.aggregators.inputs import valid_rows
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.types import is_text
from projseg.segment_format.value_hashes import NULL_HASH, dictionary_hashes
from projseg.segment_format.vectors import Ids, Numbers, Vector

_TABLE_ROWS_MIN_SHARE = 4  # a table of all narrow values pays from this many rows a value


def hashes_of(
    vector: Vector,
) -> tuple[NDArray[np.unsignedinteger[Any]] | None, NDArray[np.uint64]]:
    """Return (value ids, hashes): row i has `hashes[value_ids[i]]`, or `hashes[i]` without ids.

    The hash of null and of the empty text is 0, as the DataSketches library takes no notice of
    either.
    """
    if isinstance(vector, Ids):
        return vector.ids, _without_empty(vector.dictionary)
    if isinstance(vector, Numbers) and _is_dense(vector):
        domain = np.arange(np.iinfo(vector.values.dtype).max + 1, dtype=vector.values.dtype)
        _, hashes = hashes_of(Numbers(domain, vector.type, vector.base))
        if vector.validity is None:
            return vector.values, hashes
        return np.where(vector.validity, vector.values, len(domain)), np.append(hashes, NULL_HASH)
    hashes = _without_empty(Dictionary(vector.to_arrow())).copy()
    if (validity := valid_rows(vector)) is not None:
        hashes[~validity] = NULL_HASH
    return None, hashes


def _is_dense(numbers: Numbers) -> bool:
    dtype = numbers.values.dtype
    if dtype not in (np.uint8, np.uint16):
        return False
    return len(numbers) >= _TABLE_ROWS_MIN_SHARE * (np.iinfo(dtype).max + 1)


def _without_empty(dictionary: Dictionary) -> NDArray[np.uint64]:
    hashes = dictionary_hashes(dictionary)
    if not is_text(dictionary.type):
        return hashes
    is_empty = np.asarray(pc.equal(pc.binary_length(dictionary.values), 0).fill_null(False))
    return np.where(is_empty, NULL_HASH, hashes) if is_empty.any() else hashes
