"""HyperLogLog row kernels: each equal to its twin, and refusing what it may not follow."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import hll as oracle
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.sketches import hll_registers
from projseg.kernels.sketches.hll_coupons import bucket_coupons, pair_starts, pairs_of_buckets
from projseg.kernels.sketches.hll_registers import (
    fold_buckets,
    fold_pairs,
    fold_rows,
    occupied_counts,
)
from projseg.kernels.sketches.sketch_rows import CouponRows, distinct_rows

LG_K = 6
ID_DTYPES = (np.uint8, np.uint16, np.uint32)


@st.composite
def coupon_rows(draw: st.DrawFn) -> CouponRows:
    coupon = st.builds(lambda rank, low: rank << 26 | low, st.integers(1, 63), st.integers(0, 300))
    coupons = np.array(draw(st.lists(st.just(0) | coupon, min_size=1, max_size=40)), np.uint32)
    group_count = draw(st.integers(1, 6))
    row_count = len(coupons)
    value_ids = None
    if draw(st.booleans()):
        row_count = draw(st.integers(0, 300))
        ids = st.integers(0, len(coupons) - 1)
        drawn = draw(st.lists(ids, min_size=row_count, max_size=row_count))
        value_ids = np.array(drawn, draw(st.sampled_from(ID_DTYPES)))
    group_ids = None
    if group_count > 1 or draw(st.booleans()):
        ids = st.integers(0, group_count - 1)
        drawn = draw(st.lists(ids, min_size=row_count, max_size=row_count))
        group_ids = np.array(drawn, draw(st.sampled_from(ID_DTYPES)))
    return CouponRows(group_ids, group_count, value_ids, coupons)


def pairs_of(rows: CouponRows) -> list[int]:
    """Return the twin's pairs of rows."""
    coupons = rows.coupons if rows.value_ids is None else rows.coupons[rows.value_ids]
    groups = np.zeros(len(rows), np.uint32) if rows.group_ids is None else rows.group_ids
    return oracle.pairs(groups.tolist(), coupons.tolist())


def coupons_by_group(rows: CouponRows) -> list[set[int]]:
    sets: list[set[int]] = [set() for _ in range(rows.group_count)]
    for pair in pairs_of(rows):
        sets[pair >> 32].add(pair & 0xFFFFFFFF)
    return sets


@settings(deadline=None)
@given(coupon_rows())
def test_distinct_rows_have_the_same_pairs_once(rows):
    found = distinct_rows(rows)
    assert pairs_of(found) == pairs_of(rows)
    if rows.value_ids is not None:
        groups = np.zeros(len(rows), np.int64) if rows.group_ids is None else rows.group_ids
        wanted = sorted(set(zip(groups.tolist(), rows.value_ids.tolist(), strict=True)))
        assert found.group_ids.tolist() == [group for group, _ in wanted]
        assert found.coupons.tolist() == [rows.coupons[value] for _, value in wanted]


@settings(deadline=None)
@given(coupon_rows(), st.data())
def test_folded_rows_are_the_twins_registers(rows, data):
    registers = np.zeros((rows.group_count, 1 << LG_K), np.uint8)
    cut = data.draw(st.integers(0, len(rows)))
    fold_rows(registers, rows, end=cut)
    fold_rows(registers, rows, start=cut)
    expected = [oracle.registers(found, LG_K) for found in coupons_by_group(rows)]
    assert registers.tolist() == expected
    assert occupied_counts(registers).tolist() == [sum(map(bool, ranks)) for ranks in expected]


@settings(deadline=None)
@given(coupon_rows(), st.data())
def test_buckets_hold_the_twins_pairs_of_small_groups(rows, data):
    flags = st.lists(st.booleans(), min_size=rows.group_count, max_size=rows.group_count)
    is_left_out = np.array(data.draw(flags), np.bool_)
    slots = np.full(rows.group_count, -1, np.int32)
    buckets = bucket_coupons(rows, slots, LG_K, is_left_out)
    sets = coupons_by_group(rows)
    is_large = [
        len(found) > oracle.count_max(LG_K) and not left_out
        for found, left_out in zip(sets, is_left_out.tolist(), strict=True)
    ]
    assert (buckets.counts < 0).tolist() == is_large
    wanted = [p for p in pairs_of(rows) if not (is_left_out[p >> 32] or is_large[p >> 32])]
    assert pairs_of_buckets(buckets).tolist() == wanted
    slots[is_large] = np.arange(sum(is_large))
    registers = np.zeros((sum(is_large), 1 << LG_K), np.uint8)
    fold_buckets(registers, slots, buckets)
    large = [found for found, chosen in zip(sets, is_large, strict=True) if chosen]
    assert registers.tolist() == [oracle.registers(found, LG_K) for found in large]
    pairs = np.array(pairs_of(rows), np.uint64)
    others = fold_pairs(registers, slots, pairs)
    assert others.tolist() == [p for p in pairs_of(rows) if not is_large[p >> 32]]
    assert registers.tolist() == [oracle.registers(found, LG_K) for found in large]


@settings(deadline=None, max_examples=tries(60))
@given(st.lists(st.integers(1, 63), min_size=1, max_size=5), st.integers(0, 26), st.data())
def test_buckets_ascend_however_unlike_hashes_coupons_are(ranks, address_bits, data):
    count = data.draw(st.sampled_from([2, 23, 24, 25, 300, 2000]))
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    addresses = random.integers(0, 1 << address_bits, count)
    coupons = (random.choice(ranks, count) << 26 | addresses).astype(np.uint32)
    coupons[0] = 5  # no hash has an address and no rank; it must do no harm
    rows = CouponRows(None, 1, None, coupons)
    buckets = bucket_coupons(rows, np.full(1, -1, np.int32), 16, np.zeros(1, np.bool_))
    assert pairs_of_buckets(buckets).tolist() == sorted(set(coupons.tolist()))


@given(coupon_rows())
def test_pair_starts_are_the_first_pairs_of_groups(rows):
    pairs = pairs_of(rows)
    starts = pair_starts(np.array(pairs, np.uint64), rows.group_count)
    expected = [bisect_left(pairs, group << 32) for group in range(rows.group_count + 1)]
    assert starts.tolist() == expected


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 63), min_size=1, max_size=50), st.integers(0, 1 << 32))
def test_estimates_of_any_ranks_are_the_twins(ranks, seed):
    registers = np.random.default_rng(seed).choice(np.array(ranks, np.uint8), (1, 4096))
    coupons = {int(rank) << 26 | index for index, rank in enumerate(registers[0]) if rank}
    if len(coupons) > oracle.count_max(12):
        expected = oracle.estimate(coupons, hll_registers._KNOTS.tolist())
        assert hll_registers.register_estimates(registers)[0] == pytest.approx(expected, rel=1e-9)


def test_ids_out_of_range_are_refused():
    coupons = np.array([1 << 26, 2 << 26], np.uint32)
    with pytest.raises(InvalidInputError, match="value id 2"):
        CouponRows(None, 1, np.array([0, 2], np.uint8), coupons)
    with pytest.raises(InvalidInputError, match="group id 5"):
        CouponRows(np.array([0, 5], np.uint8), 5, None, coupons)
    rows = CouponRows(np.array([0, 4], np.uint8), 5, None, coupons)
    with pytest.raises(InvalidInputError, match="no place"):
        fold_rows(np.zeros((4, 64), np.uint8), rows)
    with pytest.raises(InvalidInputError, match="length"):
        bucket_coupons(rows, np.full(4, -1, np.int32), LG_K, np.zeros(5, np.bool_))
    slots = np.array([-1, 3], np.int32)
    with pytest.raises(InvalidInputError, match="group 1"):
        pair_starts(np.array([1 << 32], np.uint64), 1)
    with pytest.raises(InvalidInputError, match="no place"):
        fold_pairs(np.zeros((3, 64), np.uint8), slots, np.array([1 << 32], np.uint64))
