"""Every value of each group: exact percentiles, lists of all values, and the most frequent one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.extremum import has_number_keys, number_keys, values_of_keys
from projseg.aggregation.state import Groups, NumbersReader, both_valid, ids_of
from projseg.aggregation.weighted_keys import (
    WeightedKeys,
    counted_keys,
    joined,
    keys_of_columns,
    taken_groups,
)
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import LimitExceededError
from projseg.evaluation.arrow_vectors import encode_sorted, merge_values
from projseg.kernels.sorting import distinct
from projseg.segment_format.arrow_arrays import primitive_array, primitive_values
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.logical_types import numbers_to_arrow
from projseg.segment_format.vectors import Opaque, Vector

_PARTS_MAX: Final = 16  # how many batches are held before equal values of them become one

Keys = NDArray[np.int64]


class _CountedValues:
    """Values of one type, not nested, by group, as keys with weights.

    The key of a number is a number of the same order; that of any other value is its id in a sorted
    dictionary.
    """

    def __init__(self, value_type: pa.DataType, group_count: int) -> None:
        self.type = value_type
        self._group_count = group_count
        self._is_number = has_number_keys(value_type)
        self._no_value = Dictionary(pa.nulls(0, value_type))
        self._parts: list[tuple[Dictionary, WeightedKeys]] = []
        self._reader = NumbersReader()

    def add(self, groups: Groups, vector: Vector, weights: Keys | None = None) -> None:
        """Add values, each `weights[row]` times or once; nulls do not count."""
        dictionary, base = self._no_value, 0
        keys: NDArray[Any]
        if self._is_number:
            numbers = self._reader.read(vector)
            (keys, base), validity = number_keys(numbers), numbers.validity
        else:
            ids = ids_of(vector)
            dictionary, keys = ids.dictionary, ids.ids
            validity = keys != 0 if dictionary.has_null else None
        counts = both_valid(validity, None if weights is None else weights > 0)
        if counts is not None:
            rows = np.flatnonzero(counts)
            groups, keys = taken_groups(groups, rows), keys[rows]
            weights = None if weights is None else weights[rows]
        self._hold(dictionary, counted_keys(groups, keys, base, weights))

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add the `columns` of other values."""
        dictionary, keys = self._no_value, columns["keys"]
        if not self._is_number:
            lists = keys.to_arrow()
            encoded = encode_sorted(lists.flatten())
            dictionary, ids = encoded.dictionary, pa.array(encoded.ids.astype(np.int64))
            offsets = primitive_values(lists.offsets)  # of a slice they begin above 0
            keys = Opaque(pa.LargeListArray.from_arrays(primitive_array(offsets - offsets[0]), ids))
        self._hold(dictionary, keys_of_columns(groups, keys, columns["weights"]))

    def columns(self) -> dict[str, Vector]:
        """Return keys of numbers, or the values themselves, and weights; a list for each group."""
        dictionary, settled = self.settled()
        columns = settled.columns()
        if not self._is_number:
            values = dictionary.values_of(settled.keys.astype(dictionary.id_dtype))
            offsets = columns["keys"].to_arrow().offsets
            columns["keys"] = Opaque(pa.LargeListArray.from_arrays(offsets, values))
        return columns

    def keys(self) -> WeightedKeys:
        """Return all values of numbers as keys."""
        assert self._is_number, "keys of other values mean nothing by themselves"
        return self.settled()[1]

    def values_of(
        self, dictionary: Dictionary, keys: Keys, validity: NDArray[np.bool_] | None = None
    ) -> pa.Array:
        """Return the values of keys, null where `validity` is false; the key is 0 there."""
        if self._is_number:
            return numbers_to_arrow(values_of_keys(keys, self.type), self.type, validity)
        if validity is None:
            return dictionary.values_of(keys.astype(dictionary.id_dtype))
        return dictionary.values.take(pa.array(keys, mask=~validity))

    def settled(self) -> tuple[Dictionary, WeightedKeys]:
        """Return what the keys are ids in, where they are, and all keys."""
        if not self._parts:
            self._parts = [(self._no_value, joined([], self._group_count))]
        elif len(self._parts) > 1:
            dictionary, parts = self._united()
            self._parts = [(dictionary, joined(parts, self._group_count))]
        return self._parts[0]

    def _hold(self, dictionary: Dictionary, part: WeightedKeys) -> None:
        self._parts.append((dictionary, part))
        if len(self._parts) > _PARTS_MAX:
            self.settled()

    def _united(self) -> tuple[Dictionary, list[WeightedKeys]]:
        """Bring the keys of all parts to one dictionary."""
        first = self._parts[0][0]
        if all(dictionary is first for dictionary, _ in self._parts):
            return first, [part for _, part in self._parts]
        used = [distinct(part.keys) for _, part in self._parts]
        values = [
            dictionary.values_of(ids.astype(dictionary.id_dtype))
            for (dictionary, _), ids in zip(self._parts, used, strict=True)
        ]
        dictionary, ranks = merge_values(values)
        parts = [
            WeightedKeys(
                part.starts,
                ids_united[np.searchsorted(ids, part.keys)].astype(np.int64),
                part.weights,
            )
            for (_, part), ids, ids_united in zip(self._parts, used, ranks, strict=True)
        ]
        return dictionary, parts


_ARROW_MAX: Final = (1 << 31) - 1  # items of lists, and bytes of texts, in one array


class ValuesState:
    """Every value of each group, NaN greatest, and how often it occurs."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._primitive = primitive
        self._values = _CountedValues(primitive.arguments[0].type, group_count)

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Add values; nulls do not count."""
        self._values.add(groups, inputs[0])

    def add_weighted(
        self, groups: Groups, inputs: Sequence[Vector], weights: NDArray[np.int64]
    ) -> None:
        """Add values, row i of them `weights[i]` times."""
        self._values.add(groups, inputs[0], weights)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Add values to values."""
        self._values.merge(groups, columns)

    def columns(self) -> dict[str, Vector]:
        """Return the values and how often they occur; none is stored."""
        return self._values.columns()

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the most frequent value of each group, the least of several; null of no value."""
        dictionary, settled = self._values.settled()
        settled = settled.united()
        has_values = settled.counts > 0
        most = np.zeros(len(has_values), np.int64)
        most[has_values] = np.maximum.reduceat(settled.weights, settled.starts[:-1][has_values])
        groups = settled.groups()
        places = np.flatnonzero(settled.weights == most[groups])
        _, firsts = np.unique(groups[places], return_index=True)
        keys = np.zeros(len(has_values), np.int64)
        keys[has_values] = settled.keys[places[firsts]]
        if selection is not None:
            keys, has_values = keys[selection], has_values[selection]
        validity = None if has_values.all() else has_values
        return self._values.values_of(dictionary, keys, validity)

    def lists(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return all values of each group, ascending; an empty list of no value.

        Raises LimitExceededError if the lists hold more than one Arrow array does.
        """
        dictionary, settled = self._values.settled()
        counts, totals = settled.counts, settled.totals
        keys, weights = settled.keys, settled.weights
        if selection is not None:
            counts, totals = counts[selection], totals[selection]
            before = np.cumsum(counts) - counts
            places = np.repeat(settled.starts[:-1][selection] - before, counts)
            places += np.arange(len(places))
            keys, weights = keys[places], weights[places]
        self._check_size("values", int(totals.sum()))
        if len(dictionary):
            sizes = dictionary.value_sizes
            self._check_size("bytes", int(sizes[keys] @ weights) if len(sizes) else 0)
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(totals, dtype=np.int32)])
        values = self._values.values_of(dictionary, np.repeat(keys, weights))
        return pa.ListArray.from_arrays(primitive_array(offsets), values)

    def interpolated(self, shares: Sequence[float], selection: NDArray[Any] | None) -> pa.Array:
        """Return percentiles between the two values next to each, group by group, as doubles."""
        totals = self._values.keys().totals
        columns = []
        for share in shares:
            places = share * np.maximum(totals - 1, 0)
            low, high = np.floor(places), np.ceil(places)
            below, above = self._at(low), self._at(high)
            with np.errstate(invalid="ignore"):
                between = (high - places) * below + (places - low) * above
            columns.append(np.where((low == high) | (below == above), below, between))
        return self._chosen(columns, selection)

    def discrete(self, shares: Sequence[float], selection: NDArray[Any] | None) -> pa.Array:
        """Return the least values that a share of all are at most as great as, as doubles."""
        totals = self._values.keys().totals
        ranks = [np.maximum(np.ceil(share * totals), 1) for share in shares]
        return self._chosen([self._at(rank - 1) for rank in ranks], selection)

    def _at(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value at a place from 0 on of each group."""
        value_type = self._values.type
        keys = self._values.keys().at_ranks(places.astype(np.int64) + 1)
        values = values_of_keys(keys, value_type).astype(np.float64)
        return values / 10.0**value_type.scale if pa.types.is_decimal(value_type) else values

    def _chosen(
        self, columns: list[NDArray[np.float64]], selection: NDArray[Any] | None
    ) -> pa.Array:
        table = np.stack(columns, axis=1)
        has_values = self._values.keys().totals[:, None] > 0
        valid = np.repeat(has_values, len(columns), axis=1)
        if selection is not None:
            table, valid = table[selection], valid[selection]
        return primitive_array(table.ravel(), valid.ravel())

    def _check_size(self, what: str, found: int) -> None:
        if found > _ARROW_MAX:
            raise LimitExceededError(
                "PROJSEG_LIMIT_EXCEEDED",
                f"all {self._primitive.text} of the answer are {found} {what}, more than "
                f"{_ARROW_MAX}; filter rows, ask for fewer groups, or collect_set",
            )
