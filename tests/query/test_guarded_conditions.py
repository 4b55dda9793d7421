"""Conditions whose operands may fail, hold constants of a segment, or are negated in blocks."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import projseg

COUNT = "count(*) AS n"
ROWS = pa.table(
    {
        "x": pa.array([0, 1, 2, None] * 2_500, pa.int32()),
        "y": pa.array([5, 6, 7, 8] * 2_500, pa.int64()),
        "s": ["x", "4", "1", "9"] * 2_500,
        "a": [True, None, True, None] * 2_500,
        "b": [True] * 10_000,
        "d": pa.array([Decimal(n) for n in range(4)] * 2_500, pa.decimal128(5, 2)),
    }
)


def counted(rows, condition, tmp_path):
    """Return how many rows fulfil a condition, as a filter and in a FILTER."""
    table = projseg.Table.create(str(tmp_path / "t"), rows.schema, data=rows)
    (left,) = table.query(aggregators=COUNT, filter=condition).to_pylist()
    (chosen,) = table.query(aggregators=f"count(*) FILTER (WHERE {condition}) AS n").to_pylist()
    assert left == chosen
    return left["n"]


@pytest.mark.parametrize("row_count", [100, 10_000])
@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("x = 0 OR y / x > 4", 2),
        ("y < 0 OR (x <> 0 AND y / x > 4)", 1),
        ("d = 0 OR y / d > 4", 2),
        ("s <> 'x' AND CAST(s AS INT) > 3", 2),
        ("s IN ('x', '1') OR y / CAST(s AS INT) > 1", 3),
        ("x = 1 OR x = 0 OR 3 / (x - 1) > 1", 3),
    ],
)
def test_an_operand_that_may_fail_is_computed_for_rows_that_need_it(
    tmp_path, condition, share, row_count
):
    assert counted(ROWS.slice(0, row_count), condition, tmp_path) == share * row_count // 4


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("NOT coalesce(a, b)", 0),
        ("NOT if(x > y, a, b)", 0),
        ("CAST(y IS NOT NULL AS INT) * 300 = 300", 10_000),
        ("CAST(NOT (y IS NULL) AS BIGINT) * 9000000000 > 1", 10_000),
        ("CAST(x + 1 IS NOT NULL AS INT) * y > 6", 2_500),
    ],
)
def test_the_opposite_of_a_known_truth_is_known_too(tmp_path, condition, value):
    assert counted(ROWS, condition, tmp_path) == value


@pytest.mark.parametrize("operator", ["+", "-", ""])
def test_a_double_may_have_a_sign_and_an_exponent(tmp_path, operator):
    assert counted(ROWS, f"y > -1e{operator}1D", tmp_path) == 10_000


START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({"aggregators": COUNT, "filter": "(f = 1 OR hour(time) = 9) AND s >= 'b'"}, [1]),
        ({"aggregators": COUNT, "filter": "(f = 1 OR time IS NULL) AND s >= 'c'"}, [0]),
        ({"aggregators": "count(*) FILTER (WHERE f > 0 AND dayofweek(time) = 1)"}, [0]),
        ({"aggregators": "count(*) FILTER (WHERE f > 0 AND dayofweek(time) = 4)"}, [2]),
        (
            {
                "aggregators": "sum(CASE WHEN f = 1 AND to_date(time) = DATE '2024-05-01' "
                "THEN f ELSE 0 END) AS n"
            },
            [1],
        ),
    ],
)
@pytest.mark.parametrize("context", [{}, {"noProjections": True}])
def test_constants_of_a_segment_stand_among_other_conditions(tmp_path, question, expected, context):
    rows = pa.table(
        {"time": [START] * 3, "f": pa.array([0, 1, 2], pa.int32()), "s": ["a", "b", "c"]}
    )
    declared = [
        projseg.Projection("p", ["f", "s"], ["count(*)", "sum(f)"]),
        projseg.Projection("r", columns=["f", "s", "time"], order_by=["s"]),
    ]
    table = projseg.Table.create(
        str(tmp_path / "t"), rows.schema, time_column="time", data=rows, projections=declared
    )
    answer = table.query(**question, context=context)
    assert answer.column(0).to_pylist() == expected


@pytest.mark.parametrize(
    ("time", "zone", "year"),
    [
        (datetime.datetime(9999, 12, 31, 20, tzinfo=datetime.UTC), "Asia/Kolkata", 10_000),
        (datetime.datetime(1, 1, 1, 5, tzinfo=datetime.UTC), "America/Los_Angeles", 0),
    ],
)
def test_days_outside_of_the_calendar_are_no_error(tmp_path, time, zone, year):
    rows = pa.table({"time": [time]})
    table = projseg.Table.create(
        str(tmp_path / "t"), rows.schema, time_column="time", data=rows, segment_granularity="month"
    )
    for condition, count in [
        (f"year(time) = {year}", 1),
        ("year(time) = 2024", 0),
        ("to_date(time) = DATE '2024-05-01'", 0),
        ("trunc(time, 'MM') = DATE '2024-05-01'", 0),
    ]:
        question = {"columns": "time", "filter": condition, "context": {"timezone": zone}}
        assert table.query(**question).num_rows == count


def test_a_day_that_no_constant_names_is_computed_in_its_rows(tmp_path):
    rows = pa.table({"n": [1, 2]})
    table = projseg.Table.create(str(tmp_path / "t"), rows.schema, data=rows)
    answer = table.query(
        columns="year(to_date(TIMESTAMP '9999-12-31 23:00:00Z')) + n AS y",
        context={"timezone": "Asia/Kolkata"},
    )
    assert answer["y"].to_pylist() == [10_001, 10_002]


@pytest.mark.parametrize(
    "condition", ["NULL", "coalesce(NULL, NULL)", "CASE WHEN x = 1 THEN NULL END"]
)
def test_a_filter_without_a_type_chooses_no_row(tmp_path, condition):
    aggregators = [
        f"count(*) FILTER (WHERE {condition}) AS n",
        f"sum(y) FILTER (WHERE {condition}) AS s",
    ]
    declared = projseg.Projection("p", ["a"], aggregators)
    table = projseg.Table.create(str(tmp_path / "t"), ROWS.schema, projections=[declared])
    table.append(ROWS.slice(0, 100))
    for context in ({}, {"noProjections": True}):
        answer = table.query(group_by="a", aggregators=aggregators, order_by="a", context=context)
        assert answer.to_pylist() == [
            {"a": None, "n": 0, "s": None},
            {"a": True, "n": 0, "s": None},
        ]
