"""Casts and comparisons that would lose digits on the way through doubles, against exact numbers.

What is expected of Spark was taken from Spark 4.3 in ANSI mode; `tests/spark` asks Spark itself.
"""

import datetime
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.proofs.filter_proofs import Premises
from projseg.errors import EvaluationError

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
WIDE = Context(prec=100)


def values(text, array):
    schema = pa.schema([("x", array.type)])
    found = evaluate(bind(text, schema), {"x": array}, len(array))
    return found.cast(pa.int64()) if pa.types.is_timestamp(found.type) else found


def decimals(scale, digits=38):
    limit = 10**digits - 1
    return st.integers(-limit, limit).map(lambda n: Decimal(n).scaleb(-scale, context=WIDE))


@settings(max_examples=tries(200))
@given(st.data())
def test_decimals_become_timestamps_without_their_last_digits(data):
    scale = data.draw(st.integers(0, 38))
    limit = 250_000_000_000 * 10**scale
    numbers = st.integers(-min(limit, 10**38 - 1), min(limit, 10**38 - 1))
    unscaled = data.draw(st.lists(numbers, min_size=1, max_size=9))
    exact = [Decimal(n).scaleb(-scale, context=WIDE) for n in unscaled]
    exact = [n if n > -62_000_000_000 else -n for n in exact]
    array = pa.array(exact, pa.decimal128(38, scale))
    expected = []
    for number in exact:
        product = Context(prec=34).multiply(number, Decimal(10**6))  # Scala's, of 34 digits
        expected.append(int(product.to_integral_value(ROUND_DOWN, WIDE)))
    assert values("CAST(x AS TIMESTAMP)", array).to_pylist() == expected


@settings(max_examples=tries(200))
@given(st.lists(st.integers(-62_000_000_000 * 10**6, 250_000_000_000 * 10**6), min_size=1))
def test_timestamps_become_decimals_and_come_back(micros):
    array = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    found = values("CAST(x AS DECIMAL(20, 6))", array).to_pylist()
    assert found == [Decimal(n).scaleb(-6) for n in micros]
    there_and_back = values("CAST(CAST(x AS DECIMAL(20, 6)) AS TIMESTAMP)", array)
    assert there_and_back.to_pylist() == micros


@settings(max_examples=tries(200))
@given(st.lists(st.floats(-1e10, 1e10, width=32), min_size=1))
def test_floats_become_decimals_through_the_double_that_they_are(numbers):
    found = values("CAST(x AS DECIMAL(38, 18))", pa.array(numbers, pa.float32())).to_pylist()
    unit = Decimal(1).scaleb(-18)
    assert found == [Decimal(repr(n)).quantize(unit, ROUND_HALF_UP, WIDE) for n in numbers]


@settings(max_examples=tries(200))
@given(st.integers(0, 38), st.data())
def test_decimals_become_whole_numbers_and_doubles_exactly(scale, data):
    exact = data.draw(st.lists(decimals(scale, data.draw(st.integers(1, 38))), min_size=1))
    array = pa.array(exact, pa.decimal128(38, scale))
    assert values("CAST(x AS DOUBLE)", array).to_pylist() == [float(n) for n in exact]
    whole = [int(n.to_integral_value(ROUND_DOWN, WIDE)) for n in exact]
    if all(-(2**63) <= n < 2**63 for n in whole):
        assert values("CAST(x AS BIGINT)", array).to_pylist() == whole
    else:
        with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_OVERFLOW"):
            values("CAST(x AS BIGINT)", array)


@pytest.mark.parametrize("float_type", [pa.float32(), pa.float64()])
def test_the_largest_bigint_as_a_double_is_the_largest_bigint(float_type):
    numbers = pa.array([2.0**63, -(2.0**63), -0.9, 0.9], float_type)
    assert values("CAST(x AS BIGINT)", numbers).to_pylist() == [2**63 - 1, -(2**63), 0, 0]
    above = np.nextafter(np.array(2.0**63, float_type.to_pandas_dtype()), np.inf)
    with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_OVERFLOW"):
        values("CAST(x AS BIGINT)", pa.array([float(above)], float_type))
    with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_OVERFLOW"):
        values("CAST(x AS INT)", pa.array([2.0**31], float_type))


@pytest.mark.parametrize("float_type", [pa.float32(), pa.float64()])
def test_what_is_no_number_is_no_decimal(float_type):
    odd = pa.array([float("inf"), float("-inf"), float("nan"), None, 1.5], float_type)
    found = values("CAST(x AS DECIMAL(10, 2))", odd).to_pylist()
    assert found == [None, None, None, None, Decimal("1.50")]
    schema = pa.schema([("x", float_type)])
    premises = Premises((bind("x IS NOT NULL", schema),))
    assert premises.is_not_null(bind("x + 1", schema))
    assert not premises.is_not_null(bind("CAST(x AS DECIMAL(10, 2))", schema))
    with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_OVERFLOW"):
        values("CAST(x AS DECIMAL(2, 2))", odd)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("locate('', x, 5)", 1),
        ("locate('', x, 1)", 1),
        ("locate('', x)", 1),
        ("locate('', x, 0)", 0),
        ("locate('', x, -1)", 0),
        ("locate('b', x, 2)", 2),
        ("locate('b', x, 3)", 0),
        ("locate('x', x, 9)", 0),
        ("locate('a', x, CAST(NULL AS INT))", 0),
        ("locate('a', CAST(NULL AS STRING), CAST(NULL AS INT))", 0),
        ("locate(CAST(NULL AS STRING), x, 1)", None),
        ("locate(CAST(NULL AS STRING), x, 0)", None),
        ("position('', x, 9)", 1),
        ("instr(x, '')", 1),
    ],
)
def test_locate(text, found):
    assert values(text, pa.array(["abc"])).to_pylist() == [found]


@pytest.mark.parametrize(
    ("number", "text", "found"),
    [
        ("1", "x = 0.5", True),  # Spark rounds what 38 digits cannot hold beside all whole digits
        ("1", "x < 0.5", False),
        ("0", "x < 0.5", True),
        ("2", "x = 1.5", True),
        ("2", "x > 1.99", False),
        ("1", "x <=> 0.5", True),
        ("1", "x IN (0.5, 1)", True),
        ("0", "x IN (0.5)", False),
        ("2", "x IN (1.5, 2.5)", True),
        ("1", "x BETWEEN 0.5 AND 1.5", True),
        ("2", "x = 1.5D", False),
        ("2", "x = 2L", True),
        ("1", "coalesce(x, 0.5)", Decimal(1)),
        ("1", "least(x, 0.5)", Decimal(1)),
        ("1", "nullif(x, 0.5)", None),
        ("1", "x + 0.5", Decimal("1.5")),
        ("1", "x / 3.0", Decimal("0.333333")),
        ("2", "x % 0.3", Decimal("0.2")),
        ("9" * 38, "x IN (0.5, 1)", False),
    ],
)
def test_decimals_of_38_digits_beside_fractions(number, text, found):
    array = pa.array([Decimal(number)], pa.decimal128(38, 0))
    assert values(text, array).to_pylist() == [found]


def test_decimals_compare_exactly_where_38_digits_hold_both():
    array = pa.array([Decimal("0.56"), Decimal("0.55")], pa.decimal128(38, 2))
    assert values("x = 0.555", array).to_pylist() == [True, False]
    narrow = array.cast(pa.decimal128(37, 2))
    assert values("x = 0.555", narrow).to_pylist() == [False, False]
    assert values("x > 0.555", narrow).to_pylist() == [True, False]
