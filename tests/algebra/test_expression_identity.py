"""Which expressions are one: those with one text, and no two that can differ in a value."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query

SCHEMA = pa.schema([("x", pa.float64()), ("s", pa.string()), ("d", pa.decimal128(9, 2))])

NUMBERS = [
    *("1", "1Y", "1S", "1L", "1.0", "1.00", "1.0D", "1D", "1F", "1BD", "true"),
    *("0", "0L", "0.0", "0.00", "-0.0", "0.0D", "-0.0D", "0D", "-0D", "0.0F", "-0.0F", "false"),
    *("CAST('NaN' AS DOUBLE)", "CAST('nan' AS DOUBLE)", "CAST('NaN' AS FLOAT)"),
    *("CAST(1 AS DECIMAL(5, 2))", "CAST(1.0 AS DECIMAL(5, 2))", "CAST(1.00 AS DECIMAL(5, 3))"),
    *("CAST(0.0D * -1 AS FLOAT)", "0.0D * -1", "CAST('-0.0' AS DOUBLE)", "CAST(-0.0D AS INT)"),
]
FRAMES = [
    "{}",
    "CAST({} AS STRING)",
    "coalesce(x, {})",
    "coalesce(x * {0}, x * {1})",
    "CASE WHEN s = 'a' THEN {0} ELSE {1} END",
    "least({0}, {1})",
    "x = {}",
    "x IN ({0}, {1})",
    "x <=> {}",
    "x > {}",
]
EXPRESSIONS = st.builds(
    lambda frame, one, other: frame.format(one, other),
    st.sampled_from(FRAMES),
    st.sampled_from([n for n in NUMBERS if n not in ("true", "false")]),
    st.sampled_from([n for n in NUMBERS if n not in ("true", "false")]),
)


@settings(max_examples=tries(400))
@given(EXPRESSIONS, EXPRESSIONS)
def test_expressions_are_equal_where_their_texts_are(left, right):
    one, other = bind(left, SCHEMA), bind(right, SCHEMA)
    assert (one == other) == (to_sql(one) == to_sql(other))
    assert one != other or hash(one) == hash(other)
    assert bind(to_sql(one), SCHEMA) == one
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_other_types_or_signs_are_other_constants(number):
    expression = bind(number, SCHEMA)
    for other in NUMBERS:
        found = bind(other, SCHEMA)
        is_same = expression.type == found.type and repr(expression.value) == repr(found.value)
        assert (found == expression) == is_same, other


@pytest.mark.parametrize("frame", ["x = {}", "x <= {}", "x IN ({}, 7.0D)", "{} < x", "x <=> {}"])
def test_comparisons_know_one_zero(frame):
    assert bind(frame.format("-0.0D"), SCHEMA) == bind(frame.format("0.0D"), SCHEMA)


def test_queries_that_differ_in_a_zeros_sign_are_two():
    queries = [
        bind_query(SCHEMA, None, Query(group_by=f"x * {zero} AS z", limit=1))
        for zero in ("0.0D", "-0.0D")
    ]
    assert queries[0] != queries[1]


@pytest.mark.parametrize("zeros", [("0.0D", "-0.0D"), ("-0.0D", "0.0D")])
@pytest.mark.parametrize(
    ("frame", "is_stored"),
    [
        ("CAST(length(s) * {} AS STRING)", False),  # by dictionary value, and in plans
        ("CAST(length(s) * {} AS STRING)", True),
        ("CAST(x * {} AS STRING)", False),  # by row
        ("CAST(CASE WHEN s = 'a' THEN {} ELSE 0.0D END AS STRING)", False),
    ],
)
def test_the_sign_of_a_zero_reaches_the_answer(tmp_path, zeros, frame, is_stored):
    rows = pa.table({"s": ["a"] * 4, "x": [1.0] * 4, "d": pa.array([1] * 4, pa.decimal128(9, 2))})
    key = frame.format(zeros[0])
    projections = [projseg.Projection("p", [f"{key} AS k"], ["count(*)"])] if is_stored else []
    table = projseg.Table.create(tmp_path / "t", rows.schema, projections=projections)
    table.append(rows)
    for zero in zeros:
        found = table.query(f"{frame.format(zero)} AS k", "count(*) AS n").to_pylist()
        assert found == [{"k": "-0.0" if zero == "-0.0D" else "0.0", "n": 4}]


@pytest.mark.parametrize("aggregate", ["min(x * {})", "sum(x * {})"])
def test_a_state_over_one_zero_does_not_serve_the_other(tmp_path, aggregate):
    rows = pa.table({"s": ["a"] * 4, "x": [1.0] * 4})
    stored = projseg.Projection("p", [], [aggregate.format("0.0D") + " AS a"])
    table = projseg.Table.create(tmp_path / "t", rows.schema, projections=[stored])
    table.append(rows)
    (segment,) = table.explain(aggregators=aggregate.format("-0.0D")).segments.to_pylist()
    assert dict(segment["rejected"])["p"].startswith("AGGREGATOR_NOT_STORED")


def test_an_expression_from_another_process_is_found_among_equals():
    """Texts hash otherwise there, so what is remembered of a hash must not travel."""
    text = "x * 2.0D > 1.0D AND s = 'a'"
    known = {bind(text, SCHEMA): "known"}
    program = (
        "import pickle, sys; from test_expression_identity import SCHEMA, bind;"
        f"one = bind({text!r}, SCHEMA); hash(one); sys.stdout.buffer.write(pickle.dumps(one))"
    )
    for seed in ("1", "2"):
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True
        )
        assert known[pickle.loads(done.stdout)] == "known"
