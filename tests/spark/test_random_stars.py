"""Aggregates over random joins of a fact with its dimensions answer as over Parquet."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scale import tries
from spark_sql import assert_same, plan_of, using

DIMENSIONS = {
    "a": ("ja a ON f.k = a.k", ["a.name", "a.weight"]),
    "b": ("jb b ON f.s = b.s", ["b.region"]),
    "y": ("jd y ON f.day = y.day", ["y.year", "y.year % 2"]),
    "l": ("jl l ON f.k = l.k AND l.k < 5", ["l.name"]),
    "e": ("je e ON f.k = e.k", ["e.name"]),
}
OF_FACT = ["f.s", "f.k", "f.flag", "year(f.day)", "f.k % 3", "upper(f.s)", "f.n % 5"]
AGGREGATES = (
    """
count(*)|count(f.n)|sum(f.n)|avg(f.n)|sum(f.d)|avg(f.d)|min(f.v)|max(f.d)|max(f.s)|min(f.day)
sum(f.n + 1)|sum(if(f.flag, f.n, 0))|count_if(f.n > 40)|bool_or(f.flag)|bit_xor(f.n)|var_pop(f.n)
count(DISTINCT f.s)|count(DISTINCT f.k, f.flag)|sum(DISTINCT f.n)|sum(f.n) FILTER (WHERE f.flag)
sum(f.n) / count(*)|max(f.d) - min(f.d)|sum(f.x)|avg(f.x)|max(f.t)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)
WITH_DIMENSION = """
max({d})|count({d})|count(DISTINCT {d})|sum(if({d} IS NULL, f.n, 0))|count(*) FILTER (WHERE {d} IS \
NOT NULL)|sum(CASE WHEN {d} IS NOT NULL THEN f.d END)|min(if({d} IS NULL, f.v, 7))
""".strip().split("|")
CONDITIONS = [
    *("f.n > 10", "f.flag", "f.s IN ('s1', 's3', 's9')", "f.k <> 3", "f.n IS NOT NULL", "f.v < 0"),
    *("f.day >= DATE'2023-12-31'", "f.t < TIMESTAMP'2024-01-02 03:04:05'", "f.s LIKE 's1%'"),
    *("f.k IN (SELECT k FROM ja WHERE weight > 3)", "f.k < f.n", "f.d > 100.5", "NOT f.flag"),
]
JOINS = ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


@st.composite
def statements(draw):
    """A star query, whose table of facts is `{f}`."""
    names = draw(st.lists(st.sampled_from(sorted(DIMENSIONS)), unique=True, max_size=3))
    joins, columns = [], []
    for name in names:
        kind = draw(st.sampled_from(JOINS))
        join, shown = DIMENSIONS[name]
        joins.append(f"{kind} {join}")
        columns += [] if kind.startswith(("LEFT SEMI", "LEFT ANTI")) else shown
    keys = draw(st.lists(st.sampled_from(OF_FACT + columns), unique=True, max_size=3))
    calls = st.sampled_from(AGGREGATES)
    if columns:
        calls |= st.builds(
            lambda call, d: call.format(d=d),
            st.sampled_from(WITH_DIMENSION),
            st.sampled_from(columns),
        )
    outputs = draw(st.lists(calls, unique=True, min_size=not keys, max_size=4))
    where = draw(st.lists(st.sampled_from(CONDITIONS), unique=True, max_size=2))
    shown = [f"{key} AS g{at}" for at, key in enumerate(keys)] + [
        f"{call} AS c{at}" for at, call in enumerate(outputs)
    ]
    parts = ["SELECT", ", ".join(shown), "FROM {f} f", *joins]
    parts += ["WHERE " + " AND ".join(where)] * bool(where)
    parts += ["GROUP BY " + ", ".join(str(at + 1) for at in range(len(keys)))] * bool(keys)
    parts += ["HAVING count(*) > 3"] * draw(st.booleans())
    return " ".join(parts)


def check(spark, statement, local, ansi):
    conf = {"spark.sql.ansi.enabled": ansi}
    with using(spark, enabled="true", local_enabled=local, **conf):
        found = spark.sql(statement.format(f="jf_projseg"))
        assert_same(found, spark.sql(statement.format(f="jf_parquet")))
        return plan_of(found)


SWITCH = st.sampled_from(["true", "false"])


@settings(max_examples=3)
@given(statement=statements(), local=SWITCH, ansi=SWITCH)
def test_a_random_star_query_answers_as_over_parquet(spark, stars, statement, local, ansi):
    check(spark, statement, local, ansi)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=tries(400), phases=[Phase.generate])
@given(statement=statements(), local=SWITCH, ansi=SWITCH)
def test_many_random_star_queries_answer_as_over_parquet(spark, stars, statement, local, ansi):
    check(spark, statement, local, ansi)
