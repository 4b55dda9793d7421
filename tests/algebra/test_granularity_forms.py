"""What a granularity keeps, says of itself, and refuses, at the edges of each."""

from dataclasses import replace

import numpy as np
import pytest
from expressions import floor_instant

from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import InvalidInputError

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
MONDAY = 4 * DAY
LOS_ANGELES = "America/Los_Angeles"
parse = Granularity.parse


@pytest.mark.parametrize(
    ("granularity", "text", "shortest", "longest"),
    [
        (Granularity.NONE, "none", 1, 1),
        (Granularity(micros=2), "PT0.000002S", 2, 2),
        (parse("PT0.5S"), "PT0.500000S", SECOND // 2, SECOND // 2),
        (parse("PT1.25S"), "PT1.250000S", 5 * SECOND // 4, 5 * SECOND // 4),
        (parse("PT59S"), "PT59S", 59 * SECOND, 59 * SECOND),
        (parse("PT90M"), "PT90M", 90 * 60 * SECOND, 90 * 60 * SECOND),
        (parse("PT3H"), "PT3H", 3 * HOUR, 3 * HOUR),
        (parse("P2D"), "P2D", 2 * DAY, 2 * DAY),
        (parse("P7D"), "P7D", 7 * DAY, 7 * DAY),
        (parse("P1W"), "P1W", 7 * DAY, 7 * DAY),
        (parse("P2W"), "P14D", 14 * DAY, 14 * DAY),
        (parse("P1M"), "P1M", 28 * DAY, 31 * DAY),
        (parse("P3M"), "P3M", 84 * DAY, 93 * DAY),
        (parse("P11M"), "P11M", 308 * DAY, 341 * DAY),
        (parse("P1Y"), "P1Y", 365 * DAY, 372 * DAY),
        (parse("P13M"), "P13M", 393 * DAY, 403 * DAY),
        (parse("P22M"), "P22M", 645 * DAY, 682 * DAY),
        (parse("P24M"), "P2Y", 730 * DAY, 744 * DAY),
        (parse("P26M"), "P26M", 786 * DAY, 806 * DAY),
    ],
)
def test_text_and_lengths(granularity, text, shortest, longest):
    assert granularity.period_text == str(granularity) == text
    assert granularity.has_default_origin
    assert granularity.length_micros == shortest
    assert granularity.longest_micros == longest
    assert not granularity.is_all
    assert granularity.is_none == (text == "none")
    assert text == "P14D" or parse(text) == granularity


def test_all_is_one_bucket_of_all_time():
    assert str(Granularity.ALL) == Granularity.ALL.period_text == "all"
    assert Granularity.ALL.length_micros == MAX_MICROS - MIN_MICROS
    assert Granularity.ALL.is_all
    assert Granularity(origin=5, timezone=LOS_ANGELES, by_clock=True) == Granularity.ALL
    assert (Granularity.ALL.origin, Granularity.ALL.timezone) == (0, "UTC")


@pytest.mark.parametrize(
    ("granularity", "text"),
    [
        (parse("PT1H", "Asia/Kolkata"), "PT1H Asia/Kolkata"),
        (parse("PT1H", origin=60 * SECOND), "PT1H from 1970-01-01T00:01:00.000000"),
        (parse("P7D", origin=MONDAY), "P1W"),
        (parse("P1W", origin=0), "P7D"),
        (parse("P1W", origin=MONDAY + 1), "P7D from 1970-01-05T00:00:00.000001"),
        (parse("P14D", origin=MONDAY), "P14D from 1970-01-05T00:00:00.000000"),
        (parse("PT1S", origin=1), "PT1S from 1970-01-01T00:00:00.000001"),
        (parse("PT1S", origin=-1), "PT1S from 1970-01-01T00:00:00.999999"),
        (
            parse("P1M", LOS_ANGELES, origin=DAY + 8 * HOUR),
            "P1M from 1970-01-02T00:00:00.000000 America/Los_Angeles",
        ),
    ],
)
def test_origin_and_zone_stand_after_the_period(granularity, text):
    assert str(granularity) == text
    assert granularity.has_default_origin == ("from" not in text)


def test_an_origin_is_kept_modulo_the_length():
    assert Granularity(micros=DAY).origin == Granularity(months=1).origin == 0
    assert Granularity(micros=HOUR, origin=25 * HOUR + 7).origin == 7
    assert Granularity(months=3, origin=(31 + 28 + 31 + 30 + 5) * DAY).origin == (31 + 5) * DAY
    assert Granularity(months=12, origin=-30 * DAY).origin == (334 + 1) * DAY


@pytest.mark.parametrize("month_start", [0, 59 * DAY, 365 * DAY])
def test_a_month_starts_before_its_29th(month_start):
    latest = Granularity(months=1, origin=month_start + 28 * DAY - 1)
    assert latest.origin == 28 * DAY - 1
    with pytest.raises(InvalidInputError, match="28th"):
        Granularity(months=1, origin=month_start + 28 * DAY)


@pytest.mark.parametrize(("months", "micros"), [(-1, 0), (0, -1), (1, 1), (-1, -1)])
def test_a_length_is_of_months_or_of_microseconds_and_positive(months, micros):
    with pytest.raises(InvalidInputError, match="months or microseconds"):
        Granularity(months, micros)


@pytest.mark.parametrize(
    ("period", "zone", "by_clock", "kept_zone", "kept_by_clock"),
    [
        ("PT1S", LOS_ANGELES, True, "UTC", False),
        ("PT0.5S", LOS_ANGELES, True, "UTC", False),
        ("none", LOS_ANGELES, True, "UTC", False),
        ("PT2S", LOS_ANGELES, True, LOS_ANGELES, True),
        ("PT0.3S", LOS_ANGELES, False, LOS_ANGELES, False),
        ("PT1H", LOS_ANGELES, False, LOS_ANGELES, False),
        ("P1D", LOS_ANGELES, False, LOS_ANGELES, False),
        ("P1D", LOS_ANGELES, True, LOS_ANGELES, True),
        ("PT25H", LOS_ANGELES, False, LOS_ANGELES, True),
        ("P1M", LOS_ANGELES, False, LOS_ANGELES, True),
        ("P1M", "UTC", True, "UTC", False),
        ("P1D", "+05:30", True, "+05:30", False),
    ],
)
def test_zone_and_clock_are_kept_where_they_matter(
    period, zone, by_clock, kept_zone, kept_by_clock
):
    parsed = parse(period)
    found = Granularity(parsed.months, parsed.micros, 0, zone, by_clock)
    assert (found.timezone, found.by_clock) == (kept_zone, kept_by_clock)


@pytest.mark.parametrize("period", ["all", "none", "PT1H", "P1M"])
@pytest.mark.parametrize("zone", ["UTC", "+05:30", LOS_ANGELES])
def test_no_instants_have_no_floors(period, zone):
    assert parse(period, zone).floor(np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize("period", ["PT1H", "P1D", "P1W", "P1M"])
def test_instants_of_several_centuries_are_floored_together(period):
    granularity = parse(period, LOS_ANGELES)
    centuries = np.arange(-2, 60, dtype=np.int64) * 7_000 * DAY + 5 * HOUR + 1
    one_by_one = [granularity.floor_one(int(micros)) for micros in centuries]
    assert granularity.floor(centuries).tolist() == one_by_one


@pytest.mark.parametrize("period", ["PT1H", "P1D", "P1M", "P1Y", "P50Y"])
@pytest.mark.parametrize("zone", ["UTC", LOS_ANGELES])
def test_after_the_last_bucket_comes_the_end_of_time(period, zone):
    granularity = parse(period, zone)
    assert granularity.next_boundary(MAX_MICROS - 1) == MAX_MICROS
    assert granularity.next_boundary(MAX_MICROS) == MAX_MICROS
    first = granularity.next_boundary(MIN_MICROS)
    assert granularity.is_boundary(first)
    assert not granularity.is_boundary(first - 1)
    assert first - MIN_MICROS <= 50 * 366 * DAY


def test_buckets_of_all_time():
    begins, starts = Granularity.ALL.pieces(5, 9)
    assert (begins.tolist(), starts.tolist()) == ([5], [MIN_MICROS])
    assert Granularity.ALL.next_boundary(5) == MAX_MICROS
    assert not Granularity.ALL.is_boundary(MIN_MICROS)


@pytest.mark.parametrize("zone", ["UTC", "+05:30", LOS_ANGELES])
def test_pieces_of_a_few_microseconds_about_a_start(zone):
    day = parse("P1D", zone)
    start = day.floor_one(20_000 * DAY)
    for low, high in ((start - 1, start + 1), (start - 1, start), (start, start + 1)):
        begins, starts = day.pieces(low, high)
        expected = [low] if low == start or high == start else [low, start]
        assert begins.tolist() == expected
        assert starts.tolist() == [day.floor_one(micros) for micros in expected]


@pytest.mark.parametrize(
    ("zone", "period", "within", "expected"),
    [
        ("+05:30", "P1D", 5 * HOUR, -19_800 * SECOND),
        ("-08:00", "P1D", 5 * HOUR, -16 * HOUR),
        ("Africa/Abidjan", "P1D", 5 * HOUR, 0),  # its clock was changed once, in 1912
    ],
)
def test_starts_by_a_clock_that_is_hardly_changed(zone, period, within, expected):
    day = 18_000 * DAY
    assert parse(period, zone).floor_one(day + within) == day + expected


FORMS = [parse(text, "America/Toronto") for text in ("PT1M", "PT1H", "PT6H", "P1D", "P2D", "P1W")]
FORMS += [replace(each, origin=each.origin + 10 * 60 * SECOND) for each in FORMS[1:]]


@pytest.mark.parametrize("by_clock", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_starts_that_the_clock_skips(form, by_clock):
    """Toronto put its clock on from 23:30 to 00:30, at the end of 30 March 1919."""
    granularity = replace(form, by_clock=by_clock)
    change = int(np.datetime64("1919-03-31T04:30", "us").astype(np.int64))
    about = change + np.arange(-60, 60, dtype=np.int64) * 20 * 60 * SECOND
    near = np.concatenate([about, change + np.arange(-2, 3)])
    expected = [floor_instant(int(micros), granularity) for micros in near]
    assert granularity.floor(near).tolist() == expected


def test_pieces_end_where_the_clock_is_changed():
    change = int(np.datetime64("1919-03-31T04:30", "us").astype(np.int64))
    day = parse("P1D", "America/Toronto")
    for low, high in ((change - 5, change - 1), (change - 5, change), (change - 5, change + 1)):
        begins, _ = day.pieces(low, high)
        assert begins.tolist() == [low] + [change] * (high > change)
