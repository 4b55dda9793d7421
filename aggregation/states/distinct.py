"""DISTINCT aggregates: the set of values of each group, as ids into some list of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.arrow_vectors import numbers_of_array, plain_floats
from projseg.aggregation.states.inputs import valid_rows
from projseg.aggregation.states.state import Groups
from projseg.aggregation.states.sum import SumState
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.distinct_pairs import distinct_pairs
from projseg.segment_format.arrow_arrays import filled_values, primitive_array, primitive_values
from projseg.segment_format.vectors import Ids, Opaque, Vector

_PARTS_MAX: Final = 16  # how many lists of values are held before they are merged into one


@dataclass
class _Part:
    """Sets of ids into one list of distinct values: group i has ids[starts[i] : starts[i + 1]]."""

    values: pa.Array
    starts: NDArray[np.int64]
    ids: NDArray[np.uint32]

    def groups(self) -> NDArray[np.uint32]:
        """Return the group of each id."""
        group_count = len(self.starts) - 1
        return np.repeat(np.arange(group_count, dtype=np.uint32), np.diff(self.starts))

    def used(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Return the values that are in any set, and each id's place among them."""
        is_used = np.zeros(len(self.values), np.bool_)
        is_used[self.ids] = True
        places = np.cumsum(is_used) - 1
        return self.values.take(primitive_array(np.flatnonzero(is_used))), places[self.ids]


class DistinctState:
    """The distinct values of each group.

    Batches are deduplicated by id, each within its own list of values. Lists are merged by value,
    several at a time. The values of a list stand in no particular order.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._primitive = primitive
        self._group_count = group_count
        self._parts: list[_Part] = []

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values; nulls do not count."""
        vector = inputs[0]
        if isinstance(vector, Ids):
            values, ids, validity = vector.dictionary.values, vector.ids, valid_rows(vector)
        else:
            array = plain_floats(vector.to_arrow())
            encoded = array.dictionary_encode()
            values, validity = encoded.dictionary, valid_rows(Opaque(array))
            ids = filled_values(encoded.indices, 0).astype(np.uint32)
            if len(values) == 0:
                return
        self._add_ids(groups, values, ids, validity)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add sets to sets."""
        lists = columns["values"].to_arrow()
        parents = primitive_values(lists.value_parent_indices())
        ids = np.zeros(len(parents), np.uint8) if groups.ids is None else groups.ids[parents]
        self.add(Groups(ids, groups.count, len(parents)), (Opaque(lists.flatten()),))

    def columns(self) -> dict[str, Vector]:
        """Return the values of each group, in no particular order."""
        part = self._settled()
        offsets = primitive_array(part.starts.astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, part.values.take(primitive_array(part.ids)))
        return {"values": Opaque(lists.cast(self._primitive.fields[0][1]))}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the number of distinct values."""
        counts = np.diff(self._settled().starts)
        return primitive_array(counts if selection is None else counts[selection])

    def sums(self) -> SumState:
        """Return the states of the sum over distinct values."""
        part = self._settled()
        state = SumState(Primitive("sum", self._primitive.arguments), self._group_count)
        values = numbers_of_array(part.values.take(primitive_array(part.ids)))
        state.add(Groups(part.groups(), self._group_count, len(part.ids)), (values,))
        return state

    def _add_ids(
        self,
        groups: Groups,
        values: pa.Array,
        ids: NDArray[Any],
        validity: NDArray[np.bool_] | None,
    ) -> None:
        starts, distinct = distinct_pairs(groups.ids, self._group_count, ids, len(values), validity)
        if len(self._parts) >= _PARTS_MAX:
            self._parts = [self._settled()]
        self._parts.append(_Part(values, starts, distinct))

    def _settled(self) -> _Part:
        """Merge all parts into one, and return it."""
        if len(self._parts) == 1:
            return self._parts[0]
        value_type = self._primitive.arguments[0].type
        used = [part.used() for part in self._parts]
        lists = [plain_floats(values) for values, _ in used]
        encoded = pa.concat_arrays([pa.nulls(0, value_type), *lists]).dictionary_encode()
        united_ids = primitive_values(encoded.indices).astype(np.uint32)
        first = np.cumsum([0, *(len(values) for values in lists)])
        none = np.zeros(0, np.uint32)
        ids = [united_ids[start + places] for start, (_, places) in zip(first, used, strict=False)]
        groups = [part.groups() for part in self._parts]
        starts, distinct = distinct_pairs(
            np.concatenate([none, *groups]),
            self._group_count,
            np.concatenate([none, *ids]),
            len(encoded.dictionary),
        )
        self._parts = [_Part(encoded.dictionary, starts, distinct)]
        return self._parts[0]
