"""Random SELECTs over one table: DuckDB gives the same rows."""

import pytest
from answers_agree import same
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries
from sql_statements import (
    duckdb_over,
    in_duckdb,
    statement_rows,
    statement_table,
    values_of,
)

STATEMENTS = tries(1_500, 10)
KEYS = ("channel", "e.robot", "added % 5", "day", "date_trunc('DAY', e.time)", "upper(channel)")
OVER_KEYS = {
    "channel": "channel || '!'",
    "e.robot": "NOT robot",
    "added % 5": "(added % 5) * 3",
    "day": "month(e.day)",
    "date_trunc('DAY', e.time)": "day(date_trunc('DAY', time))",
    "upper(channel)": "'<' || upper(e.channel)",
}
AGGREGATES = (
    "count(*)", "sum(added)", "max(e.price)", "min(cost)", "count(DISTINCT `user name`)",
    "sum(added) FILTER (WHERE robot)", "coalesce(sum(e.added), 0) + count(*)",
    "max(added) - min(added)", "sum(CASE WHEN robot THEN added ELSE 0 END)",
)  # fmt: skip
CONDITIONS = (
    "robot",
    "e.added > 40",
    "channel IS NOT NULL AND added < 80",
    "day = DATE '2024-05-03'",
)
HAVINGS = ("count(*) > 4", "sum(e.added) > 500 OR max(price) < 20", "min(added) IS NOT NULL")
ROW_OUTPUTS = (
    "channel", "e.added", "price * 2", "upper(e.channel)", "added % 7 = 3", "day", "NOT robot", "8",
)  # fmt: skip


@st.composite
def grouped(draw):
    """A SELECT of groups, ordered by all that it puts out."""
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True))
    outputs = [*draw(st.permutations(keys))[: draw(st.integers(0, len(keys)))]]
    aggregates = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    outputs += [*aggregates, *(OVER_KEYS[key] for key in keys if draw(st.booleans()))]
    outputs = draw(st.permutations(outputs))
    terms = [draw(st.sampled_from(_namings(key, outputs))) for key in keys]
    if keys and set(keys) == {one for one in outputs if one not in aggregates}:
        terms = draw(st.sampled_from([terms, ["ALL"]]))
    having = draw(st.none() | st.sampled_from(HAVINGS))
    return _statement(draw, outputs, terms, having)


@st.composite
def of_rows(draw):
    """A SELECT of rows, or of their distinct values, ordered by all that it puts out."""
    outputs = draw(st.lists(st.sampled_from(ROW_OUTPUTS), min_size=1, max_size=4, unique=True))
    distinct = "DISTINCT " if draw(st.booleans()) else ""
    return _statement(draw, outputs, [], None, distinct)


def _namings(key, outputs):
    """Return the texts that name a grouping expression."""
    if key not in outputs:
        return [key]
    place = outputs.index(key)
    return [key, str(place + 1), f"o{place}"]


def _statement(draw, outputs, terms, having, distinct=""):
    listed = ", ".join(f"{text} AS o{place}" for place, text in enumerate(outputs))
    directions = st.sampled_from(["", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"])
    places = draw(st.permutations(range(len(outputs))))
    order_by = [
        draw(st.sampled_from([f"o{place}", str(place + 1)])) + draw(directions) for place in places
    ]
    condition = draw(st.none() | st.sampled_from(CONDITIONS))
    parts = [f"SELECT {distinct}{listed} FROM edits AS e"]
    parts += [f"WHERE {condition}"] if condition else []
    parts += [f"GROUP BY {', '.join(terms)}"] if terms else []
    parts += [f"HAVING {having}"] if having else []
    parts += [f"ORDER BY {', '.join(order_by)}"]
    parts += [f"LIMIT {draw(st.integers(0, 9))}"] if draw(st.booleans()) else []
    parts += [f"OFFSET {draw(st.integers(0, 4))}"] if draw(st.booleans()) else []
    return " ".join(parts)


@pytest.fixture(scope="module")
def rows():
    return statement_rows()


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return statement_table(tmp_path_factory.mktemp("sql") / "edits", rows)


@pytest.fixture(scope="module")
def peer(rows):
    with duckdb_over(rows) as connection:
        yield connection


@settings(max_examples=STATEMENTS)
@given(statement=grouped() | of_rows())
def test_duckdb_agrees(statement, table, peer):
    expected = values_of(peer.sql(in_duckdb(statement)).to_arrow_table())
    for context in ({}, {"noProjections": True}):
        found = values_of(table.sql(statement, context=context))
        assert len(found) == len(expected)
        for row, other in zip(found, expected, strict=True):
            assert all(map(same, row, other)), (row, other)
