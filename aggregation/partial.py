"""Groups and their states: what folding makes, merging takes and a projection stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.state import Groups, State
from projseg.aggregation.states.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.memory.forks import cached_property
from projseg.segment_format.vectors.vectors import Vector


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
    """Groups that were folded.

    Parameters
    ----------
    keys : sequence of Vector
        One for each grouping column.
    states : sequence of State
        One for each primitive.
    group_ids : intp[group_count] or None
        Where each group stands in the states; None: in order, from 0.
    group_count : int
        Number of groups.
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

    Parameters
    ----------
    keys : sequence of Vector
        One for each grouping column.
    primitives : sequence of Primitive
        What the columns are states of.
    columns : sequence of mapping of str to Vector
        For each primitive, its state's columns by part.
    group_count : int
        Number of groups.
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
