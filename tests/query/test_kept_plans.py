"""A question that is asked again is not planned again, and means what it would mean alone."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import projseg
from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, ProjectionNotUsableError

TIMES = [datetime(2024, 3, day, hour, tzinfo=UTC) for day in (30, 31) for hour in (0, 12, 23)]
ROWS = {"t": pa.array(TIMES, pa.timestamp("us", "UTC")), "k": list("aabbcc"), "n": list(range(6))}


@pytest.fixture
def table(tmp_path):
    projection = projseg.Projection("by_k", group_by=["k"], aggregators=["sum(n)"])
    rows = pa.table(ROWS)
    return projseg.Table.create(
        tmp_path / "t", rows.schema, time_column="t", projections=[projection], data=rows
    )


def plan_bytes():
    return projseg.cache_statistics().bytes_by_kind.get("plan", 0)


@pytest.mark.parametrize(
    "parts",
    [
        {"group_by": "k", "aggregators": "sum(n) AS n"},
        {"columns": ["n"], "filter": "n > 2"},
        {"aggregators": "sum(n) AS n", "interval": (TIMES[0], "P1D")},
        {"aggregators": "sum(n) AS n", "interval": [TIMES[0], TIMES[4]]},
    ],
)
def test_one_plan_is_kept_of_a_question_in_all_its_forms(table, parts):
    first = table.query(**parts)
    kept = plan_bytes()
    assert table.query(**parts).equals(first)
    assert table.query(projseg.Query(**parts)).equals(first)
    assert projseg.Table(table.location).query(**parts).equals(first)
    assert plan_bytes() == kept
    table.query(**{**parts, "limit": 3})
    assert plan_bytes() > kept


def test_what_calls_the_clock_is_bound_anew(table):
    asked = [
        {"columns": "\nnow() AS a"},
        {"columns": "n", "filter": "t <\ncurrent_timestamp"},
        {"group_by": "n", "having": "max(t) < now()"},
        {"columns": ["t", "n"], "order_by": "if(t < NOW(), -n, n)"},
        {"aggregators": "count_if(t < localtimestamp()) AS n"},
        {"group_by": "t < current_date() AS early"},
    ]
    for parts in asked:
        answers = []
        for day in (30, 31):
            with fixed_instant(datetime(2024, 3, day, 13, tzinfo=UTC)):
                answers.append(table.query(**parts).to_pydict())
        assert answers[0] != answers[1], parts


def test_a_statement_that_calls_the_clock_is_bound_anew(table):
    counts = []
    for day in (30, 31):
        with fixed_instant(datetime(2024, 3, day, 13, tzinfo=UTC)):
            found = table.sql("SELECT count_if(t < now()) + 0 AS n FROM t WHERE t <= now()")
            counts += found["n"].to_pylist()
    assert counts == [2, 5]


@pytest.mark.parametrize(
    ("statement", "on_each_day"),
    [
        ("SELECT DISTINCT t < now() AS p FROM t ORDER BY p", [[False, True], [False, True]]),
        ("SELECT day(current_date()) AS d, count(*) AS n FROM t GROUP BY 1", [[30], [31]]),
        ("SELECT day(max(now())) AS d FROM t", [[30], [31]]),
        ("SELECT n FROM t ORDER BY t < current_timestamp, n LIMIT 1", [[2], [5]]),
        ("SELECT count_if(t < now()) AS n FROM t", [[2], [5]]),
    ],
)
def test_a_statement_may_call_the_clock_anywhere(table, statement, on_each_day):
    found = []
    for day in (30, 31):
        with fixed_instant(datetime(2024, 3, day, 13, tzinfo=UTC)):
            found.append(table.sql(statement).column(0).to_pylist())
            assert table.sql(statement, explain=True) is not None
    assert found == on_each_day
    assert table.sql(statement) is not None


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"interval": 5}, "PROJSEG_BAD_INTERVAL"),
        ({"filter": True}, "PROJSEG_BAD_QUERY"),
        ({"filter": b"n > 0"}, "PROJSEG_BAD_QUERY"),
        ({"aggregators": "count(*)", "having": 5}, "PROJSEG_BAD_QUERY"),
        ({"context": [5]}, "PROJSEG_BAD_CONTEXT_VALUE"),
    ],
)
def test_a_part_that_is_of_no_use_is_refused(table, parts, code):
    for ask in (table.query, table.explain):
        with pytest.raises(InvalidInputError) as caught:
            ask(**parts)
        assert caught.value.code == code


def test_what_is_no_statement_is_refused(table):
    for text in (5, ["SELECT n FROM t"]):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_SQL"):
            table.sql(text)


@pytest.mark.parametrize("condition", ["", "  ", 5, b""])
def test_a_change_of_an_empty_condition_is_refused(table, condition):
    for change in (table.delete, lambda given: table.update({"n": "0"}, filter=given)):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_QUERY"):
            change(condition)
    assert len(table.query(columns="n")) == 6


def test_a_zone_is_part_of_a_question(table):
    def days(zone):
        found = table.query("to_date(t) AS day", "count(*) AS n", context={"timezone": zone})
        return {day.day: n for day, n in zip(*found.to_pydict().values(), strict=True)}

    assert days("UTC") == {30: 3, 31: 3}
    assert days("Asia/Kolkata") == {30: 2, 31: 3, 1: 1}
    assert days("UTC") == {30: 3, 31: 3}


def test_readings_of_a_clock_are_of_the_questions_zone(table):
    def count(start, end, zone="UTC"):
        found = table.query(
            aggregators="count(*) AS n", interval=(start, end), context={"timezone": zone}
        )
        return found["n"][0].as_py()

    start, end = datetime(2024, 3, 30), datetime(2024, 3, 31)
    assert count(start, end) == 3
    assert count(start, end, "Asia/Kolkata") == 2
    # One instant, from which a day is an hour shorter in Madrid than by the offset that it has.
    madrid = datetime(2024, 3, 31, tzinfo=ZoneInfo("Europe/Madrid"))
    fixed = datetime.fromisoformat(madrid.isoformat())
    meanings = [Interval.parse((begin, "P1D")) for begin in (madrid, fixed)]
    assert meanings[0] != meanings[1]
    rows = {"t": pa.array([datetime(2024, 3, 31, 22, 30, tzinfo=UTC)], ROWS["t"].type)}
    table.append(pa.table({**rows, "k": ["d"], "n": [9]}))
    assert count(madrid, "P1D") == 3
    assert count(fixed, "P1D") == 4


def test_a_context_is_part_of_a_question(table):
    parts = {"group_by": "n", "aggregators": "count(*) AS n2"}
    assert len(table.query(**parts)) == 6
    with pytest.raises(ProjectionNotUsableError):
        table.query(**parts, context={"forceProjections": True})
    parts = {"group_by": "k", "aggregators": "sum(n) AS n"}
    for context, source in 2 * [
        ({"forceProjections": True}, "by_k"),
        ({"noProjections": True}, "base"),
    ]:
        found = table.explain(**parts, context=context).named_segments()
        assert {segment["source"] for segment in found} == {source}


def test_a_changed_table_is_asked_anew(table):
    old = projseg.Table(table.location)
    parts = {"columns": ["n"], "order_by": "n"}
    assert table.query(**parts)["n"].to_pylist() == [0, 1, 2, 3, 4, 5]
    table.append(pa.table({name: values[:1] for name, values in ROWS.items()}))
    assert table.query(**parts)["n"].to_pylist() == [0, 0, 1, 2, 3, 4, 5]
    table.drop_projection("by_k")
    table.drop_column("n")
    table.add_column("n", "string")
    assert table.query(**parts)["n"].to_pylist() == [None] * 7
    assert table.query(**parts).schema.field("n").type == pa.string()
    assert old.query(**parts)["n"].to_pylist() == [0, 1, 2, 3, 4, 5]


def test_a_part_of_another_type_is_still_refused(table):
    assert len(table.query(columns="n", limit=1)) == 1
    with pytest.raises(InvalidInputError):
        table.query(columns="n", limit=True)
