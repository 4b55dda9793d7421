"""Spark's options: one table of names, text in, typed values out, nothing misspelt gets through."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError
from projseg.spark_datasource.option_table import OF_STREAMS, OPTIONS
from projseg.spark_datasource.options import Options
from projseg.spark_datasource.read_request import parse_read_request
from projseg.spark_datasource.write_request import parse_write_request

names = st.text(st.characters(codec="utf-8", exclude_characters="`"), min_size=1, max_size=12)


def refused(given_options, parse=parse_read_request):
    with pytest.raises(InvalidInputError) as caught:
        parse(given_options)
    return str(caught.value)


def test_keys_are_read_in_any_case():
    for key in ("groupBy", "groupby", "GROUPBY"):
        assert parse_read_request({"path": "/t", key: "a"}).query.group_by == ("a",)


def test_an_unknown_key_is_an_error_with_the_nearest_name():
    told = refused({"path": "/t", "groupbi": "a"})
    assert "PROJSEG_UNKNOWN_OPTION" in told
    assert "did you mean 'groupBy'?" in told


def test_what_spark_adds_is_let_through():
    spark_added = {"provider": "projseg", "owner": "me", "location": "file:/t", "option.path": "/t"}
    assert parse_read_request({"path": "/t", **spark_added}).location == "/t"


@pytest.mark.parametrize(
    ("options", "parse"),
    [({"timeColumn": "t"}, parse_read_request), ({"groupBy": "a"}, parse_write_request)],
)
def test_an_option_of_the_other_direction_is_refused(options, parse):
    assert "has no meaning" in refused({"path": "/t", **options}, parse)


@pytest.mark.parametrize(
    "text",
    [
        "date_trunc('HOUR', t) AS h, concat(a, ',') AS c",
        json.dumps(["date_trunc('HOUR', t) AS h", "concat(a, ',') AS c"]),
        str(["date_trunc('HOUR', t) AS h", "concat(a, ',') AS c"]),
    ],
    ids=["sql", "json", "python"],
)
def test_three_spellings_of_a_list_mean_the_same(text):
    request = parse_read_request({"path": "/t", "groupBy": text})
    assert request.query.group_by == ("date_trunc('HOUR', t) AS h", "concat(a, ',') AS c")


@given(st.lists(names, min_size=1))
def test_any_list_survives_as_json_and_as_python_text(items):
    for text in (json.dumps(items), str(items)):
        assert Options({"groupBy": text}).list("groupBy") == tuple(items)


@pytest.mark.parametrize("text", ["[1, 2]", "['a', 2]", "[__import__('os')]", '[["a"]]', "[a]"])
def test_a_bracketed_text_that_is_no_list_of_texts_is_refused(text):
    assert "PROJSEG_BAD_OPTION" in refused({"path": "/t", "groupBy": text})


def test_flags_take_true_and_false_only():
    request = parse_read_request({"path": "/t", "noProjections": "TRUE"})
    assert request.query.context == {"noProjections": True}
    assert parse_read_request({"path": "/t", "noProjections": "false"}).query.context == {}
    assert "must be true or false" in refused({"path": "/t", "noProjections": "yes"})


def test_numbers_are_checked():
    assert parse_read_request({"path": "/t", "versionAsOf": "3"}).version == 3
    assert "'versionAsOf' is 'x'" in refused({"path": "/t", "versionAsOf": "x"})
    zero = {"path": "/t", "targetSegmentRows": "0"}
    assert "must be 1 or more" in refused(zero, parse_write_request)


def test_the_location_may_carry_the_metadata_table():
    request = parse_read_request({"path": "/t#projectionstats"})
    assert (request.location, request.metadata_table) == ("/t", "projectionStats")
    assert "did you mean 'segments'?" in refused({"path": "/t#segment"})
    assert (
        parse_read_request({"path": "/t", "metadataTable": "history"}).metadata_table == "history"
    )


def test_no_location_names_the_remedies():
    told = refused({"groupBy": "a"})
    assert "PROJSEG_PATH_MISSING" in told
    assert "TEMPORARY VIEW" in told
    assert "INSERT INTO t WITH (path = '/path')" in refused({}, parse_write_request)


def test_several_locations_are_refused():
    for text in ('["/a", "/b"]', "[]", "/a", '"/a"'):
        assert "one table at a time" in refused({"paths": text})
    assert parse_read_request({"paths": '["/a"]'}).location == "/a"


def test_aggregation_is_final_or_partial():
    assert not parse_read_request({"path": "/t"}).query.is_partial
    assert parse_read_request(
        {"path": "/t", "groupBy": "a", "aggregation": "Partial"}
    ).query.is_partial
    assert "must be one of final, partial" in refused({"path": "/t", "aggregation": "some"})


@pytest.mark.parametrize(
    "option",
    [
        {"groupBy": "a"},
        {"aggregators": "count(*)"},
        {"granularity": "day"},
        {"filter": "a > 1"},
        {"interval": "2024-01-01/P1D"},
        {"columns": "a"},
        {"aggregation": "partial"},
        {"useProjection": "p"},
        {"forceProjections": "true"},
        {"noProjections": "true"},
        {"excludeProjections": "p"},
        {"explain": "true"},
        {"threads": "2"},
    ],
    ids=str,
)
def test_a_metadata_table_takes_no_option_of_a_query(option):
    (name,) = option
    for chosen in ({"path": "/t#segments"}, {"path": "/t", "metadataTable": "segments"}):
        told = refused({**chosen, **option})
        assert f"[PROJSEG_BAD_OPTION] option '{name}' is of a query" in told
    kept = {"path": "/t#columns", "versionAsOf": "1", "timezone": "UTC"}
    assert parse_read_request(kept).metadata_table == "columns"


def test_one_metadata_table_is_named_once():
    assert "ends in '#segments'" in refused({"path": "/t#segments", "metadataTable": "history"})
    twice = {"path": "/t#history", "metadataTable": "history"}
    assert parse_read_request(twice).metadata_table == "history"


def test_a_whole_query_stands_alone():
    query = Query(group_by="a", limit=3, context={"timezone": "Europe/Rome"})
    request = parse_read_request({"path": "/t", "query": query.to_json(), "versionAsOf": "2"})
    assert (request.query, request.version, request.timezone) == (query, 2, "Europe/Rome")
    told = refused({"path": "/t", "query": query.to_json(), "groupBy": "b"})
    assert "'groupBy' is given beside option 'query'" in told
    assert "did you mean 'group_by'" in refused(
        {"path": "/t", "query": '{"projseg_query": 1, "group-by": "a"}'}
    )


def test_rows_are_not_aggregated_partially():
    told = refused({"path": "/t", "aggregation": "partial", "columns": "a"})
    assert "nothing is aggregated" in told
    for grouping in ({"groupBy": "a"}, {"aggregators": "count(*)"}, {"granularity": "day"}):
        assert parse_read_request(
            {"path": "/t", "aggregation": "partial", **grouping}
        ).query.is_partial


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("2024-01-01/P1D", False),
        ("2024-01-01T00:00Z/P1D", True),
        ("2024-01-01T00:00+05:30/2024-01-02T00:00Z", True),
        ("2024-01-01T00:00Z/2024-01-02", False),
    ],
)
def test_an_interval_to_replace_needs_a_time_zone(text, is_told):
    given = {"path": "/t", "replaceInterval": text}
    if is_told:
        assert parse_write_request(given).replace_interval is not None
    else:
        told = refused(given, parse_write_request)
        assert f"[PROJSEG_TIME_ZONE_MISSING] option 'replaceInterval' is '{text}'" in told
    start, end = parse_write_request({**given, "timezone": "Asia/Kolkata"}).replace_interval
    assert start % 86_400_000_000 == (0 if "Z" in text[:20] else 18.5 * 3_600_000_000)
    assert end > start


def test_projections_of_a_write_are_json_objects():
    one = {"name": "p", "sql": "SELECT a GROUP BY ALL"}
    for text in (json.dumps(one), json.dumps([one])):
        assert parse_write_request({"path": "/t", "projections": text}).projections == (one,)
    assert "not JSON" in refused({"path": "/t", "projections": "{"}, parse_write_request)
    assert "array of objects" in refused({"path": "/t", "projections": "[1]"}, parse_write_request)


def test_a_transaction_needs_both_parts():
    both = {"path": "/t", "txnAppId": "loader", "txnVersion": "7"}
    assert parse_write_request(both).transaction == ("loader", 7)
    assert "give both" in refused({"path": "/t", "txnAppId": "loader"}, parse_write_request)


def test_every_option_is_for_something_and_named_once():
    assert all(
        option.is_for_read or option.is_for_write or option.name in OF_STREAMS for option in OPTIONS
    )
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
