"""A question's own time limit: `timeLimit` in its context."""

from __future__ import annotations

import time

import pytest

import projseg
from projseg.errors import InvalidInputError, QueryTimeoutError
from projseg.memory import deadline
from projseg.memory.deadline import check_deadline, deadline_of_thread
from projseg.table import star_statements

ROWS = {"c": [f"text {i % 97}" for i in range(3_000)], "n": list(range(3_000))}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = projseg.Table.create(
        tmp_path_factory.mktemp("limited") / "t",
        {"c": "string", "n": "bigint"},
        projections=[projseg.Projection("by_c", ["c"], ["sum(n) AS n"])],
        data=ROWS,
    )
    for _ in range(3):
        made.append(ROWS)
    return made


@pytest.fixture(params=[1, 2], ids=["alone", "threads"])
def context(request):
    return {"threads": request.param, "noProjections": True}


ASKED = {
    "groups": lambda t, c: t.query("c", "sum(n) AS n", context=c),
    "rows": lambda t, c: t.query(columns=["c", "n"], filter="n % 2 = 0", order_by="n", context=c),
    "sql": lambda t, c: t.sql("SELECT c, count(DISTINCT n) FROM t GROUP BY c", context=c),
    "scan": lambda t, c: t.scan(filter="n % 3 = 1", context=c).read_all(),
    "limit": lambda t, c: t.scan(limit=5, context=c).read_all(),
    "whole": lambda t, c: t.query(projseg.Query("c", context=c)),
    "analyze": lambda t, c: t.explain("c", "sum(n) AS n", context=c, analyze=True),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_passed_limit_is_a_coded_error_and_leaves_the_table_usable(table, context, name):
    ask = ASKED[name]
    with pytest.raises(QueryTimeoutError, match=r"PROJSEG_QUERY_TIMEOUT.*1e-09 seconds"):
        ask(table, {**context, "timeLimit": 1e-9})
    assert deadline_of_thread() is None
    wanted = ask(table, context)
    found = ask(table, {**context, "timeLimit": "600"})
    assert name == "analyze" or found == wanted


def test_statements_are_bound_under_their_limit(table, monkeypatch):
    bound = []
    orient = star_statements.orient

    def oriented(*given):
        bound.append(deadline_of_thread())
        return orient(*given)

    monkeypatch.setattr(star_statements, "orient", oriented)
    others = projseg.Table.create(f"{table.location}_c", {"c": "string"}, data={"c": ["zz"]})
    statement = "SELECT count(*) AS {} FROM t JOIN d ON t.c = d.c"
    limited = {"timeLimit": 600}
    table.sql(statement.format("a"), tables={"t": table, "d": others}, context=limited)
    projseg.sql(statement.format("b"), {"t": table, "d": others}, context=limited)
    assert len(bound) == 2
    assert None not in bound
    assert deadline_of_thread() is None


@pytest.mark.parametrize("name", ["groups", "scan", "sql", "rows"])
def test_a_limit_that_passes_at_any_check_ends_the_question(table, context, name, monkeypatch):
    """Of all checks that a question makes, each is the one that finds it late."""
    checks = {"left": 10**9}

    def check(self):
        checks["left"] -= 1
        if checks["left"] < 0:
            raise self._late()

    monkeypatch.setattr(deadline.Deadline, "check", check)
    limited = {**context, "timeLimit": 600}
    ASKED[name](table, limited)  # what is kept of a question is not checked again
    checks["left"] = 10**9
    wanted = ASKED[name](table, limited)
    count = 10**9 - checks["left"]
    assert count > 2
    for left in range(0, count - 2, max(1, count // 7)):
        checks["left"] = left
        with pytest.raises(QueryTimeoutError):
            ASKED[name](table, limited)
    checks["left"] = 10**9
    assert ASKED[name](table, limited) == wanted


def test_a_scan_ends_where_its_time_does_though_its_reader_is_slow(table):
    reader = table.scan(context={"threads": 1, "timeLimit": 0.2})
    reader.read_next_batch()
    time.sleep(0.25)
    with pytest.raises(QueryTimeoutError):
        reader.read_all()
    check_deadline()  # the reader's thread has no deadline of its own


@pytest.mark.parametrize("value", [0, -1, "soon", True, float("nan"), float("inf"), [], 1e300])
def test_odd_limits_are_refused(table, value):
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_CONTEXT_VALUE.*timeLimit"):
        table.query("c", context={"timeLimit": value})
