import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.expressions.tree import order_key
from projseg.algebra.proofs.value_set import (
    NOTHING,
    ValueSet,
    any_of,
    only,
    values_between,
)

UNIVERSE = range(-2, 12)
HOUR = 3_600_000_000


@st.composite
def sets(draw):
    """A set over small integers, and its members written out."""
    found, members = NOTHING, set()
    for low, high in draw(st.lists(st.tuples(*[st.integers(0, 9)] * 2), max_size=3)):
        found = found.union(values_between(low, high, pa.int64()))
        members |= set(range(low, high + 1))
    has_null = draw(st.booleans())
    return ValueSet(found.cuts, has_null), members | ({None} if has_null else set())


def members_of(found):
    values = {v for v in UNIVERSE if found.overlaps(only(v, pa.int64()))}
    return values | ({None} if found.has_null else set())


@given(sets(), sets())
def test_set_operations_are_those_of_python_sets(left, right):
    (one, ones), (other, others) = left, right
    everything = {*UNIVERSE, None}
    assert members_of(one.union(other)) == ones | others
    assert members_of(one.intersection(other)) == ones & others
    assert members_of(one.complement()) == everything - ones
    assert one.is_within(other) == (ones <= others)
    assert one.overlaps(other) == bool(ones & others)
    assert one.complement().complement() == one
    assert one.is_empty == (not ones)


def test_set_operations_over_all_small_sets():
    values = range(6)
    small = [{value for value in values if mask >> value & 1} for mask in range(1 << len(values))]
    found = [any_of(sorted(members), pa.int64()) for members in small]
    for one, ones in zip(found, small, strict=True):
        assert one.is_empty == (not ones)
        for other, others in zip(found, small, strict=True):
            assert one.is_within(other) == (ones <= others)
            assert one.overlaps(other) == bool(ones & others)
            assert one.union(other) == found[small.index(ones | others)]
            assert one.intersection(other) == found[small.index(ones & others)]


@given(st.lists(st.integers(0, 9), max_size=6), sets())
def test_a_list_of_values_is_the_union_of_each(values, other):
    found = any_of(values, pa.int64())
    assert members_of(found) == set(values)
    joined = NOTHING
    for value in values:
        joined = joined.union(only(value, pa.int64()))
    assert found == joined
    assert found.is_within(other[0]) == (set(values) <= other[1])
    assert other[0].is_within(found) == (other[1] <= set(values))
    assert any_of(["a"], pa.int64()) is None


def test_long_lists_are_looked_up_not_walked():
    every_other = any_of(range(0, 200_000, 2), pa.int64())
    for _ in range(20_000):
        assert not values_between(5, 5, pa.int64()).overlaps(every_other)
        assert values_between(6, 6, pa.int64()).is_within(every_other)


def test_whole_numbers_know_no_place_between_two_neighbours():
    assert values_between(3, None, pa.int64(), with_low=False) == values_between(
        4, None, pa.int64()
    )
    assert values_between(3, 4, pa.int64(), with_low=False, with_high=False) == NOTHING


def test_doubles_and_decimals_do():
    assert not values_between(3.0, 4.0, pa.float64(), with_low=False, with_high=False).is_empty
    low, high = Decimal(3), Decimal(4)
    assert not values_between(
        low, high, pa.decimal128(9, 2), with_low=False, with_high=False
    ).is_empty


def test_nan_is_one_value_above_infinity_and_zeros_are_equal():
    above = values_between(math.inf, None, pa.float64(), with_low=False)
    assert only(math.nan, pa.float64()).is_within(above)
    assert only(-math.nan, pa.float64()) == only(math.nan, pa.float64())
    assert only(-0.0, pa.float64()) == only(0.0, pa.float64())


@pytest.mark.parametrize(
    ("value", "arrow_type"),
    [
        ("3", pa.int64()),
        (True, pa.int64()),
        (3, pa.string()),
        (b"a", pa.string()),
        ("a", pa.binary()),
        (1, pa.bool_()),
        (True, pa.float64()),
        (datetime.datetime(2024, 1, 1), pa.date32()),
        (datetime.date(2024, 1, 1), pa.timestamp("us")),
        ([1], pa.list_(pa.int64())),
        (1.5, pa.decimal128(3, 1)),
    ],
)
def test_a_value_of_another_type_has_no_place(value, arrow_type):
    assert order_key(value, arrow_type) is None
    assert only(value, arrow_type) is None


def test_times_become_microseconds_in_utc():
    east = datetime.timezone(datetime.timedelta(hours=5))
    moment = datetime.datetime(1970, 1, 1, 6, tzinfo=east)
    assert order_key(moment, pa.timestamp("us", tz="UTC")) == HOUR
    assert order_key(datetime.date(1970, 1, 3), pa.date32()) == 2


def test_a_bound_of_another_type_bounds_nothing():
    assert values_between(3, "a", pa.int64()) is None
    assert values_between("a", 3, pa.int64()) is None
