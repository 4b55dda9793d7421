"""count(*) and count(x, ...): rows, or rows where every input holds a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregators.inputs import NumbersReader, both_valid, taken, valid_rows
from projseg.algebra.aggregators.primitive import Groups, Primitive
from projseg.kernels.fold_count import count_into
from projseg.kernels.fold_sum import sum_into
from projseg.segment_format.vectors import Numbers, Vector


class CountState:
    """A 64-bit count for each group."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        del primitive
        self._group_count = group_count
        self._known: NDArray[np.int64] | None = None
        self._reader = NumbersReader()

    @staticmethod
    def fields(primitive: Primitive) -> tuple[tuple[str, pa.DataType], ...]:
        """Return the stored columns."""
        del primitive
        return (("count", pa.int64()),)

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Count rows; with no input, as many as the groups' ids."""
        validity = None
        for vector in inputs:
            validity = both_valid(validity, valid_rows(vector))
        if validity is None:
            self._include(groups.row_counts)
        else:
            counts = np.zeros(self._group_count, np.int64)
            count_into(counts, groups.ids, len(validity), validity)
            self._include(counts)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add counts to counts."""
        stored = self._reader.read(columns["count"])
        totals = np.zeros((self._group_count, 2), np.int64)
        sum_into(totals, groups.ids, stored.values, stored.base)
        self._include(totals[:, 0])

    def columns(self) -> dict[str, Vector]:
        """Return the counts."""
        return {"count": Numbers(self._counts(), pa.int64())}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the counts; 0 of no rows."""
        return taken(self.columns()["count"], selection).to_arrow()

    def _include(self, counts: NDArray[np.int64]) -> None:
        self._known = counts if self._known is None else self._known + counts

    def _counts(self) -> NDArray[np.int64]:
        return np.zeros(self._group_count, np.int64) if self._known is None else self._known
