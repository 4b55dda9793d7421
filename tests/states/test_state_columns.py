"""What states give out where there is no value, and what they may not share."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from support.state_cases import vector_of

from projseg.aggregation.state import Groups, narrowed, numbers_of_array
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Ids, Numbers


def state_of(function, value_type=None, group_count=2):
    arguments = () if value_type is None else (Column(value_type, "x"),)
    return new_state(Primitive(function, arguments), group_count)


def groups(*ids, count=2):
    return Groups(np.array(ids, np.uint32), count, len(ids))


@pytest.mark.parametrize(
    ("function", "value_type"),
    [
        ("min", pa.int64()),
        ("max", pa.float64()),
        ("bit_and", pa.int64()),
        ("bit_or", pa.int32()),
        ("sum", pa.int64()),
        ("sum", pa.float64()),
    ],
)
def test_a_null_number_holds_zero(function, value_type):
    state = state_of(function, value_type)
    state.add(groups(1), [numbers_of_array(pa.array([7], value_type))])
    for vector in state.columns().values():
        if isinstance(vector, Numbers) and vector.validity is not None:
            assert vector.validity.tolist() == [False, True]
            assert vector.wide()[0] == 0


def test_states_of_the_same_groups_count_apart():
    both = groups(0, 1, 1)
    one, other = state_of("count"), state_of("count")
    one.add(both, ())
    one.add(both, ())
    other.add(both, ())
    assert one.finish().to_pylist() == [2, 4]
    assert other.finish().to_pylist() == [1, 2]
    assert both.row_counts.tolist() == [1, 2]


@pytest.mark.parametrize("ids", [None, np.zeros(3, np.uint8)])
def test_stored_counts_above_a_base_are_added_whole(ids):
    state = state_of("count", group_count=1)
    counts = narrowed(numbers_of_array(pa.array([1000, 1001, 1003])))
    assert counts.base == 1000
    state.merge(Groups(ids, 1, 3), {"count": counts})
    assert state.finish().to_pylist() == [3004]


@pytest.mark.parametrize("digits", [17, 18, 19, 20])
@pytest.mark.parametrize("form", ["ids", "opaque", "numbers"])
def test_extremes_of_decimals_reach_all_their_digits(digits, form):
    value_type, largest = pa.decimal128(digits, 0), Decimal(10**digits - 1)
    values = [largest, -largest, Decimal(0), largest - 1]
    for function, expected in (("min", [-largest, 0]), ("max", [largest, largest - 1])):
        state = state_of(function, value_type)
        state.add(groups(0, 0, 1, 1), [vector_of(values, value_type, form)])
        assert state.finish().to_pylist() == expected


def test_a_group_of_nan_alone_has_that_as_its_least():
    state = state_of("min", pa.float64(), group_count=3)
    values = numbers_of_array(pa.array([math.nan, 1.0, math.nan, math.inf]))
    state.add(groups(0, 1, 1, 2, count=3), [values])
    least = state.finish().to_pylist()
    assert math.isnan(least[0])
    assert least[1:] == [1.0, math.inf]
    state = state_of("min", pa.float64())
    state.add(groups(0, 1), [numbers_of_array(pa.array([math.nan, math.inf]))])
    least = state.finish().to_pylist()
    assert math.isnan(least[0])
    assert least[1] == math.inf


@pytest.mark.parametrize("values", [["b", "a"], [None, "a", "b"]])
def test_a_group_without_texts_has_no_extreme(values):
    dictionary = Dictionary(pa.array(sorted(values, key=lambda v: (v is not None, v))))
    first = int(dictionary.has_null)
    state = state_of("max", pa.string(), group_count=3)
    ids = np.array([first, first + 1], dictionary.id_dtype)
    state.add(groups(0, 2, count=3), [Ids(ids, dictionary)])
    assert state.finish().to_pylist() == ["a", None, "b"]


@pytest.mark.parametrize("function", ["min", "max", "distinct"])
def test_values_of_many_dictionaries_are_brought_together(function):
    state = state_of(function, pa.string(), group_count=1)
    for number in range(40):
        state.add(groups(0, count=1), [vector_of([f"{number:02}"], pa.string(), "ids")])
    expected = {"min": "00", "max": "39", "distinct": 40}
    assert state.finish().to_pylist() == [expected[function]]
