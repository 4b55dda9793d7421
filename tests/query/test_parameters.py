"""Values come as parameters: each means itself wherever a literal may stand, and is never SQL."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile_values import (
    BY_TYPE,
    FORMS,
    LISTS,
    LONE_SURROGATES,
    REFUSED,
    TEXTS,
    UUIDS,
)
from support.scale import tries

import projseg
from projseg.errors import InvalidInputError, ProjsegError

CASES = [(kind, value) for kind, values in BY_TYPE.items() for value in values]
NAMES = {kind: f"c{number}" for number, kind in enumerate(BY_TYPE)}
TIME = datetime(2024, 1, 1, tzinfo=UTC)


class NAType:
    """As pandas' own null is named, which is not installed."""


def rows_of(cases):
    """Return a row for each case: its number, and its value in the column of its type."""
    columns = {
        NAMES[kind]: pa.array([value if at == kind else None for at, value in cases], kind)
        for kind in BY_TYPE
    }
    ids = pa.array(range(len(cases)), pa.int32())
    times = pa.array([TIME + timedelta(minutes=n) for n in range(len(cases))])
    return pa.table({"id": ids, "t": times.cast(pa.timestamp("us", "UTC")), **columns})


@pytest.fixture(scope="module")
def rows():
    return rows_of(CASES)


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    projection = projseg.Projection(
        "by_text", group_by=[NAMES[pa.string()]], aggregators=["count(*)", "sum(id)"]
    )
    return projseg.Table.create(
        tmp_path_factory.mktemp("parameters") / "t",
        rows.schema,
        time_column="t",
        projections=[projection],
        data=rows,
    )


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return one == other and one is not None


def expected(rows, name, value):
    """Return the ids of the rows that have a value in a column, found without SQL."""
    found = zip(rows["id"].to_pylist(), rows[name].to_pylist(), strict=True)
    return [number for number, held in found if same(held, value)]


def ids(answer):
    return sorted(answer["id"].to_pylist())


def refused(call, *words):
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert caught.value.code == "PROJSEG_BAD_ARGUMENT", caught.value
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 2_000
    return caught.value


def test_there_are_two_hundred_values():
    assert len(CASES) + len(FORMS) + len(REFUSED) + len(LISTS) > 200


def test_each_value_finds_its_rows_in_every_call(table, rows):
    for number, (kind, value) in enumerate(CASES):
        name = NAMES[kind]
        wanted = expected(rows, name, value)
        assert number in wanted
        condition, args = f"{name} = :value", {"value": value}
        assert ids(table.query(columns="id", filter=condition, args=args)) == wanted, value
        assert ids(table.sql(f"SELECT id FROM t WHERE {name} <=> ?", args=[value])) == wanted
        literal = projseg.literal(value)
        if len(literal) < 100_000:
            assert ids(table.query(columns="id", filter=f"{name} = {literal}")) == wanted, literal
        if number % 8:
            continue
        assert ids(table.scan("id", condition, args=args).read_all()) == wanted
        asked = projseg.Query(columns="id", filter=condition, args=args)
        assert ids(table.query(projseg.Query.from_json(asked.to_json()))) == wanted
        assert ids(table.query(projseg.Query(columns="id", filter=condition), args=args)) == wanted
        outside = f"NOT ({name} = :value) OR {name} IS NULL"
        others = table.query(columns="id", filter=outside, args=args)
        assert ids(others) == sorted(set(range(len(CASES))) - set(wanted))
        assert ":value" in str(table.explain(columns="id", filter=condition, args=args))


def test_texts_are_found_in_projections_and_in_groups(table, rows):
    name = NAMES[pa.string()]
    for value in TEXTS:
        (wanted,) = expected(rows, name, value)
        grouped = table.query(
            f"{name} AS k",
            f"sum(id) AS s, count(*) FILTER (WHERE {name} = :v) AS n",
            filter=f"{name} IN (:v)",
            having=f"{name} = :v AND n = 1",
            context={"useProjection": "by_text"} if wanted % 2 else {"noProjections": True},
            args={"v": value},
        )
        assert grouped.to_pylist() == [{"k": value, "s": wanted, "n": 1}]


@pytest.mark.sampled(len(FORMS))
@pytest.mark.parametrize(("given_as", "equal"), FORMS)
def test_values_in_other_forms_are_the_same(table, rows, given_as, equal):
    found = 0
    for kind, values in BY_TYPE.items():
        if any(type(equal) is type(value) and same(equal, value) for value in values):
            wanted = expected(rows, NAMES[kind], equal)
            answer = table.query(
                columns="id", filter=f"{NAMES[kind]} = ?", args=[given_as], order_by="id"
            )
            assert ids(answer) == wanted
            found += 1
    assert found


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: repr(type(value)))
def test_what_is_no_value_is_refused_by_name(table, value):
    refused(lambda: table.query(columns="id", filter="id = :odd", args={"odd": value}), "'odd'")
    refused(lambda: table.sql("SELECT id FROM t WHERE id = ?", args=[value]), "'1'")
    refused(lambda: projseg.literal(value), "value")


@pytest.mark.parametrize("value", LONE_SURROGATES)
def test_halves_of_characters_are_refused_in_lists_too(table, value):
    refused(
        lambda: table.query(columns="id", filter="c10 IN (:x)", args={"x": ["a", value]}), "U+D"
    )


@pytest.mark.parametrize("values", LISTS, ids=range(len(LISTS)))
def test_lists_stand_in_in(table, rows, values):
    name = NAMES[pa.string()]
    plain = values.as_py() if isinstance(values, pa.Scalar) else values
    plain = plain.to_pylist() if isinstance(plain, pa.Array | pa.ChunkedArray) else list(plain)
    held = rows[name].to_pylist()
    inside = [n for n, text in enumerate(held) if text is not None and text in plain]
    outside = [n for n, text in enumerate(held) if text is not None and text not in plain]
    if None in plain:
        outside = []
    if not plain:
        outside = list(range(len(held)))
    args = {"many": values}
    assert ids(table.query(columns="id", filter=f"{name} IN (:many)", args=args)) == inside
    assert ids(table.query(columns="id", filter=f"{name} NOT IN (:many)", args=args)) == outside
    more = table.query(
        columns="id",
        filter=f"{name} IN ('', :many, :z)",
        args={**args, "z": ":z"},
    )
    assert set(ids(more)) >= set(inside)
    if plain and None not in plain:
        listed = projseg.literal(values)
        if len(listed) < 100_000:
            assert ids(table.query(columns="id", filter=f"{name} IN ({listed})")) == inside
        answer = table.query(columns="id", filter=f"array_contains(:many, {name})", args=args)
        assert ids(answer) == inside


def test_nulls_uuids_and_lengths_of_time(table):
    assert table.query(columns="id", filter="id = :x", args={"x": None}).num_rows == 0
    for null in (NAType(), np.datetime64("NaT"), pa.scalar(None, pa.int32())):
        assert table.query(columns="id", filter="id <=> :x", args={"x": null}).num_rows == 0
    for one in UUIDS:
        answer = table.query(columns=":u AS u", filter="id = 0", args={"u": one})
        assert answer.to_pylist() == [{"u": str(one)}]
    hours = {"a": TIME, "h": timedelta(minutes=2), "n": 1}
    for condition in ("t = :a + :h", "t - :h = :a", "t = :a + INTERVAL :n MINUTES + :h / 2"):
        args = {name: value for name, value in hours.items() if f":{name}" in condition}
        if "/" in condition:
            with pytest.raises(ProjsegError):
                table.query(columns="id", filter=condition, args=args)
            continue
        assert ids(table.query(columns="id", filter=condition, args=args)) == [2]
    args = {"a": TIME, "n": 2}
    assert ids(table.query(columns="id", filter="t = :a + INTERVAL :n MINUTES", args=args)) == [2]
    span = np.timedelta64(-120, "s")
    args = {"a": TIME, "h": span}
    assert ids(table.query(columns="id", filter="t + :h = :a", args=args)) == [2]


def test_the_injection_of_the_issue_finds_nothing(table):
    attack = "\\' OR true -- "
    glued = "c10 = '" + attack.replace("'", "''") + "'"
    everything = table.query(columns="id", filter=glued).num_rows
    assert everything == len(CASES)  # why values do not belong into texts
    assert len(ids(table.query(columns="id", filter="c10 = :c", args={"c": attack}))) == 1
    assert len(ids(table.query(columns="id", filter=f"c10 = {projseg.literal(attack)}"))) == 1


BAD = [
    ({"filter": "id = :a"}, None, [":a"]),
    ({"filter": "id = :a"}, {}, [":a"]),
    ({"filter": "id = :a AND id = :b"}, {"a": 1}, [":b"]),
    ({"filter": "id = :a"}, {"a": 1, "b": 2}, [":b"]),
    ({"filter": "id = :abc"}, {"abd": 1}, [":abc", "did you mean"]),
    ({"filter": "id = :a AND id = ?"}, {"a": 1}, [":a", "?"]),
    ({"filter": "id = ?"}, {"a": 1}, [":a", "sequence"]),
    ({"filter": "id = :a"}, [1], [":a", "mapping"]),
    ({"filter": "id = ?"}, [], ["1", "0"]),
    ({"filter": "id = ?"}, [1, 2], ["1", "2"]),
    ({"filter": "id = ?"}, "1", ["str"]),
    ({"filter": "id = ?"}, 1, ["int"]),
    ({"filter": "id = :a"}, {1: 1}, ["1"]),
    ({"filter": "id = :a"}, {"a b": 1}, ["a b"]),
    ({"filter": "id = 1"}, [1], ["0"]),
    ({"filter": "t >= DATE :d"}, {"d": "2024-01-01"}, [":d", "name"]),
    ({"filter": "id IS :n"}, {"n": None}, [":n", "IS"]),
    ({"filter": "id IN :n"}, {"n": [1]}, [":n", "IN (:n)"]),
    ({"filter": "t = :n"}, {"n": timedelta(1)}, [":n"]),
    ({"filter": "t > t + INTERVAL :n HOURS"}, {"n": 1.5}, [":n"]),
    ({"columns": "date_trunc(:u, t)"}, {"u": "HOUR"}, [":u", "unit"]),
    ({"columns": "trunc(t, :u)"}, {"u": "MONTH"}, [":u", "unit"]),
    ({"columns": "extract(:u FROM t)"}, {"u": "HOUR"}, [":u", "unit"]),
    ({"columns": "date_part(:u, t)"}, {"u": "HOUR"}, [":u", "field"]),
    ({"columns": "in_zone(:z, t)"}, {"z": "UTC"}, [":z", "zone"]),
    ({"columns": "timestamp_floor(t, :p)"}, {"p": "PT1H"}, [":p", "period"]),
    ({"columns": "size(:e)"}, {"e": []}, [":e", "empty"]),
    ({"columns": "id", "order_by": ":c"}, {"c": "id"}, [":c", "order_by"]),
    ({"group_by": ":c"}, {"c": "id"}, [":c", "group_by"]),
    ({"aggregators": "percentile(id, :p)"}, {"p": 0.5}, [":p", "percentile"]),
    ({"aggregators": "percentile_approx(id, 0.5, :p)"}, {"p": 100}, [":p"]),
    ({"aggregators": "hll_sketch_agg(id, :k)"}, {"k": 12}, [":k", "hll_sketch_agg"]),
    ({"aggregators": "approx_count_distinct(id, :k)"}, {"k": 0.05}, [":k"]),
    ({"columns": "id AS :n"}, {"n": "name"}, [":n", "name"]),
    ({"columns": "id :n"}, {"n": "name"}, [":n", "name"]),
    ({"filter": "t.:n = 1"}, {"n": "id"}, [":n", "name"]),
]  # fmt: skip


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("parts", "args", "words"), BAD)
def test_arguments_that_do_not_fit_are_named(table, parts, args, words):
    refused(lambda: table.query(**parts, args=args), *words)
    refused(lambda: table.explain(**parts, args=args), *words)


@pytest.mark.parametrize(
    ("text", "args", "words"),
    [
        ("SELECT id FROM :t", {"t": "t"}, [":t", "FROM"]),
        ("SELECT id FROM t VERSION AS OF :v", {"v": 1}, [":v", "FROM"]),
        ("SELECT id FROM t ORDER BY :o", {"o": "id"}, [":o", "ORDER BY"]),
        ("SELECT count(*) FROM t GROUP BY :g", {"g": "id"}, [":g", "GROUP BY"]),
        ("SELECT id FROM t LIMIT :n", {"n": "5"}, [":n", "LIMIT"]),
        ("SELECT id FROM t LIMIT :n", {"n": -1}, [":n", "LIMIT"]),
        ("SELECT id FROM t LIMIT 5 OFFSET :n", {"n": None}, [":n", "OFFSET"]),
        ("SELECT id FROM t WHERE id = :a OR id = ?", {"a": 1}, [":a", "?"]),
        ("SELECT id FROM t WHERE id = :a", {"a": 1, "b": 2}, [":b"]),
    ],
)
def test_statements_say_where_a_parameter_may_not_stand(table, text, args, words):
    refused(lambda: table.sql(text, args=args), *words)


def test_statements_take_parameters_everywhere_else(table):
    answer = table.sql(
        "SELECT :label AS label, id + :from AS later FROM t "
        "WHERE id IN (:many) AND '?:x' <> \"?\" /* :y ? */ -- :z ?\n"
        "ORDER BY id + :from DESC LIMIT :limit OFFSET :offset",
        args={"label": "a'b", "from": 10, "many": range(9), "limit": 2, "offset": 1},
    )
    assert answer.to_pylist() == [{"label": "a'b", "later": 17}, {"label": "a'b", "later": 16}]
    grouped = table.sql(
        "SELECT id % :n AS k, count(*) FILTER (WHERE id < :m) AS c FROM t "
        "GROUP BY id % :n HAVING count(*) > :h ORDER BY k LIMIT 1",
        args={"n": 3, "m": 4, "h": 2},
    )
    assert grouped.to_pylist() == [{"k": 0, "c": 2}]
    same_twice = "SELECT id + :a AS x, count(*) AS n FROM t GROUP BY id + :b LIMIT 1"
    assert table.sql(same_twice, args={"a": 1, "b": 1}).num_rows == 1
    with pytest.raises(ProjsegError):  # two values make two expressions, as two literals do
        table.sql(same_twice, args={"a": 1, "b": 2})


def test_question_marks_are_counted_in_the_order_of_sql(table):
    answer = table.query(
        "id % ? AS k",
        ["count(*) FILTER (WHERE id > ?) AS n"],
        filter="id < ?",
        having="k = ?",
        order_by="n + ?",
        args=[2, 3, 10, 1, 0],
    )
    assert answer.to_pylist() == [{"k": 1, "n": 3}]
    assert table.query(columns=["?", "id"], filter="id = ?", args=["a", 3]).to_pylist() == [
        {":1": "a", "id": 3}
    ]


def test_a_question_is_kept_by_its_values(table):
    for value in (1, 2, 1):
        args = {"x": value}
        assert ids(table.query(columns="id", filter="id = :x", args=args)) == [value]
    with pytest.raises(ProjsegError):  # True equals 1 in Python, and is no number in SQL
        table.query(columns="id", filter="id = :x", args={"x": True})
    zeros = [
        table.query(columns="CAST(:x AS STRING) AS y", limit=1, args={"x": zero})["y"][0].as_py()
        for zero in (0.0, -0.0)
    ]
    assert zeros == ["0.0", "-0.0"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, pa.int32()),
        (2**31, pa.int64()),
        (2**63, pa.decimal128(19, 0)),
        (1.5, pa.float64()),
        (Decimal("1.50"), pa.decimal128(3, 2)),
        (np.int8(1), pa.int8()),
        (np.float32(1), pa.float32()),
        ("a", pa.string()),
        (b"a", pa.binary()),
        (date(2024, 1, 1), pa.date32()),
        (TIME, pa.timestamp("us", "UTC")),
        (datetime(2024, 1, 1), pa.timestamp("us")),
        (True, pa.bool_()),
    ],
)
def test_types_of_values_are_those_of_literals(table, value, kind):
    answer = table.query(columns=":x AS k", limit=1, args={"x": value})
    assert answer.schema.field("k").type == kind
    assert answer.equals(table.query(columns=f"{projseg.literal(value)} AS k", limit=1))


@given(st.text() | st.integers() | st.floats() | st.decimals() | st.binary() | st.datetimes()
       | st.dates() | st.timedeltas() | st.none() | st.booleans())  # fmt: skip
def test_any_value_is_itself_or_refused(value):
    try:
        query = projseg.Query(columns=":x", args={"x": value})
    except InvalidInputError as error:
        found = error.code
    else:
        again = projseg.Query.from_json(query.to_json())
        assert (again, hash(again)) == (query, hash(query))
        found = "PROJSEG_BAD_ARGUMENT"
    assert found == "PROJSEG_BAD_ARGUMENT"


def test_values_stay_out_of_what_is_printed():
    query = projseg.Query(columns="id", filter="id = :secret", args={"secret": "hunter2"})
    assert "hunter2" not in repr(query)
    assert "hunter2" not in str(query)
    assert "secret: string" in repr(query)


def test_changes_mean_exactly_the_rows_of_a_value(tmp_path):
    cases = [(pa.string(), text) for text in TEXTS[:: max(1, len(TEXTS) // tries(64))]]
    rows = rows_of(cases)
    name = NAMES[pa.string()]
    table = projseg.Table.create(tmp_path / "t", rows.schema, time_column="t", data=rows)
    for number, (_, text) in enumerate(cases):
        seen = table.delete(f"{name} = :text", args={"text": text}, dry_run=True)
        assert seen.deleted_rows == 1
        done = table.update({"id": "id + :more"}, f"{name} = :text",
                            args={"text": text, "more": 1000})  # fmt: skip
        assert done.updated_rows == 1
        if number % 2:
            assert table.delete(f"{name} IN (?)", args=[[text]]).deleted_rows == 1
            continue
        row = table.query(filter=f"{name} = ?", args=[text])
        assert row["id"].to_pylist() == [number + 1000]
        table.overwrite(row, filter=f"{name} = :text", args={"text": text})
    assert len(table.query()) == (len(cases) + 1) // 2
    told = str(table.history().to_pylist())
    assert ":text" in told
    for _, text in cases:
        assert len(text) < 8 or text not in told


def test_changes_refuse_arguments_that_do_not_fit(tmp_path):
    table = projseg.Table.create(tmp_path / "t", {"a": "int", "b": "string"}, data={"a": [1]})
    refused(lambda: table.delete("a = :x"), ":x")
    refused(lambda: table.delete("a = 1", args={"x": 1}), ":x")
    refused(lambda: table.delete(args={"x": 1}), ":x")
    refused(lambda: table.update({"b": ":x"}, "a = :y", args={"x": "a"}), ":y")
    refused(lambda: table.update({"b": "?"}, "a = ?", args=["a"]), "2")
    refused(lambda: table.overwrite({"a": [1]}, filter="a = :x", args={"y": 1}), ":x")
    refused(lambda: table.overwrite({"a": [1]}, args={"y": 1}), ":y")
    refused(
        lambda: table.add_projection(
            {"name": "p", "sql": "SELECT a, count(*) WHERE a = :x GROUP BY a"}
        ),
        ":x",
    )
    assert table.version == 0
    table.update({"b": "concat(?, b)"}, "a = ?", args=["x", 2])
    assert pc.sum(table.query()["a"]).as_py() == 1


def test_parameters_stand_in_all_selects_of_a_statement(table):
    nested = (
        "WITH x AS (SELECT id + :more AS k FROM t WHERE id IN (:many)) "
        "SELECT k FROM (SELECT k FROM x WHERE k > :least) ORDER BY k LIMIT :limit"
    )
    args = {"more": 10, "many": range(9), "least": 12, "limit": 2}
    assert table.sql(nested, args=args)["k"].to_pylist() == [13, 14]
    counted = "SELECT id FROM (SELECT id FROM t WHERE id < ?) WHERE id > ?"
    assert ids(table.sql(counted, args=[5, 2])) == [3, 4]
    plan = table.sql("EXPLAIN SELECT id FROM t WHERE id = :from", args={"from": 3})
    assert ":from" in str(plan.to_pylist())
    refused(lambda: table.sql(nested, args={**args, "other": 1}), ":other")
    refused(lambda: table.sql("SHOW COLUMNS", args={"other": 1}), ":other")
