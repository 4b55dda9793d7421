"""Every way rows can reach a state gives the oracle's answer."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import folds
from scale import tries
from support.state_cases import NUMERIC_TYPES, VALUES_BY_TYPE, Rows, folded, rows_of, vector_of

from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.result_types import sum_type
from projseg.algebra.expressions.tree import Column
from projseg.errors import EvaluationError
from projseg.evaluation.arrow_vectors import numbers_of_array
from projseg.segment_format.vectors import Numbers

EACH = settings(deadline=None, max_examples=tries(60))


def primitive(function: str, *types: pa.DataType) -> Primitive:
    return Primitive(function, tuple(Column(t, f"x{i}") for i, t in enumerate(types)))


def drawn_rows(data: Any, *types: pa.DataType, **options: Any) -> tuple[Rows, Any]:
    rows = data.draw(rows_of(*types, **options))
    return rows, lambda options: data.draw(st.sampled_from(options))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def check_columns(state: Any, kind: Primitive, group_count: int) -> None:
    columns = state.columns()
    stored = list(kind.fields)
    assert [(name, vector.type) for name, vector in columns.items()][: len(stored)] == stored
    assert all(len(vector) == group_count for vector in columns.values())


@EACH
@given(st.data())
def test_count_of_values(data):
    value_type = data.draw(st.sampled_from(list(VALUES_BY_TYPE)))
    rows, choose = drawn_rows(data, value_type)
    state = folded(primitive("count", value_type), rows, choose)
    expected = folds.count(rows.groups, rows.values(), rows.group_count)
    assert state.finish().to_pylist() == expected


@EACH
@given(st.data())
def test_count_of_rows(data):
    rows, choose = drawn_rows(data)
    state = folded(primitive("count"), rows, choose)
    ones = [1] * len(rows.groups)
    assert state.finish().to_pylist() == folds.count(rows.groups, ones, rows.group_count)
    check_columns(state, primitive("count"), rows.group_count)


@EACH
@given(st.data())
def test_exact_sums(data):
    exact = [t for t in NUMERIC_TYPES if not pa.types.is_floating(t)]
    value_type = data.draw(st.sampled_from(exact))
    rows, choose = drawn_rows(data, value_type)
    kind = primitive("sum", value_type)
    state = folded(kind, rows, choose)
    expected = folds.total(rows.groups, rows.values(), rows.group_count)
    check_columns(state, kind, rows.group_count)
    final = sum_type(value_type)
    fits = [e is None or pa.types.is_decimal(final) or -(1 << 63) <= e < 1 << 63 for e in expected]
    if all(fits):
        result = state.finish()
        assert result.type == final
        assert result.to_pylist() == expected
        return
    with pytest.raises(EvaluationError, match="PROJSEG_OVERFLOW"):
        state.finish()
    fitting = np.flatnonzero(fits)
    assert state.finish(fitting).to_pylist() == [expected[i] for i in fitting]


@EACH
@given(st.data())
def test_float_sums(data):
    value_type = data.draw(st.sampled_from([pa.float32(), pa.float64()]))
    moderate = st.floats(-1e6, 1e6, width=32) | st.just(math.nan)
    rows, choose = drawn_rows(data, value_type, strategies=(moderate,))
    state = folded(primitive("sum", value_type), rows, choose)
    expected = folds.total(rows.groups, rows.values(), rows.group_count)
    result = state.finish()
    assert result.type == pa.float64()
    for ours, theirs in zip(result.to_pylist(), expected, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("value_type", list(VALUES_BY_TYPE), ids=str)
@settings(deadline=None, max_examples=tries(80))
@given(st.data())
def test_extremes(function, value_type, data):
    rows, choose = drawn_rows(data, value_type)
    kind = primitive(function, value_type)
    state = folded(kind, rows, choose)
    oracle = folds.smallest if function == "min" else folds.largest
    expected = oracle(rows.groups, rows.values(), rows.group_count)
    check_columns(state, kind, rows.group_count)
    result = state.finish()
    assert result.type == value_type
    assert all(map(same, result.to_pylist(), expected))
    some = np.arange(rows.group_count)[::-3]
    picked = state.finish(some).to_pylist()
    assert all(map(same, picked, [expected[i] for i in some]))


@pytest.mark.parametrize("function", ["min_by", "max_by"])
@EACH
@given(st.data())
def test_value_by_time(function, data):
    value_type = data.draw(st.sampled_from(list(VALUES_BY_TYPE)))
    time_type = data.draw(st.sampled_from(list(VALUES_BY_TYPE)))
    few_times = st.sampled_from(data.draw(st.lists(VALUES_BY_TYPE[time_type], min_size=1)))
    strategies = (VALUES_BY_TYPE[value_type], few_times)
    rows, choose = drawn_rows(data, value_type, time_type, strategies=strategies)
    kind = primitive(function, value_type, time_type)
    state = folded(kind, rows, choose)
    is_last = function == "max_by"
    expected = folds.value_by_time(
        rows.groups, rows.values(0), rows.values(1), rows.group_count, is_last=is_last
    )
    check_columns(state, kind, rows.group_count)
    assert all(map(same, state.finish().to_pylist(), expected))
    some = np.arange(rows.group_count)[::-3]
    assert all(map(same, state.finish(some).to_pylist(), [expected[i] for i in some]))


@pytest.mark.parametrize("function", ["bit_and", "bit_or", "bit_xor"])
@EACH
@given(st.data())
def test_bits(function, data):
    value_type = data.draw(st.sampled_from([pa.int8(), pa.int32(), pa.int64()]))
    rows, choose = drawn_rows(data, value_type)
    kind = primitive(function, value_type)
    state = folded(kind, rows, choose)
    expected = folds.combined_bits(rows.groups, rows.values(), rows.group_count, function)
    check_columns(state, kind, rows.group_count)
    assert state.finish().type == value_type
    assert state.finish().to_pylist() == expected


@pytest.mark.parametrize("function", ["var_pop", "var_samp", "stddev_pop", "stddev_samp"])
@EACH
@given(st.data())
def test_spread(function, data):
    value_type = data.draw(st.sampled_from([pa.int32(), pa.float64(), pa.decimal128(9, 2)]))
    values = {
        pa.int32(): st.integers(-1000, 1000),
        pa.float64(): st.floats(-1000, 1000, width=32),
        pa.decimal128(9, 2): st.integers(-9999, 9999).map(lambda n: Decimal(n).scaleb(-2)),
    }[value_type]
    rows, choose = drawn_rows(data, value_type, strategies=(values,))
    kind = primitive("moments", value_type)
    state = folded(kind, rows, choose)
    expected = folds.spread(rows.groups, rows.values(), rows.group_count, function)
    check_columns(state, kind, rows.group_count)
    result = getattr(state, AGGREGATES[function].finisher)(None).to_pylist()
    for ours, theirs in zip(result, expected, strict=True):
        assert (ours is None) == (theirs is None)
        assert theirs is None or ours == pytest.approx(theirs, rel=1e-9, abs=1e-5)


@EACH
@given(st.data())
def test_distinct_values(data):
    value_type = data.draw(st.sampled_from(list(VALUES_BY_TYPE)))
    rows, choose = drawn_rows(data, value_type)
    kind = primitive("distinct", value_type)
    state = folded(kind, rows, choose)
    expected = folds.distinct(rows.groups, rows.values(), rows.group_count)
    check_columns(state, kind, rows.group_count)
    assert state.finish().to_pylist() == [len(values) for values in expected]
    stored = state.columns()["values"].to_arrow().to_pylist()
    for ours, theirs in zip(stored, expected, strict=True):
        assert len(ours) == len(theirs)
        assert all(map(same, sorted(ours, key=folds.order_key), theirs))
    chosen = np.arange(rows.group_count)[::-1]
    for lists in (state.lists().to_pylist(), state.lists(chosen).to_pylist()[::-1]):
        assert [len(each) for each in lists] == [len(each) for each in expected]
        for ours, theirs in zip(lists, expected, strict=True):
            assert all(map(same, ours, theirs))


def test_sum_passes_int64_and_comes_back():
    state = new_state(primitive("sum", pa.int64()), 1)
    for value in [2**63 - 1, 2**63 - 1, -(2**63), -5]:
        state.add(Groups(None, 1, 1), [numbers_of_array(pa.array([value]))])
    assert state.finish().to_pylist() == [2**63 - 7]


def test_sum_of_wide_states_merges_exactly():
    kind = primitive("sum", pa.int64())
    state, other = new_state(kind, 2), new_state(kind, 2)
    ids = np.array([0, 0, 1], np.uint8)
    values = np.array([2**63 - 1, 2**63 - 1, -1])
    other.add(Groups(ids, 2, 3), [Numbers(values, pa.int64())])
    stored = other.columns()["sum"]
    assert stored.values.dtype == object
    assert stored.to_arrow().to_pylist() == [Decimal(2**64 - 2), Decimal(-1)]
    for _ in range(2):
        state.merge(Groups(np.array([0, 1], np.uint8), 2, 2), {"sum": stored})
    state.add(Groups(None, 2, 2), [Numbers(np.full(2, -(2**63)), pa.int64())])
    state.add(Groups(None, 2, 2), [Numbers(np.full(2, -(2**62)), pa.int64())])
    assert state.finish().to_pylist() == [2**63 - 4, -2]
    state.add(Groups(None, 2, 1), [Numbers(np.array([4]), pa.int64())])
    assert state.finish(np.array([1])).to_pylist() == [-2]
    with pytest.raises(EvaluationError, match="sum"):
        state.finish()


def test_extremes_of_many_dictionaries():
    kind = primitive("max", pa.string())
    state = new_state(kind, 2)
    for i in range(40):
        part = new_state(kind, 2)
        state.merge(Groups(np.array([0, 1], np.uint8), 2, 2), part.columns())
        part.add(
            Groups(np.array([0, 1], np.uint8), 2, 2),
            [vector_of(
                [f"v{i:02}", f"w{40 - i:02}"], pa.string(), "ids")],
        )  # fmt: skip
        state.merge(Groups(np.array([0, 1], np.uint8), 2, 2), part.columns())
    assert state.finish().to_pylist() == ["v39", "w40"]
