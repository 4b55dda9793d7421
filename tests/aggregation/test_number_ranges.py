"""Ranges of numbers say of each value, and of each page, what comparing it would say."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.evaluation.masks import NumberRange, exact_ranges, inside_any, value_range
from projseg.segment_format.vectors import Numbers

SMALL = st.integers(-4, 8)
FLAGS = st.booleans()
ranges = st.builds(NumberRange, st.just("x"), st.none() | SMALL, st.none() | SMALL, FLAGS, FLAGS)

EVERY = [
    NumberRange("x", low, high, is_low_open, is_high_open)
    for low in (None, 0, 2)
    for high in (None, 0, 2, 3)
    for is_low_open in (False, True)
    for is_high_open in (False, True)
]


def is_inside(value, found):
    """Whether a value that is not null lies in a range; NaN is above every number."""
    key, bounds = (math.isnan(value), value), []
    if found.low is not None:
        low = (False, found.low)
        bounds.append(key > low if found.is_low_open else key >= low)
    if found.high is not None:
        high = (False, found.high)
        bounds.append(key < high if found.is_high_open else key <= high)
    return all(bounds)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int64])
@given(found=ranges, values=st.lists(st.integers(0, 6)), base=st.integers(-3, 3))
def test_a_mask_of_integers_compares_each(dtype, found, values, base):
    numbers = Numbers(np.array(values, dtype), pa.int64(), base)
    assert found.mask(numbers).tolist() == [is_inside(base + value, found) for value in values]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int64])
@given(
    found=st.lists(ranges, min_size=1, max_size=4),
    apart=st.none() | SMALL,
    values=st.lists(st.integers(0, 6)),
    base=st.integers(-3, 3),
    are_valid=st.none() | st.lists(FLAGS),
)
def test_values_inside_any_range(dtype, found, apart, values, base, are_valid):
    if apart is not None:  # as x <> apart
        below, above = (None, apart, False, True), (apart, None, True, False)
        found = [NumberRange("x", *below), NumberRange("x", *above), *found[2:]]
    if are_valid is not None:
        are_valid = (are_valid + [True] * len(values))[: len(values)]
        validity = np.array(are_valid, np.bool_)
    else:
        are_valid, validity = [True] * len(values), None
    numbers = Numbers(np.array(values, dtype), pa.int64(), base, validity)
    assert inside_any(found, numbers).tolist() == [
        is_valid and any(is_inside(base + value, one) for one in found)
        for value, is_valid in zip(values, are_valid, strict=True)
    ]


@given(found=ranges, values=st.lists(st.sampled_from([0, 1, 254, 255])))
def test_a_mask_reaches_the_ends_of_its_type(found, values):
    numbers = Numbers(np.array(values, np.uint8), pa.int64(), 0)
    for low, high in [(found.low, found.high), (254, None), (None, 254), (255, None), (None, 256)]:
        one = NumberRange("x", low, high, found.is_low_open, found.is_high_open)
        assert one.mask(numbers).tolist() == [is_inside(value, one) for value in values]


@pytest.mark.parametrize("found", EVERY, ids=str)
def test_a_mask_of_doubles_puts_nan_above_all(found):
    values = [-math.inf, -1.0, -0.0, 0.0, 0.5, 2.0, 2.5, 3.0, 4.0, math.inf, math.nan]
    numbers = Numbers(np.array(values), pa.float64())
    assert found.mask(numbers).tolist() == [is_inside(value, found) for value in values]


@given(ranges, st.lists(SMALL))
def test_a_mask_of_wide_integers_compares_each(found, values):
    numbers = Numbers(np.array(values, object), pa.decimal128(38, 0))
    assert found.mask(numbers).tolist() == [is_inside(value, found) for value in values]


@given(ranges, ranges)
def test_an_intersection_holds_what_both_do(left, right):
    both = left.intersect(right)
    for value in range(-6, 11):
        assert is_inside(value, both) == (is_inside(value, left) and is_inside(value, right))


@pytest.mark.parametrize("found", EVERY, ids=str)
def test_a_page_may_match_if_a_value_within_its_bounds_does(found):
    closed = NumberRange("x", found.low, found.high)
    pages = [(low, high) for low in range(-1, 5) for high in range(low, 5)]
    may = found.may_match(*(np.array(bounds) for bounds in zip(*pages, strict=True)))
    for (low, high), may_match in zip(pages, may.tolist(), strict=True):
        values = range(low, high + 1)
        assert may_match or not any(is_inside(value, found) for value in values)
        if found.low is None or found.high is None or found.low <= found.high:
            assert may_match == any(is_inside(value, closed) for value in values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 3", NumberRange("x", 3, 3)),
        ("x < 3", NumberRange("x", None, 3, is_high_open=True)),
        ("x <= 3", NumberRange("x", None, 3)),
        ("x > 3", NumberRange("x", 3, None, is_low_open=True)),
        ("x >= 3", NumberRange("x", 3, None)),
        ("x IN (5, 3, 4)", NumberRange("x", 3, 5, is_exact=False)),
        ("x < 3 OR x BETWEEN 5 AND 6", NumberRange("x", None, 7, False, True, False)),
        ("cast(x AS double) < 2.5D", NumberRange("x", None, 3, False, True)),
        ("cast(x AS int) < 3", None),  # it may raise
        ("year(d) = 1971", NumberRange("d", 365, 730, False, True)),
        ("NOT (year(d) = 1971)", None),
        ("f <= 2.5D", NumberRange("f", None, 2.5)),
        ("x IN (3, NULL)", None),
        ("x <> 3", None),
        ("x = y", None),
        ("x IN (3, y)", None),
        ("f IN (1D, double('NaN'))", None),
        ("x + 1 < 3", None),
        ("x IS NULL", None),
        ("f = double('NaN')", None),
        ("f > double('NaN')", None),
        ("p", None),
    ],
)
def test_a_comparison_with_constants_is_a_range(text, expected):
    types = {"x": pa.int64(), "y": pa.int64(), "f": pa.float64(), "p": pa.bool_()}
    schema = pa.schema({**types, "d": pa.date32()})
    assert value_range(bind(text, schema)) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int64])
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x <> 3", 2),
        ("x = 3", 1),
        ("x IN (0, 3, 5)", 3),
        ("NOT x BETWEEN 2 AND 4", 2),
        ("x < 1 OR x = 4 OR x > 6", 3),
        ("x IN (0, 2, 4, 6, 8)", 0),  # too many
        ("x <> 3 OR x IS NULL", 0),
        ("x <> y", 0),
    ],
)
def test_a_few_ranges_hold_exactly_what_matches(text, count, dtype):
    condition = bind(text, pa.schema({"x": pa.int64(), "y": pa.int64()}))
    found = exact_ranges(condition)
    assert len(found) == count
    values = np.arange(9)
    validity = values != 6
    numbers = Numbers(values.astype(dtype), pa.int64(), 0, validity)
    if found:
        columns = {"x": pa.array(values.tolist(), mask=~validity), "y": pa.nulls(9, pa.int64())}
        expected = evaluate(condition, columns, 9).fill_null(False).to_pylist()
        assert inside_any(found, numbers).tolist() == expected
