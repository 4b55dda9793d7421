"""count(*), count(x, ...), bit_and(x), bit_or(x) and bit_xor(x)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.state import Groups, NumbersReader, both_valid, taken, valid_rows
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.folds.fold_count import (
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    add_counts,
    bits_into,
    count_into,
)
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


_OPERATIONS: Final = {"bit_and": BIT_AND, "bit_or": BIT_OR, "bit_xor": BIT_XOR}


class BitsState:
    """The combined bits of each group, sign-extended to 64."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._type = primitive.arguments[0].type
        self._operation = _OPERATIONS[primitive.function]
        self._bits = np.full(group_count, -1 if self._operation == BIT_AND else 0, np.int64)
        self._seen = np.zeros(group_count, np.bool_)
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Combine values; nulls do not count."""
        numbers = self._reader.read(inputs[0])
        bits_into(
            self._bits, self._seen, groups.ids, numbers.wide(), self._operation, numbers.validity
        )

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Combine combined bits."""
        self.add(groups, (columns["bits"],))

    def columns(self) -> dict[str, Vector]:
        """Return the bits, null where there was no value."""
        validity = None if self._seen.all() else self._seen
        return {"bits": Numbers(np.where(self._seen, self._bits, 0), self._type, 0, validity)}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the bits; null of no value."""
        return taken(self.columns()["bits"], selection).to_arrow()
