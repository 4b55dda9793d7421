"""count(*) and count(x, ...): rows, or rows where every input holds a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.folded_rows import NumbersReader, both_valid, taken, valid_rows
from projseg.aggregation.states.state import Groups
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.folds.fold_count import add_counts, count_into
from projseg.memory.memory_pool import zeros
from projseg.segment_format.vectors.vectors import Numbers, Vector


class CountState:
    """A 64-bit count for each group."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        del primitive
        self._group_count = group_count
        self._counts: NDArray[np.int64] | None = None
        self._is_shared = False
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Count the rows where every input holds a value; without inputs, all rows."""
        validity = None
        for vector in inputs:
            validity = both_valid(validity, valid_rows(vector))
        if validity is not None:
            count_into(self._own(), groups.ids, len(validity), validity)
        elif self._counts is None:
            self._counts, self._is_shared = groups.row_counts, True
        else:
            counts = self._own()
            counts += groups.row_counts

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add counts to counts."""
        stored = self._reader.read(columns["count"])
        counts = self._own()
        if groups.ids is None:
            counts[0] += int(stored.values.sum(dtype=np.int64)) + stored.base * len(stored)
        else:
            add_counts(counts, groups.ids, stored.values, stored.base)

    def columns(self) -> dict[str, Vector]:
        """Return the counts."""
        counts = np.zeros(self._group_count, np.int64) if self._counts is None else self._counts
        return {"count": Numbers(counts, pa.int64())}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the counts; 0 of no rows."""
        return taken(self.columns()["count"], selection).to_arrow()

    def _own(self) -> NDArray[np.int64]:
        """Return the counts as an array that may be changed."""
        if self._counts is None:
            self._counts = zeros(self._group_count, np.int64)
        elif self._is_shared:
            self._counts = self._counts.copy()
        self._is_shared = False
        return self._counts
