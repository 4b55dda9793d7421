"""HyperLogLog and theta sketches, and the hashes that they fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.aggregation.state import Groups, valid_rows
from projseg.algebra.aggregates.primitive import Primitive
from projseg.kernels.sketches.hll_bytes import (
    coupons_of_sketches,
    fold_sketch_registers,
    parse_sketches,
    sketch_bytes,
)
from projseg.kernels.sketches.hll_coupons import (
    bucket_coupons,
    coupon_count_max,
    merged_pairs,
    pair_starts,
    pairs_of_buckets,
)
from projseg.kernels.sketches.hll_registers import (
    coupon_estimates,
    fold_buckets,
    fold_pairs,
    fold_rows,
    occupied_counts,
    register_estimates,
)
from projseg.kernels.sketches.sketch_rows import (
    THETA_MAX,
    CouponRows,
    bucket_hashes,
    distinct_rows,
    merge_smallest,
)
from projseg.kernels.sketches.theta_bytes import parse_thetas, theta_bytes
from projseg.kernels.sketches.value_hash import theta_hash_bytes, theta_hash_int64
from projseg.kernels.sorting import distinct, plain_doubles
from projseg.segment_format.arrow_arrays import filled_values, primitive_array
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import NULL_HASH, dictionary_hashes
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.logical_types import arrow_to_numbers, is_text
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

# Hash rows for sketches, once for each dictionary value where there is a dictionary.
#
# Null and the empty text hash to 0, which sketches leave out, as the DataSketches library leaves
# out both values.

_ValueHashes = NDArray[np.uint64]
_ValueIds = NDArray[np.unsignedinteger[Any]] | None

_TABLE_SHARE_MIN: Final = 4  # rows for each value of a narrow type: hash all its values

_NULL: Final = np.uint64(NULL_HASH)


def hashes_of(vector: Vector) -> tuple[_ValueIds, _ValueHashes]:
    """Return (value ids, value hashes): row i has `hashes[value_ids[i]]`; no ids: `hashes[i]`.

    There are never more hashes than rows where those come from a dictionary.
    """
    return _hashes_of(vector, dictionary_hashes)


def _theta_hashes_of(vector: Vector) -> tuple[_ValueIds, _ValueHashes]:
    """Return (value ids, theta hashes), as `hashes_of` does."""
    return _hashes_of(vector, _dictionary_theta_hashes)


def _dictionary_theta_hashes(dictionary: Dictionary) -> _ValueHashes:
    return dictionary.memo(
        ("theta hashes",),
        lambda: _theta_hashes_of_values(dictionary.values),
        lambda hashes: hashes.nbytes,
    )


def _theta_hashes_of_values(values: pa.Array) -> _ValueHashes:
    if is_text(values.type):
        return theta_hash_bytes(*text_parts(values))
    numbers, validity = arrow_to_numbers(values)
    if numbers.dtype.kind == "f":
        numbers = plain_doubles(numbers).view(np.int64)
    hashes = theta_hash_int64(numbers.astype(np.int64, copy=False))
    return hashes if validity is None else np.where(validity, hashes, _NULL)


def _hashes_of(
    vector: Vector, of_dictionary: Callable[[Dictionary], _ValueHashes]
) -> tuple[_ValueIds, _ValueHashes]:
    if isinstance(vector, Ids):
        hashes = _hashes_by_id(vector.dictionary, of_dictionary)
        if len(vector.ids) < len(hashes):
            return None, hashes[vector.ids]
        return vector.ids, hashes
    if isinstance(vector, Numbers) and _is_dense(vector):
        domain = np.arange(np.iinfo(vector.values.dtype).max + 1, dtype=vector.values.dtype)
        _, hashes = _hashes_of(Numbers(domain, vector.type, vector.base), of_dictionary)
        if vector.validity is None:
            return vector.values, hashes
        none = np.uint32(len(domain))
        return np.where(vector.validity, vector.values, none), np.append(hashes, _NULL)
    hashes = _hashes_by_row(vector.to_arrow(), of_dictionary)
    if (validity := valid_rows(vector)) is not None:
        hashes = np.where(validity, hashes, _NULL)
    return None, hashes


def _is_dense(numbers: Numbers) -> bool:
    dtype = numbers.values.dtype
    if dtype not in (np.uint8, np.uint16):
        return False
    values_fit = numbers.base + int(np.iinfo(dtype).max) <= _largest(numbers.type)
    return values_fit and len(numbers) >= _TABLE_SHARE_MIN * (np.iinfo(dtype).max + 1)


def _largest(value_type: pa.DataType) -> int:
    """Return the largest physical integer of a fixed-width type."""
    if pa.types.is_boolean(value_type):
        return 1
    if pa.types.is_decimal(value_type):
        return int(10**value_type.precision) - 1
    return (1 << (int(value_type.bit_width) - 1)) - 1


def _hashes_by_id(
    dictionary: Dictionary, of_dictionary: Callable[[Dictionary], _ValueHashes]
) -> _ValueHashes:
    def with_nulls() -> _ValueHashes:
        hashes = of_dictionary(dictionary)
        none_count = int(dictionary.has_null)  # the null, and the empty text right behind it
        if is_text(dictionary.type) and none_count < len(dictionary):
            (least,) = dictionary.values_of(np.array([none_count], np.uint32)).to_pylist()
            none_count += not least
        if not hashes[:none_count].any():
            return hashes
        return np.where(np.arange(len(hashes)) < none_count, _NULL, hashes)

    key = ("sketched hashes", of_dictionary.__name__)
    return dictionary.memo(key, with_nulls, lambda hashes: hashes.nbytes)


def _hashes_by_row(
    values: pa.Array, of_dictionary: Callable[[Dictionary], _ValueHashes]
) -> _ValueHashes:
    hashes = of_dictionary(Dictionary(values))
    if not is_text(values.type):
        return hashes
    is_empty = filled_values(pc.binary_length(values), 0) == 0
    return np.where(is_empty, _NULL, hashes)


# HyperLogLog sketches: hll_sketch_agg(x) as bytes, approx_count_distinct(x) as their estimate.
#
# What a sketch holds is a function of the set of values alone: coupons while they are few,
# registers (the largest rank at each address) beyond `coupon_count_max`. So base rows, projections
# and merges in any order make the same bytes and the same estimate. As in Spark, null and the empty
# text count as no value.

_REGISTER_BYTES_MAX: Final = 1 << 22  # of all groups; beyond it, sorting rows by group is faster
_REGISTERS_PER_ROW_MAX: Final = 8
_SAMPLE_SHARE: Final = 16
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

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold values in."""
        value_ids, hashes = hashes_of(inputs[0])
        coupons = (hashes >> _HALF).astype(np.uint32)
        rows = CouponRows(groups.ids, groups.count, value_ids, coupons)
        if rows.has_few_pairs():
            rows = distinct_rows(rows)
        is_done = self._add_to_registers(rows)
        if not is_done.all():
            self._add_by_buckets(rows, is_done)

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold sketches in; those of a higher lgK are folded down.

        Raises CorruptSegmentError if a sketch is malformed or of a lower lgK.
        """
        offsets, content = text_parts(columns["sketch"].to_arrow())
        modes, counts = parse_sketches(offsets, content, self._lg_k)
        ids = np.zeros(len(modes), np.uint32) if groups.ids is None else groups.ids
        has_registers = modes == 2
        if has_registers.any():
            self._promote(ids[has_registers])
            fold_sketch_registers(offsets, content, modes, self._slots[ids], self._registers)
        coupons = coupons_of_sketches(offsets, content, modes, counts)
        if len(coupons):
            self._merge_coupons(np.repeat(ids.astype(np.uint32), counts), coupons)

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
        return sketches if selection is None else sketches.take(primitive_array(selection))

    def estimates(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the estimated numbers of distinct values, rounded to bigint."""
        estimates = coupon_estimates(np.diff(self._starts()))
        chosen = np.arange(self._group_count) if selection is None else selection
        large = chosen[self._slots[chosen] >= 0]
        estimates[large] = register_estimates(self._registers[self._slots[large]])
        return primitive_array(np.rint(estimates[chosen]).astype(np.int64))

    def _starts(self) -> NDArray[np.int64]:
        return pair_starts(self._pairs, self._group_count)

    def _merge_coupons(self, group_ids: NDArray[np.uint32], coupons: NDArray[np.uint32]) -> None:
        pairs = group_ids.astype(np.uint64) << _HALF | coupons
        if bool((pairs[1:] > pairs[:-1]).all()):  # one sketch a group, in order
            self._add_pairs(fold_pairs(self._registers, self._slots, pairs))
        else:
            rows = CouponRows(group_ids, self._group_count, None, coupons)
            self._add_by_buckets(rows, np.zeros(self._group_count, np.bool_))

    def _add_to_registers(self, rows: CouponRows) -> NDArray[np.bool_]:
        """Fold in rows of groups that are certain to need registers; return which groups are done.

        A group has at least as many coupons as registers that are not zero, so many such registers
        prove many coupons. A sample of the first rows tells whether any group is that large.
        """
        register_bytes = self._group_count << self._lg_k
        none = np.zeros(self._group_count, np.bool_)
        if register_bytes > min(_REGISTER_BYTES_MAX, _REGISTERS_PER_ROW_MAX * len(rows)):
            return none
        registers = np.zeros((self._group_count, 1 << self._lg_k), np.uint8)
        sample_count = len(rows) // _SAMPLE_SHARE
        fold_rows(registers, rows, end=sample_count)
        if not self._are_large(registers).any():
            return none
        fold_rows(registers, rows, start=sample_count)
        is_done = self._are_large(registers)
        self._promote(np.flatnonzero(is_done))
        slots = self._slots[is_done]
        self._registers[slots] = np.maximum(self._registers[slots], registers[is_done])
        return is_done

    def _are_large(self, registers: NDArray[np.uint8]) -> NDArray[np.bool_]:
        return occupied_counts(registers) > coupon_count_max(self._lg_k)

    def _add_by_buckets(self, rows: CouponRows, is_left_out: NDArray[np.bool_]) -> None:
        """Fold in the rows of all groups except those where `is_left_out` is true."""
        buckets = bucket_coupons(rows, self._slots, self._lg_k, is_left_out)
        self._promote(np.flatnonzero(buckets.counts < 0))
        fold_buckets(self._registers, self._slots, buckets)
        self._add_pairs(pairs_of_buckets(buckets))

    def _add_pairs(self, pairs: NDArray[np.uint64]) -> None:
        """Fold in distinct, ascending pairs of groups without registers.

        Groups that grow too large get registers.
        """
        self._pairs = merged_pairs(self._pairs, pairs)
        if len(self._pairs) > coupon_count_max(self._lg_k):
            is_large = np.diff(self._starts()) > coupon_count_max(self._lg_k)
            self._promote(np.flatnonzero(is_large))

    def _promote(self, groups: NDArray[Any]) -> None:
        """Give registers to those of `groups` that have none, and move their pairs there."""
        groups = groups[self._slots[groups] < 0]
        if len(groups) == 0:
            return
        groups = distinct(groups)
        added = np.zeros((len(groups), 1 << self._lg_k), np.uint8)
        self._slots[groups] = np.arange(len(groups)) + len(self._registers)
        self._registers = np.concatenate([self._registers, added])
        self._pairs = fold_pairs(self._registers, self._slots, self._pairs)


# theta_sketch_agg(x): the smallest hashes of each group, as bytes that Spark's functions read.
#
# As with HyperLogLog states, what a sketch holds is a function of the set of values alone; null and
# the empty text count as no value.

_CHUNK_ROWS_MIN: Final = 1 << 16


class ThetaState:
    """The smallest hashes of each group, ascending, and its theta: no smaller hash was dropped."""

    def __init__(self, primitive: Primitive, group_count: int) -> None:
        self._size_max = 1 << cast(int, primitive.parameters[0])
        self._thetas = np.full(group_count, THETA_MAX, np.uint64)
        self._starts = np.zeros(group_count + 1, np.int64)
        self._hashes = np.zeros(0, np.uint64)

    def add(self, groups: Groups, inputs: Sequence[Vector]) -> None:
        """Fold values in, some rows at a time: the thetas fall, so later rows add fewer hashes."""
        value_ids, hashes = _theta_hashes_of(inputs[0])
        row_count = len(hashes) if value_ids is None else len(value_ids)
        start = 0
        while start < row_count:
            end = start + max(_CHUNK_ROWS_MIN, 2 * (len(self._thetas) + len(self._hashes)))
            group_ids = None if groups.ids is None else groups.ids[start:end]
            if value_ids is None:
                self._add_hashes(group_ids, None, hashes[start:end])
            else:
                self._add_hashes(group_ids, value_ids[start:end], hashes)
            start = end

    def merge(self, groups: Groups, columns: Mapping[str, Vector]) -> None:
        """Fold sketches in; those of a higher lgK are cut down.

        Raises CorruptSegmentError if a sketch is malformed.
        """
        offsets, content = text_parts(columns["sketch"].to_arrow())
        ids = np.zeros(len(offsets) - 1, np.uint32) if groups.ids is None else groups.ids
        # The smallest hash that is not kept becomes theta. An entry takes at least one bit.
        kept_max = self._size_max + 1
        entries_max = np.cumsum(np.minimum(8 * np.diff(offsets), kept_max))
        start = 0
        while start < len(ids):
            before = int(entries_max[start - 1]) if start else 0
            chunk = max(_CHUNK_ROWS_MIN, 2 * (len(self._thetas) + len(self._hashes)))
            end = max(start + 1, int(np.searchsorted(entries_max, before + chunk, side="right")))
            self._merge_rows(ids[start:end], offsets[start : end + 1], content, kept_max)
            start = end

    def _merge_rows(
        self,
        group_ids: NDArray[Any],
        offsets: NDArray[np.int64],
        content: NDArray[np.uint8],
        kept_max: int,
    ) -> None:
        starts, hashes, thetas = parse_thetas(offsets, content, kept_max)
        np.minimum.at(self._thetas, group_ids, thetas)
        self._add_hashes(np.repeat(group_ids, np.diff(starts)), None, hashes)

    def columns(self) -> dict[str, Vector]:
        """Return the sketches; an empty sketch where there was no value."""
        return {"sketch": Opaque(self.finish())}

    def finish(self, selection: NDArray[Any] | None = None) -> pa.Array:
        """Return the sketches as bytes."""
        offsets, content = theta_bytes(self._starts, self._hashes, self._thetas)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        sketches = pa.Array.from_buffers(pa.binary(), len(self._thetas), buffers)
        return sketches if selection is None else sketches.take(primitive_array(selection))

    def _add_hashes(
        self,
        group_ids: NDArray[Any] | None,
        value_ids: NDArray[Any] | None,
        hashes: NDArray[np.uint64],
    ) -> None:
        added = bucket_hashes(self._thetas, group_ids, value_ids, hashes)
        held = self._starts, self._hashes
        self._starts, self._hashes = merge_smallest(self._thetas, held, added, self._size_max)
