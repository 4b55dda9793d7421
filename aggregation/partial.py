"""Groups and their states: what folding makes, merging takes and a projection stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregators.primitive import State
from projseg.segment_format.vectors import Vector


@dataclass(frozen=True, slots=True)
class Partial:
    """Distinct key tuples, in key order, with one state of each primitive for each.

    Parameters
    ----------
    keys : sequence of Vector
        One for each grouping column, `group_count` rows each.
    states : sequence of State
        One for each primitive; they may hold further groups that have no row.
    group_ids : intp[group_count] or None
        Where each group stands in the states; None: in order, from 0.
    group_count : int
        Number of groups.
    """

    keys: Sequence[Vector]
    states: Sequence[State]
    group_ids: NDArray[np.intp] | None
    group_count: int

    def state_columns(self, index: int) -> dict[str, Vector]:
        """Return the columns of primitive `index`, one row a group."""
        columns = self.states[index].columns()
        if self.group_ids is None:
            return columns
        return {part: column.take(self.group_ids) for part, column in columns.items()}

    def positions(self, selection: NDArray[Any] | None) -> NDArray[Any] | None:
        """Return where in the states the groups at `selection` stand; None means all, in order."""
        if self.group_ids is None:
            return selection
        return self.group_ids if selection is None else self.group_ids[selection]

    def key_arrow(self, index: int, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the values of one grouping column, of the groups at `selection` in that order."""
        key = self.keys[index]
        return (key if selection is None else key.take(selection)).to_arrow()
