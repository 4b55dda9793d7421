"""Stitch partials together: the same groups from several segments, projections or edges.

Dictionary ids are local to a segment, so keys are first brought to one dictionary each; then a
merge is one more fold, over states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.dictionary_merge import merge_dictionaries
from projseg.aggregation.expressions_over_rows import vector_from_arrow
from projseg.aggregation.fold import partial_of
from projseg.aggregation.group_rows import GroupedRows, group_rows
from projseg.aggregation.keys import encode_sorted, make_key
from projseg.aggregation.partial import Partial
from projseg.algebra.aggregators.primitive import Groups, Primitive
from projseg.algebra.aggregators.states import new_state
from projseg.memory.pool import empty
from projseg.segment_format.vectors import Ids, Numbers, Vector

# Where groups use less than 1 / this of their dictionaries, only the values used are merged.
_SPARSE_SHARE: Final = 4


def merge_partials(
    partials: Sequence[Partial], primitives: Sequence[Primitive], *, in_order: bool = False
) -> Partial:
    """Return one partial whose groups are those of all `partials`.

    Parameters
    ----------
    partials : sequence of Partial
        At least one; all with the same grouping columns, by type, and the same primitives.
    primitives : sequence of Primitive
        What their states are states of.
    in_order : bool
        Whether the groups must ascend in the order of the keys; a single partial is as it is.
    """
    if len(partials) == 1:
        return partials[0]
    row_count = sum(partial.group_count for partial in partials)
    key_count = len(partials[0].keys)
    keys = [concat_vectors([partial.keys[k] for partial in partials]) for k in range(key_count)]
    grouped = group_rows([make_key(key) for key in keys], row_count, in_order=in_order)
    states = [new_state(primitive, grouped.groups.count) for primitive in primitives]
    start = 0
    for partial in partials:
        groups = _slice(grouped, start, start + partial.group_count)
        for index, state in enumerate(states):
            state.merge(groups, partial.state_columns(index))
        start += partial.group_count
    return partial_of(grouped, states)


def _slice(grouped: GroupedRows, start: int, end: int) -> Groups:
    ids = grouped.groups.ids
    return Groups(None if ids is None else ids[start:end], grouped.groups.count, end - start)


def concat_vectors(vectors: Sequence[Vector]) -> Vector:
    """Return the rows of all vectors, one after the other, as one vector."""
    if len(vectors) == 1:
        return vectors[0]
    if all(isinstance(vector, Ids) for vector in vectors):
        return _concat_ids([vector for vector in vectors if isinstance(vector, Ids)])
    if all(isinstance(vector, Numbers) for vector in vectors):
        return _concat_numbers([vector for vector in vectors if isinstance(vector, Numbers)])
    return vector_from_arrow(pa.concat_arrays([vector.to_arrow() for vector in vectors]))


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
