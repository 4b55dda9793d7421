"""Granularities: names, floors against zoneinfo one instant at a time, and bucket boundaries."""

import datetime as dt
import zoneinfo
from dataclasses import replace

import numpy as np
import pytest
from expressions import floor_instant
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_zones import ODD_ZONES
from scale import tries

from projseg.algebra.time.bucket_order import always_refines, refines
from projseg.algebra.time.duration import DAY, HOUR, MINUTE
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MIN_MICROS, zone_name, zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import InvalidInputError

PERIODS = [
    "PT1S",
    "PT1M",
    "PT5M",
    "PT7M",
    "PT15M",
    "PT30M",
    "PT1H",
    "PT6H",
    "PT7H",
    "P1D",
    "P3D",
    "P7D",
    "P1W",
    "P2W",
    "P1M",
    "P2M",
    "P3M",
    "P1Y",
]
ZONES = ["UTC", *ODD_ZONES]
START, END = -4_102_444_800_000_000, 4_070_908_800_000_000  # 1840 to 2099


def micros_of(text):
    return Interval.parse((text, text)).start_us


@st.composite
def instants(draw, zone):
    """Instants of 260 years, half of them near a transition of the zone."""
    changes = [int(t) for t in zone_table(zone).starts[1:] if START < t < END]
    if changes and draw(st.booleans()):
        return draw(st.sampled_from(changes)) + draw(st.integers(-2 * DAY, 2 * DAY))
    return draw(st.integers(START, END))


@st.composite
def granularities(draw):
    granularity = Granularity.parse(draw(st.sampled_from(PERIODS)), draw(st.sampled_from(ZONES)))
    if draw(st.integers(0, 3)) == 0:
        origin = draw(st.integers(0, 20)) * DAY + draw(st.integers(0, 95)) * 15 * MINUTE
        granularity = replace(granularity, origin=origin)
    return replace(granularity, by_clock=draw(st.booleans()))


@given(st.data())
@settings(deadline=None, max_examples=tries(150))
def test_floor_equals_the_calendar_one_instant_at_a_time(data):
    granularity = data.draw(granularities())
    micros = data.draw(instants(granularity.timezone))
    assert granularity.floor_one(micros) == floor_instant(micros, granularity)


@given(st.data())
@settings(deadline=None, max_examples=tries(100))
def test_a_bucket_ends_where_the_next_begins(data):
    granularity = data.draw(granularities())
    micros = data.draw(instants(granularity.timezone))
    following = granularity.next_boundary(micros)
    start = granularity.floor_one(micros)
    assert micros < following
    within = [int(x) for x in np.linspace(micros, following - 1, 50)]
    assert set(granularity.floor(np.array(within)).tolist()) == {start}
    assert granularity.floor_one(following) != start


@given(granularities(), st.integers(START, END))
@settings(deadline=None, max_examples=tries(100))
def test_text_and_period_read_back(granularity, micros):
    if granularity.has_default_origin:
        parsed = Granularity.parse(granularity.period_text, granularity.timezone)
        assert replace(parsed, by_clock=granularity.by_clock) == granularity
    assert granularity.with_origin(granularity.floor_one(micros)).length_micros == (
        granularity.length_micros
    )


@pytest.mark.parametrize(
    ("name", "period"),
    [
        ("five_minute", "PT5M"),
        ("thirty_minute", "PT30M"),
        ("six_hour", "PT6H"),
        ("Eight_Hour", "PT8H"),
        ("day", "P1D"),
        ("week", "P1W"),
        ("quarter", "P3M"),
        ("year", "P1Y"),
        ("YEAR", "P12M"),
        ("hour", "PT60M"),
    ],
)
def test_druid_names_are_periods(name, period):
    assert Granularity.parse(name) == Granularity.parse(period)


def test_all_and_none():
    micros = np.array([5, -7], dtype=np.int64)
    assert Granularity.parse("all").floor(micros).tolist() == [MIN_MICROS, MIN_MICROS]
    assert Granularity.parse("none").floor(micros).tolist() == [5, -7]
    assert Granularity.parse("ALL") == Granularity.ALL
    assert not Granularity.ALL.is_boundary(MIN_MICROS)
    assert Granularity.NONE.is_boundary(5)


def test_weeks_start_on_monday_and_seven_days_on_thursday():
    saturday = micros_of("2015-09-12")
    assert Granularity.parse("P1W").floor_one(saturday) == micros_of("2015-09-07")
    assert Granularity.parse("P7D").floor_one(saturday) == micros_of("2015-09-10")
    assert Granularity.parse("P1W") != Granularity.parse("P7D")


def test_a_day_has_23_or_25_hours_where_the_clock_changes():
    day = Granularity.parse("day", "America/Los_Angeles")
    spring = day.floor_one(micros_of("2025-03-09T20:00:00Z"))
    autumn = day.floor_one(micros_of("2025-11-02T20:00:00Z"))
    assert day.next_boundary(spring) - spring == 23 * HOUR
    assert day.next_boundary(autumn) - autumn == 25 * HOUR


def test_buckets_cover_an_interval():
    low, high = micros_of("2015-09-12T00:30Z"), micros_of("2015-09-12T03:00Z")
    begins, starts = Granularity.parse("hour").pieces(low, high)
    hours = [micros_of(f"2015-09-12T0{hour}:00Z") for hour in range(3)]
    assert starts.tolist() == hours
    assert begins.tolist() == [low, *hours[1:]]
    begins, starts = Granularity.parse("P1M", "Asia/Kolkata").pieces(0, micros_of("1970-03-01"))
    assert len(starts) == 3
    assert begins[1] == starts[1] == micros_of("1970-02-01") - 19_800_000_000


@given(st.data())
@settings(deadline=None, max_examples=tries(150))
def test_a_floor_is_one_throughout_a_piece(data):
    granularity = data.draw(granularities())
    low = data.draw(instants(granularity.timezone))
    begins, starts = granularity.pieces(low, low + data.draw(st.integers(1, 5 * DAY)))
    assert begins[0] == low
    assert np.all(begins[1:] > begins[:-1])
    piece = data.draw(st.integers(0, len(begins) - 1))
    end = begins[piece + 1] if piece + 1 < len(begins) else begins[piece] + 1
    within = data.draw(st.integers(int(begins[piece]), int(end) - 1))
    for micros in (int(begins[piece]), within, int(end) - 1):
        assert floor_instant(micros, granularity) == starts[piece]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hourr", "did you mean 'hour'"),
        ("P1M2D", "either months"),
        ("P", "ISO 8601"),
        ("PT0S", "either months"),
        ("", "not a granularity"),
        ("PT99999999H", "10,000 years"),
    ],
)
def test_what_is_no_granularity_is_refused(text, words):
    with pytest.raises(InvalidInputError, match=words):
        Granularity.parse(text)


def test_an_origin_late_in_a_month_is_refused():
    with pytest.raises(InvalidInputError, match="28th"):
        Granularity.parse("P1M", origin=micros_of("2020-01-31"))


@pytest.mark.parametrize(
    ("written", "name"),
    [("z", "UTC"), ("Etc/UTC", "UTC"), ("+5:30", "+05:30"), ("GMT-8", "-08:00"), ("+00:00", "UTC")],
)
def test_zone_spellings(written, name):
    assert zone_name(written) == name


@pytest.mark.parametrize("zone", ["Mars/Olympus", "+19:00", "", "../etc/passwd"])
def test_unknown_zones_are_refused(zone):
    with pytest.raises(InvalidInputError) as caught:
        Granularity.parse("day", zone)
    assert caught.value.code == "PROJSEG_UNKNOWN_TIME_ZONE"


@given(st.sampled_from(ODD_ZONES), st.integers(-3_700_000_000, 32_503_680_000))
@settings(deadline=None, max_examples=tries(100))
def test_offsets_equal_zoneinfo(zone, seconds):

    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    expected = moment.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
    micros = np.array([seconds * 1_000_000])
    local = zone_table(zone, int(micros[0])).to_local(micros)
    assert dt.timedelta(microseconds=int(local[0] - micros[0])) == expected


def test_rules_go_on_after_2100():
    summer = Interval.parse(("2150-07-01T12:00Z", "2500-07-01T12:00Z"))
    hour = Granularity.parse("P1D", "America/Los_Angeles")
    for micros in (summer.start_us, summer.end_us):
        assert hour.floor_one(micros) == floor_instant(micros, hour)
        assert hour.floor_one(micros) % DAY == 7 * HOUR


def test_named_refinements():
    year = (micros_of("2025-01-01"), micros_of("2026-01-01"))
    parse = Granularity.parse
    los_angeles = "America/Los_Angeles"
    assert refines(parse("hour"), parse("hour", los_angeles), *year)
    assert refines(parse("hour"), parse("day", los_angeles), *year)
    assert refines(parse("hour"), parse("P1W", los_angeles), *year)
    assert not refines(parse("hour"), parse("hour", "Asia/Kolkata"), *year)
    assert refines(parse("PT30M"), parse("hour", "Asia/Kolkata"), *year)
    assert not refines(parse("day"), parse("day", los_angeles), *year)
    assert not refines(parse("P7D"), parse("P1W"), *year)
    assert not refines(parse("P2W"), parse("P1W"), *year)
    assert not refines(parse("PT7H"), parse("P1W"), *year)
    assert refines(parse("PT1H"), parse("P1W"), *year)
    assert refines(parse("P1D"), parse("P1W"), *year)
    assert not refines(parse("P1W"), parse("P1M"), *year)
    assert refines(parse("P1M"), parse("P1Y"), *year)
    assert refines(parse("P1Y"), Granularity.ALL, *year)
    assert not refines(Granularity.ALL, parse("P1Y"), *year)
    assert refines(Granularity.NONE, parse("PT1S"), *year)
    assert not refines(parse("PT1S"), Granularity.NONE, *year)


def test_a_refinement_may_hold_in_some_years_only():
    """London kept Greenwich time all winter, but not in 1968 to 1971."""
    day, london = Granularity.parse("day"), Granularity.parse("day", "Europe/London")
    assert refines(day, london, micros_of("2024-12-01"), micros_of("2025-01-01"))
    assert not refines(day, london, micros_of("1970-12-01"), micros_of("1971-01-01"))


@given(st.data())
@settings(deadline=None, max_examples=tries(120))
def test_refines_is_what_the_floors_say(data):
    finer, coarser = data.draw(granularities()), data.draw(granularities())
    start = data.draw(instants(coarser.timezone)) // (5 * MINUTE) * (5 * MINUTE)
    end = start + data.draw(st.integers(1, 40 * 288)) * 5 * MINUTE
    begins, starts = coarser.pieces(start, end)
    points = np.concatenate([begins, finer.pieces(start, end)[0]])
    holds = bool(np.array_equal(coarser.floor(finer.floor(points)), coarser.floor(points)))
    is_found = refines(finer, coarser, start, end)
    assert holds or not is_found
    has_moved_into_the_next = bool(np.any(starts[1:] == starts[:-1]))
    assert is_found or not holds or has_moved_into_the_next


@given(st.data())
@settings(deadline=None, max_examples=tries(300))
def test_what_always_refines_does_so_at_every_instant(data):
    finer, coarser = data.draw(granularities()), data.draw(granularities())
    if data.draw(st.booleans()):
        coarser = replace(coarser, timezone=finer.timezone)
    micros = data.draw(instants(coarser.timezone))
    points = micros + np.arange(-50, 50, dtype=np.int64) * 7 * MINUTE
    if always_refines(finer, coarser):
        assert np.array_equal(coarser.floor(finer.floor(points)), coarser.floor(points))
        assert refines(finer, coarser, micros, micros + 40 * DAY)


@given(granularities(), st.integers(START, END), st.integers(1, 400))
@settings(deadline=None, max_examples=tries(100))
def test_many_instants_are_floored_as_each_alone(granularity, start, days):
    points = start + np.arange(600, dtype=np.int64) * (days * DAY // 600)
    np.random.default_rng(0).shuffle(points)
    expected = [granularity.floor_one(int(point)) for point in points[:40]]
    assert granularity.floor(points)[:40].tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("zone", sorted(zoneinfo.available_timezones()))
def test_in_no_zone_does_a_bucket_by_the_clock_start_outside_itself(zone):
    """Dates and fields are read off such a start, so the clock must show the bucket there."""
    table = zone_table(zone_name(zone))
    near = (table.starts[1:, None] + np.array([-1, 0, *range(1, 26)]) * HOUR // 2).ravel()
    for period in ("PT1M", "PT1H", "P1D", "P1W", "P1M", "P1Y"):
        granularity = replace(Granularity.parse(period, zone), by_clock=True)
        starts = granularity.floor(near)
        shown = [granularity.cut.floor(table.to_local(micros)) for micros in (near, starts)]
        assert np.array_equal(*shown), period
