"""Merge partials that hold the same groups, from several segments or projections.

Dictionary ids are local to a segment, so each key is first brought to one dictionary; the rest of
a merge is one more fold, over states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from projseg.aggregation.groups import GroupedRows, group_rows
from projseg.aggregation.keys import make_key
from projseg.aggregation.partial import FoldedPartial, Partial, with_keys
from projseg.aggregation.states.state import Groups, State
from projseg.aggregation.states.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import concat_texts, concat_vectors
from projseg.segment_format.layout.logical_types import is_text
from projseg.segment_format.vectors.vectors import Opaque, Vector


def merge_partials(
    partials: Sequence[Partial], primitives: Sequence[Primitive], *, in_order: bool = False
) -> Partial:
    """Return one partial whose groups are those of all `partials`.

    Parameters
    ----------
    partials : sequence of Partial
        At least one; all with the same grouping columns, by type, and the same primitives.
    primitives : sequence of Primitive
        The primitives of their states, in order.
    in_order : bool
        Whether the groups must ascend in the order of the keys; a single partial is not sorted.
    """
    if len(partials) == 1:
        return partials[0]
    return _merged(partials, primitives, in_order=in_order)


def in_key_order(partial: Partial, primitives: Sequence[Primitive]) -> Partial:
    """Return the groups of a partial in the order of their keys."""
    return _merged([partial], primitives, in_order=True)


def regrouped(partial: Partial, keys: Sequence[Vector], primitives: Sequence[Primitive]) -> Partial:
    """Return the groups of a partial by other keys, which its groups may have in common.

    Parameters
    ----------
    partial : Partial
        The groups.
    keys : sequence of Vector
        One row for each of them.
    primitives : sequence of Primitive
        The primitives of their states, in order.
    """
    return _merged([with_keys(partial, keys)], primitives, in_order=False)


def _merged(
    partials: Sequence[Partial], primitives: Sequence[Primitive], *, in_order: bool
) -> Partial:
    row_count = sum(partial.group_count for partial in partials)
    key_count = len(partials[0].keys)
    keys = [_concat_keys([partial.keys[k] for partial in partials]) for k in range(key_count)]
    grouped = group_rows(
        [make_key(key, in_order=in_order) for key in keys], row_count, in_order=in_order
    )
    states = [new_state(primitive, grouped.groups.count) for primitive in primitives]
    start = 0
    for partial in partials:
        groups = _slice(grouped, start, start + partial.group_count)
        for index, state in enumerate(states):
            state.merge(groups, partial.state_columns(index))
        start += partial.group_count
    return partial_of(grouped, states)


def _concat_keys(vectors: Sequence[Vector]) -> Vector:
    """Return the rows of all vectors as one; texts without a dictionary are not sorted into one."""
    if is_text(vectors[0].type) and any(isinstance(vector, Opaque) for vector in vectors):
        return Opaque(concat_texts([vector.to_arrow() for vector in vectors]))
    return concat_vectors(vectors)


def partial_of(grouped: GroupedRows, states: Sequence[State]) -> Partial:
    """Return the groups that have rows; with no grouping columns that is always one group."""
    if not grouped.keys and grouped.prefix is None:
        group_ids = None if grouped.groups.count == 1 else np.zeros(1, np.intp)
        return FoldedPartial((), states, group_ids, 1)
    group_ids = grouped.occupied()
    group_count = grouped.groups.count if group_ids is None else len(group_ids)
    return FoldedPartial(grouped.key_vectors(group_ids), states, group_ids, group_count)


def _slice(grouped: GroupedRows, start: int, end: int) -> Groups:
    ids = grouped.groups.ids
    return Groups(None if ids is None else ids[start:end], grouped.groups.count, end - start)
