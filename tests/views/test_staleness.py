"""`maxStaleness`: the answer is that of one earlier state of all tables, or of the present one."""

import random

import duckdb
import pyarrow as pa
import pytest
from scale import tries
from viewed_tables import as_set, in_duckdb, new_viewed_table, row, rows

import projseg
from projseg import Table

SUMS = "SELECT k, g, sum(n) AS n, count(*) AS c FROM t GROUP BY k, g"
ASKED = "SELECT k, sum(n) AS n FROM t GROUP BY k"
FIRST = [row(hour, 5, "abc"[hour % 3], hour % 4, hour, 100) for hour in range(12)]
STALE = []
PLACES = pa.schema([("code", pa.string()), ("region", pa.string())])
STAR = "SELECT d.region, sum(n) AS n FROM t JOIN d ON k = d.code GROUP BY d.region"


def as_rows(found):
    return as_set(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture
def behind(tmp_path):
    """Return a table with a view that is one append behind, and the rows before and after."""
    table = new_viewed_table(str(tmp_path / "t"), FIRST)
    table.create_view("v", SUMS, refresh="deferred")
    table.append(rows([row(3, 7, "a", 1, 1000, 100)]))
    return table, rows(FIRST), pa.concat_tables([rows(FIRST), rows([row(3, 7, "a", 1, 1000, 100)])])


def test_only_who_asks_for_an_old_answer_gets_one(behind):
    table, before, after = behind
    assert as_rows(table.sql(ASKED)) == in_duckdb(ASKED, after)
    for given in ("15 minutes", "1 day", "3600 seconds", 3600, "0.5 hours"):
        found = table.sql(ASKED, context={"maxStaleness": given})
        assert as_rows(found) == in_duckdb(ASKED, before), given
    for given in ("0 seconds", 0, None):
        found = table.sql(ASKED, context={"maxStaleness": given})
        assert as_rows(found) == in_duckdb(ASKED, after), given


def test_explain_says_which_version_answers(behind):
    table, _, _ = behind
    version = table.version
    found = table.explain(ASKED, context={"maxStaleness": "1 hour"})
    assert found.version == version - 1
    assert f"at version {version - 1} (maxStaleness)" in str(found)
    assert '"version"' in found.to_json()
    assert table.explain(ASKED).version is None
    assert table.version == version, "the table object stays where it is"


def test_a_version_that_was_replaced_too_long_ago_does_not_answer(behind, monkeypatch):
    table, before, after = behind
    now = table.snapshot.timestamp_us
    for seconds, wanted in ((59, before), (61, after)):
        at = now + seconds * 1_000_000
        monkeypatch.setattr("projseg.views.nominated_views.now_us", lambda at=at: at)
        found = table.sql(ASKED, context={"maxStaleness": "1 minute"})
        assert as_rows(found) == in_duckdb(ASKED, wanted), seconds


def test_a_view_that_does_not_answer_makes_nothing_old(behind):
    table, _, after = behind
    least = "SELECT k, min(n) AS n FROM t GROUP BY k"
    for text in (least, "SELECT price, sum(n) AS n FROM t GROUP BY price"):
        found = table.sql(text, context={"maxStaleness": "1 hour"})
        assert as_rows(found) == in_duckdb(text, after)
    table.view("v").disable()
    found = table.sql(ASKED, context={"maxStaleness": "1 hour"})
    assert as_rows(found) == in_duckdb(ASKED, after)


def test_a_version_that_somebody_chose_stays(behind):
    table, _, after = behind
    pinned = Table(table.location, version=table.version)
    found = pinned.sql(ASKED, context={"maxStaleness": "1 hour"})
    assert as_rows(found) == in_duckdb(ASKED, after)
    text = ASKED.replace("FROM t", f"FROM t VERSION AS OF {table.version}")
    found = table.sql(text, context={"maxStaleness": "1 hour"})
    assert as_rows(found) == in_duckdb(ASKED, after)


@pytest.mark.parametrize("given", ["soon", "15", "-1 minutes", "15 months", True, [1], -5, "1e9 s"])
def test_bad_values_are_refused(behind, given):
    with pytest.raises(projseg.ProjsegError) as raised:
        behind[0].sql(ASKED, context={"maxStaleness": given})
    assert raised.value.code == "PROJSEG_BAD_CONTEXT_VALUE"


def in_star(sql, content, places):
    with duckdb.connect() as connection:
        connection.register("t", content)
        connection.register("d", places)
        return as_rows(connection.sql(sql).to_arrow_table())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(tries(24)))
def test_old_answers_are_of_one_state(tmp_path, seed):
    """Whatever happens to fact and dimension, an answer is what both were at one instant."""
    rng = random.Random(seed)
    table = new_viewed_table(str(tmp_path / "t"), FIRST)
    codes = [{"code": code, "region": "r"} for code in "ab"]
    places = Table.create(str(tmp_path / "d"), PLACES, data=pa.Table.from_pylist(codes, PLACES))
    tables = {"d": places}
    table.create_view("sums", SUMS, refresh="deferred")
    table.create_view("star", STAR + ", g", tables=tables, refresh="deferred")
    content, states = list(FIRST), []
    regions = {"a": "r", "b": "r"}

    def remember():
        rows_of_places = [{"code": c, "region": r} for c, r in regions.items()]
        states.append((rows(content), pa.Table.from_pylist(rows_of_places, PLACES)))

    remember()
    old = 0
    for step in range(8):
        what = rng.choice(["append", "delete", "places", "view", "view"])
        if what == "append":
            more = [row(rng.randrange(40), 7, rng.choice("abc"), 1, 10**step, 100)]
            table.append(rows(more))
            content += more
        elif what == "delete":
            bound = rng.randrange(12)
            table.delete(f"n = {bound}")
            content = [one for one in content if one["n"] != bound]
        elif what == "places":
            region = f"r{step}"
            places.update({"region": f"'{region}'"}, "code = 'a'")
            regions["a"] = region
        else:
            table.view(rng.choice(["sums", "star"])).refresh()
        remember()
        context = {"maxStaleness": "1 hour"}
        found = as_rows(table.sql(ASKED, context=context))
        assert found in [in_duckdb(ASKED, state[0]) for state in states]
        found = as_rows(projseg.sql(STAR, {"t": table, **tables}, context=context))
        assert found in [in_star(STAR, *state) for state in states]
        assert as_rows(projseg.sql(STAR, {"t": table, **tables})) == in_star(STAR, *states[-1])
        old += table.explain(ASKED, context=context).version is not None
    STALE.append(old)


def test_some_answers_were_old():
    if STALE:
        assert sum(STALE) > 0
