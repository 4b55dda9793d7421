"""Moments of awkward batches in every order, added and merged, against exact fractions."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from support.state_cases import vector_of

from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.segment_format.vectors import Numbers

ULP = Fraction(1, 2**53)
FLOAT = pa.float64()
MOMENTS = Primitive("moments", (Column(FLOAT, "x"),))
IDS = np.array([1, 0, 0, 1, 1, 0], np.uint8)
BATCHES = {
    "small": [1.0, 2.0, None, -3.5, 0.25, 7.0],
    "one value": [None, None, 4.0, None, 5.0, None],
    "nothing": [None] * 6,
    "equal": [0.1] * 6,
    "far": [1e15 + 1, 1e15 - 3, 1e15, 1e15 + 8, None, 1e15 + 2],
    "as far below": [-1e15, -1e15 + 1, -1e15 - 2, None, -1e15 + 5, -1e15 + 7],
    "about as far": [1e15 + 2, 1e15 - 3, None, 1e15 + 9, 1e15 + 4, 1e15 + 1],
    "tiny": [1e-200, 3e-200, None, -2e-200, 7e-200, 5e-200],
    "thirds": [1 / 3, 2 / 3, 1e6 / 7, -1e6 / 3, 1 / 7, None],
}


def state_of(batches, *, is_one_group):
    state = new_state(MOMENTS, 1 if is_one_group else 3)
    for values in batches:
        validity = np.array([value is not None for value in values])
        held = np.array([0.0 if value is None else value for value in values])
        numbers = Numbers(held, FLOAT, 0, None if validity.all() else validity)
        groups = Groups(None, 1, 6) if is_one_group else Groups(IDS, 3, 6)
        state.add(groups, [numbers])
    return state


def values_of(batches, group):
    rows = [
        value
        for values in batches
        for value, of_group in zip(values, IDS.tolist(), strict=True)
        if value is not None and group in (None, of_group)
    ]
    return [Fraction(value) for value in rows]


def check(state, batches, *, is_stored=False):
    """Compare counts, means and variances with exact ones, to what the module promises."""
    columns = state.columns()
    counts, means, rests, squares = (
        columns[part].values.tolist() for part in ("count", "mean", "rest", "squares")
    )
    spreads = {
        name: getattr(state, AGGREGATES[name].finisher)(None).to_pylist() for name in SPREADS
    }
    assert state.finish().to_pylist() == spreads["var_pop"]
    groups = [None] if len(counts) == 1 else range(len(counts))
    for index, group in enumerate(groups):
        values = values_of(batches, group)
        count = len(values)
        assert counts[index] == count
        if not count:
            assert means[index] == rests[index] == squares[index] == 0
            assert [each[index] for each in spreads.values()] == [None] * 4
            continue
        mean = sum(values) / count
        largest, farthest = max(map(abs, values)), max(abs(value - mean) for value in values)
        assert abs(Fraction(means[index]) - mean) <= 4 * ULP * largest
        if not is_stored:
            apart = Fraction(means[index]) + Fraction(rests[index]) - mean
            assert abs(apart) <= 4 * ULP * farthest + 4 * ULP**2 * largest
        exact = sum((value - mean) ** 2 for value in values)
        condition = Fraction(math.sqrt(1 + count * mean**2 / exact)) if exact else 0
        limit = 4 * ULP * (count + 2 + (4 * condition if is_stored else 0))
        assert abs(Fraction(squares[index]) - exact) <= limit * exact + Fraction(1, 10**300)
        for name, found in spreads.items():
            expected = spread(name, Fraction(squares[index]), count)
            assert found[index] == expected or math.isclose(found[index], expected, rel_tol=1e-15)


def spread(name, squares, count):
    divisor = count - 1 if name.endswith("samp") else count
    if not divisor:
        return None
    variance = float(squares / divisor)
    return math.sqrt(variance) if name.startswith("stddev") else variance


SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


@pytest.mark.parametrize("first", BATCHES)
def test_batches_join_in_any_order(first):
    for others in product(BATCHES, repeat=2):
        batches = [BATCHES[name] for name in (first, *others)]
        for is_one_group in (True, False):
            check(state_of(batches, is_one_group=is_one_group), batches)


@pytest.mark.parametrize("first", BATCHES)
@pytest.mark.parametrize("is_stored", [False, True])
def test_states_merge_with_and_without_the_rests_of_their_means(first, is_stored):
    for second in BATCHES:
        batches = [BATCHES[first], BATCHES[second]]
        whole = new_state(MOMENTS, 3)
        at_once = new_state(MOMENTS, 1)
        for batch in batches:
            columns = state_of([batch], is_one_group=False).columns()
            if is_stored:
                del columns["rest"]
            whole.merge(Groups(np.arange(3, dtype=np.uint8), 3, 3), columns)
            at_once.merge(Groups(None, 1, 3), columns)
        check(whole, batches, is_stored=is_stored)
        check(at_once, batches, is_stored=is_stored)


def test_values_near_the_largest_double_have_a_mean():
    largest = 1.7e308
    state = new_state(MOMENTS, 2)
    ids = np.array([0, 0, 0, 1], np.uint8)
    values = Numbers(np.array([largest, largest, largest, 3.0]), FLOAT)
    state.add(Groups(ids, 2, 4), [values])
    assert state.columns()["mean"].values.tolist() == [largest, 3.0]
    assert state.finish().to_pylist() == [0.0, 0.0]
    assert state.sample_variances(None).to_pylist() == [0.0, None]
    assert state.sample_variances(np.array([1])).to_pylist() == [None]


@pytest.mark.parametrize(("usual", "apart"), [(0.1, 1e-17), (1e15, 0.125), (1 / 3, 1e-16)])
def test_one_value_apart_among_many(usual, apart):
    """A centre from their sum is off by more than the values differ."""
    count = 200_000
    values = np.full(count, usual)
    values[7] += apart
    shift = Fraction(values[7].item()) - Fraction(usual)
    exact = shift**2 * (count - 1) / count**2
    for ids in (None, np.zeros(count, np.uint8)):
        state = new_state(MOMENTS, 1)
        state.add(Groups(ids, 1, count), [Numbers(values, FLOAT)])
        (found,) = state.finish().to_pylist()
        assert abs(Fraction(found) - exact) <= 4 * ULP * count * exact


@pytest.mark.parametrize("count", range(1, 60))
def test_equal_values_whose_squares_overflow_have_no_spread(count):
    """Their sum divided by their number is off by a last digit, whose square overflows."""
    for value in (8.100634037766553e200, -3.3e175, 7.7e300):
        state = new_state(MOMENTS, 1)
        state.add(Groups(None, 1, count), [Numbers(np.full(count, value), FLOAT)])
        state.merge(Groups(None, 1, 1), state.columns())
        state.merge(Groups(None, 1, 1), new_state(MOMENTS, 1).columns())
        assert state.finish().to_pylist() == [0.0]
        assert state.columns()["mean"].values.tolist() == [value]


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_values_that_are_no_numbers_spoil_their_group_alone(odd):
    state = new_state(MOMENTS, 2)
    ids = np.array([0, 0, 1, 1], np.uint8)
    state.add(Groups(ids, 2, 4), [Numbers(np.array([odd, 1.0, 1.0, 3.0]), FLOAT)])
    state.add(Groups(ids, 2, 4), [Numbers(np.array([2.0, 1.0, 1.0, 3.0]), FLOAT)])
    spoilt, kept = state.finish().to_pylist()
    assert math.isnan(spoilt)
    assert kept == 1.0


@pytest.mark.parametrize("arrow_type", [pa.int32(), pa.decimal128(9, 2), pa.float32()])
def test_numbers_of_other_types_above_a_base(arrow_type):
    for written in ([100, 101, None, 103], [100, 101, 99, 103]):
        check_type(arrow_type, written)


def check_type(arrow_type, written):
    kind = Primitive("moments", (Column(arrow_type, "x"),))
    if pa.types.is_decimal(arrow_type):
        written = [None if value is None else Decimal(value) / 4 for value in written]
    for form in ("narrow", "numbers", "ids", "opaque"):
        state = new_state(kind, 1)
        state.add(Groups(None, 1, 4), [vector_of(written, arrow_type, form)])
        known = [Fraction(value) for value in written if value is not None]
        mean = sum(known) / len(known)
        assert state.columns()["count"].values.tolist() == [len(known)]
        assert state.columns()["mean"].values[0] == pytest.approx(float(mean), rel=1e-15)
        expected = float(sum((value - mean) ** 2 for value in known) / len(known))
        assert state.finish()[0].as_py() == pytest.approx(expected, rel=1e-14)
