"""From a text to final values: bound, taken apart, folded, finished."""

from __future__ import annotations

import datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.state_cases import vector_of

from projseg.aggregation.final_values import average_to_arrow, finish_call
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.parse_aggregate import bind_aggregate, result_type
from projseg.algebra.aggregates.state_columns import decompose
from projseg.algebra.expressions.tree import Column
from projseg.errors import EvaluationError
from projseg.segment_format.logical_types import TIMESTAMP

DAY = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
COLUMNS = {
    "i": (pa.int32(), [1, 2, None, 2, 7, None]),
    "d": (pa.decimal128(9, 2), [Decimal(n).scaleb(-2) for n in (100, 101, 102, 101, 5, -8)]),
    "f": (pa.float64(), [0.5, -0.0, float("nan"), 1.5, None, None]),
    "s": (pa.string(), ["b", "ä", "a", "", None, "z"]),
    "b": (pa.bool_(), [True, None, False, True, None, None]),
    "t": (TIMESTAMP, [DAY.replace(day=d) for d in (4, 2, 2, 3, 1, 1)]),
}
SCHEMA = pa.schema({name: value_type for name, (value_type, _) in COLUMNS.items()})
GROUPS = [0, 0, 0, 0, 2, 2]


def answer(text: str, selection: list[int] | None = None) -> list:
    call = bind_aggregate(text, SCHEMA, time_column="t")
    states = []
    for primitive in decompose(call):
        state = new_state(primitive, 3)
        assert primitive.filter is None
        inputs = []
        for argument in primitive.arguments:
            assert isinstance(argument, Column)
            value_type, values = COLUMNS[argument.name]
            inputs.append(vector_of(values, value_type, "ids"))
        state.add(Groups(np.array(GROUPS, np.uint8), 3, 6), inputs)
        states.append(state)
    chosen = None if selection is None else np.array(selection)
    result = finish_call(call, states, chosen)
    assert result.type == result_type(call)
    return result.to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(*)", [4, 0, 2]),
        ("count(i)", [3, 0, 1]),
        ("count(i, b)", [2, 0, 0]),
        ("sum(i)", [5, None, 7]),
        ("avg(i)", [5 / 3, None, 7.0]),
        ("min(s)", ["", None, "z"]),
        ("max(s)", ["ä", None, "z"]),
        ("bool_and(b)", [False, None, None]),
        ("bool_or(b)", [True, None, None]),
        ("bit_or(i)", [3, None, 7]),
        ("bit_xor(i)", [1, None, 7]),
        ("sum(d)", [Decimal("4.04"), None, Decimal("-0.03")]),
        ("avg(d)", [Decimal("1.010000"), None, Decimal("-0.015000")]),
        ("first(s)", ["a", None, None]),
        ("last(s)", ["b", None, "z"]),
        ("min_by(i, t)", [None, None, None]),
        ("max_by(i, t)", [1, None, 7]),
        ("var_pop(i)", [pytest.approx(2 / 9), None, 0.0]),
        ("var_samp(i)", [pytest.approx(1 / 3), None, None]),
        ("stddev_samp(i)", [pytest.approx((1 / 3) ** 0.5), None, None]),
        ("count(DISTINCT i)", [2, 0, 1]),
        ("sum(DISTINCT i)", [3, None, 7]),
        ("avg(DISTINCT i)", [1.5, None, 7.0]),
        ("avg(DISTINCT d)", [Decimal("1.010000"), None, Decimal("-0.015000")]),
        ("approx_count_distinct(i)", [2, 0, 1]),
        ("approx_count_distinct(f)", [4, 0, 0]),
        ("min(f)", [0.0, None, None]),
    ],
)
def test_final_values(text, expected):
    assert answer(text) == expected
    assert answer(text, [2, 0]) == [expected[2], expected[0]]


def test_average_of_decimals_rounds_half_away_from_zero():
    call = bind_aggregate("avg(d)", SCHEMA)
    states = [new_state(primitive, 2) for primitive in decompose(call)]
    ids = np.array([0] * 32 + [1] * 32, np.uint8)
    cents = [Decimal("0.01")] + [Decimal(0)] * 31
    values = [*cents, *(-cent for cent in cents)]
    for state in states:
        state.add(Groups(ids, 2, 64), [vector_of(values, pa.decimal128(9, 2), "numbers")])
    assert finish_call(call, states).to_pylist() == [Decimal("0.000313"), Decimal("-0.000313")]


def test_average_of_large_integers_is_exact():
    call = bind_aggregate("avg(x)", pa.schema({"x": pa.int64()}))
    states = [new_state(primitive, 1) for primitive in decompose(call)]
    largest = 2**63 - 1
    for state in states:
        state.add(Groups(None, 1, 3), [vector_of([largest, largest, 2**53 + 1], pa.int64(), "ids")])
    assert finish_call(call, states).to_pylist() == [(2 * largest + 2**53 + 1) / 3]


def test_overflow_only_where_it_is_final():
    call = bind_aggregate("sum(x)", pa.schema({"x": pa.decimal128(38, 0)}))
    (primitive,) = decompose(call)
    state = new_state(primitive, 2)
    largest = Decimal(10**38 - 1)
    ids = np.array([0, 0, 0, 1, 1], np.uint8)
    values = [largest, largest, Decimal(1 - 10**38), largest, Decimal(1)]
    state.add(Groups(ids, 2, 5), [vector_of(values, pa.decimal128(38, 0), "opaque")])
    assert finish_call(call, [state], np.array([0])).to_pylist() == [largest]
    with pytest.raises(EvaluationError, match=r"PROJSEG_OVERFLOW.*decimal\(38,0\)"):
        finish_call(call, [state])


@given(
    sums=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    count=st.sampled_from([1, 2, 3, 7, 2**31, 2**62]),
    shrink=st.sampled_from([1, 10**4, 2 * 10**4 + 1, 10**5]),
)
def test_averages_of_decimals_round_half_away_from_zero(sums, count, shrink):
    sums = [value // shrink for value in sums]
    column = average_to_arrow(
        np.array(sums, np.int64), np.full(len(sums), count), pa.decimal128(20, 2), "avg(d)"
    )
    with localcontext(prec=60, rounding=ROUND_HALF_UP):
        exact = [(Decimal(value).scaleb(-2) / count) for value in sums]
        assert column.to_pylist() == [value.quantize(Decimal("1e-6")) for value in exact]
