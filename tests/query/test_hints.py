"""Hints in SQL without Spark: each says what a key of a query's context says, and wins over it."""

from __future__ import annotations

from itertools import product

import pytest

import projseg

SELECT = "SELECT {hint} k, sum(n) AS s FROM t GROUP BY k ORDER BY k"
HINTS = {
    "NO_PROJECTIONS": {"noProjections": True},
    "FORCE_PROJECTIONS": {"forceProjections": True},
    "NO_VIEWS": {"noViews": True},
    "FORCE_VIEWS": {"forceViews": True},
    "NO_INDEXES": {"noIndexes": True},
    "USE_PROJECTION(p)": {"useProjection": "p"},
    "USE_PROJECTION('p')": {"useProjection": "p"},
    "USE_VIEW(v)": {"useView": "v"},
    "use_view(`v`)": {"useView": "v"},
    "MAX_STALENESS('10 minutes')": {"maxStaleness": "10 minutes"},
}
BELOW = ({}, {"noViews": True}, {"noProjections": True}, {"useView": "v"}, {"noIndexes": True})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    table = projseg.Table.create(tmp_path_factory.mktemp("hints") / "t", {"k": "int", "n": "int"})
    table.add_projection(projseg.Projection("p", ["k"], ["sum(n)"]))
    table.append({"k": [1, 2, 1], "n": [3, 4, 5]})
    table.create_view("v", "SELECT k, sum(n) AS s FROM t GROUP BY k")
    return table


def answer(table, hint, context):
    """Return a statement's sources, or the code of its refusal."""
    text = SELECT.format(hint=f"/*+ {hint} */" if hint else "")
    try:
        rows = table.sql(text, context=context).to_pylist()
        plan = table.sql(text, context=context, explain=True)
    except projseg.ProjsegError as error:
        return error.code
    assert rows == [{"k": 1, "s": 8}, {"k": 2, "s": 4}]
    return dict(plan.sources)


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_says_what_its_key_says(table, hint):
    assert answer(table, hint, None) == answer(table, "", HINTS[hint])


def noun_of(key):
    return next(
        noun for noun in ("projection", "view", "staleness", "index") if noun in key.lower()
    )


@pytest.mark.sampled(50)
@pytest.mark.parametrize(("hint", "below"), list(product(HINTS, BELOW)))
def test_a_hint_wins_over_what_it_contradicts(table, hint, below):
    (key,) = HINTS[hint]
    gone = {noun_of(key)} | ({"projection"} if key == "useView" else set())
    left = {other: value for other, value in below.items() if noun_of(other) not in gone}
    assert answer(table, hint, below) == answer(table, "", {**left, **HINTS[hint]})


def test_views_are_used_and_left_by_hints(table):
    assert "view:v" in str(table.sql(SELECT.format(hint="/*+ USE_VIEW(v) */"), explain=True))
    assert "view:v" not in str(table.sql(SELECT.format(hint="/*+ NO_VIEWS */"), explain=True))
    inner = SELECT.format(hint="/*+ NO_VIEWS */").replace(" ORDER BY k", "")
    assert "view:v" not in str(table.sql(f"SELECT sum(s) AS s FROM ({inner})", explain=True))


@pytest.mark.parametrize("hint", ["NO_SUCH", "USE_VIEW", "USE_VIEW(a, b)", "NO_VIEWS(v)"])
def test_another_hint_is_refused_with_those_that_there_are(table, hint):
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_UNSUPPORTED_SQL") as raised:
        table.sql(SELECT.format(hint=f"/*+ {hint} */"))
    for known in ("NO_VIEWS", "USE_VIEW(...)", "NO_INDEXES", "MAX_STALENESS(...)"):
        assert known in raised.value.message
