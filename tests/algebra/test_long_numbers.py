"""Numbers of more digits than their types hold are refused with a code, however many there are."""

from decimal import Decimal

import pyarrow as pa
import pytest

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.tree import Literal
from projseg.algebra.projection.druid_filters import sql_literal
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("x", pa.float64()),
    ]
)
FORMS = [
    "i = {}",
    "i = -{}",
    "x > {}.5",
    "x > 0.{}",
    "i = {}L",
    "CAST(s AS DECIMAL({}, 2)) = 1",
    "left(s, {}) = s",
    "t + interval '{}' day = t",
    "t + interval '{} 1' day to hour = t",
    "t + interval '{}' month = t",
    "t + interval '{}' microsecond = t",
    "time_bucket('{} days', t) = t",
    "window(t, '{} days').start = t",
]


@pytest.mark.parametrize("digit_count", [39, 5000])
@pytest.mark.parametrize("form", FORMS)
def test_a_number_that_no_type_holds_is_refused(form, digit_count):
    with pytest.raises(InvalidInputError) as refused:
        bind(form.format("9" * digit_count), SCHEMA)
    assert refused.value.code == "PROJSEG_BAD_EXPRESSION"


def test_38_digits_are_a_decimal():
    digits = "9" * 38
    assert bind(digits, SCHEMA) == Literal(pa.decimal128(38, 0), Decimal(digits))
    assert bind(f"-0.{digits}", SCHEMA) == Literal(pa.decimal128(38, 38), Decimal(f"-0.{digits}"))
    assert bind(f"i = {'0' * 5000}7", SCHEMA) == bind("i = 7", SCHEMA)


@pytest.mark.parametrize("unit", ["microsecond", "day", "month"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_an_interval_is_as_long_as_64_bits_of_microseconds_hold(unit, sign):
    longest = {"microsecond": 2**63 - 1, "day": 106_751_991, "month": 2**31 - 1}[unit]
    assert bind(f"t + interval '{sign}{longest}' {unit} = t", SCHEMA)
    with pytest.raises(InvalidInputError, match="longer than"):
        bind(f"t + interval '{sign}{longest + 1}' {unit} = t", SCHEMA)


def test_days_and_hours_of_an_interval_are_taken_together():
    with pytest.raises(InvalidInputError, match="longer than"):
        bind("t + interval '106751991 23' day to hour = t", SCHEMA)
    with pytest.raises(InvalidInputError, match="longer than"):
        bind("t + interval '106751992 days -2562047788 hours' = t", SCHEMA)


@pytest.mark.parametrize("digit_count", [3, 39, 5000])
def test_a_sketchs_size_of_many_digits_is_refused(digit_count):
    query = Query(aggregators=[f"hll_sketch_agg(i, {'9' * digit_count}) AS a"])
    with pytest.raises(InvalidInputError):
        bind_query(SCHEMA, None, query)


@pytest.mark.parametrize("digit_count", [39, 5000])
def test_a_time_of_many_digits_in_druids_filter_is_refused(digit_count):
    with pytest.raises(InvalidInputError, match="leaves years"):
        sql_literal("9" * digit_count, pa.timestamp("us", tz="UTC"), "p")
