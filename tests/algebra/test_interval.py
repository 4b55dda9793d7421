"""Intervals: their forms, their arithmetic, and what is refused."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.errors import InvalidInputError

DAY = 86_400_000_000
SEPTEMBER_12 = 1_442_016_000_000_000


@pytest.mark.parametrize(
    "text",
    [
        "2015-09-12/2015-09-13",
        "2015-09-12/P1D",
        "P1D/2015-09-13",
        "2015-09-12T00:00:00Z/PT24H",
        "2015-09-12T02:00:00+02:00/2015-09-13T00:00:00.000",
        " 2015-09-12 / 2015-09-13 ",
        (dt.date(2015, 9, 12), dt.date(2015, 9, 13)),
        (dt.datetime(2015, 9, 12), dt.datetime(2015, 9, 13, tzinfo=dt.UTC)),
        ("2015-09-12", dt.date(2015, 9, 13)),
    ],
)
def test_one_day_in_many_forms(text):
    assert Interval.parse(text) == Interval(SEPTEMBER_12, SEPTEMBER_12 + DAY)


def test_times_without_a_zone_are_read_in_the_one_given():
    local = Interval.parse("2015-09-12/P1D", "America/Los_Angeles")
    assert local.start_us == SEPTEMBER_12 + 7 * 3_600_000_000
    short = Interval.parse("2025-03-09/2025-03-10", "America/Los_Angeles")
    assert short.end_us - short.start_us == 23 * 3_600_000_000


def test_months_end_where_the_month_does():
    assert str(Interval.parse("2015-01-31/P1M")) == "2015-01-31T00:00:00Z/2015-02-28T00:00:00Z"
    assert str(Interval.parse("P1Y/2020-02-29")) == "2019-02-28T00:00:00Z/2020-02-29T00:00:00Z"
    assert str(Interval.parse("2015-12-15/P1M1W")) == "2015-12-15T00:00:00Z/2016-01-22T00:00:00Z"


def test_all_time():
    eternity = Interval(MIN_MICROS, MAX_MICROS)
    assert eternity == Interval.ETERNITY
    assert Interval.parse(str(Interval.ETERNITY)) == Interval.ETERNITY


@pytest.mark.parametrize(
    "text",
    [
        "2015-09-12",
        "2015-09-13/2015-09-12",
        "P1D/P1D",
        "2015-09-12/P1D/P1D",
        "yesterday/today",
        "2015-02-30/P1D",
        "9999-12-31/P1Y",
        "P1Y/0001-06-01",
        "20000-01-01/P1D",
        "",
        (1, 2),
        (dt.date(2015, 1, 1),),
    ],
)
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(InvalidInputError) as caught:
        Interval.parse(text)
    assert "\n" not in caught.value.message
    assert caught.value.code in ("PROJSEG_BAD_INTERVAL", "PROJSEG_BAD_PERIOD")


def test_a_side_that_is_no_time_is_named():
    with pytest.raises(InvalidInputError, match="'yesterday' in interval 'yesterday/P1D'"):
        Interval.parse("yesterday/P1D")


def test_time_ends_with_an_empty_interval():
    assert Interval(MAX_MICROS, MAX_MICROS).is_empty


def test_values_outside_time_are_refused():
    with pytest.raises(InvalidInputError):
        Interval(MIN_MICROS - 1, 0)
    with pytest.raises(InvalidInputError):
        Interval(0, MAX_MICROS + 1)


bounds = st.integers(-50, 50)
intervals = st.tuples(bounds, bounds).map(lambda pair: Interval(min(pair), max(pair)))


@given(intervals, intervals)
def test_set_operations_are_those_of_sets(left, right):
    one, two = set(range(left.start_us, left.end_us)), set(range(right.start_us, right.end_us))
    both = left.intersect(right)
    assert (set() if both is None else set(range(both.start_us, both.end_us))) == one & two
    assert left.overlaps(right) == bool(one & two)
    assert left.contains(right) == (two <= one)
    assert left.is_empty == (not one)


@given(st.integers(MIN_MICROS, MAX_MICROS), st.integers(0, 10**15))
def test_text_reads_back(start, length):
    interval = Interval(start, min(start + length, MAX_MICROS))
    assert Interval.parse(str(interval)) == interval
