"""A projection is used only where its time zones have the rules with which it was declared."""

import datetime as dt
import hashlib
import zoneinfo
from pathlib import Path

import pyarrow as pa
import pytest
import tzdata

import projseg
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.time import time_zones
from projseg.algebra.time.duration import HOUR, SECOND
from projseg.algebra.time.time_zones import zone_name, zone_rules, zone_table
from projseg.errors import InvalidInputError, ProjectionNotUsableError, UnsupportedFeatureError
from projseg.table_layer.metadata import checksummed_json

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema([("time", TIME), ("x", pa.int64())])
ZONE, OTHER = "Europe/Paris", "Asia/Tokyo"
DAYS = projseg.Projection(
    "days", [f"in_zone('{ZONE}', to_date(time)) AS day"], ["count(*) AS n", "sum(x) AS s"]
)
HOURS_IN_UTC = projseg.Projection("hours", ["date_trunc('HOUR', time) AS hour"], ["sum(x) AS s"])
BY_DAYS = {
    "group_by": ["to_date(time) AS day"],
    "aggregators": ["count(*) AS n", "sum(x) AS s"],
    "order_by": ["day"],
}


def forget_zones():
    """Let zones be read anew."""
    for cached in (time_zones._region, time_zones._table, time_zones.zone_rules):
        cached.cache_clear()


@pytest.fixture
def changed(monkeypatch):
    """A function after which Europe/Paris has the clock of Tokyo."""
    files = time_zones.zone_file

    def change():
        forget_zones()
        monkeypatch.setattr(
            time_zones, "zone_file", lambda name: files(OTHER if name == ZONE else name)
        )

    forget_zones()
    yield change
    monkeypatch.undo()
    forget_zones()


def rows(day):
    times = [dt.datetime(2024, 5, day, hour, 30, tzinfo=dt.UTC) for hour in range(24)]
    return pa.table({"time": pa.array(times, TIME), "x": range(24)}, schema=SCHEMA)


def made(location, *projections, days=(1,)):
    table = projseg.Table.create(
        str(location), SCHEMA, time_column="time", projections=projections or (DAYS,)
    )
    for day in days:
        table.append(rows(day))
    return str(location)


def answers(table, **context):
    return table.query(**BY_DAYS, context={"timezone": ZONE, **context}).to_pylist()


def why_not(table):
    found = table.explain(**BY_DAYS, context={"timezone": ZONE}).segments["rejected"].to_pylist()
    return [dict(one).get("days", "") for one in found]


def test_a_projection_made_with_other_rules_is_not_used(tmp_path, changed):
    location = made(tmp_path / "table")
    changed()
    table = projseg.Table(location)
    assert answers(table) == answers(table, noProjections=True)
    assert [one["day"].day for one in answers(table)] == [1, 2]
    assert why_not(table) == [f"TIME_ZONE_RULES {ZONE}"]
    with pytest.raises(ProjectionNotUsableError, match="TIME_ZONE_RULES Europe/Paris"):
        answers(table, useProjection="days")
    assert table.verify(deep=True) == []


def test_it_is_used_with_the_rules_it_was_made_with(tmp_path):
    table = projseg.Table(made(tmp_path / "table"))
    assert answers(table, useProjection="days") == answers(table, noProjections=True)


def test_rows_that_come_under_other_rules_have_no_such_projection(tmp_path, changed):
    location = made(tmp_path / "table")
    changed()
    table = projseg.Table(location)
    table.append(rows(2))
    assert answers(table) == answers(table, noProjections=True)
    (stats,) = table.projection_stats().to_pylist()
    assert (stats["built"], stats["failed"]) == (1, 1)
    assert "Europe/Paris has other rules here" in stats["reasons"][0]
    table.drop_projection("days")
    table.add_projection(DAYS)
    table.materialize_projection("days")
    assert answers(table, useProjection="days") == answers(table, noProjections=True)
    assert table.verify(deep=True) == []


def test_segments_that_are_merged_under_other_rules_lose_it(tmp_path, changed):
    location = made(tmp_path / "table", days=(1, 2, 3))
    changed()
    table = projseg.Table(location)
    table.compact()
    assert len(table.segments()) == 1
    assert answers(table) == answers(table, noProjections=True)
    assert table.projection_stats()["failed"].to_pylist() == [1]


def test_a_definition_without_rules_answers_as_it_always_did(tmp_path, changed, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(ProjectionSpec, "with_zone_rules", lambda spec: spec)
        location = made(tmp_path / "table")
    changed()
    table = projseg.Table(location)
    assert "time_zone_rules" not in table.snapshot.file.required_features
    assert [one["day"].day for one in answers(table, useProjection="days")] == [1, 2]


def test_utc_has_no_rules_and_no_feature(tmp_path, changed):
    location = made(tmp_path / "table", HOURS_IN_UTC)
    changed()
    table = projseg.Table(location)
    assert "time_zone_rules" not in table.snapshot.file.required_features
    query = {"group_by": ["date_trunc('HOUR', time) AS hour"], "aggregators": ["sum(x) AS s"]}
    assert table.query(**query, context={"useProjection": "hours"}).num_rows == 24


def test_a_release_without_rules_refuses_the_table(tmp_path, monkeypatch):
    location = made(tmp_path / "table")
    known = checksummed_json.SUPPORTED_FEATURES - {"time_zone_rules"}
    monkeypatch.setattr(checksummed_json, "SUPPORTED_FEATURES", known)
    with pytest.raises(UnsupportedFeatureError, match="time_zone_rules"):
        projseg.Table(location)


def test_rules_are_those_of_the_package_not_of_the_system(tmp_path):
    folder = tmp_path / "zones" / "Europe"
    folder.mkdir(parents=True)
    (folder / "Paris").write_bytes(time_zones.zone_file(OTHER) or b"")
    path = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath(to=[str(tmp_path / "zones")])
        zoneinfo.ZoneInfo.clear_cache()
        summer = dt.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo(ZONE))
        assert summer.utcoffset() == dt.timedelta(hours=9)
        forget_zones()
        assert zone_table(ZONE).offsets[-1] == HOUR
    finally:
        zoneinfo.reset_tzpath(to=path)
        zoneinfo.ZoneInfo.clear_cache()
        forget_zones()


def test_the_hash_is_of_instants_and_offsets_as_the_specification_says():
    zone = zone_table("Asia/Manila")
    starts, offsets = zone.starts // SECOND, zone.offsets // SECOND
    text = f"{offsets[0]}" + "".join(
        f" {at} {offset}" for at, offset in zip(starts[1:], offsets[1:], strict=True)
    )
    assert zone_rules("Asia/Manila") == hashlib.sha256(text.encode()).hexdigest()[:32]
    assert zone_rules("Asia/Kolkata") == zone_rules("Asia/Calcutta") != zone_rules("Asia/Tokyo")


@pytest.mark.parametrize(
    "name", ["Mars/Base", "Europe", "../Europe/Paris", "/etc/passwd", "zone.tab", "leapseconds", ""]
)
def test_what_is_no_zone_of_the_package_is_refused(name):
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_TIME_ZONE"):
        zone_name(name)


def test_every_zone_of_the_package_is_known():
    names = (Path(tzdata.__file__).parent / "zones").read_text().split()
    assert len(names) > 500
    for name in names:
        assert zone_name(name) in (name, "UTC")
