"""A query as a value: written down as JSON, read back, and taken by every entry point alike."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.algebra.query.query_parts import QueryParts
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, UnsupportedFeatureError

TEXTS = st.lists(st.text(min_size=1), max_size=3)
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "useProjection": st.just("p"),
        "forceProjections": st.booleans(),
        "noProjections": st.booleans(),
        "excludeProjections": st.lists(st.sampled_from(["p", "q"]), max_size=2),
        "timezone": st.sampled_from(["UTC", "Europe/Madrid", "+05:30"]),
        "threads": st.integers(1, 256),
    },
)
QUERIES = st.builds(
    projseg.Query,
    group_by=TEXTS,
    aggregators=TEXTS,
    filter=st.none() | st.text(),
    interval=st.none() | st.just("2024-01-01/P1D"),
    having=st.none() | st.text(),
    order_by=TEXTS,
    limit=st.none() | st.integers(0, 2**63),
    columns=st.none() | TEXTS,
    context=st.none() | CONTEXTS,
    granularity=st.none() | st.sampled_from(["day", "PT6H"]),
    aggregation=st.sampled_from(["final", "partial"]),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = pa.table(
        {
            "t": pa.array([datetime(2024, 1, day, tzinfo=UTC) for day in (1, 1, 2, 3)]),
            "k": ["a", "b", "a", None],
            "n": pa.array([1, 2, 4, None], pa.int64()),
        }
    )
    location = tmp_path_factory.mktemp("values") / "table"
    projection = projseg.Projection("by_k", group_by=["k"], aggregators=["sum(n)"])
    made = projseg.Table.create(location, rows.schema, time_column="t", projections=[projection])
    made.append(rows)
    return made


@given(QUERIES)
def test_json_is_the_query_again(query):
    again = projseg.Query.from_json(query.to_json())
    assert again == query
    assert hash(again) == hash(query)
    assert again.to_json() == query.to_json()


def test_json_has_what_was_given_and_its_version():
    query = projseg.Query(group_by="k, n AS m", interval=(date(2024, 1, 1), date(2024, 1, 3)))
    assert json.loads(query.to_json()) == {
        "projseg_query": 1,
        "group_by": ["k", "n AS m"],
        "interval": "2024-01-01/2024-01-03",
    }


@pytest.mark.parametrize(
    "interval",
    [
        "2024-01-01/2024-01-03",
        (date(2024, 1, 1), date(2024, 1, 3)),
        (datetime(2024, 1, 1), datetime(2024, 1, 3)),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC)),
        ["2024-01-01", "2024-01-03T00:00Z"],
        Interval.parse("2024-01-01/2024-01-03"),
    ],
)
def test_an_interval_of_any_form_means_the_same_as_text(table, interval):
    query = projseg.Query(interval=interval, columns="n")
    again = projseg.Query.from_json(query.to_json())
    assert table.query(again).equals(table.query(interval=interval, columns="n"))
    assert len(table.query(again)) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "must be an object with 'projseg_query': 1"),
        ('{"group_by": ["k"]}', "must be an object with 'projseg_query': 1"),
        ('{"projseg_query": 2}', "must be an object with 'projseg_query': 1"),
        ('{"projseg_query": true}', "must be an object with 'projseg_query': 1"),
        ("{", "is not JSON"),
        ('{"projseg_query": 1, "groupby": "k"}', "did you mean 'group_by'"),
        ('{"projseg_query": 1, "limit": "3"}', "limit is '3'"),
        ('{"projseg_query": 1, "limit": 1.5}', "limit is 1.5"),
        ('{"projseg_query": 1, "group_by": [1]}', "group_by is [1]"),
        ('{"projseg_query": 1, "columns": {"a": 1}}', "columns is"),
        ('{"projseg_query": 1, "aggregation": "some"}', "'final' or 'partial'"),
    ],
)
def test_what_is_no_query_is_refused(text, words):
    with pytest.raises(InvalidInputError) as caught:
        projseg.Query.from_json(text)
    assert caught.value.code == "PROJSEG_BAD_QUERY"
    assert words in caught.value.message


def test_entry_points_take_the_query_whole(table):
    parts = {"group_by": "k", "aggregators": "sum(n) AS n", "order_by": "n DESC", "limit": 2}
    query = projseg.Query(**parts)
    assert table.query(query).equals(table.query(**parts))
    explained = table.explain(query)
    assert explained.sources == table.explain(**parts).sources == {"by_k": 1}
    assert json.loads(explained.to_json())["query"] == json.loads(query.to_json())


def test_parts_beside_a_whole_query_are_refused(table):
    with pytest.raises(InvalidInputError, match="limit is given beside a whole Query"):
        table.query(projseg.Query(group_by="k"), limit=3)


def test_figures_tell_what_is_read_and_returned_at_most(table):
    explained = table.explain(group_by="k", aggregators="sum(n)")
    told = json.loads(explained.to_json())
    assert (told["rows"], told["rows_returned_max"]) == (3, 3)
    assert told["bytes"] == sum(explained.segments["bytes"].to_pylist()) > 0
    assert table.explain(aggregators="sum(n)").figures.rows_returned_max == 1
    counted = table.explain(aggregators="count(*)")
    assert counted.sources == {"metadata": 1}
    assert counted.figures.rows_returned_max == 1
    assert table.explain(limit=2).figures.rows_returned_max == 2
    none = table.explain(filter="n > 100").figures
    assert (none.segments, none.pruned_segments, none.rows) == (0, 1, 0)


def test_partial_answers_are_states_with_their_merging(table):
    query = projseg.Query("k", "avg(n) AS mean, count(*) AS c", aggregation="partial")
    states = table.query(query).sort_by("k")
    assert states.schema.names == ["k", "mean.sum", "mean.count", "c"]
    assert states.schema.field("mean.sum").type == pa.decimal128(38, 0)
    rows = {row["k"]: list(row.values())[1:] for row in states.to_pylist()}
    assert rows == {"a": [5, 2, 2], "b": [2, 1, 1], None: [None, 0, 1]}
    merging = json.loads(states.schema.metadata[b"projseg.aggregates"])
    assert merging[1] == {
        "name": "c",
        "value": "coalesce(sum(`c`), 0L)",
        "states": [{"name": "c", "merged": "sum(`c`)"}],
    }


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "nothing is aggregated"),
        ({"group_by": "k", "limit": 1}, "limit needs final values"),
        ({"group_by": "k", "order_by": "k"}, "order_by needs final values"),
        ({"aggregators": "sum(n) AS s", "having": "s > 1"}, "having needs final values"),
        ({"aggregators": "avg(n) AS a, sum(n) AS `a.sum`"}, "two outputs are named 'a.sum'"),
    ],
)
def test_partial_answers_of_what_needs_all_rows_are_refused(table, parts, words):
    with pytest.raises(InvalidInputError, match=words):
        table.query(projseg.Query(**parts, aggregation="partial"))


def test_partial_answers_that_cannot_be_merged_are_refused(table):
    with pytest.raises(UnsupportedFeatureError, match="PROJSEG_NOT_MERGEABLE"):
        table.query(projseg.Query(aggregators="count(DISTINCT k)", aggregation="partial"))


def test_an_error_is_told_as_json(table):
    with pytest.raises(projseg.ProjsegError) as caught:
        table.query(group_by="absent")
    told = json.loads(caught.value.to_json())
    assert told == {
        "error": "InvalidInputError",
        "code": "PROJSEG_UNKNOWN_COLUMN",
        "message": caught.value.message,
    }


def test_methods_take_and_show_the_fields_of_a_query():
    parts = set(QueryParts.__annotations__)
    assert parts < set(inspect.signature(projseg.Query).parameters)
    for method in (projseg.Table.query, projseg.Table.explain, projseg.QueryPool.submit):
        assert parts < set(inspect.signature(method).parameters)


def test_a_field_that_no_query_has_is_refused(table):
    with pytest.raises(TypeError, match="fliter"):
        table.query("k", "count(*)", fliter="n > 1")
