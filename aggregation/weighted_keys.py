"""Distributions of values by group: 64-bit keys in the order of the values, each with a weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.extremum import number_keys
from projseg.aggregation.state import Groups
from projseg.kernels.weighted_values import (
    Keys,
    key_order,
    keys_by_group,
    thinned_keys,
    totals_of,
)
from projseg.segment_format.arrow_arrays import primitive_array, primitive_values
from projseg.segment_format.vectors import Numbers, Opaque, Vector

_NONE: Final = np.zeros(0, np.int64)

# Keys are counted without sorting while the groups times the range of the keys are at most so many,
# or at most so many for each row.
_DENSE_PLACES_MIN: Final = 1 << 16
_DENSE_PLACES_PER_ROW: Final = 2


class WeightedKeys(msgspec.Struct, frozen=True):
    """Group i has keys[starts[i] : starts[i + 1]], ascending; weights say how often.

    A key may stand there several times, each with a part of its weight. The first and the last key
    of a group are its least and greatest; they may have weight 0.
    """

    starts: Keys
    keys: Keys
    weights: Keys

    @property
    def counts(self) -> Keys:
        """Number of keys of each group, int64[g]."""
        return np.diff(self.starts)

    @property
    def totals(self) -> Keys:
        """Total weight of each group, int64[g]."""
        return totals_of(self.starts, self.weights)

    def groups(self) -> NDArray[np.uint32]:
        """Return the group of each key."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.uint32), self.counts)

    def united(self) -> WeightedKeys:
        """Return the same with each key of a group once."""
        return weighted_rows_as_keys(self.groups(), len(self.starts) - 1, self.keys, self.weights)

    def bounds(self) -> tuple[Keys, Keys]:
        """Return the least and the greatest key of each group, int64[g]; 0 of no key."""
        if len(self.keys) == 0:
            return (np.zeros(len(self.starts) - 1, np.int64),) * 2
        last = len(self.keys) - 1
        has_keys = self.counts > 0
        least = self.keys[np.minimum(self.starts[:-1], last)]
        greatest = self.keys[np.maximum(self.starts[1:] - 1, 0)]
        return np.where(has_keys, least, 0), np.where(has_keys, greatest, 0)

    def at_ranks(self, ranks: Keys) -> Keys:
        """Return the key at a rank from 1 on of each group, int64[g]; 0 of a group without any."""
        if len(self.keys) == 0:
            return np.zeros(len(ranks), np.int64)
        through = np.cumsum(self.weights)
        before = np.concatenate([np.zeros(1, np.int64), through])[self.starts[:-1]]
        places = np.searchsorted(through, before + ranks)
        return self.keys.take(places, mode="clip")

    def rank_gaps(self, other: WeightedKeys) -> Keys:
        """Return by how many ranks two distributions of the same groups differ, int64[g]."""
        negative = WeightedKeys(other.starts, other.keys, -other.weights)
        both = joined([self, negative], len(self.starts) - 1)
        gaps = np.zeros(len(self.starts) - 1, np.int64)
        if len(both.keys):
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(both.weights)])
            apart = np.abs(before[1:] - np.repeat(before[both.starts[:-1]], both.counts))
            has_keys = both.counts > 0
            gaps[has_keys] = np.maximum.reduceat(apart, both.starts[:-1][has_keys])
        return gaps

    def thinned(self, most: int) -> tuple[Keys, Keys, NDArray[np.uint8]]:
        """Return (starts, keys, levels): at most about `most` blocks of each group's ranks."""
        totals = self.totals
        levels = np.zeros(len(totals), np.int64)
        while (is_more := totals >> levels > most).any():
            levels[is_more] += 1
        return thinned_keys(self.starts, self.keys, self.weights, totals >> levels, levels)

    def limited(self, most: int) -> WeightedKeys:
        """Return groups of more than `most` keys as blocks, and their least and greatest keys."""
        is_large = self.counts > most
        if not is_large.any():
            return self
        kept = np.repeat(~is_large, self.counts)
        rest = WeightedKeys(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(is_large, 0, self.counts))]),
            self.keys[kept],
            self.weights[kept],
        )
        least, greatest = self.bounds()
        large = np.flatnonzero(is_large)
        starts, keys, levels = self._only(is_large).thinned(most)
        ends = WeightedKeys(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(2 * is_large)]),
            np.stack([least[large], greatest[large]], axis=1).ravel(),
            np.zeros(2 * len(large), np.int64),
        )
        blocks = WeightedKeys(starts, keys, np.int64(1) << levels.astype(np.int64))
        return joined([rest, blocks, ends], len(is_large))

    def _only(self, is_kept: NDArray[np.bool_]) -> WeightedKeys:
        """Return the same groups, those not kept without keys."""
        kept = np.repeat(is_kept, self.counts)
        counts = np.where(is_kept, self.counts, 0)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return WeightedKeys(starts, self.keys[kept], self.weights[kept])

    def columns(self) -> dict[str, Vector]:
        """Return keys and weights as lists, one row for each group."""
        offsets = primitive_array(self.starts)
        lists = [
            pa.LargeListArray.from_arrays(offsets, primitive_array(values))
            for values in (self.keys, self.weights)
        ]
        return {"keys": Opaque(lists[0]), "weights": Opaque(lists[1])}


def known_keys(groups: Groups, numbers: Numbers) -> tuple[Groups, Keys]:
    """Return the rows that hold a value, and their keys."""
    keys, base = number_keys(numbers)
    if numbers.validity is not None:
        rows = np.flatnonzero(numbers.validity)
        groups, keys = taken_groups(groups, rows), keys[rows]
    return groups, keys.astype(np.int64) + base


def taken_groups(groups: Groups, rows: NDArray[np.intp]) -> Groups:
    """Return the groups of some rows."""
    ids = None if groups.ids is None else groups.ids[rows]
    return Groups(ids, groups.count, len(rows))


def rows_as_keys(groups: Groups, keys: Keys) -> WeightedKeys:
    """Return rows' keys by group, each of weight 1."""
    starts, ordered = keys_by_group(groups.ids, groups.count, keys)
    return WeightedKeys(starts, ordered, np.ones(len(ordered), np.int64))


def counted_keys(
    groups: Groups, keys: NDArray[Any], base: int, weights: Keys | None
) -> WeightedKeys:
    """Return rows' keys `base + keys[row]` by group; weights, which pass 0, say how often.

    Equal keys of a group become one where few different ones are possible, or with weights.
    """
    low, high = (int(keys.min()), int(keys.max())) if len(keys) else (0, 0)
    place_count = groups.count * (high - low + 1)
    if place_count <= max(_DENSE_PLACES_MIN, _DENSE_PLACES_PER_ROW * len(keys)):
        return _densely_counted(groups, keys, base, weights)
    wide = keys.astype(np.int64) + base
    if weights is None:
        return rows_as_keys(groups, wide)
    ids = np.zeros(len(keys), np.uint8) if groups.ids is None else groups.ids
    return weighted_rows_as_keys(ids, groups.count, wide, weights)


def _densely_counted(
    groups: Groups, keys: NDArray[Any], base: int, weights: Keys | None
) -> WeightedKeys:
    low = int(keys.min()) if len(keys) else 0
    places = keys.astype(np.int64) - low
    width = int(places.max()) + 1 if len(keys) else 1
    if groups.ids is not None:
        places += groups.ids.astype(np.int64) * width
    place_count = groups.count * width
    if weights is None:
        counts = np.bincount(places, minlength=place_count)
    else:
        counts = np.zeros(place_count, np.int64)
        np.add.at(counts, places, weights)
    found = np.flatnonzero(counts)
    group_of, offsets = np.divmod(found, width)
    starts = np.searchsorted(group_of, np.arange(groups.count + 1))
    return WeightedKeys(starts, offsets + (low + base), counts[found])


def weighted_rows_as_keys(
    group_ids: NDArray[Any], group_count: int, keys: Keys, weights: Keys
) -> WeightedKeys:
    """Return rows' keys by group; equal keys of a group become one."""
    if _are_sorted(group_ids, keys):
        ordered, counted = keys, weights
        starts = np.searchsorted(group_ids, np.arange(group_count + 1))
    else:
        starts, order = key_order(group_ids, group_count, keys)
        ordered, counted = keys[order], weights[order]
    if len(ordered) == 0:
        return WeightedKeys(starts, ordered, counted)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    is_first[starts[starts < len(ordered)]] = True
    if is_first.all():
        return WeightedKeys(starts, ordered, counted)
    firsts = np.flatnonzero(is_first)
    places = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_first)])
    return WeightedKeys(places[starts], ordered[firsts], np.add.reduceat(counted, firsts))


def _are_sorted(group_ids: NDArray[Any], keys: Keys) -> bool:
    is_next_group = group_ids[1:] > group_ids[:-1]
    is_same_group = group_ids[1:] == group_ids[:-1]
    return bool((is_next_group | (is_same_group & (keys[1:] >= keys[:-1]))).all())


def joined(parts: Sequence[WeightedKeys], group_count: int) -> WeightedKeys:
    """Return the union of several distributions of the same groups."""
    if len(parts) == 1:
        return parts[0]
    return weighted_rows_as_keys(
        np.concatenate([np.zeros(0, np.uint32), *(part.groups() for part in parts)]),
        group_count,
        np.concatenate([_NONE, *(part.keys for part in parts)]),
        np.concatenate([_NONE, *(part.weights for part in parts)]),
    )


def keys_of_columns(groups: Groups, keys: Vector, weights: Vector) -> WeightedKeys:
    """Return the keys in `WeightedKeys.columns`, row i being of group `groups.ids[i]`."""
    lists = keys.to_arrow()
    parents = primitive_values(lists.value_parent_indices())
    ids = np.zeros(len(parents), np.uint32) if groups.ids is None else groups.ids[parents]
    return weighted_rows_as_keys(
        ids,
        groups.count,
        primitive_values(lists.flatten()),
        primitive_values(weights.to_arrow().flatten()),
    )
