import datetime

import pyarrow as pa
import pytest
from matching_cases import SCHEMA, micros, query

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, ProjsegError


def between(start, end):
    return Interval(micros(start), micros(end))


def test_lists_and_comma_separated_texts_are_the_same():
    texts = query(group_by="channel, date_trunc('HOUR', time) AS h", aggregators="sum(added) s")
    lists = query(group_by=["channel", "date_trunc('HOUR', time) AS h"],
                  aggregators=["sum(added) s"])  # fmt: skip
    assert texts == lists
    assert texts.output_schema.names == ["channel", "h", "s"]
    assert not texts.is_row_scan


def test_aggregates_share_primitives():
    found = query(aggregators="avg(added), sum(added), count(added), count(*)")
    assert [p.text for p in found.primitives] == ["sum(added)", "count(added)", "count(*)"]


def test_without_keys_and_aggregates_it_is_a_row_scan():
    everything = query()
    assert everything.is_row_scan
    assert [named.name for named in everything.columns] == SCHEMA.names
    some = query(columns="page, upper(channel) AS c")
    assert some.output_schema.names == ["page", "c"]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("time >= timestamp '2024-01-01' AND time < timestamp '2024-01-02'",
         "2024-01-01", "2024-01-02"),
        ("time BETWEEN timestamp '2024-01-01' AND timestamp '2024-01-02'",
         "2024-01-01", "2024-01-02T00:00:00.000001"),
        ("time = timestamp '2024-01-01'", "2024-01-01", "2024-01-01T00:00:00.000001"),
        ("time > timestamp '2024-01-01' AND timestamp '2024-01-02' >= time",
         "2024-01-01T00:00:00.000001", "2024-01-02T00:00:00.000001"),
    ],
)  # fmt: skip
def test_bounds_on_time_become_the_interval(text, start, end):
    found = query(group_by="channel", filter=f"{text} AND page = 'A'")
    assert found.interval == between(start, end)
    assert to_sql(found.filter) == "page = 'A'"


def test_an_open_bound_leaves_the_other_side_open():
    found = query(group_by="channel", filter="time >= timestamp '2024-01-01'")
    assert found.interval == Interval(micros("2024-01-01"), Interval.ETERNITY.end_us)
    assert found.filter is None


def test_any_time_at_all_is_the_longest_interval():
    assert query(group_by="channel", filter="time IS NOT NULL").interval == Interval.ETERNITY


def test_interval_and_bounds_are_intersected():
    both = query(interval="2024-01-01/2024-01-03", filter="time < timestamp '2024-01-02'")
    assert both.interval == between("2024-01-01", "2024-01-02")
    none = query(interval="2024-01-01/2024-01-03", filter="time > timestamp '2025-01-02'")
    assert none.interval.is_empty


@pytest.mark.parametrize(
    "text",
    [
        "time != timestamp '2024-01-01'",
        "time IN (timestamp '2024-01-01', timestamp '2024-02-01')",
        "time < timestamp '2024-01-01' OR page = 'A'",
        "hour(time) = 3",
    ],
)
def test_what_is_not_one_interval_stays_a_filter(text):
    found = query(group_by="channel", filter=text)
    assert found.interval is None
    assert found.filter is not None


def test_a_date_may_be_the_time_column():
    schema = pa.schema([("day", pa.date32()), ("added", pa.int64())])
    found = bind_query(
        schema, "day", Query(aggregators="sum(added)", filter="day <= date '2024-01-02'")
    )
    assert found.interval == Interval(Interval.ETERNITY.start_us, micros("2024-01-03"))
    assert [to_sql(c) for c in found.bounds] == ["day < DATE '2024-01-03'"]


def test_intervals_of_several_spellings():
    texts = ["2024-01-01/2024-01-02", "2024-01-01/P1D"]
    pair = (datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2))
    found = [query(interval=one).interval for one in (*texts, pair)]
    assert set(found) == {between("2024-01-01", "2024-01-02")}
    local = query(interval=texts[0], context={"timezone": "Asia/Kolkata"}).interval
    assert local == between("2023-12-31T18:30", "2024-01-01T18:30")


def test_granularity_is_the_first_key():
    hourly = query(granularity="hour", group_by="channel")
    assert [named.name for named in hourly.keys] == ["time", "channel"]
    assert (
        hourly.keys[0].expression == query(group_by="date_trunc('HOUR', time)").keys[0].expression
    )
    assert query(granularity="all", aggregators="count(*)").keys == ()
    assert to_sql(query(granularity="none").keys[0].expression) == "time"
    local = query(granularity="P1D", context={"timezone": "Asia/Kolkata"})
    assert "Asia/Kolkata" in to_sql(local.keys[0].expression)


def test_order_terms_know_sparks_place_for_nulls():
    terms = "n DESC, channel, n + 1 DESC NULLS FIRST, channel ASC NULLS LAST"
    found = query(group_by="channel", aggregators="count(*) AS n", order_by=terms)
    flags = [(term.is_descending, term.nulls_first) for term in found.order_by]
    assert flags == [(True, False), (False, True), (True, True), (False, False)]


def test_having_is_over_outputs():
    found = query(group_by="channel", aggregators="sum(added) AS channel_total",
                  having="channel_total > 5 AND channel IS NOT NULL")  # fmt: skip
    assert found.having.columns == {"channel", "sum(added)"}


def test_having_and_order_know_an_output_by_what_it_is_made_of():
    found = query(
        group_by="date_trunc('HOUR', time) AS h, channel",
        aggregators="sum(added) AS a, count(*) FILTER (WHERE robot) AS r, avg(added)",
        having="sum(added) > 5 AND count(*) FILTER (WHERE robot) > 1 AND avg(added) > 0",
        order_by="sum(added) / 2 DESC, date_trunc('HOUR', time), avg(added)",
    )
    count = "count(*) FILTER (WHERE robot)"
    assert found.having.columns == {"sum(added)", count, "avg(added)"}
    terms = [term.expression.columns for term in found.order_by]
    assert terms == [{"sum(added)"}, {"h"}, {"avg(added)"}]
    assert len(found.aggregates) == 3


def test_a_star_is_all_columns():
    assert query(columns="*") == query()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"order_by": "sum(added)"}, ["sum(added)", "row scan"]),
        ({"group_by": "channel", "aggregators": "sum(added) + page"}, ["page", "grouped by"]),
        ({"group_by": "channel", "having": "sum(added) > length(page)"}, ["page", "grouped by"]),
        ({"aggregators": "sum(sum(added)) + 1"}, ["sum(added)", "inside"]),
        ({"aggregators": "1 + 1"}, ["1 + 1", "aggregate"]),
        ({"having": "added > 1"}, ["having", "filter"]),
        ({"group_by": "channel", "having": "channel"}, ["having", "boolean"]),
        ({"group_by": "chanel"}, ["chanel", "channel"]),
        ({"group_by": "channel, page AS channel"}, ["two outputs", "channel"]),
        ({"group_by": "channel", "aggregators": "sum(added) AS channel"}, ["two outputs"]),
        ({"columns": "page, page"}, ["two outputs", "page"]),
        ({"columns": ""}, ["columns is empty"]),
        ({"columns": "page", "group_by": "channel"}, ["columns is for row scans"]),
        ({"filter": "added"}, ["filter", "bigint", "boolean"]),
        ({"filter": "nope > 1"}, ["nope"]),
        ({"group_by": "channel", "having": "added > 1"}, ["added"]),
        ({"group_by": "channel", "order_by": "page"}, ["page"]),
        ({"limit": -1}, ["limit", "-1"]),
        ({"limit": "3"}, ["limit"]),
        ({"limit": True}, ["limit"]),
        ({"granularity": "fortnight"}, ["fortnight"]),
        ({"group_by": [1]}, ["group_by", "1"]),
        ({"group_by": 7}, ["group_by", "7"]),
        ({"group_by": "1"}, ["'1'", "position"]),
        ({"group_by": "channel, 2"}, ["'2'", "position"]),
        ({"group_by": "channel", "order_by": "1 DESC"}, ["'1 DESC'", "position"]),
        ({"order_by": "- 1"}, ["'- 1'", "position"]),
        ({"interval": "yesterday"}, ["yesterday"]),
        ({"aggregators": "added"}, ["added"]),
    ],
)
def test_a_bad_query_is_refused_in_one_line(parts, words):
    with pytest.raises(ProjsegError) as caught:
        query(**parts)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_granularity_of_a_time_without_a_zone_ignores_the_sessions():
    schema = pa.schema([("at", pa.timestamp("us"))])
    zone = {"timezone": "Asia/Kolkata"}
    found = bind_query(schema, "at", Query(granularity="day", context=zone))
    assert to_sql(found.keys[0].expression) == "timestamp_floor(at, 'P1D')"
    bounded = bind_query(schema, "at", Query(interval="2024-01-01/P1D"))
    assert len(bounded.bounds) == 2


@pytest.mark.parametrize("time_type", [pa.timestamp("us"), pa.date32()], ids=str)
def test_an_interval_of_a_time_without_a_zone_ignores_the_sessions(time_type):
    schema = pa.schema([("at", time_type)])
    zone = {"timezone": "America/New_York"}
    found = bind_query(schema, "at", Query(interval="2024-01-01/P1D", context=zone))
    assert found.interval == between("2024-01-01", "2024-01-02")
    moments = pa.schema([("at", pa.timestamp("us", tz="UTC"))])
    shifted = bind_query(moments, "at", Query(interval="2024-01-01/P1D", context=zone))
    assert shifted.interval == between("2024-01-01T05", "2024-01-02T05")


def test_a_constant_may_be_grouped_by_under_a_name():
    assert query(group_by="1 AS one").output_schema.names == ["one"]


def test_a_table_without_time_keeps_its_filter():
    found = bind_query(pa.schema([("a", pa.int64())]), None, Query(group_by="a", filter="a > 1"))
    assert found.interval is None
    assert to_sql(found.filter) == "a > 1L"


def test_nested_outputs_have_no_order():
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(InvalidInputError, match="cannot order by 'tags'"):
        bind_query(schema, None, Query(order_by="tags"))


@pytest.mark.parametrize("parts", [{"interval": "2024-01-01/P1D"}, {"granularity": "hour"}])
def test_a_table_without_time_has_no_intervals(parts):
    with pytest.raises(InvalidInputError, match="time column"):
        bind_query(pa.schema([("a", pa.int64())]), None, Query(**parts))


def test_nested_keys_are_refused():
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(InvalidInputError, match="array<string>"):
        bind_query(schema, None, Query(group_by="tags"))
