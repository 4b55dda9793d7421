"""bit_and(x), bit_or(x) and bit_xor(x) over integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.folded_rows import NumbersReader, taken
from projseg.aggregation.states.state import Groups
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.folds.fold_count import BIT_AND, BIT_OR, BIT_XOR, bits_into
from projseg.segment_format.vectors.vectors import Numbers, Vector

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
