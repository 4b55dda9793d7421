"""Columns that are added after segments have projections: no source has nulls in place of values.

Base rows of older segments have nulls in such a column. A projection has all columns that a plan
reads of it, so a plan that asks it for another one is refused.
"""

import collections
import datetime
import random
from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest
from scale import tries

import projseg
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter
from projseg.errors import InvalidInputError, ProjectionNotUsableError

START = datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC)
FIRST = {"time": "timestamp", "k": "string", "a": "int"}
LATER = {"x": "string", "y": "int", "z": "double", "sent": "timestamp", "day": "date"}
KEYS = {
    "k": ["k", "upper(k)"],
    "a": ["a", "a % 3"],
    "time": ["date_trunc('DAY', time)", "date_trunc('HOUR', time)"],
    "x": ["x", "upper(x)", "coalesce(x, k)", "x IS NULL"],
    "y": ["y", "y + 1", "coalesce(y, a)"],
    "sent": ["date_trunc('DAY', sent)", "date_trunc('HOUR', sent)", "hour(sent)"],
    "day": ["day", "year(day)"],
}
CALLS = {
    "k": ["count(*)", "count(k)", "max(k)"],
    "a": ["sum(a)", "min(a)", "max(a)"],
    "time": ["max(time)"],
    "x": ["count(x)", "min(x)"],
    "y": ["sum(y)", "max(y)", "sum(a + y)", "sum(coalesce(y, a))", "count(y)"],
    "z": ["max(z)", "count(z)"],
    "sent": ["min(sent)", "count(sent)", "count(DISTINCT sent)"],
    "day": ["max(day)"],
}
CONDITIONS = {
    "k": ["k = 'k1'", "k IS NOT NULL"],
    "a": ["a > 3", "a IN (1, 2, 7)"],
    "time": ["time < TIMESTAMP '2024-03-09 12:00:00'"],
    "x": ["x = 'x1'", "x IS NULL", "x <> 'x0' OR k = 'k0'"],
    "y": ["y > 2", "NOT (y > 2)", "y <=> NULL", "coalesce(y, 5) = 5"],
    "z": ["z >= 1.5"],
    "sent": ["sent >= TIMESTAMP '2024-03-09 00:00:00'", "sent IS NULL"],
    "day": ["day = DATE '2024-03-09'"],
}
SOURCES = collections.Counter()
UTC_FORMS = {"TIMESTAMP '": "TIMESTAMPTZ '", "y <=> NULL": "y IS NULL"}


def drawn_rows(r, columns):
    """Return rows of the columns that a table has by now."""
    count = r.choice([1, 20, 60])
    at = [START + datetime.timedelta(minutes=r.randrange(4_000)) for _ in range(count)]
    drawn = {
        "time": at,
        "k": [r.choice(["k0", "k1", None]) for _ in at],
        "a": [r.randrange(9) for _ in at],
        "x": [r.choice(["x0", "x1", None]) for _ in at],
        "y": [r.choice([None, *range(6)]) for _ in at],
        "z": [r.choice([None, 0.5, 1.5, 2.5]) for _ in at],
        "sent": [r.choice([None, *at]) for _ in at],
        "day": [r.choice([None, one.date()]) for one in at],
    }
    return pa.table({name: pa.array(drawn[name], columns[name]) for name in columns})


def drawn(r, kinds, columns, most):
    """Return some texts of one kind, about columns of the table."""
    texts = [text for name in columns for text in kinds.get(name, [])]
    return r.sample(texts, min(r.randint(0, most), len(texts)))


def drawn_projection(r, name, columns):
    """Return groups, or rows in another order, with a condition now and then."""
    where = next(iter(drawn(r, CONDITIONS, columns, 1)), None) if r.random() < 0.2 else None
    if r.random() < 0.25:
        some = r.sample(columns, r.randint(1, len(columns)))
        return projseg.Projection(name, columns=some, order_by=[r.choice(some)], where=where)
    keys = [f"{one} AS key{n}" for n, one in enumerate(drawn(r, KEYS, columns, 3))]
    calls = dict.fromkeys(["count(*)", "sum(a)", *drawn(r, CALLS, columns, 5)])
    return projseg.Projection(name, keys or ["k AS key0"], list(calls), where)


def drawn_life(r, table):
    """Let a table have rows, columns and projections; return all rows, and the projections."""
    contents, later, projections = [], r.sample(sorted(LATER), r.randint(1, 3)), []
    for step in ["rows", *r.choices(["rows", "column", "projection", "build"], k=12), "rows"]:
        columns = {field.name: field.type for field in table.schema}
        if step == "rows":
            contents.append(drawn_rows(r, columns))
            table.append(contents[-1])
        elif step == "column" and later:
            name = later.pop()
            table.add_column(name, LATER[name])
        elif step == "projection":
            projections.append(drawn_projection(r, f"p{len(projections)}", list(columns)))
            table.add_projection(projections[-1])
        elif step == "build":
            r.choice([table.materialize_projection, table.compact])()
    return pa.concat_tables(contents, promote_options="default").cast(table.schema), projections


def drawn_question(r, columns, projections):
    """Return a question about any columns, or about those of a projection and one beside them."""
    keys, calls, condition = drawn(r, KEYS, columns, 2), drawn(r, CALLS, columns, 3), columns
    if projections and r.random() < 0.8:
        one = r.choice(projections)
        stored = [key.rpartition(" AS ")[0] for key in one.group_by]
        keys = r.sample(stored, r.randint(0, len(stored))) + keys[: r.random() < 0.3]
        calls = r.sample(one.aggregators, min(2, len(one.aggregators))) + calls[: r.random() < 0.3]
        condition = r.choice([[], [name for name in columns if name in stored], columns])
    if r.random() < 0.3:
        name = r.choice([one for one in columns if one in CONDITIONS])
        calls.append(f"sum(a) FILTER (WHERE {r.choice(CONDITIONS[name])})")
    return {
        "group_by": [f"{one} AS g{n}" for n, one in enumerate(dict.fromkeys(keys))],
        "aggregators": [f"{one} AS v{n}" for n, one in enumerate(calls or ["count(*)"])],
        "filter": " AND ".join(f"({one})" for one in drawn(r, CONDITIONS, condition, 2)) or None,
    }


def duckdb_answer(connection, asked):
    text = f"SELECT {', '.join([*asked['group_by'], *asked['aggregators']])} FROM model"
    text += f" WHERE {asked['filter']}" if asked["filter"] else ""
    text += " GROUP BY ALL" if asked["group_by"] else ""
    for ours, theirs in UTC_FORMS.items():
        text = text.replace(ours, theirs)
    return comparable(connection.sql(text).to_arrow_table())


def comparable(answer):
    columns = []
    for column in answer.columns:
        is_time = pa.types.is_timestamp(column.type)
        columns.append((column.cast(pa.int64()) if is_time else column).to_pylist())
    return sorted(zip(*columns, strict=True), key=repr)


@pytest.mark.usefixtures("dear_base_rows")
@pytest.mark.parametrize("seed", range(tries(120, by_day=6)))
def test_sources_of_old_and_new_segments_answer_as_duckdb(tmp_path, seed):
    r = random.Random(seed)
    table = projseg.Table.create(
        tmp_path / "t", FIRST, time_column="time",
        segment_granularity=r.choice(["all", "day"]), cluster_by=r.choice([(), ("k",)]),
    )  # fmt: skip
    model, projections = drawn_life(r, table)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("model", model)
        for _ in range(8):
            asked = drawn_question(r, table.schema.names, projections)
            expected = duckdb_answer(connection, asked)
            ways = [{"useProjection": one.name} for one in projections]
            for way in [{}, {"noProjections": True}, *ways]:
                with suppress(ProjectionNotUsableError):
                    assert comparable(table.query(**asked, context=way)) == expected, (asked, way)
            SOURCES.update(table.explain(**asked).segments["source"].to_pylist())
    assert table.verify(deep=True) == []


def test_projections_and_base_rows_answered():
    if SOURCES:
        assert min(SOURCES["p0"], SOURCES["p1"], SOURCES[None]) > 5


@pytest.mark.parametrize(
    "asked",
    [
        {"group_by": ["k"], "aggregators": ["sum(a)"], "filter": "x > 'x0'"},
        {"group_by": ["k"], "aggregators": ["count(*)"], "filter": "upper(x) = 'X1'"},
        {"group_by": ["upper(x) AS u"], "aggregators": ["count(*)"]},
        {"aggregators": ["sum(a) FILTER (WHERE x = 'x1')"]},
        {"columns": ["k", "a"], "filter": "x = 'x1'"},
    ],
)
@pytest.mark.parametrize("appends", [[4], [4] * 12, [70_000]])
def test_a_plan_that_reads_what_a_projection_lacks_is_refused(
    tmp_path, monkeypatch, asked, appends
):
    """A fault of the planner, as one was: it leaves a column of base rows in a plan."""
    projections = [
        projseg.Projection("groups", ["k"], ["sum(a)", "count(*)"]),
        projseg.Projection("ordered", columns=["k", "a"], order_by=["k"]),
    ]
    table = projseg.Table.create(tmp_path / "t", {**FIRST, "x": "string"}, projections=projections)
    for count in appends:
        table.append(
            {
                "time": [START] * count,
                "k": [f"k{n % 3}" for n in range(count)],
                "a": [n % 7 for n in range(count)],
                "x": [f"x{n % 2}" for n in range(count)],
            }
        )
    monkeypatch.setattr(
        "projseg.algebra.planning.match_one_projection.ColumnIndex.narrow",
        lambda self, query, view, allowed: (sorted(allowed), {}),
    )
    monkeypatch.setattr(GroupingRewriter, "_column", lambda _, column: column)
    name = "ordered" if "columns" in asked else "groups"
    with pytest.raises(InvalidInputError, match=f"INTERNAL.*column 'x' of projection '{name}'"):
        table.query(**asked, context={"useProjection": name})
