"""Odd calls of functions end in values or in coded errors, over rows, none, one and nulls."""

import random

import function_matrix
import pyarrow as pa
import pytest
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate_in_parts
from projseg.errors import ProjsegError

TABLE = function_matrix.table()
COLUMNS = {name: TABLE[name].combine_chunks() for name in TABLE.column_names}
ROWS = [
    (COLUMNS, TABLE.num_rows),
    ({name: values.slice(0, 0) for name, values in COLUMNS.items()}, 0),
    ({name: values.slice(3, 1) for name, values in COLUMNS.items()}, 1),
    ({name: pa.nulls(2, values.type) for name, values in COLUMNS.items()}, 2),
]
SHARES = 8
"""The calls of a night, so that each test takes about a minute."""


def check(text, zone):
    """Bind and evaluate a text; only errors of the project may come."""
    try:
        expression = bind(text, TABLE.schema, timezone=zone)
    except ProjsegError:
        return
    for columns, row_count in ROWS:
        try:
            found = evaluate_in_parts(expression, columns, row_count)
        except ProjsegError:
            continue
        assert (found.type, len(found)) == (expression.type, row_count), text
        found.validate(full=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("share", range(SHARES))
def test_odd_calls_end_in_codes(share):
    rng = random.Random(share)
    for _ in range(tries(4000)):
        text = function_matrix.odd_call(rng)
        try:
            check(text, rng.choice(["UTC", "America/New_York", "Asia/Kolkata"]))
        except Exception as error:
            raise AssertionError(text) from error


@pytest.mark.slow
def test_every_function_over_every_type_ends_in_codes():
    for text in (*function_matrix.calls(), *function_matrix.forms()):
        check(text, "America/New_York")


MENDED = [
    ("round(f, '😀')", "PROJSEG_BAD_EXPRESSION"),
    ("round(f, 4294967296)", "PROJSEG_BAD_EXPRESSION"),
    ("ceil(y, CAST('inf' AS FLOAT))", "PROJSEG_BAD_EXPRESSION"),
    ("floor(x, DATE '0001-01-01')", "PROJSEG_BAD_EXPRESSION"),
    ("regexp_extract(s, '(', TIMESTAMP '2015-09-12 00:00:00')", "PROJSEG_BAD_EXPRESSION"),
    ("split(s, 'a', 'ß')", "PROJSEG_BAD_EXPRESSION"),
    ("least(a, a2)", "PROJSEG_BAD_EXPRESSION"),
    ("greatest(r, r2)", "PROJSEG_BAD_EXPRESSION"),
]


@pytest.mark.parametrize(("text", "code"), MENDED)
def test_what_raised_other_errors_has_a_code(text, code):
    with pytest.raises(ProjsegError) as raised:
        evaluate_in_parts(bind(text, TABLE.schema, timezone="Asia/Kolkata"), COLUMNS, len(TABLE))
    assert raised.value.code == code


def test_texts_that_are_all_null_are_joined():
    """Arrow's join made 59 rows of 60."""
    for text in ("concat_ws(',', s, u)", "concat_ws(s, i)", "concat_ws(',', s)", "concat_ws(s)"):
        check(text, "UTC")
    rows = {name: pa.array([None, "b"]) for name in "su"}
    found = evaluate_in_parts(bind("concat_ws(',', s, u)", TABLE.schema), rows, 2)
    assert found.to_pylist() == ["", "b,b"]


@pytest.mark.parametrize("digits", [2**31 - 1, -(2**31)])
def test_rounding_to_any_digits_takes_no_time(digits):
    for name in "bfgmwx":
        for function in ("round", "bround", "floor", "ceil"):
            check(f"{function}({name}, {digits})", "UTC")
