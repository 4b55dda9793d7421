"""KLL sketches of quantiles: kll_sketch_agg_*(x) as bytes, approx_percentile(x, p) from them.

Of n values a sketch of parameter k cuts the ranks into blocks of 2^h, the least power of two of
which there are at most k, and keeps the value in the middle of each block; what is left over is cut
into smaller blocks. So no rank is wrong by n / k, and up to k values are all kept. Apache
DataSketches draws values at random instead, and states that 99 in 100 ranks are right to 2.3 n / k.

States in memory keep `_IN_MEMORY` times as many blocks of each batch of rows, and merging leaves
all blocks as they are. So a rank is wrong by at most

- n / (4 k) from base rows,
- 5 n / (4 k) from stored sketches, or from these and base rows,
- n / k more in a sketch that is written from several: 2.25 n / k.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.aggregation.extremum import values_of_keys
from projseg.aggregation.state import Groups, NumbersReader
from projseg.aggregation.weighted_keys import (
    WeightedKeys,
    joined,
    keys_of_columns,
    known_keys,
    rows_as_keys,
    taken_groups,
    weighted_rows_as_keys,
)
from projseg.algebra.aggregates.primitive import Primitive
from projseg.errors import CorruptSegmentError
from projseg.kernels.sketches.kll_bytes import kll_bytes, parse_klls
from projseg.kernels.sorting import float_order_keys
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.logical_types import numbers_to_arrow
from projseg.segment_format.vectors import Numbers, Opaque, Vector

_IN_MEMORY: Final = 4  # times k, of one batch of rows
_NAN: Final = int(float_order_keys(np.array([np.nan]))[0])


class KllState:
    """The distribution of each group's values, and how many of them are NaN."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self.size = cast(int, primitive.parameters[0])
        self._type = primitive.arguments[0].type
        self._item = 4 if self._type == pa.float32() else 8
        self._group_count = group_count
        self._nan_counts = np.zeros(group_count, np.int64)
        self._parts: list[WeightedKeys] = []
        self._reader = NumbersReader()

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold values in; nulls do not count, and NaN are counted apart."""
        groups, keys = known_keys(groups, self._reader.read(inputs[0]))
        if pa.types.is_floating(self._type):
            groups, keys = self._without_nan(groups, keys)
        self._parts.append(rows_as_keys(groups, keys).limited(_IN_MEMORY * self.size))

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold sketches in; they may have a greater k.

        Raises CorruptSegmentError if a sketch is malformed or of a smaller k.
        """
        nan_counts = self._reader.read(columns["nan_count"]).wide()
        if groups.ids is None:
            self._nan_counts[0] += nan_counts.sum()
        else:
            np.add.at(self._nan_counts, groups.ids, nan_counts)
        if "keys" in columns:
            part = keys_of_columns(groups, columns["keys"], columns["weights"])
        else:
            part = self._stored(groups, columns["sketch"].to_arrow())
        self._parts.append(part)

    def columns(self) -> dict[str, Vector]:
        """Return the sketches and the numbers of NaN; the distributions merge more exactly."""
        return {
            "sketch": Opaque(self.finish()),
            "nan_count": Numbers(self._nan_counts, pa.int64()),
            **self.distribution().columns(),
        }

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the sketches as bytes; an empty sketch of no value."""
        settled = self.distribution()
        starts, keys, levels = settled.thinned(self.size)
        least, greatest = map(self._words, settled.bounds())
        offsets, content = kll_bytes(
            starts, self._words(keys), levels, (least, greatest), self._item, self.size
        )
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        sketches = pa.Array.from_buffers(pa.binary(), self._group_count, buffers)
        return sketches if selection is None else sketches.take(primitive_array(selection))

    def distribution(self) -> WeightedKeys:
        """Return the values as keys, NaN left out."""
        if len(self._parts) != 1:
            self._parts = [joined(self._parts, self._group_count)]
        return self._parts[0]

    def percentiles(self, shares: Sequence[float], selection: NDArray[Any] | None) -> pa.Array:
        """Return the value at each share of each group, group by group; NaN is the greatest.

        A share's value is the least of which at least that share of all values are at most as
        great; null of no value.
        """
        settled = self.distribution()
        totals = settled.totals
        every = totals + self._nan_counts
        least, greatest = settled.bounds()
        columns = []
        for share in shares:
            ranks = np.clip(np.ceil(share * every).astype(np.int64), 1, None)
            keys = settled.at_ranks(np.minimum(ranks, np.maximum(totals, 1)))
            keys = np.where(ranks == 1, least, np.where(ranks == totals, greatest, keys))
            columns.append(np.where(ranks > totals, _NAN, keys))
        table = np.stack(columns, axis=1)
        valid = np.repeat(every[:, None] > 0, len(shares), axis=1)
        if selection is not None:
            table, valid = table[selection], valid[selection]
        keys, validity = table.ravel(), valid.ravel()
        values = values_of_keys(np.where(validity, keys, 0), self._type)
        return numbers_to_arrow(values, self._type, validity)

    def _without_nan(
        self, groups: Groups, keys: NDArray[np.int64]
    ) -> tuple[Groups, NDArray[np.int64]]:
        is_nan = keys == _NAN
        if not is_nan.any():
            return groups, keys
        if groups.ids is None:
            self._nan_counts[0] += np.count_nonzero(is_nan)
        else:
            np.add.at(self._nan_counts, groups.ids[is_nan], 1)
        rows = np.flatnonzero(~is_nan)
        return taken_groups(groups, rows), keys[rows]

    def _stored(self, groups: Groups, sketches: pa.Array) -> WeightedKeys:
        offsets, content = text_parts(sketches)
        starts, words, weights = parse_klls(offsets, content, self._item, self.size)
        keys = self._keys(words)
        counts = np.diff(starts)
        _check_bounds(keys, counts)
        row_groups = np.zeros(len(counts), np.uint32) if groups.ids is None else groups.ids
        return weighted_rows_as_keys(
            np.repeat(row_groups, counts), self._group_count, keys, weights
        )

    def _words(self, keys: NDArray[np.int64]) -> NDArray[Any]:
        values = values_of_keys(keys, self._type)
        if self._item == 4:
            return values.view(np.uint32).astype(np.uint64)
        return values.view(np.uint64)

    def _keys(self, words: NDArray[Any]) -> NDArray[np.int64]:
        if not pa.types.is_floating(self._type):
            return words.view(np.int64)
        is_narrow = self._item == 4
        values = words.astype(np.uint32).view(np.float32) if is_narrow else words.view(np.float64)
        if np.isnan(values).any():
            raise CorruptSegmentError("PROJSEG_CORRUPT_SEGMENT", "a KLL sketch holds a NaN")
        return float_order_keys(values)


def _check_bounds(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    """Check that no key of a sketch lies beyond its first and its last."""
    counts = counts[counts > 0]
    if len(counts) == 0:
        return
    starts = np.cumsum(counts) - counts
    least, greatest = np.minimum.reduceat(keys, starts), np.maximum.reduceat(keys, starts)
    lasts = starts + counts - 1
    if (least != keys[starts]).any() or (greatest != keys[lasts]).any():
        raise CorruptSegmentError(
            "PROJSEG_CORRUPT_SEGMENT", "a KLL sketch holds a value beyond its least and greatest"
        )


def sketches_apart(
    primitive: Primitive, group_count: int, first: Mapping[str, Vector], other: Mapping[str, Vector]
) -> Iterator[tuple[int, int, int]]:
    """Yield (group, ranks, allowed) where two states tell ranks further apart than they may.

    `first` has the columns of a stored state, `other` those of one folded from rows. Raises
    CorruptSegmentError if a sketch is malformed.
    """
    groups = Groups(np.arange(group_count, dtype=np.uint32), group_count, group_count)
    states = [KllState(primitive, group_count) for _ in range(2)]
    for state, columns in zip(states, (first, other), strict=True):
        state.merge(groups, columns)
    left, right = (state.distribution() for state in states)
    totals = right.totals
    allowed = np.where(totals > states[0].size, 5 * totals // (4 * states[0].size) + 1, 0)
    gaps = left.rank_gaps(right)
    for own, others in zip((left.totals, *left.bounds()), (totals, *right.bounds()), strict=True):
        gaps = np.where(own == others, gaps, np.maximum(gaps, allowed + 1))
    for group in np.flatnonzero(gaps > allowed).tolist():
        yield group, int(gaps[group]), int(allowed[group])
