"""Times about changes of the clock that once moved rows to another bucket."""

import numpy as np
import pyarrow as pa
import pytest
from expressions import floor_instant

import projseg
from projseg.algebra.time.duration import DAY, HOUR, MINUTE
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.evaluation import choose
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.logical_types import TIMESTAMP, numbers_to_arrow
from projseg.segment_format.vectors import Ids

SCHEMA = pa.schema([("time", TIMESTAMP), ("value", pa.int64())])
BACK_OVER_MIDNIGHT = [
    ("Atlantic/Azores", "2024-10-27T01:00Z"),
    ("America/Havana", "2015-11-01T05:00Z"),
    ("America/Havana", "2024-11-03T05:00Z"),
    ("America/Havana", "2026-11-01T05:00Z"),
    ("America/St_Johns", "2006-10-29T02:31Z"),
]
NOT_IN_ONE_PIECE = [
    ("America/St_Johns", "2008-11-02T02:31Z", "PT1H"),
    ("America/St_Johns", "2008-03-09T03:31Z", "PT1H"),
    ("Europe/Madrid", "2024-10-27T01:00Z", "PT45M"),
    ("America/New_York", "2024-11-03T06:00Z", "PT45M"),
    ("Asia/Tehran", "2021-09-21T19:30Z", "PT45M"),
    ("America/Sao_Paulo", "2018-02-18T02:00Z", "PT45M"),
]
DATE = "in_zone('Atlantic/Azores', to_date(time))"
MINUTES = np.unique([*range(-540, 540, 15), *range(-5, 6), *range(-57, 60, 6)]) * MINUTE


pytestmark = pytest.mark.usefixtures("dear_base_rows")


def table_about(location, change, projections=()):
    """Return a table of rows from 9 h before a change to 9 h after it, and their values."""
    at = Interval.parse((change, change)).start_us
    times = (at + MINUTES).tolist()
    table = projseg.Table.create(location, SCHEMA, time_column="time")
    for name, key in projections:
        table.add_projection(projseg.Projection(name, [f"{key} AS k"], ["sum(value) AS v"]))
    values = [1 << (n % 50) for n in range(len(times))]
    table.append(pa.table({"time": times, "value": values}).cast(SCHEMA))
    return table, dict(zip(times, values, strict=True))


def sums(table, key, **context):
    answer = table.query(group_by=f"{key} AS k", aggregators="sum(value) AS v", context=context)
    keys = answer["k"].cast(pa.int64()) if answer["k"].type == TIMESTAMP else answer["k"]
    return dict(zip(keys.to_pylist(), answer["v"].to_pylist(), strict=True))


def expected_sums(rows, key_of):
    found = {}
    for micros, value in rows.items():
        found[key_of(micros)] = found.get(key_of(micros), 0) + value
    return found


@pytest.mark.parametrize(("zone", "change"), BACK_OVER_MIDNIGHT)
@pytest.mark.parametrize("unit", ["DAY", "MONTH"])
def test_the_repeated_hour_lies_in_its_own_bucket(tmp_path, zone, change, unit):
    hourly = [("hourly", "date_trunc('HOUR', time)")]
    if zone == "America/St_Johns":
        hourly = [("by_minute", "date_trunc('MINUTE', time)")]  # changed a minute past midnight
    table, rows = table_about(str(tmp_path / "t"), change, hourly)
    granularity = Granularity.parse(unit.casefold(), zone)
    expected = expected_sums(rows, lambda micros: floor_instant(micros, granularity))
    for context in ({"noProjections": True}, {"forceProjections": True}):
        found = sums(table, f"date_trunc('{unit}', time)", timezone=zone, **context)
        assert found == expected, context


def test_a_day_begins_again_where_the_clock_goes_back_to_midnight(tmp_path):
    """Of the Azores' two midnights, rows after the second belong to the second, as in Spark."""
    table, rows = table_about(str(tmp_path / "t"), "2024-10-27T01:00Z")
    second = Interval.parse(("2024-10-27T01:00Z",) * 2).start_us
    found = sums(table, "date_trunc('DAY', time)", timezone="Atlantic/Azores")
    assert set(found) == {second - 25 * HOUR, second - HOUR, second}
    assert found[second - HOUR] == sum(
        value for micros, value in rows.items() if second - HOUR <= micros < second
    )


@pytest.mark.parametrize(("zone", "change", "period"), NOT_IN_ONE_PIECE)
def test_a_bucket_in_several_pieces_holds_the_rows_of_all_of_them(tmp_path, zone, change, period):
    floor = f"timestamp_floor(time, '{period}', NULL, '{zone}')"
    table, rows = table_about(str(tmp_path / "t"), change, [("local", floor)])
    granularity = Granularity.parse(period, zone)
    expected = expected_sums(rows, lambda micros: floor_instant(micros, granularity))
    for context in ({"noProjections": True}, {"forceProjections": True}):
        assert sums(table, floor, **context) == expected, context


@pytest.mark.parametrize(("zone", "change", "period"), NOT_IN_ONE_PIECE)
@pytest.mark.parametrize("key", ["to_date(time)", "hour(time)", "date_trunc('DAY', time)"])
def test_a_bucket_in_several_pieces_serves_only_what_is_one_in_it(
    tmp_path, zone, change, period, key
):
    floor = f"timestamp_floor(time, '{period}', NULL, '{zone}')"
    table, _ = table_about(str(tmp_path / "t"), change, [("local", floor)])
    expected = sums(table, key, timezone=zone, noProjections=True)
    assert sums(table, key, timezone=zone) == expected
    if key == "to_date(time)":
        assert sums(table, key, timezone=zone, forceProjections=True) == expected
    assert table.verify(deep=True) == []


@pytest.mark.parametrize(("zone", "change", "period"), NOT_IN_ONE_PIECE)
@pytest.mark.parametrize("compare", ["<", "<=", ">", ">="])
def test_bounds_of_time_are_not_read_off_buckets_in_several_pieces(
    tmp_path, zone, change, period, compare
):
    floor = f"timestamp_floor(time, '{period}', NULL, '{zone}')"
    table, rows = table_about(str(tmp_path / "t"), change, [("local", floor)])
    granularity = Granularity.parse(period, zone)
    middle = sorted(rows)[len(rows) // 2 - 12 : len(rows) // 2 + 12]
    for start in {granularity.floor_one(micros) for micros in middle}:
        bound = start - (compare in ("<=", ">"))
        call = f"sum(value) FILTER (WHERE time {compare} timestamp_micros({bound})) AS v"
        right = table.query(aggregators=call, context={"noProjections": True})
        assert table.query(aggregators=call).equals(right)


def test_a_date_is_one_bucket_however_often_the_clock_shows_it(tmp_path):
    """A stored date has the rows of both hours, which days by `date_trunc` tell apart."""
    table, _ = table_about(str(tmp_path / "t"), "2024-10-27T01:00Z", [("dates", DATE)])
    zone = {"timezone": "Atlantic/Azores"}
    assert len(sums(table, "to_date(time)", **zone, forceProjections=True)) == 2
    assert len(sums(table, "date_trunc('DAY', time)", **zone)) == 3
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_PROJECTION_NOT_USABLE"):
        sums(table, "date_trunc('DAY', time)", **zone, forceProjections=True)


def sampled_buckets(times, granularity, result_type):
    """Floor a grid of a quarter of a bucket, and look times up among the starts it meets."""
    values = times.wide()
    grid = np.append(np.arange(values.min(), values.max(), DAY // 4), values.max())
    starts = np.unique(granularity.floor(grid))
    ids = (np.searchsorted(starts, values, side="right") - 1).astype(np.uint8)
    return Ids(ids, Dictionary(numbers_to_arrow(starts, result_type)))


def test_deep_verification_reports_buckets_that_were_sampled(tmp_path, monkeypatch):
    day = "timestamp_floor(time, 'P1D', NULL, 'Atlantic/Azores')"
    change = "2024-10-27T05:20Z"  # whose grid has no point in the hour from midnight to midnight
    with monkeypatch.context() as patch:
        patch.setattr(choose, "bucket_vector", sampled_buckets)
        table, rows = table_about(str(tmp_path / "t"), change, [("days", day)])
    granularity = Granularity.parse("day", "Atlantic/Azores")
    right = expected_sums(rows, lambda micros: floor_instant(micros, granularity))
    assert sums(table, day, useProjection="days") != right, "the projection is not wrong"
    assert table.verify() == []
    (finding,) = table.verify(deep=True)
    assert "projection 'days'" in str(finding)
    whole, _ = table_about(str(tmp_path / "whole"), change, [("days", day)])
    assert sums(whole, day, useProjection="days") == right
    assert whole.verify(deep=True) == []
