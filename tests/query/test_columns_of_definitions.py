"""Columns as a definition declares them: other names, types and order, and columns of no values.

The oracle is the same question over `SELECT CAST(stored AS type) AS declared`, and DuckDB.
"""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from life_tables import BY_CHANNEL, HOURLY, new_table, rows
from scale import tries

import projseg
from projseg.algebra.query.declared_columns import DeclaredColumn, DeclaredColumns
from projseg.errors import EvaluationError, InvalidInputError
from projseg.table.table_version import state_of

DECLARED = DeclaredColumns(
    (
        DeclaredColumn("price", "decimal(10,2)", "price"),
        DeclaredColumn("moment", "timestamp", "time"),
        DeclaredColumn("room", "string", "channel"),
        DeclaredColumn("added", "string", "added"),
        DeclaredColumn("robot", "int", "robot"),
        DeclaredColumn("city", "string", None),
        DeclaredColumn("stars", "array<int>", None),
        DeclaredColumn("page", "string", "page"),
    )
)
INNER = (
    "(SELECT CAST(price AS DECIMAL(10,2)) AS price, time AS moment, channel AS room, "
    "CAST(added AS STRING) AS added, CAST(robot AS INT) AS robot, CAST(NULL AS STRING) AS city, "
    "page FROM t)"
)


def declaring(table, declared=DECLARED):
    state = state_of(table)
    state.reader = state.reader.declaring(lambda properties: declared)
    return table


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    table = new_table(tmp_path_factory.mktemp("t") / "t", projections=[HOURLY])
    table.append(rows(0))
    table.add_projection(BY_CHANNEL)
    table.append(rows(1, first=40))
    table.delete("page = 'page 3'")
    return table.location


@pytest.fixture
def table(location):
    return declaring(projseg.Table(location))


def test_a_scan_has_the_declared_columns_in_their_order(table, location):
    assert table.schema == DECLARED.schema
    found = table.query(order_by="moment, page")
    assert found.schema == DECLARED.schema
    plain = projseg.Table(location).query(order_by="time, page")
    assert found["moment"].to_pylist() == plain["time"].to_pylist()
    assert found["added"].to_pylist() == [
        None if n is None else str(n) for n in plain["added"].to_pylist()
    ]
    assert found["robot"].to_pylist() == [int(b) for b in plain["robot"].to_pylist()]
    assert found["price"].to_pylist() == [
        Decimal(n).quantize(Decimal("0.01")) for n in plain["price"].to_pylist()
    ]
    assert found["city"].null_count == found["stars"].null_count == len(found) > 0
    assert list(table.scan().schema.names) == DECLARED.schema.names
    assert pa.table(table).schema.names == DECLARED.schema.names


FORCED = {"forceProjections": True}
KEYS = ["room", "robot", "city", "added", "date_trunc('HOUR', moment)", "length(added)"]
AGGREGATES = [
    "count(*)",
    "count(city)",
    "max(added)",
    "sum(robot)",
    "sum(CAST(added AS INT))",
    "min(price)",
    "avg(price)",
    "count(DISTINCT added)",
    "max(city)",
]
FILTERS = [
    None,
    "robot = 1",
    "added > '5'",
    "city IS NULL",
    "city = 'x'",
    "moment >= timestamp'2024-05-01 20:00:00' AND room <> '#1'",
    "price BETWEEN 1 AND 3",
]


@settings(max_examples=tries(25), deadline=None)
@given(
    st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True),
    st.sampled_from(FILTERS),
    st.sampled_from(["UTC", "America/New_York"]),
)
def test_questions_mean_what_casts_by_hand_mean(location, keys, aggregates, condition, zone):
    outputs = ", ".join([*keys, *aggregates])
    tail = "" if condition is None else f" WHERE {condition}"
    tail += f" GROUP BY {', '.join(keys)}" if keys else ""
    context = {"timezone": zone}
    by_hand = projseg.Table(location).sql(
        f"SELECT {outputs} FROM {INNER}{tail}", context={**context, "noProjections": True}
    )
    table = declaring(projseg.Table(location))
    found = table.sql(f"SELECT {outputs} FROM t{tail}", context=context)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, by_hand.to_pylist()))
    asked = table.query(group_by=keys, aggregators=aggregates, filter=condition, context=context)
    assert sorted(map(repr, asked.to_pylist())) == sorted(map(repr, by_hand.to_pylist()))


def test_an_equal_type_keeps_the_projection_and_another_says_why_not(tmp_path):
    table = declaring(new_table(tmp_path / "t", projections=[HOURLY, BY_CHANNEL]))
    table.append(rows(0))
    equal = table.explain(group_by="room", aggregators="count(*)", context=FORCED)
    assert "base" not in equal.sources
    cast = table.explain(group_by="room", aggregators="max(added)")
    reasons = {reason for of in cast.segments["rejected"].to_pylist() for _, reason in of}
    assert any(reason.startswith("DECLARED_TYPE AGGREGATOR_NOT_STORED") for reason in reasons)
    key = table.explain(group_by="robot", aggregators="count(*)", context=FORCED)
    assert set(key.sources) == {"hourly"}, "a cast of a grouping column is computed from it"
    other = table.explain(group_by="room", aggregators="max(price)")
    assert "DECLARED_TYPE" not in str(
        [r for of in other.segments["rejected"].to_pylist() for n, r in of if n == "by_channel"]
    ), "by_channel has no price, whichever its type"


def test_an_interval_is_of_the_time_column_under_any_name(table, location):
    for interval in ("2024-05-02/P1D", (datetime.date(2024, 5, 1), datetime.date(2024, 5, 2))):
        wanted = projseg.Table(location).query(aggregators="count(*)", interval=interval)
        assert table.query(aggregators="count(*)", interval=interval).equals(wanted)
    latest = projseg.Table(location).query(aggregators="last(page), first(page)").to_pylist()
    assert table.query(aggregators="last(page)")[0][0].as_py() == latest[0]["last(page)"]
    assert table.query(aggregators="first(page)")[0][0].as_py() == latest[0]["first(page)"]
    nested = table.sql(
        "SELECT count(*) AS n FROM (SELECT * FROM t WHERE robot = 1) WHERE room > ''"
    )
    assert nested["n"].to_pylist() == [
        projseg.Table(location)
        .query(aggregators="count(*)", filter="robot AND channel > ''")[0][0]
        .as_py()
    ]


def test_what_cannot_be_cast_is_an_error_of_the_value_or_of_the_pair(location):
    table = projseg.Table(location)
    texts = DeclaredColumns((DeclaredColumn("page", "int", "page"),))
    with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_BAD_CAST"):
        declaring(table, texts).query()
    with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_OVERFLOW"):
        declaring(table, DeclaredColumns((DeclaredColumn("x", "decimal(2,2)", "price"),))).query()
    never = DeclaredColumns((DeclaredColumn("robot", "date", "robot"),))
    with pytest.raises(InvalidInputError, match=r"PROJSEG_DECLARED_TYPE.*'robot'.*boolean"):
        declaring(table, never).query()
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_COLUMN"):
        declaring(table, texts).query(columns="channel")


def test_changes_of_rows_read_conditions_in_declared_types(tmp_path):
    table = declaring(new_table(tmp_path / "t"))
    table.append(rows(0, count=12))
    before = projseg.Table(table.location).query(columns="added").to_pylist()
    texts = [str(row["added"]) for row in before if row["added"] is not None]
    gone = sum(text > "5" for text in texts)
    assert table.delete("added > '5'").deleted_rows == gone > 0
    assert table.update({"room": "concat(room, added)"}, "robot = 1").updated_rows > 0
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_COLUMN"):
        table.update({"tags": "array('x')"})
    left = projseg.Table(table.location)
    assert all(
        row["channel"] is None or row["channel"].endswith(str(row["added"]))
        for row in left.query(filter="robot").to_pylist()
    )
    assert len(left.query()) == 12 - gone
    assert left.verify(deep=True) == []
