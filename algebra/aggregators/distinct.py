"""DISTINCT aggregates: the set of values of each group, as (group, dictionary id) pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregators.inputs import ids_of, union, valid_rows
from projseg.algebra.aggregators.primitive import Groups, Primitive
from projseg.algebra.aggregators.sum import SumState
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Ids, Opaque, Vector

_MARKS_MAX: Final = 1 << 26  # bytes of a (group, id) table; larger products are sorted instead
_PARTS_MAX: Final = 16

Pairs = NDArray[np.uint64]


class DistinctState:
    """The distinct values of each group.

    Pairs are packed as `group << 32 | id`, ascending and unique within one dictionary; several
    dictionaries are brought together by value.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._primitive = primitive
        self._group_count = group_count
        self._parts: list[tuple[Dictionary, Pairs]] = []

    @staticmethod
    def fields(primitive: Primitive) -> tuple[tuple[str, pa.DataType], ...]:
        """Return the stored column: an array of the distinct values."""
        return (("values", pa.list_(primitive.arguments[0].type)),)

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values; nulls do not count."""
        ids = ids_of(inputs[0])
        group_ids = np.zeros(len(ids), np.uint8) if groups.ids is None else groups.ids
        value_ids = ids.ids
        if (validity := valid_rows(ids)) is not None:
            group_ids, value_ids = group_ids[validity], value_ids[validity]
        pairs = _distinct_pairs(group_ids, value_ids, self._group_count, len(ids.dictionary))
        self._add_pairs(ids.dictionary, pairs)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add sets to sets."""
        lists = columns["values"].to_arrow()
        parents = np.asarray(lists.value_parent_indices())
        ids = np.zeros(len(parents), np.uint8) if groups.ids is None else groups.ids[parents]
        self.add(Groups(ids, groups.count, len(parents)), (Opaque(lists.flatten()),))

    def columns(self) -> dict[str, Vector]:
        """Return the values of each group, ascending."""
        groups, values = self._pairs()
        offsets = np.searchsorted(groups, np.arange(self._group_count + 1)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), values.to_arrow())
        return {"values": Opaque(lists.cast(self.fields(self._primitive)[0][1]))}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the number of distinct values."""
        groups, _ = self._pairs()
        counts = np.bincount(groups, minlength=self._group_count).astype(np.int64)
        return pa.array(counts if selection is None else counts[selection])

    def sums(self) -> SumState:
        """Return the states of the sum over distinct values."""
        groups, values = self._pairs()
        primitive = Primitive("sum", self._primitive.arguments)
        state = SumState(primitive, self._group_count)
        state.add(Groups(groups, self._group_count, len(groups)), (values,))
        return state

    def _pairs(self) -> tuple[NDArray[np.uint32], Ids]:
        """Return the group and the value of each pair, ascending by both."""
        self._settle()
        dictionary, pairs = self._parts[0]
        groups = (pairs >> np.uint64(32)).astype(np.uint32)
        return groups, Ids((pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32), dictionary)

    def _add_pairs(self, dictionary: Dictionary, pairs: Pairs) -> None:
        for index, (known, others) in enumerate(self._parts):
            if known is dictionary:
                self._parts[index] = (known, np.union1d(others, pairs))
                return
        if len(self._parts) >= _PARTS_MAX:
            self._settle()
        self._parts.append((dictionary, pairs))

    def _settle(self) -> None:
        if len(self._parts) == 1:
            return
        columns = [
            Ids((pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32), dictionary)
            for dictionary, pairs in self._parts
        ]
        used = [np.unique(column.ids, return_inverse=True) for column in columns]
        values = [
            column.dictionary.values.take(pa.array(ids))
            for column, (ids, _) in zip(columns, used, strict=True)
        ]
        value_type = self._primitive.arguments[0].type
        dictionary, ranks = union([pa.nulls(0, value_type), *values])
        pairs = [
            pairs >> np.uint64(32) << np.uint64(32) | ids_united[inverse].astype(np.uint64)
            for (_, pairs), (_, inverse), ids_united in zip(
                self._parts, used, ranks[1:], strict=True
            )
        ]
        united = np.unique(np.concatenate([np.zeros(0, np.uint64), *pairs]))
        self._parts = [(dictionary, united)]


def _distinct_pairs(
    groups: NDArray[Any], ids: NDArray[Any], group_count: int, cardinality: int
) -> Pairs:
    if group_count * cardinality <= min(_MARKS_MAX, 8 * len(ids)):
        marks = np.zeros(group_count * cardinality, np.bool_)
        marks[groups.astype(np.int64) * cardinality + ids] = True
        found = np.flatnonzero(marks).astype(np.uint64)
        width = np.uint64(cardinality)
        return found // width << np.uint64(32) | found % width
    packed = groups.astype(np.uint64) << np.uint64(32) | ids
    return np.unique(packed)
