"""Several vectors one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.arrow_vectors import encode_sorted, grouping_vector
from projseg.aggregation.dictionary_merge import merge_dictionaries
from projseg.memory.pool import empty
from projseg.segment_format.vectors import Ids, Numbers, Vector

# Where rows are fewer than 1 / this of their dictionaries' values, only the values used are merged.
_SPARSE_SHARE: Final = 4


def concat_vectors(vectors: Sequence[Vector]) -> Vector:
    """Return the rows of all vectors, one after the other, as one vector."""
    if len(vectors) == 1:
        return vectors[0]
    if all(isinstance(vector, Ids) for vector in vectors):
        return _concat_ids([vector for vector in vectors if isinstance(vector, Ids)])
    if all(isinstance(vector, Numbers) for vector in vectors):
        return _concat_numbers([vector for vector in vectors if isinstance(vector, Numbers)])
    return grouping_vector(pa.concat_arrays([vector.to_arrow() for vector in vectors]))


def _concat_ids(vectors: Sequence[Ids]) -> Ids:
    row_count = sum(len(vector) for vector in vectors)
    if row_count < sum(len(vector.dictionary) for vector in vectors) // _SPARSE_SHARE:
        return encode_sorted(pa.concat_arrays([vector.to_arrow() for vector in vectors]))
    merged, maps = merge_dictionaries([vector.dictionary for vector in vectors])
    ids: list[NDArray[Any]] = [
        vector.ids if to_merged is None else to_merged.take(vector.ids)
        for vector, to_merged in zip(vectors, maps, strict=True)
    ]
    together = empty(row_count, merged.id_dtype)
    np.concatenate(ids, out=together, casting="unsafe")
    return Ids(together, merged)


def _concat_numbers(vectors: Sequence[Numbers]) -> Numbers:
    values = np.concatenate([vector.wide() for vector in vectors])
    validity = None
    if any(vector.validity is not None for vector in vectors):
        validity = np.concatenate(
            [
                np.ones(len(vector), np.bool_) if vector.validity is None else vector.validity
                for vector in vectors
            ]
        )
    return Numbers(values, vectors[0].type, validity=validity)
