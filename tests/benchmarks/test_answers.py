"""Answers of different engines compare by meaning, not by type or row order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from projseg.benchmarks.bench import (
    Bench,
    approximation_error,
    find_difference,
    first_difference,
    normalised,
)
from projseg.benchmarks.workload import Question

BY_DAY = Question("q", ("date_trunc('DAY', time) AS day", "channel"), ("sum(added) AS added",))


def _difference(expected, found, query=BY_DAY):
    return find_difference(normalised(expected, query), normalised(found, query), query)


def _expected():
    return pa.table(
        {
            "day": pa.array(
                [datetime(2015, 9, 1, tzinfo=UTC), datetime(2015, 9, 2, tzinfo=UTC)],
                pa.timestamp("us", tz="UTC"),
            ),
            "channel": ["a", "b"],
            "added": pa.array([3, None], pa.int64()),
        }
    )


def test_types_names_and_row_order_do_not_matter():
    found = pa.table(
        {
            "x": pa.array([date(2015, 9, 2), date(2015, 9, 1)], pa.date32()),
            "y": pa.array([b"b", b"a"], pa.binary()).cast(pa.string()).dictionary_encode(),
            "z": pa.array([None, Decimal(3)], pa.decimal128(38, 0)),
        }
    )
    assert _difference(_expected(), found) is None


@pytest.mark.parametrize(
    ("column", "values", "difference"),
    [
        (2, pa.array([4, None], pa.int64()), "added differs in 1 of 2 rows, first in row 0: 4"),
        (2, pa.array([3, 0], pa.int64()), "added differs in 1 of 2 rows, first in row 1: 0"),
        (2, pa.array([3.0, None]), "added is double instead of int64"),
        (1, pa.array(["a", "c"]), "channel differs"),
    ],
)
def test_a_different_value_is_found(column, values, difference):
    name = _expected().column_names[column]
    found = _expected().set_column(column, name, values)
    assert difference in (_difference(_expected(), found) or "")


def test_what_a_limit_leaves_open_is_not_compared():
    some, others = (
        pa.table({"day": [1, 1], "channel": names, "added": pa.array([1, 2])})
        for names in (["a", "b"], ["c", "d"])
    )
    assert "channel differs" in _difference(some, others)
    by_day = replace(BY_DAY, determined=("day",))
    assert _difference(some, others, by_day) is None
    assert "1 rows instead of 2" in _difference(some, others.slice(1), by_day)
    assert "1 rows instead of 2" in _difference(
        some, others.slice(1), replace(by_day, determined=())
    )


def test_missing_rows_are_found():
    assert _difference(_expected(), _expected().slice(1)) == "1 rows instead of 2"


def test_sums_of_doubles_may_differ_in_the_last_digits():
    query = Question("q", (), ("sum(price) AS price",))
    expected = pa.table({"price": [1.0e6]})
    assert _difference(expected, pa.table({"price": [1.0e6 + 1e-5]}), query) is None
    assert _difference(expected, pa.table({"price": [1.0e6 + 1.0]}), query) is not None


def test_scanned_rows_are_compared_as_a_bag():
    query = Question("q", columns=("page", "price"))
    expected = pa.table({"page": ["a", "a", "b"], "price": [1.0, 2.0, 3.0]})
    assert _difference(expected, expected.take([2, 1, 0]), query) is None
    twice = pa.table({"page": ["a", "a", "b"], "price": [1.0, 1.0, 3.0]})
    assert _difference(expected, twice, query) is not None


def test_approximate_counts_are_measured_not_compared():
    query = Question("q", ("channel",), ("approx_count_distinct(user) AS users",))
    exact = normalised(pa.table({"channel": ["a", "b"], "users": [100, 200]}), query)
    found = normalised(pa.table({"channel": ["b", "a"], "users": [190, 101]}), query)
    assert find_difference(exact, found, query) is None
    assert approximation_error(exact, found, query) == pytest.approx(0.05)
    few, fewer = (normalised(pa.table({"c": ["a"], "u": [n]}), query) for n in (7, 6))
    assert approximation_error(fewer, few, query) == pytest.approx(0.05)
    assert "count(DISTINCT user)" in query.exact().aggregators[0]


def test_decimals_are_compared_at_their_value_and_doubles_as_far_as_they_were_rounded():
    query = Question("q", (), ("sum(price) AS price",))
    cents = pa.table({"price": pa.array([Decimal("2.50")], pa.decimal128(38, 2))})
    finer = pa.table({"price": pa.array([Decimal("2.5000")], pa.decimal128(38, 4))})
    other = pa.table({"price": pa.array([Decimal("2.5001")], pa.decimal128(38, 4))})
    assert _difference(cents, finer, query) is None
    assert "instead of Decimal" in _difference(cents, other, query)
    mean = pa.table({"price": [2.504]})
    assert _difference(mean, cents, query) is None
    assert _difference(mean, other, query) is not None


ANSWER = {"a": [1, 2, None], "b": [0.1, None, 3.0], "c": ["x", "y", None]}


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({}, None),
        ({"a": [2, 1, None], "b": [None, 0.1 + 1e-13, 3.0], "c": ["y", "x", None]}, None),
        ({"a": pa.array([1, 2, None], pa.decimal128(38, 0))}, None),
        ({"a": [1, 3, None]}, "a differs in 1 of 3 rows, first in row 1: 3 instead of 2"),
        ({"b": [0.1, 0.5, 3.0]}, "b differs in 1 of 3 rows, first in row 1: 0.5 instead of None"),
        ({"c": ["x", "z", None]}, "c differs in 1 of 3 rows, first in row 1: 'z' instead of 'y'"),
        ({"a": ["1", "2", None]}, "a is string instead of int64"),
    ],
)
def test_ways_of_a_scenario_are_compared_by_their_rows(changed, difference):
    assert first_difference(pa.table(ANSWER), pa.table({**ANSWER, **changed})) == difference


def test_an_answer_with_other_rows_is_a_problem_of_its_scenario(tmp_path):
    bench = Bench({"rounds": 1}, tmp_path, print)
    one, other = pa.table({"a": [1]}), pa.table({"a": [2]})
    bench.compare("t", "case", {"one": lambda: one, "same": lambda: one, "other": lambda: other})
    assert bench.problems == [
        "differs: case by other: a differs in 1 of 1 rows, first in row 0: 2 instead of 1"
    ]
