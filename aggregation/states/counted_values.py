"""The values of each group in ascending order, and how often each occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.extremum import has_number_keys, number_keys, values_of_keys
from projseg.aggregation.states.folded_rows import NumbersReader, both_valid, ids_of
from projseg.aggregation.states.state import Groups
from projseg.aggregation.states.weighted_keys import (
    WeightedKeys,
    counted_keys,
    joined,
    keys_of_columns,
    taken_groups,
)
from projseg.evaluation.arrow_vectors import encode_sorted, merge_values
from projseg.kernels.rows.sorting import distinct
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.layout.logical_types import numbers_to_arrow
from projseg.segment_format.vectors.vectors import Opaque, Vector

_PARTS_MAX: Final = 16  # how many batches are held before equal values of them become one

Keys = NDArray[np.int64]


class CountedValues:
    """Values of one type by group, as keys with weights.

    The key of a number is a number of the same order; that of any other value is its id in a sorted
    dictionary.

    Parameters
    ----------
    value_type : pa.DataType
        The type of the values, not nested.
    group_count : int
        Number of groups.
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
            keys = Opaque(pa.LargeListArray.from_arrays(lists.offsets, ids))
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
