"""min_by(x, t) and max_by(x, t): the value beside the smallest or largest t.

Rows where t is null do not count; x may be null. Of rows with equal t, min_by takes the smallest x
and max_by the largest, null smallest, so that base rows, projections and merges agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.extremum import has_number_keys, number_keys
from projseg.aggregation.states.state import Groups, ids_of, valid_rows
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import concat_vectors, numbers_of_array, vector_of_array
from projseg.kernels.folds.fold_extremum import rows_by_time
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.vectors import Ids, Opaque, Vector

_PENDING_ROWS_MIN: Final = 1 << 16


class ByTimeState:
    """The best (value, time) of each group so far.

    Of each batch only the best row of each group is kept, as a candidate. The candidates of several
    batches are compared when there are many of them, and at the end.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._types = [argument.type for argument in primitive.arguments]
        self._is_last = primitive.kind.takes_latest
        self._group_count = group_count
        self._pending: list[tuple[NDArray[Any], list[Vector]]] = []
        self._is_settled = False

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold (value, time) rows in."""
        best_rows = self._best_rows(groups.ids, inputs)
        found = np.flatnonzero(best_rows >= 0)
        rows = best_rows[found]
        self._pending.append((found.astype(np.uint32), [vector.take(rows) for vector in inputs]))
        self._is_settled = False
        if self._pending_rows() > max(4 * self._group_count, _PENDING_ROWS_MIN):
            self._settle()

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold (value, time) states in."""
        self.add(groups, (columns["value"], columns["time"]))

    def columns(self) -> dict[str, Vector]:
        """Return values and times; both null where no row counted."""
        self._settle()
        groups, vectors = self._pending[0]
        positions = np.full(self._group_count, -1, np.int64)
        positions[groups] = np.arange(len(groups))
        rows = primitive_array(positions, positions >= 0)
        value, time = (vector_of_array(vector.to_arrow().take(rows)) for vector in vectors)
        return {"value": value, "time": time}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the values; null where no row counted."""
        values = self.columns()["value"].to_arrow()
        return values if selection is None else values.take(primitive_array(selection))

    def _best_rows(self, ids: NDArray[Any] | None, vectors: Sequence[Vector]) -> NDArray[np.int64]:
        value, value_validity = comparable(vectors[0])
        time, time_validity = comparable(vectors[1])
        return rows_by_time(
            ids,
            self._group_count,
            time,
            value,
            is_last=self._is_last,
            time_validity=time_validity,
            value_validity=value_validity,
        )

    def _pending_rows(self) -> int:
        return sum(len(groups) for groups, _ in self._pending)

    def _settle(self) -> None:
        """Leave one candidate for each group that has any."""
        if self._is_settled:
            return
        groups = np.concatenate([np.zeros(0, np.uint32), *(ids for ids, _ in self._pending)])
        vectors = [
            _concatenated([batch[index] for _, batch in self._pending], value_type)
            for index, value_type in enumerate(self._types)
        ]
        best_rows = self._best_rows(groups, vectors)
        found = np.flatnonzero(best_rows >= 0)
        rows = best_rows[found]
        self._pending = [(found.astype(np.uint32), [vector.take(rows) for vector in vectors])]
        self._is_settled = True


def comparable(vector: Vector) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return (keys, validity), int64[n] and bool[n] or None: keys order this one vector's rows."""
    if not isinstance(vector, Ids):
        if has_number_keys(vector.type):
            numbers = numbers_of_array(vector.array) if isinstance(vector, Opaque) else vector
            keys, _ = number_keys(numbers)
            return keys.astype(np.int64, copy=False), numbers.validity
        vector = ids_of(vector)
    return vector.ids.astype(np.int64), valid_rows(vector)


def _concatenated(vectors: list[Vector], value_type: pa.DataType) -> Vector:
    return concat_vectors(vectors) if vectors else vector_of_array(pa.nulls(0, value_type))
