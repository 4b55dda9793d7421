"""Every value of each group: exact percentiles, lists of all values, and the most frequent one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.states.counted_values import CountedValues
from projseg.aggregation.states.extremum import values_of_keys
from projseg.aggregation.states.state import Groups
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import LimitExceededError
from projseg.segment_format.vectors.arrow_arrays import primitive_array
from projseg.segment_format.vectors.vectors import Vector

_ARROW_MAX: Final = (1 << 31) - 1  # items of lists, and bytes of texts, in one array


class ValuesState:
    """Every value of each group, NaN greatest, and how often it occurs."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._primitive = primitive
        self._values = CountedValues(primitive.arguments[0].type, group_count)

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

        Raises
        ------
        LimitExceededError
            PROJSEG_LIMIT_EXCEEDED, if the lists hold more than one Arrow array does.
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
