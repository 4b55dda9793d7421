"""now() and current_date: one instant for a query, and none for what outlives it."""

import datetime as dt

import pyarrow as pa
import pytest

import projseg
from projseg.algebra.expressions.bind import bind, bind_named
from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.expressions.render import to_sql
from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.segment_format.logical_types import TIMESTAMP

INSTANT = dt.datetime(2015, 9, 12, 20, 0, tzinfo=dt.UTC)
SCHEMA = pa.schema([("t", TIMESTAMP), ("v", pa.int64())])


@pytest.mark.parametrize(
    ("text", "zone", "meaning"),
    [
        ("now()", "UTC", "TIMESTAMP '2015-09-12 20:00:00Z'"),
        ("current_timestamp", "Asia/Kolkata", "TIMESTAMP '2015-09-12 20:00:00Z'"),
        ("Current_Date", "UTC", "DATE '2015-09-12'"),
        ("curdate()", "Asia/Kolkata", "DATE '2015-09-13'"),
        ("localtimestamp()", "Asia/Kolkata", "TIMESTAMP_NTZ '2015-09-13 01:30:00'"),
        ("current_date() - INTERVAL 7 DAYS", "UTC", "DATE '2015-09-05'"),
    ],
)
def test_values_are_those_of_the_instant_in_the_zone(text, zone, meaning):
    with fixed_instant(INSTANT), fixed_instant():
        assert to_sql(bind(text, SCHEMA, timezone=zone)) == meaning


@pytest.mark.parametrize("text", ["now()", "current_date", "t < current_timestamp()"])
def test_without_an_instant_they_are_refused(text):
    with fixed_instant(INSTANT):
        bind_named(text, SCHEMA)
    with pytest.raises(UnsupportedFeatureError, match="no fixed value"):
        bind(text, SCHEMA)


def test_a_column_may_have_such_a_name():
    schema = pa.schema([("current_date", pa.int32())])
    assert to_sql(bind("current_date + 1", schema)) == "current_date + 1"
    with pytest.raises(InvalidInputError, match="is not known"):
        bind("now", schema)


@pytest.fixture
def table(tmp_path):
    now = dt.datetime.now(dt.UTC)
    times = [now - dt.timedelta(days=400), now - dt.timedelta(days=1), now + dt.timedelta(days=9)]
    rows = pa.table([pa.array(times, TIMESTAMP), pa.array([1, 2, 4], pa.int64())], schema=SCHEMA)
    made = projseg.Table.create(
        tmp_path / "table", SCHEMA, time_column="t", segment_granularity="P1M"
    )
    made.append(rows)
    return projseg.Table(tmp_path / "table")


def test_a_query_is_answered_at_one_instant(table):
    found = table.query(
        columns=["now() AS a", "v"], filter="t < now() AND t > current_date() - INTERVAL 30 DAYS"
    )
    assert found["v"].to_pylist() == [2]
    twice = table.query(group_by="now() AS a, current_timestamp AS b", aggregators="count(*) AS n")
    assert twice["a"] == twice["b"]
    assert table.query(columns="now() AS a")["a"][0].as_py() > twice["a"][0].as_py()


def test_an_aggregate_is_of_the_instant_at_which_it_is_asked(table):
    counts = []
    for year in (1900, 2900):
        with fixed_instant(dt.datetime(year, 1, 1, tzinfo=dt.UTC)):
            found = table.query(aggregators=["count_if(t < now()) AS n", "count_if(t < now()) + 0"])
            counts.append(set(found.to_pylist()[0].values()))
    assert counts[0] == {0}
    assert counts[1] == {table.query(aggregators="count(t) AS n")["n"][0].as_py()}


def test_projections_and_changes_are_refused(table):
    with pytest.raises(UnsupportedFeatureError, match="no fixed value"):
        table.delete("t < now()")
    declared = {"name": "p", "group_by": "current_date() AS d", "aggregators": "count(*) AS n"}
    with pytest.raises(UnsupportedFeatureError, match="no fixed value"):
        table.add_projection(declared)
