"""The engine gives states of groups for a join where these are few against their rows."""

from __future__ import annotations

import datetime
import io
import json

import pyarrow as pa
import pytest

import projseg
from projseg.spark_engine.engine import reply_to

START = datetime.date(2024, 1, 1)
ROWS = 1_000
PARTIAL = {"aggregation": "partial"}


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("states") / "table")
    columns = {
        "few": pa.array([n % 10 if n % 9 else None for n in range(ROWS)], pa.int32()),
        "many": pa.array(range(ROWS), pa.int64()),
        "wide": pa.array([n % 10 * 10**9 for n in range(ROWS)], pa.int64()),
        "text": pa.array([f"t{n % 5}" for n in range(ROWS)]),
        "day": pa.array([START + datetime.timedelta(days=n % 7) for n in range(ROWS)]),
        "flag": pa.array([n % 2 == 0 for n in range(ROWS)]),
    }
    rows = pa.table(columns)
    made = projseg.Table.create(folder, rows.schema)
    made.add_projection({"name": "by_text", "sql": "SELECT text, day, sum(many) GROUP BY ALL"})
    made.append(rows)
    return folder


def asked(
    location, keys, calls=("sum(many) AS a0",), condition=None, query_parts=PARTIAL, **limits
):
    query = {"projseg_query": 1, "group_by": keys, "aggregators": calls, **query_parts}
    query |= {"context": {"timezone": "UTC"}}
    query |= {} if condition is None else {"filter": condition}
    request = {"op": "states", "location": location, "query": query}
    request |= {"max_bytes": 1 << 20, "max_rows": ROWS, **limits}
    content, rows = reply_to(json.dumps(request).encode())
    return content, pa.ipc.open_stream(io.BytesIO(rows)).read_all() if rows else None


@pytest.mark.parametrize(
    ("keys", "condition"),
    [
        (["few"], None),
        (["day", "flag", "few"], None),
        (["text", "day"], None),
        (["upper(text) AS u"], None),
        (["many"], "many IN (1, 2, 3)"),
        (["wide"], "wide IN (0, 1000000000)"),
        (["text", "few"], "few = 3"),
        (["text", "wide", "few"], "few IN (1, 2) AND many > 5"),
    ],
)
def test_few_groups_are_given(location, keys, condition):
    content, rows = asked(location, keys, condition=condition)
    assert content["reducing"]
    assert content["answered"]
    assert content["states"] == ["a0"]
    expected = projseg.Table(location).query(
        projseg.Query(keys, "sum(many) AS a0", filter=condition)
    )
    assert len(rows) == len(expected)
    assert sorted(map(str, rows.column("a0").to_pylist())) == sorted(
        map(str, expected.column("a0").to_pylist())
    )


@pytest.mark.parametrize(
    ("keys", "condition"),
    [
        (["many"], None),
        (["text", "few"], None),
        (["wide"], None),
        (["few", "many"], None),
    ],
)
def test_groups_that_may_be_many_are_not(location, keys, condition):
    content, rows = asked(location, keys, condition=condition)
    assert content == {"reducing": False}
    assert rows is None


def test_too_much_to_read_at_once_is_left_to_tasks(location):
    for limits in ({"max_bytes": -1}, {"max_rows": 2}):
        content, rows = asked(location, ["few"], **limits)
        assert (content["reducing"], content["answered"], rows) == (True, False, None)


def test_states_that_cannot_be_merged_are_refused(location):
    content, _ = asked(location, ["few"], ["count(DISTINCT text) AS a0"])
    assert content["code"] == "PROJSEG_NOT_MERGEABLE"


def test_a_repeated_request_has_the_same_reply_until_the_table_changes(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"g": "string", "x": "int"})
    table.append({"g": ["a", "b"] * 50, "x": [1] * 100})

    def reply(limit):
        keys, calls, condition = ["g AS g0"], ["sum(x) AS a0"], f"x < {limit}"
        found, rows = asked(table.location, keys, calls, condition, {}, op="answer")
        found.pop("milliseconds")
        return found, rows.sort_by("g0").column(1).to_pylist()

    first = reply(2)
    assert reply(2) == first
    assert reply(3)[1] == first[1]
    table.append({"g": ["a"], "x": [2]})
    assert reply(2)[1] == first[1]
    assert reply(3)[1] == [52, 50]
    assert reply(3)[0]["rows"] == 101
