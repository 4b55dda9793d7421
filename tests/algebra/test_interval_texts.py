"""Texts of Spark's interval constants: the length of each unit, signs, fractions and bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.time.duration import Span, parse_interval, parse_interval_range
from projseg.errors import InvalidInputError

UNITS = {
    "microsecond": Span(clock_micros=1),
    "millisecond": Span(clock_micros=1_000),
    "second": Span(clock_micros=1_000_000),
    "minute": Span(clock_micros=60_000_000),
    "hour": Span(clock_micros=3_600_000_000),
    "day": Span(days=1),
    "week": Span(days=7),
    "month": Span(months=1),
    "quarter": Span(months=3),
    "year": Span(months=12),
}
BETWEEN = {"month": "-", "hour": " ", "minute": ":", "second": ":"}
RANGES = [
    ["year", "month"],
    ["day", "hour"],
    ["day", "hour", "minute"],
    ["day", "hour", "minute", "second"],
    ["hour", "minute"],
    ["hour", "minute", "second"],
    ["minute", "second"],
]
FRACTIONS = {"": 0, ".5": 500_000, ".000001": 1, ".0000019": 1, ".123456789": 123_456}


def times(span, count):
    return Span(span.months * count, span.days * count, span.clock_micros * count)


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["", "+", "-"]), st.integers(0, 99), st.sampled_from([*UNITS])),
        min_size=1,
        max_size=4,
    ),
    joint=st.sampled_from([" ", ", ", "  "]),
    before=st.sampled_from(["", "interval ", " INTERVAL "]),
)
def test_parts_add_up(parts, joint, before):
    total = Span()
    for sign, count, unit in parts:
        total = total.plus(times(UNITS[unit], -count if sign == "-" else count))
    text = before + joint.join(f"{sign}{n} {unit.upper()}S" for sign, n, unit in parts)
    assert parse_interval(text) == total
    assert parse_interval(total.text) == total
    assert total.negated() == times(total, -1)
    assert total.micros == total.days * 86_400_000_000 + total.clock_micros


@pytest.mark.parametrize(("fraction", "micros"), FRACTIONS.items())
@pytest.mark.parametrize("sign", ["", "-"])
def test_seconds_have_a_fraction(sign, fraction, micros):
    factor = -1 if sign else 1
    assert parse_interval(f"{sign}3{fraction} seconds").clock_micros == factor * (
        3_000_000 + micros
    )
    found = parse_interval_range(f"{sign}2:03{fraction}", "minute", "second")
    assert found.clock_micros == factor * (123_000_000 + micros)


@pytest.mark.parametrize("units", RANGES, ids="-".join)
@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_a_range_is_of_all_its_units(units, sign):
    counts = range(2, 2 + len(units))
    total, text = Span(), sign
    for unit, count in zip(units, counts, strict=True):
        text += (BETWEEN[unit] if unit != units[0] else "") + str(count)
        total = total.plus(times(UNITS[unit], count))
    wanted = times(total, -1 if sign == "-" else 1)
    assert parse_interval_range(f" {text} ", units[0].upper(), units[-1]) == wanted


@pytest.mark.parametrize("text", ["", "interval", "1", "day", "1 era", "1.5 days", "1 day 2"])
def test_other_text_is_no_interval(text):
    with pytest.raises(InvalidInputError, match="is not an interval"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("1-2", "day", "hour"), ("1-2", "month", "year"), ("x", "day", "hour")],
)
def test_other_text_is_no_range(text, first, last):
    with pytest.raises(InvalidInputError, match="is not an interval"):
        parse_interval_range(text, first, last)


LONGEST = {
    f"{2**31 - 1} months": Span(months=2**31 - 1),
    f"-{2**31 - 1} months": Span(months=1 - 2**31),
    f"{2**63 - 1} microseconds": Span(clock_micros=2**63 - 1),
    f"-{2**63 - 1} microseconds": Span(clock_micros=1 - 2**63),
    "106751991 days": Span(days=106_751_991),
}
TOO_LONG = [
    f"{2**31} months",
    f"-{2**31} months",
    f"{2**63} microseconds",
    f"-{2**63} microseconds",
    "106751992 days",
    "-106751992 days",
    "106751991 days 5 hours",
    "106751992 days -21 hours",
    "1000000000 weeks",
    f"{'0' * 19}1 days",
    f"{'9' * 5000} days",
]


@pytest.mark.parametrize("text", LONGEST)
def test_the_longest_intervals_are_intervals(text):
    assert parse_interval(text) == LONGEST[text]


@pytest.mark.parametrize("text", TOO_LONG)
def test_longer_ones_are_refused(text):
    with pytest.raises(InvalidInputError, match="longer than an interval may be"):
        parse_interval(text)


def test_a_range_that_is_too_long_is_refused():
    assert parse_interval_range(f"0-{2**31 - 1}", "year", "month") == Span(months=2**31 - 1)
    with pytest.raises(InvalidInputError, match="longer than an interval may be"):
        parse_interval_range(f"0-{2**31}", "year", "month")
