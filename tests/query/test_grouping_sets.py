"""GROUPING SETS, ROLLUP and CUBE, from projections, from base rows and from a mixture."""

import random

import duckdb
import pyarrow as pa
import pytest
from scale import one_of

import projseg
from projseg.errors import ProjsegError

SCHEMA = pa.schema({"a": pa.string(), "b": pa.int32(), "c": pa.string(), "n": pa.int64()})
FINE = {
    "name": "fine",
    "group_by": ["a", "b", "c"],
    "aggregators": ["sum(n)", "count(*)", "max(n)", "count(n)"],
}


def random_rows(seed, count):
    chooser = random.Random(seed)
    return pa.Table.from_pylist(
        [
            {
                "a": chooser.choice([None, "u", "v"]),
                "b": chooser.choice([None, 1, 2, 3]),
                "c": chooser.choice(["x", "y", None]),
                "n": chooser.choice([None, *range(-5, 20)]),
            }
            for _ in range(count)
        ],
        schema=SCHEMA,
    )


ROWS = random_rows(3, 120)
SETS = [
    "ROLLUP(a, b)",
    "CUBE(a, b, c)",
    "ROLLUP(a, (b, c))",
    "CUBE((a, b), c)",
    "GROUPING SETS ((a, b), (a), ())",
    "GROUPING SETS (a, (c, b), ROLLUP(b))",
    "GROUPING SETS ((a), (b))",
    "grouping  sets ((a), (a), (b, a))",
    "a, ROLLUP(b, c)",
    "a, CUBE(b), ROLLUP(c)",
    "GROUPING SETS (())",
]
OUTPUTS = ["sum(n) AS s", "count(*) AS k", "count(DISTINCT c) AS d", "sum(n) / count(*) AS mean"]


@pytest.fixture(params=["projections", "mixed", "base rows"])
def table(request, tmp_path):
    declared = [] if request.param == "base rows" else [FINE]
    made = projseg.Table.create(tmp_path / "t", SCHEMA, projections=declared)
    made.append(ROWS.slice(0, 70))
    if request.param == "mixed":
        made.drop_projection("fine")
    made.append(ROWS.slice(70))
    return made


def columns_of(sets):
    return [name for name in "abc" if name in sets.replace("CUBE", "").replace("ROLLUP", "")
            .replace("GROUPING SETS", "").replace("grouping  sets", "")]  # fmt: skip


def by_duckdb(sets, outputs, rest=""):
    with duckdb.connect() as peer:
        peer.register("rows", ROWS)
        texts = ", ".join([*columns_of(sets), *outputs])
        return peer.sql(f"SELECT {texts} FROM rows GROUP BY {sets} {rest}").fetchall()


def rows_of(answer, columns):
    return [tuple(row[name] for name in columns) for row in answer.to_pylist()]


def names_of(sets, outputs):
    return [*columns_of(sets), *(text.rpartition(" ")[2] for text in outputs)]


@pytest.mark.parametrize("sets", one_of(2, SETS))
def test_all_groups_of_all_sets_are_there(table, sets):
    keys = columns_of(sets)
    outputs = [*OUTPUTS, *(f"grouping({key}) AS g_{key}" for key in keys)]
    found = rows_of(table.query(sets, outputs), names_of(sets, outputs))
    assert sorted(found, key=repr) == sorted(by_duckdb(sets, outputs), key=repr)


@pytest.mark.parametrize("sets", ["CUBE(a, b)", "a, ROLLUP(b, c)"])
def test_having_order_and_limit_know_grouping(table, sets):
    outputs = ["sum(n) AS s", f"grouping_id({', '.join(columns_of(sets))}) AS id"]
    having = "grouping(b) = 1 OR count(*) > 9"
    order = "grouping(b) DESC, s DESC NULLS LAST, a, b"
    asked = "grouping_id() AS id"
    for limit in (None, 3):
        found = table.query(
            sets, [outputs[0], asked], having=having, order_by=order, limit=limit
        )  # fmt: skip
        in_order = "grouping(b) DESC, s DESC NULLS LAST, a NULLS FIRST, b NULLS FIRST"
        cut = "" if limit is None else f" LIMIT {limit}"
        expected = by_duckdb(sets, outputs, f"HAVING {having} ORDER BY {in_order}{cut}")
        kept = [name for name in names_of(sets, outputs) if name != "c"]
        assert [tuple(row[n] for n in kept) for row in found.to_pylist()] == [
            tuple(v for n, v in zip(names_of(sets, outputs), row, strict=True) if n != "c")
            for row in expected
        ]


def test_ties_under_a_limit_do_not_depend_on_the_source(table):
    every = table.query("CUBE(a, b)", "1 * grouping_id() AS id, count(*) - count(*) AS zero",
                        order_by="zero")  # fmt: skip
    few = table.query("CUBE(a, b)", "1 * grouping_id() AS id, count(*) - count(*) AS zero",
                      order_by="zero", limit=4)  # fmt: skip
    assert few.to_pylist() == every.to_pylist()[:4]
    assert [(row["a"], row["b"], row["id"]) for row in few.to_pylist()] == [
        (None, None, 0), (None, None, 1), (None, None, 2), (None, None, 3)]  # fmt: skip


def test_a_key_in_an_output_is_null_where_it_is_rolled_up(table):
    texts = ["nullif(upper(a), min('')) AS up", "min(a) AS least"]
    texts.append("if(count(*) > 0, coalesce(a, 'all'), '') AS named")
    found = table.query("ROLLUP(a)", texts, order_by="grouping(a), a").to_pylist()
    assert [row["up"] for row in found] == [None, "U", "V", None]
    assert [row["named"] for row in found] == ["all", "u", "v", "all"]
    assert [row["least"] for row in found] == [None, "u", "v", "u"]


def test_one_read_of_the_finest_serves_all_sets(table):
    plan = table.explain("CUBE(a, b, c)", "sum(n)")
    finest = table.explain("a, b, c", "sum(n)")
    assert plan.segments.drop(["rejected"]).equals(finest.segments.drop(["rejected"]))


def test_no_rows_make_no_groups_but_for_the_empty_set_alone(table):
    nothing = {"filter": "b = 99"}
    assert table.query("ROLLUP(a)", "count(*)", **nothing).num_rows == 0
    assert table.query("GROUPING SETS ((a), ())", "count(*)", **nothing).num_rows == 0
    alone = table.query("GROUPING SETS (())", "count(*) AS n, sum(n)", **nothing)
    assert alone.to_pylist() == [{"n": 0, "sum(n)": None}]


def test_expressions_and_aliases_are_grouped_by(table):
    found = table.query(
        "ROLLUP(upper(a) AS up, b % 2)",
        ["count(*) AS n", "grouping(upper(a)) AS g", "grouping(b % 2) + count(*) AS h"],
        having="grouping_id() > 0",
        order_by="g, up",
    )
    assert found.schema.names == ["up", "(b % 2)", "n", "g", "h"]
    whole = found.to_pylist()[-1]
    assert (whole["up"], whole["n"], whole["g"], whole["h"]) == (None, 120, 1, 121)


def test_granularity_is_in_every_set(tmp_path):
    schema = pa.schema({"t": pa.timestamp("us", "UTC"), "a": pa.string()})
    table = projseg.Table.create(tmp_path / "t", schema, time_column="t")
    table.append(pa.table({"t": [0, 1, 90_000_000_000], "a": ["u", "v", "u"]}).cast(schema))
    asked = projseg.Query("ROLLUP(a)", "count(*) AS n", granularity="day", order_by="n DESC, a")
    assert [(row["t"].day, row["a"], row["n"]) for row in table.query(asked).to_pylist()] == [
        (1, None, 2), (2, None, 1), (1, "u", 1), (2, "u", 1), (1, "v", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"group_by": "a", "aggregators": "grouping(a)"}, "needs GROUPING SETS"),
        ({"group_by": "ROLLUP(a, b)", "aggregators": "grouping(c)"}, "one of the grouping columns"),
        ({"group_by": "ROLLUP(a, b)", "aggregators": "grouping_id(a)"}, "all grouping columns"),
        ({"group_by": "ROLLUP()", "aggregators": "count(*)"}, "lacks a column"),
        ({"group_by": "GROUPING SETS ()", "aggregators": "count(*)"}, "no grouping set"),
        ({"group_by": "ROLLUP(1)", "aggregators": "count(*)"}, "position"),
        ({"group_by": f"CUBE({', '.join(f'b + {n}' for n in range(13))})"}, "8192 grouping sets"),
    ],
)
def test_what_has_no_meaning_is_refused(tmp_path, parts, words):
    table = projseg.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(ProjsegError, match=words):
        table.query(**parts)


def test_a_partial_answer_has_one_set(tmp_path):
    table = projseg.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(ProjsegError, match="grouping sets need final values"):
        table.query(projseg.Query("ROLLUP(a)", "count(*)", aggregation="partial"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, b, sum(n) AS s, grouping(a) AS g FROM rows GROUP BY ROLLUP(a, b)",
        "SELECT sum(n) AS s, a AS x FROM rows GROUP BY GROUPING SETS ((a, b), (a), ())",
        "SELECT c, a, count(*) AS n, grouping_id(a, c) AS id FROM rows WHERE b > 1 "
        "GROUP BY CUBE(a, c) HAVING count(*) > 4",
        "SELECT upper(a) AS u, coalesce(upper(a), '') AS v, count(*) AS n FROM rows "
        "GROUP BY ROLLUP(upper(a))",
        "SELECT a, count(*) AS n, sum(n) / count(*) AS m FROM rows GROUP BY a, ROLLUP(b, c)",
        "SELECT upper(a) AS up, b AS second, count(*) AS k FROM rows GROUP BY ROLLUP(upper(a), b) "
        "HAVING grouping(b) = 0 OR count(*) > 30 ORDER BY grouping_id(upper(a), b), grouping(b)",
        "SELECT a AS c, c AS a, count(*) AS k FROM rows GROUP BY CUBE(a, c) "
        "HAVING grouping(a) = 1 ORDER BY grouping(c)",
    ],
)
def test_sql_takes_grouping_sets(table, sql):
    with duckdb.connect() as peer:
        peer.register("rows", ROWS)
        expected = peer.sql(sql).fetchall()
    found = [tuple(row.values()) for row in table.sql(sql).to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
