"""DISTINCT aggregates: the set of values, or of tuples of values, of each group.

Values are ids into some list of values; count(DISTINCT a, b, ...) keeps tuples of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.count_and_sum import SumState
from projseg.aggregation.groups import group_rows
from projseg.aggregation.keys import Key, WideKey, WordValues, make_key, make_wide_key, wide_key
from projseg.aggregation.state import Groups, both_valid, valid_rows
from projseg.algebra.aggregates.primitive import Primitive
from projseg.evaluation.arrow_vectors import (
    concat_texts,
    concat_vectors,
    numbers_of_array,
    vector_of_array,
)
from projseg.kernels.distinct_keys import distinct_pairs, number_pairs
from projseg.kernels.grouping import distinct_keys, occupied_groups, ranks_of
from projseg.kernels.sorting import stable_order_by_ids
from projseg.segment_format.arrow_arrays import primitive_array, primitive_values
from projseg.segment_format.logical_types import is_text
from projseg.segment_format.vectors import Numbers, Opaque, Vector

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
        """Return the values of some ids."""
        return self.key.values_of(ids.astype(self.key.ids.dtype, copy=False)).to_arrow()

    def used(self) -> tuple[pa.Array, NDArray[Any]]:
        """Return the values that are in any set, and each id's place among them."""
        if len(self.starts) == 2:  # ids of one group are distinct
            return self.values(self.ids), np.arange(len(self.ids))
        is_used = occupied_groups(self.ids, self.key.cardinality)
        return self.values(np.flatnonzero(is_used).astype(np.uint32)), ranks_of(is_used)[self.ids]


class _Words(msgspec.Struct, frozen=True):
    """Distinct values that are words, as in `WideKey`: number i is of group `groups[i]`."""

    groups: NDArray[np.uint32]
    words: NDArray[np.uint64]
    values_of: WordValues

    @classmethod
    def distinct(
        cls, groups: NDArray[Any] | None, words: NDArray[np.uint64], values_of: WordValues
    ) -> _Words:
        """Return each word of a group once; of no `groups` all are of group 0."""
        if groups is None:
            _, words = distinct_keys(words, in_order=False)
            return cls(np.zeros(len(words), np.uint32), words, values_of)
        _, own, words = number_pairs(groups.astype(np.uint64), words)
        return cls(own.astype(np.uint32), words, values_of)

    def part(self, group_count: int) -> _Part:
        """Return the same as ids of their words."""
        words = self.words
        if group_count > 1:
            words = words[stable_order_by_ids(self.groups, group_count)]
        counts = np.bincount(self.groups, minlength=group_count)
        ids = np.arange(len(words), dtype=np.uint32)
        key = Key(ids, len(ids), lambda places: self.values_of(words[places], None))
        return _Part(key, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), ids)


class DistinctState:
    """The distinct values of each group.

    Batches are deduplicated by id, each within its own list of values. Lists are merged by value,
    several at a time. The values of a list stand in no particular order. Numbers that mostly differ
    get no ids: they are deduplicated with their groups.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._primitive = primitive
        self._group_count = group_count
        self._parts: list[_Part] = []
        self._words: list[_Words] = []

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values; nulls do not count."""
        vector = inputs[0]
        wide = wide_key(vector, near=len(vector) // max(groups.count, 1))
        if wide is not None:
            self._add_words(groups.ids, wide)
            return
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
        if self._words and not self._parts:
            counts = np.bincount(self._settled_words().groups, minlength=self._group_count)
        else:
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

    def totals(self, selection: NDArray[Any] | None) -> pa.Array:
        """Return the sums of distinct values; null of none."""
        return self.sums().finish(selection)

    def _add_words(self, groups: NDArray[Any] | None, key: WideKey) -> None:
        words = key.words
        if key.validity is not None:
            rows = np.flatnonzero(key.validity)
            words, groups = words[rows], None if groups is None else groups[rows]
        if len(self._words) >= _PARTS_MAX:
            self._settled_words()
        self._words.append(_Words.distinct(groups, words, key.values_of))

    def _settled_words(self) -> _Words:
        """Merge all words into one set, and return it."""
        if len(self._words) > 1:
            groups = np.concatenate([some.groups for some in self._words])
            words = np.concatenate([some.words for some in self._words])
            known = None if self._group_count == 1 else groups
            self._words = [_Words.distinct(known, words, self._words[0].values_of)]
        return self._words[0]

    def _add_key(self, groups: Groups, key: Key, validity: NDArray[np.bool_] | None) -> None:
        count = max(key.cardinality, 1)
        starts, distinct = distinct_pairs(groups.ids, self._group_count, key.ids, count, validity)
        if len(self._parts) >= _PARTS_MAX:
            self._parts = [self._settled()]
        self._parts.append(_Part(key, starts, distinct))

    def _settled(self) -> _Part:
        """Merge all parts into one, and return it."""
        if self._words:
            self._parts.append(self._settled_words().part(self._group_count))
            self._words = []
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
        group_key = Key(
            groups,
            self._group_count,
            lambda ids: Numbers(ids.astype(np.uint32, copy=False), pa.int64()),
        )
        keys = [make_wide_key(one, in_order=False) for one in values]
        grouped = group_rows([group_key, *keys], len(groups), in_order=False)
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


def _part_name(index: int) -> str:
    return f"values {index}"
