"""What all states have in common: they fold rows and states into one state for each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.folds.fold_count import count_into
from projseg.memory.forks import cached_property
from projseg.memory.memory_pool import zeros
from projseg.segment_format.vectors.vectors import Vector


class Groups(msgspec.Struct, frozen=True, dict=True):
    """Which group each row belongs to.

    Parameters
    ----------
    ids : uint8[n], uint16[n], uint32[n] or None
        Group of each row, below `count`; None: all rows are of group 0.
    count : int
        Number of groups.
    row_count : int
        n, the number of rows, also where there are no ids.
    """

    ids: NDArray[np.unsignedinteger[Any]] | None
    count: int
    row_count: int

    @cached_property
    def row_counts(self) -> NDArray[np.int64]:
        """Number of rows of each group, int64[count]; it is shared, so no caller may change it."""
        counts = zeros(self.count, np.int64)
        count_into(counts, self.ids, self.row_count)
        return counts


class State(Protocol):
    """The states of one primitive for a fixed number of groups, as typed columns.

    Merging a state of no rows changes nothing, and finishing one gives what SQL gives for no rows.
    """

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold rows in: one vector for each argument, all as long as the groups' ids."""

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold states in, in the form of `columns()`: row i belongs to group `groups.ids[i]`."""

    def columns(self) -> dict[str, Vector]:
        """Return the states as columns of `group count` rows, by part name.

        Those that are stored come first. Others make merging in memory more exact.
        """

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the final values of the groups at `selection`, int[m], or of all if None."""


@runtime_checkable
class WeighedState(State, Protocol):
    """States that fold a row in several times at once."""

    def add_weighted(
        self, groups: Groups, inputs: Sequence[Vector], weights: NDArray[np.int64]
    ) -> None:
        """Fold rows in as `add` does, row i `weights[i]` times."""
