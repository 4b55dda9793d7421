"""count(DISTINCT a, b, ...): the set of tuples of values of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.groups import group_rows
from projseg.aggregation.keys import Key, make_key
from projseg.aggregation.states.state import Groups, both_valid, valid_rows
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import concat_vectors, vector_of_array
from projseg.segment_format.vectors.arrow_arrays import primitive_array, primitive_values
from projseg.segment_format.vectors.vectors import Numbers, Opaque, Vector

_PARTS_MAX: Final = 16  # how many batches are held before equal tuples of them become one


class _Tuples(msgspec.Struct, frozen=True):
    """Tuple i is of group `groups[i]` and has row i of each vector."""

    groups: NDArray[np.uint32]
    values: tuple[Vector, ...]


class TuplesState:
    """The distinct tuples of each group; of those with a null there is none.

    Batches are deduplicated as rows are grouped, by the group and the values. Deduplicated batches
    are brought together the same way, several at a time.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._types = [argument.type for argument in primitive.arguments]
        self._group_count = group_count
        self._parts: list[_Tuples] = []

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add tuples of values; one with a null does not count."""
        ids = np.zeros(groups.row_count, np.uint8) if groups.ids is None else groups.ids
        self._hold(self._distinct(ids, inputs))

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add sets to sets."""
        lists = [columns[_part_name(i)].to_arrow() for i in range(len(self._types))]
        parents = primitive_values(lists[0].value_parent_indices())
        ids = np.zeros(len(parents), np.uint8) if groups.ids is None else groups.ids[parents]
        values = [vector_of_array(one.flatten()) for one in lists]
        self._hold(self._distinct(ids, values))

    def columns(self) -> dict[str, Vector]:
        """Return a list of values for each argument: the tuples of a group, in no order."""
        part = self._settled()
        order = np.argsort(part.groups, kind="stable")
        offsets = np.zeros(self._group_count + 1, np.int32)
        np.cumsum(self._counts(part), out=offsets[1:])
        return {
            _part_name(i): Opaque(
                pa.ListArray.from_arrays(primitive_array(offsets), values.take(order).to_arrow())
            )
            for i, values in enumerate(part.values)
        }

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the number of distinct tuples."""
        counts = self._counts(self._settled())
        return primitive_array(counts if selection is None else counts[selection])

    def _counts(self, part: _Tuples) -> NDArray[np.int64]:
        return np.bincount(part.groups, minlength=self._group_count)

    def _distinct(self, groups: NDArray[Any], values: Sequence[Vector]) -> _Tuples:
        """Return each tuple once, without those that have a null."""
        keys = [_group_key(groups, self._group_count), *map(make_key, values)]
        grouped = group_rows(keys, len(groups), in_order=False)
        group, *distinct = grouped.key_vectors(grouped.occupied())
        assert isinstance(group, Numbers)
        is_whole = None
        for vector in distinct:
            is_whole = both_valid(is_whole, valid_rows(vector))
        if is_whole is not None:
            rows = np.flatnonzero(is_whole)
            group, distinct = group.take(rows), [vector.take(rows) for vector in distinct]
        return _Tuples(group.values, tuple(distinct))

    def _hold(self, part: _Tuples) -> None:
        self._parts.append(part)
        if len(self._parts) > _PARTS_MAX:
            self._settled()

    def _settled(self) -> _Tuples:
        """Bring all parts together into one, and return it."""
        if not self._parts:
            none = tuple(vector_of_array(pa.nulls(0, one)) for one in self._types)
            self._parts = [_Tuples(np.zeros(0, np.uint32), none)]
        if len(self._parts) > 1:
            groups = np.concatenate([part.groups for part in self._parts])
            columns = zip(*(part.values for part in self._parts), strict=True)
            self._parts = [self._distinct(groups, [concat_vectors(one) for one in columns])]
        return self._parts[0]


def _group_key(groups: NDArray[Any], group_count: int) -> Key:
    return Key(
        groups, group_count, lambda ids: Numbers(ids.astype(np.uint32, copy=False), pa.int64())
    )


def _part_name(index: int) -> str:
    return f"values {index}"
