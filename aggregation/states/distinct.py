"""DISTINCT aggregates: the set of values of each group, as ids into some list of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.keys import Key, make_key
from projseg.aggregation.states.state import Groups, valid_rows
from projseg.aggregation.states.sum import SumState
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import concat_texts, numbers_of_array, vector_of_array
from projseg.kernels.groups.distinct_pairs import distinct_pairs
from projseg.kernels.groups.grouping import occupied_groups, ranks_of
from projseg.segment_format.layout.logical_types import is_text
from projseg.segment_format.vectors.arrow_arrays import primitive_array, primitive_values
from projseg.segment_format.vectors.vectors import Opaque, Vector

_PARTS_MAX: Final = 16  # how many lists of values are held before they are merged into one


@dataclass
class _Part:
    """Sets of ids of one key: group i has ids[starts[i] : starts[i + 1]]."""

    key: Key
    starts: NDArray[np.int64]
    ids: NDArray[np.uint32]

    def groups(self) -> NDArray[np.uint32]:
        """Return the group of each id."""
        group_count = len(self.starts) - 1
        return np.repeat(np.arange(group_count, dtype=np.uint32), np.diff(self.starts))

    def values(self, ids: NDArray[np.unsignedinteger[Any]]) -> pa.Array:
        """Return what some ids mean."""
        return self.key.values_of(ids.astype(self.key.ids.dtype, copy=False)).to_arrow()

    def used(self) -> tuple[pa.Array, NDArray[Any]]:
        """Return the values that are in any set, and each id's place among them."""
        if len(self.starts) == 2:  # ids of one group are distinct
            return self.values(self.ids), np.arange(len(self.ids))
        is_used = occupied_groups(self.ids, self.key.cardinality)
        return self.values(np.flatnonzero(is_used).astype(np.uint32)), ranks_of(is_used)[self.ids]


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
        self._add_key(groups, self._key_of(vector), valid_rows(vector))

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add sets to sets."""
        lists = columns["values"].to_arrow()
        parents = primitive_values(lists.value_parent_indices())
        ids = np.zeros(len(parents), np.uint8) if groups.ids is None else groups.ids[parents]
        self.add(Groups(ids, groups.count, len(parents)), (vector_of_array(lists.flatten()),))

    def columns(self) -> dict[str, Vector]:
        """Return the values of each group, in no particular order."""
        part = self._settled()
        offsets = primitive_array(part.starts.astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, part.values(part.ids))
        return {"values": Opaque(lists.cast(self._primitive.fields[0][1]))}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the number of distinct values."""
        counts = np.diff(self._settled().starts)
        return primitive_array(counts if selection is None else counts[selection])

    def lists(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the values of each group, ascending; an empty list of no value."""
        part = self._settled()
        values, places = part.used()
        ranks = np.empty(len(values), np.int64)
        ranks[primitive_values(pc.array_sort_indices(values))] = np.arange(len(ranks))
        places = places[np.lexsort((ranks[places], part.groups()))]
        offsets = primitive_array(part.starts.astype(np.int32))
        lists = pa.ListArray.from_arrays(offsets, values.take(primitive_array(places)))
        lists = lists.cast(pa.list_(self._primitive.arguments[0].type))
        return lists if selection is None else lists.take(primitive_array(selection))

    def sums(self) -> SumState:
        """Return the states of the sum over distinct values."""
        part = self._settled()
        state = SumState(Primitive("sum", self._primitive.arguments), self._group_count)
        values = numbers_of_array(part.values(part.ids))
        state.add(Groups(part.groups(), self._group_count, len(part.ids)), (values,))
        return state

    def _add_key(self, groups: Groups, key: Key, validity: NDArray[np.bool_] | None) -> None:
        count = max(key.cardinality, 1)
        starts, distinct = distinct_pairs(groups.ids, self._group_count, key.ids, count, validity)
        if len(self._parts) >= _PARTS_MAX:
            self._parts = [self._settled()]
        self._parts.append(_Part(key, starts, distinct))

    def _settled(self) -> _Part:
        """Merge all parts into one, and return it."""
        if len(self._parts) == 1:
            return self._parts[0]
        used = [part.used() for part in self._parts]
        none = pa.nulls(0, self._primitive.arguments[0].type)
        concat = concat_texts if is_text(none.type) else pa.concat_arrays
        key = self._key_of(vector_of_array(concat([none, *(values for values, _ in used)])))
        first = np.cumsum([0, *(len(values) for values, _ in used)])
        every = [start + places for start, (_, places) in zip(first, used, strict=False)]
        ids = key.ids[np.concatenate([np.zeros(0, np.int64), *every])]
        group_ids = np.concatenate(
            [np.zeros(0, np.uint32), *(part.groups() for part in self._parts)]
        )
        self._parts = []
        self._add_key(
            Groups(group_ids, self._group_count, len(ids)),
            replace(key, ids=ids, distinct=None),
            None,
        )
        return self._parts[0]

    def _key_of(self, vector: Vector) -> Key:
        return make_key(vector, in_order=False, may_be_sparse=self._group_count == 1)
