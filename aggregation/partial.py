"""Partials: groups and their states, and the merge of those that hold the same groups.

Dictionary ids are local to a segment, so each key is first brought to one dictionary; the rest of
a merge is one more fold, over states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.groups import GroupedRows, group_rows
from projseg.aggregation.keys import make_key, make_wide_key
from projseg.aggregation.state import Groups, State
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import concat_vectors
from projseg.memory.forks import cached_property
from projseg.segment_format.vectors import Vector


class Partial(Protocol):
    """Groups (distinct tuples of keys), each with one state of each primitive."""

    @property
    def keys(self) -> Sequence[Vector]:
        """One vector for each grouping column, with one row for each group."""

    @property
    def group_count(self) -> int:
        """Number of groups."""

    @property
    def states(self) -> Sequence[State]:
        """One state for each primitive; it may hold further groups, which have no row."""

    def state_columns(self, index: int) -> Mapping[str, Vector]:
        """Return the columns of primitive `index`, one row for each group."""

    def positions(self, selection: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return where the groups at `selection` stand in the states, int[m] for int[m].

        None, given or returned, means all groups, in order.
        """


class FoldedPartial(msgspec.Struct, frozen=True):
    """Groups that were folded: a key for each grouping column and a state for each primitive.

    `group_ids` has where each group stands in the states; None means in order, from 0.
    """

    keys: Sequence[Vector]
    states: Sequence[State]
    group_ids: NDArray[np.intp] | None
    group_count: int

    def state_columns(self, index: int) -> Mapping[str, Vector]:
        """Return the columns of primitive `index`, one row for each group."""
        columns = self.states[index].columns()
        if self.group_ids is None:
            return columns
        return {part: column.take(self.group_ids) for part, column in columns.items()}

    def positions(self, selection: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return where the groups at `selection` stand in the states, int[m] for int[m].

        None, given or returned, means all groups, in order.
        """
        if self.group_ids is None:
            return selection
        return self.group_ids if selection is None else self.group_ids[selection]


class StoredPartial(msgspec.Struct, frozen=True, dict=True):
    """Groups as a projection stores them: nothing to fold, since its rows are the groups.

    `columns` has the columns of each primitive's state by part.
    """

    keys: Sequence[Vector]
    primitives: Sequence[Primitive]
    columns: Sequence[Mapping[str, Vector]]
    group_count: int

    @cached_property
    def states(self) -> Sequence[State]:
        """The states, for when no merge makes them."""
        count = self.group_count
        groups = Groups(np.arange(count, dtype=np.uint32), count, count)
        states = [new_state(primitive, count) for primitive in self.primitives]
        for state, columns in zip(states, self.columns, strict=True):
            state.merge(groups, columns)
        return states

    def state_columns(self, index: int) -> Mapping[str, Vector]:
        """Return the columns of primitive `index`, one row for each group."""
        return self.columns[index]

    def positions(self, selection: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return `selection`: the states are in the groups' order."""
        return selection


def with_keys(partial: Partial, keys: Sequence[Vector]) -> Partial:
    """Return the same groups and states under other keys, one row for each group."""
    if isinstance(partial, FoldedPartial):
        return FoldedPartial(keys, partial.states, partial.group_ids, partial.group_count)
    assert isinstance(partial, StoredPartial)
    return StoredPartial(keys, partial.primitives, partial.columns, partial.group_count)


def key_arrow(partial: Partial, index: int, selection: NDArray[Any] | None = None) -> pa.Array:
    """Return a grouping column's values for the groups at `selection`, int[m], or for all."""
    key = partial.keys[index]
    return (key if selection is None else key.take(selection)).to_arrow()


def merge_partials(
    partials: Sequence[Partial],
    primitives: Sequence[Primitive],
    *,
    in_order: bool = False,
    may_repeat: bool = False,
) -> Partial:
    """Return one partial whose groups are those of all `partials`, of the same keys and primitives.

    Groups ascend in the order of the keys if `in_order`, but a single partial is not sorted. Groups
    of one partial differ, unless they `may_repeat`.
    """
    if len(partials) == 1 and not may_repeat:
        return partials[0]
    return _merged(partials, primitives, in_order=in_order)


def in_key_order(partial: Partial, primitives: Sequence[Primitive]) -> Partial:
    """Return the groups of a partial in the order of their keys."""
    return _merged([partial], primitives, in_order=True)


def regrouped(partial: Partial, keys: Sequence[Vector], primitives: Sequence[Primitive]) -> Partial:
    """Return the groups of a partial by other keys, which several of its groups may share."""
    return _merged([with_keys(partial, keys)], primitives, in_order=False)


def _merged(
    partials: Sequence[Partial], primitives: Sequence[Primitive], *, in_order: bool
) -> Partial:
    row_count = sum(partial.group_count for partial in partials)
    key_count = len(partials[0].keys)
    keys = [concat_vectors([partial.keys[k] for partial in partials]) for k in range(key_count)]
    grouped = group_rows(
        [(make_key if key_count == 1 else make_wide_key)(key, in_order=in_order) for key in keys],
        row_count,
        in_order=in_order,
    )
    states = [new_state(primitive, grouped.groups.count) for primitive in primitives]
    start = 0
    for partial in partials:
        groups = _slice(grouped, start, start + partial.group_count)
        for index, state in enumerate(states):
            state.merge(groups, partial.state_columns(index))
        start += partial.group_count
    return partial_of(grouped, states)


def partial_of(grouped: GroupedRows, states: Sequence[State]) -> Partial:
    """Return the groups that have rows; with no grouping columns that is always one group."""
    if grouped.is_one:
        group_ids = None if grouped.groups.count == 1 else np.zeros(1, np.intp)
        return FoldedPartial((), states, group_ids, 1)
    group_ids = grouped.occupied()
    group_count = grouped.groups.count if group_ids is None else len(group_ids)
    return FoldedPartial(grouped.key_vectors(group_ids), states, group_ids, group_count)


def _slice(grouped: GroupedRows, start: int, end: int) -> Groups:
    ids = grouped.groups.ids
    return Groups(None if ids is None else ids[start:end], grouped.groups.count, end - start)
