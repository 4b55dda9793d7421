"""HyperLogLog sketches: hll_sketch_agg(x) as bytes, approx_count_distinct(x) as their estimate.

What a sketch holds is a function of the set of values alone: coupons while they are few, registers
(the largest rank at each address) beyond `coupon_count_max`. So base rows, projections and merges
in any order make the same bytes and the same estimate. As in Spark, null and the empty text count
as no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregators.hashes import hashes_of
from projseg.algebra.aggregators.primitive import Groups, Primitive
from projseg.kernels.hll_bytes import (
    coupons_of_sketches,
    fold_sketch_registers,
    parse_sketches,
    sketch_bytes,
)
from projseg.kernels.hll_coupons import (
    bucket_coupons,
    coupon_count_max,
    fold_buckets,
    fold_into_registers,
    fold_into_sets,
    merged_pairs,
    pair_starts,
    pairs_of_buckets,
    set_slots,
)
from projseg.kernels.hll_estimate import coupon_estimates, register_estimates
from projseg.segment_format.encodings.text import text_parts
from projseg.segment_format.vectors import Opaque, Vector

_SET_BYTES_MAX: Final = 1 << 19  # of one hash set for each group, in the second-level cache
_HALF: Final = np.uint64(32)


class HllState:
    """Coupons of groups with few values, registers of the others.

    `pairs` are `group << 32 | coupon`, ascending and distinct, of groups without registers;
    `slots` gives each group's row of `registers`, -1 for none.
    """

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._lg_k = cast(int, primitive.parameters[0])
        self._group_count = group_count
        self._pairs = np.zeros(0, np.uint64)
        self._slots = np.full(group_count, -1, np.int32)
        self._registers = np.zeros((0, 1 << self._lg_k), np.uint8)

    @staticmethod
    def fields(primitive: Primitive) -> tuple[tuple[str, pa.DataType], ...]:
        """Return the stored column: the sketch's bytes."""
        del primitive
        return (("sketch", pa.binary()),)

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold values in."""
        value_ids, hashes = hashes_of(inputs[0])
        coupons = (hashes >> _HALF).astype(np.uint32)
        if self._group_count * set_slots(self._lg_k) * 4 <= _SET_BYTES_MAX:
            self._add_by_sets(groups, value_ids, coupons)
        else:
            self._add_by_buckets(groups.ids, value_ids, coupons)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold sketches in; those of a higher lgK are folded down.

        Raises
        ------
        CorruptSegmentError
            If a sketch is malformed or of a lower lgK.
        """
        offsets, content = text_parts(columns["sketch"].to_arrow())
        modes, counts = parse_sketches(offsets, content, self._lg_k)
        ids = np.zeros(len(modes), np.uint32) if groups.ids is None else groups.ids
        ids = ids.astype(np.uint32)
        self._promote(np.unique(ids[modes == 2]))
        fold_sketch_registers(
            offsets, content, modes, self._slots[ids].astype(np.int64), self._registers
        )
        coupons = coupons_of_sketches(offsets, content, modes, counts)
        self._add_by_buckets(np.repeat(ids, counts), None, coupons)

    def columns(self) -> dict[str, Vector]:
        """Return the sketches; an empty sketch where there was no value."""
        return {"sketch": Opaque(self.finish())}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the sketches as bytes."""
        offsets, content = sketch_bytes(
            self._starts(), self._pairs, self._slots, self._registers, self._lg_k
        )
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        sketches = pa.Array.from_buffers(pa.binary(), self._group_count, buffers)
        return sketches if selection is None else sketches.take(pa.array(selection))

    def estimates(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the estimated numbers of distinct values, rounded: int64."""
        estimates = coupon_estimates(np.diff(self._starts()))
        chosen = np.arange(self._group_count) if selection is None else selection
        large = chosen[self._slots[chosen] >= 0]
        estimates[large] = register_estimates(self._registers[self._slots[large]])
        return pa.array(np.rint(estimates[chosen]).astype(np.int64))

    def _starts(self) -> NDArray[np.int64]:
        return pair_starts(self._pairs, self._group_count)

    def _add_by_buckets(
        self,
        group_ids: NDArray[Any] | None,
        value_ids: NDArray[Any] | None,
        coupons: NDArray[np.uint32],
    ) -> None:
        buckets = bucket_coupons(self._slots, group_ids, value_ids, coupons, self._lg_k)
        self._promote(np.flatnonzero(buckets.counts < 0))
        fold_buckets(self._registers, self._slots, buckets)
        self._add_pairs(pairs_of_buckets(buckets))

    def _add_by_sets(
        self, groups: Groups, value_ids: NDArray[Any] | None, coupons: NDArray[np.uint32]
    ) -> None:
        sets = np.zeros((self._group_count, set_slots(self._lg_k)), np.uint32)
        counts = np.where(self._slots >= 0, -1, 0).astype(np.int32)
        registers = np.zeros((self._group_count, 1 << self._lg_k), np.uint8)
        fold_into_sets(sets, counts, registers, groups.ids, value_ids, coupons, self._lg_k)
        grown = np.flatnonzero(counts < 0)
        self._promote(grown)
        rows = self._slots[grown]
        self._registers[rows] = np.maximum(self._registers[rows], registers[grown])
        held, place = np.nonzero(sets)
        self._add_pairs(np.sort(held.astype(np.uint64) << _HALF | sets[held, place]))

    def _add_pairs(self, pairs: NDArray[np.uint64]) -> None:
        """Fold in distinct, ascending pairs, and give registers to groups that grow too large."""
        pairs = fold_into_registers(self._registers, self._slots, pairs)
        self._pairs = merged_pairs(self._pairs, pairs)
        is_large = np.diff(self._starts()) > coupon_count_max(self._lg_k)
        self._promote(np.flatnonzero(is_large))

    def _promote(self, groups: NDArray[Any]) -> None:
        """Give registers to those of `groups` that have none, and move their pairs there."""
        groups = groups[self._slots[groups] < 0]
        if len(groups) == 0:
            return
        added = np.zeros((len(groups), 1 << self._lg_k), np.uint8)
        self._slots[groups] = np.arange(len(groups)) + len(self._registers)
        self._registers = np.concatenate([self._registers, added])
        self._pairs = fold_into_registers(self._registers, self._slots, self._pairs)
