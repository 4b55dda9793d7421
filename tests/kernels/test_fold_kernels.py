"""Fold kernels against their twins, over every width, with and without groups and nulls."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import folds
from scale import tries

from projseg.errors import InvalidInputError
from projseg.kernels.distinct_keys import distinct_pairs
from projseg.kernels.fold_count import BIT_AND, BIT_OR, BIT_XOR, bits_into, count_into
from projseg.kernels.fold_extremum import (
    INT64_MAX,
    INT64_MIN,
    extreme_floats,
    extreme_of_floats,
    max_into,
    min_into,
    rows_by_time,
)
from projseg.kernels.fold_sum import deviations_into, sum_halves_into, sum_into
from projseg.kernels.sorting import float_of_order_keys, float_order_keys

EACH = settings(deadline=None, max_examples=tries(50))
WIDTHS = [np.uint8, np.uint16, np.uint32, np.int64]


@st.composite
def fold_rows(draw, dtype):
    """(group ids or None, group count, values, validity or None), sizes beyond one lane."""
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    row_count = draw(st.sampled_from([0, 1, 3, 50, 1000, 1001]))
    group_count = draw(st.sampled_from([1, 1, 2, 2, 60, 60, 256, 256, 300, 300, 70_000]))
    ids = None
    if group_count > 1 or draw(st.booleans()):
        id_dtype = draw(st.sampled_from([np.uint8, np.uint16, np.uint32]))
        top = min(group_count, np.iinfo(id_dtype).max + 1)
        ids = random.integers(0, top, row_count).astype(id_dtype)
    if np.dtype(dtype).kind == "f":
        values = random.normal(size=row_count).astype(dtype)
    else:
        bits = draw(st.integers(0, np.iinfo(dtype).bits - 1))
        bounds = np.iinfo(dtype)
        low, high = max(bounds.min, -(1 << bits)), min(bounds.max, 1 << bits)
        values = random.integers(low, high, row_count, dtype=dtype, endpoint=True)
    validity = None
    if draw(st.booleans()):
        validity = random.random(row_count) < 0.7
        values = np.where(validity, values, 0).astype(dtype)
    return ids, group_count, values, validity


def as_lists(ids, values, validity, base=0):
    groups = [0] * len(values) if ids is None else ids.tolist()
    plain = [value + base for value in values.tolist()]
    if validity is not None:
        plain = [v if ok else None for v, ok in zip(plain, validity.tolist(), strict=True)]
    return groups, plain


def zero_of_none(values):
    return [0 if value is None else value for value in values]


@EACH
@given(fold_rows(np.uint8))
def test_count_is_its_oracle(case):
    ids, group_count, values, validity = case
    counts = np.zeros(group_count, np.int64)
    for _ in range(2):
        count_into(counts, ids, len(values), validity)
    groups, plain = as_lists(ids, values, validity)
    assert counts.tolist() == [2 * n for n in folds.count(groups, plain, group_count)]


@EACH
@given(st.data())
def test_sum_is_its_oracle(data):
    dtype = data.draw(st.sampled_from([*WIDTHS[:3], np.int32]))
    ids, group_count, values, validity = data.draw(fold_rows(dtype))
    values = values.astype(np.int64) if dtype is np.int32 else values
    base = data.draw(st.sampled_from([0, -7, 1 << 40]))
    totals = np.zeros((group_count, 2), np.int64)
    for _ in range(2):
        sum_into(totals, ids, values, base, validity)
    groups, plain = as_lists(ids, values, validity, base)
    expected = zero_of_none(folds.total(groups, plain, group_count))
    assert totals[:, 0].tolist() == [2 * total for total in expected]
    assert totals[:, 1].tolist() == [2 * n for n in folds.count(groups, plain, group_count)]


@EACH
@given(fold_rows(np.float64))
def test_float_sums_over_known_counts_are_those_without(case):
    ids, group_count, values, _ = case
    counts = np.zeros(group_count, np.int64)
    count_into(counts, ids, len(values))
    totals, expected = np.zeros((2, group_count, 2))
    sum_into(totals, ids, values, row_counts=counts)
    sum_into(expected, ids, values)
    np.testing.assert_allclose(totals, expected, rtol=1e-12, atol=1e-12)


@EACH
@given(fold_rows(np.float64))
def test_float_sum_is_its_oracle(case):
    ids, group_count, values, validity = case
    if ids is not None and len(ids) % 2:
        ids.sort()
    totals = np.zeros((group_count, 2))
    sum_into(totals, ids, values, 0, validity)
    groups, plain = as_lists(ids, values, validity)
    expected = zero_of_none(folds.total(groups, plain, group_count))
    assert totals[:, 0].tolist() == pytest.approx(expected, abs=1e-9)
    assert totals[:, 1].tolist() == folds.count(groups, plain, group_count)


@EACH
@given(fold_rows(np.int64))
def test_halves_are_exact(case):
    ids, group_count, values, validity = case
    high = np.zeros(group_count, np.int64)
    totals = np.zeros((group_count, 2), np.int64)
    for _ in range(2):
        sum_halves_into(high, totals, ids, values, validity)
    groups, plain = as_lists(ids, values, validity)
    expected = zero_of_none(folds.total(groups, plain, group_count))
    halves = zip(high.tolist(), totals[:, 0].tolist(), strict=True)
    assert [h * 2**32 + low for h, low in halves] == [2 * total for total in expected]
    assert all(0 <= low < 2**32 for low in totals[:, 0].tolist())
    assert totals[:, 1].tolist() == [2 * n for n in folds.count(groups, plain, group_count)]


@pytest.mark.parametrize("is_min", [True, False])
@EACH
@given(st.data())
def test_extremes_are_their_oracles(is_min, data):
    ids, group_count, keys, validity = data.draw(fold_rows(data.draw(st.sampled_from(WIDTHS))))
    base = data.draw(st.sampled_from([0, -3])) if keys.dtype != np.int64 else 0
    first_key = data.draw(st.sampled_from([INT64_MIN, 1]))
    nothing = INT64_MAX if is_min else INT64_MIN
    best, seen = np.full(group_count, nothing), np.zeros(group_count, np.bool_)
    fold = min_into if is_min else max_into
    fold(best, seen, ids, keys, base=base, first_key=first_key, validity=validity)
    groups, plain = as_lists(ids, keys, validity, base)
    plain = [None if value is not None and value < first_key else value for value in plain]
    oracle = folds.smallest if is_min else folds.largest
    expected = oracle(groups, plain, group_count)
    assert [b if s else None for b, s in zip(best.tolist(), seen.tolist(), strict=True)] == expected


@pytest.mark.parametrize("is_min", [True, False])
@EACH
@given(st.data())
def test_extreme_floats_are_their_oracles(is_min, data):
    floats = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -2.5])
    rows = data.draw(st.lists(st.tuples(st.integers(0, 3), floats, st.booleans())))
    ids = np.array([group for group, *_ in rows], data.draw(st.sampled_from(WIDTHS[:3])))
    values = np.array([value for _, value, _ in rows], np.float64)
    validity = (
        np.array([valid for *_, valid in rows], np.bool_) if data.draw(st.booleans()) else None
    )
    found = extreme_floats(ids, 4, values, is_min=is_min, validity=validity)
    oracle = folds.smallest if is_min else folds.largest
    expected = oracle(*as_lists(ids, values, validity), 4)
    nothing = math.inf if is_min else -math.inf
    known = [nothing if e is None or (is_min and math.isnan(e)) else e for e in expected]
    np.testing.assert_array_equal(found, np.array(known))
    (of_all,) = oracle([0] * len(values), values.tolist(), 1)
    is_nothing = of_all is None or (is_min and math.isnan(of_all))
    expected = [nothing if is_nothing else of_all]
    np.testing.assert_array_equal(extreme_of_floats(values, is_min=is_min), expected)


@pytest.mark.parametrize(
    ("operation", "function"), [(BIT_AND, "bit_and"), (BIT_OR, "bit_or"), (BIT_XOR, "bit_xor")]
)
@EACH
@given(fold_rows(np.int64))
def test_bits_are_their_oracles(operation, function, case):
    ids, group_count, values, validity = case
    bits = np.full(group_count, -1 if operation == BIT_AND else 0, np.int64)
    seen = np.zeros(group_count, np.bool_)
    bits_into(bits, seen, ids, values, operation, validity)
    groups, plain = as_lists(ids, values, validity)
    expected = folds.combined_bits(groups, plain, group_count, function)
    assert [b if s else None for b, s in zip(bits.tolist(), seen.tolist(), strict=True)] == expected


@pytest.mark.parametrize("is_last", [True, False])
@EACH
@given(st.data())
def test_rows_by_time_are_their_oracle(is_last, data):
    ids, group_count, values, validity = data.draw(fold_rows(np.int64))
    random = np.random.default_rng(len(values))
    times = random.integers(0, 4, len(values))
    time_validity = data.draw(st.sampled_from([None, random.random(len(values)) < 0.8]))
    rows = rows_by_time(
        ids,
        group_count,
        times,
        values,
        is_last=is_last,
        time_validity=time_validity,
        value_validity=validity,
    )
    groups, plain = as_lists(ids, values, validity)
    _, plain_times = as_lists(ids, times, time_validity)
    expected = folds.value_by_time(groups, plain, plain_times, group_count, is_last=is_last)
    assert [None if row < 0 else plain[row] for row in rows.tolist()] == expected


@EACH
@given(st.data())
def test_distinct_pairs_are_their_oracle(data):
    ids, group_count, keys, validity = data.draw(fold_rows(np.uint8))
    starts, distinct = distinct_pairs(ids, group_count, keys, 256, validity)
    groups, plain = as_lists(ids, keys, validity)
    lists = [distinct[a:b].tolist() for a, b in itertools.pairwise(starts.tolist())]
    assert lists == folds.distinct(groups, plain, group_count)


@given(st.lists(st.floats(), max_size=50))
@EACH
def test_order_keys_order_floats_as_spark(values):
    keys = float_order_keys(np.array(values, np.float64))
    pairs = zip(keys.tolist(), map(folds.order_key, values), strict=True)
    assert [key for _, key in sorted(pairs)] == sorted(map(folds.order_key, values))
    back = list(map(folds.order_key, float_of_order_keys(keys).tolist()))
    assert back == list(map(folds.order_key, values))


def test_bad_rows_are_refused_before_a_kernel_runs():
    counts = np.zeros(3, np.int64)
    with pytest.raises(InvalidInputError, match="group id 3 is not below"):
        count_into(counts, np.array([0, 3], np.uint8), 2)
    with pytest.raises(InvalidInputError, match="2 group ids were given for 3 rows"):
        count_into(counts, np.array([0, 1], np.uint8), 3)
    with pytest.raises(InvalidInputError, match="int64"):
        count_into(counts, np.array([0, 1]), 2)
    with pytest.raises(InvalidInputError, match="a column of 1 rows"):
        count_into(counts, np.array([0, 1], np.uint8), 2, np.ones(1, np.bool_))
    with pytest.raises(InvalidInputError, match="no group"):
        count_into(np.zeros(0, np.int64), None, 2)
    assert counts.tolist() == [0, 0, 0]


@EACH
@given(st.data())
def test_deviations(data):
    ids, group_count, values, validity = data.draw(fold_rows(np.float64))
    centres = np.linspace(-1, 1, group_count)
    totals = np.zeros((group_count, 2))
    deviations_into(totals, centres, ids, values, validity)
    expected = folds.deviations(*as_lists(ids, values, validity), centres.tolist())
    np.testing.assert_allclose(totals, expected, rtol=1e-9, atol=1e-9)
