"""Wrong answers of other engines' views: each is asked here, with views and without."""

import datetime as dt
import shutil
from pathlib import Path

import pytest
from viewed_tables import (
    START,
    answer,
    check_covers,
    in_duckdb,
    is_from_parts,
    new_viewed_table,
    row,
    rows,
)

from projseg import Table, sql
from projseg.errors import InvalidInputError, ProjectionNotUsableError
from projseg.memory.cache import KEPT
from projseg.table.table_version import reader_of, state_of

HOURLY = (
    "SELECT k, date_trunc('HOUR', time) AS hour, sum(n) AS n, count(*) AS c FROM t GROUP BY ALL"
)
BY_K = "SELECT k, sum(n) AS n FROM t GROUP BY k"
TOTAL = "SELECT sum(n) AS n, count(*) AS c FROM t"


def some_rows(hours, seed=0):
    return [
        row(h, 7 * k, ("a", "b", None)[(h + k + seed) % 3], k, h + k, 100 * k)
        for h in hours
        for k in range(3)
    ]


@pytest.fixture
def table(tmp_path):
    table = new_viewed_table(tmp_path / "t", some_rows(range(60)))
    table.create_view("hourly", HOURLY, chunk="day")
    return table


def check(table, *questions, from_parts=True):
    content = table.sql("SELECT * FROM t", context={"noViews": True})
    for question in questions or (BY_K, TOTAL):
        wanted = in_duckdb(question, content)
        assert answer(table, question) == wanted
        assert answer(table, question, noViews=True) == wanted
        assert is_from_parts(table, question) == from_parts
    check_covers(table)


@pytest.mark.parametrize("is_refreshed", [True, False])
@pytest.mark.parametrize("what", ["drop", "replace", "delete", "truncate", "restore", "compact"])
def test_rows_that_went_are_not_counted(table, what, is_refreshed):
    """StarRocks 73687, 70130, 9987 (truncated), 75924 (rolled back), Doris 35236, 39171."""
    if not is_refreshed:
        table.view("hourly").disable()
    version = table.version
    day = (START + dt.timedelta(days=1), START + dt.timedelta(days=2))
    if what == "drop":
        table.delete(interval=day)
    elif what == "replace":
        table.overwrite(rows(some_rows(range(25, 40), seed=1)), interval=day)
    elif what == "delete":
        table.delete("k = 'a' AND g = 1")
    elif what == "truncate":
        table.truncate()
    elif what == "restore":
        table.append(rows(some_rows([3, 120])))
        table.restore(version)
    else:
        table.append(rows(some_rows([3])))
        table.compact()
    if not is_refreshed:
        store = reader_of(table).view_store()
        state_of(table).keep_store(store)  # parts of before, views in use
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("projseg.views.refresh_on_commit.refresh_after_commit", lambda *_: None)
            table.view("hourly").enable()
    for question in (BY_K, TOTAL):
        content = table.sql("SELECT * FROM t", context={"noViews": True})
        assert answer(table, question) == in_duckdb(question, content)
    check_covers(table)


def test_rows_that_a_vector_hides_are_not_counted(tmp_path):
    """The segments' files stay: only how they are listed says that rows are deleted."""
    several = [row(h, m, "ab"[m % 2], m % 3, h + m, None) for h in range(20) for m in range(10)]
    table = new_viewed_table(tmp_path / "t", several, properties={"maxDeletedRatio": "1"})
    table.create_view("v", BY_K, chunk="day", refresh="deferred")
    table.delete("g = 0 AND k = 'a'")
    assert sum(table.segments().column("deleted_rows").to_pylist()) > 0
    check(table, from_parts=False)
    table.view("v").refresh()
    check(table)
    table.delete("g = 1")
    check(table, from_parts=False)


def test_a_view_that_is_coarser_than_what_was_dropped(table):
    """StarRocks 79057: a month's part, and a dropped hour in it."""
    table.create_view("monthly", BY_K, chunk="month")
    table.delete(interval=(START + dt.timedelta(hours=30), START + dt.timedelta(hours=31)))
    check(table)


def test_two_views_are_never_added_up(table):
    """StarRocks 79103: both cover everything."""
    table.create_view("by_k", BY_K, chunk="day")
    table.append(rows(some_rows([5, 200])))
    check(table)
    used = [one for one in table.explain(BY_K).views if one["reason"] is None]
    assert len(used) == 1
    assert {one["reason"] for one in table.explain(BY_K).views} == {None, "OTHER_VIEW_CHOSEN"}


def test_a_total_over_parts_and_rest_is_one_row(table):
    """Doris 40803, 51700: a rest, and an empty rest."""
    table.create_view("deferred", TOTAL, refresh="deferred")
    table.view("hourly").drop()
    check(table, TOTAL)
    table.append(rows(some_rows([4, 97])))
    check(table, TOTAL)
    assert answer(table, TOTAL) == in_duckdb(TOTAL, table.sql("SELECT * FROM t"))
    table.append(rows([]))
    check(table, TOTAL)


def test_null_keys_are_in_the_union(table):
    """StarRocks 21322, 60087; pg_ivm 1.14."""
    table.view("hourly").disable()
    table.append(rows([row(2, 1, None, None, 5, None)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("projseg.views.refresh_on_commit.refresh_after_commit", lambda *_: None)
        table.view("hourly").enable()
    check(table, BY_K, "SELECT k, count(*) AS c FROM t WHERE k IS NULL GROUP BY k")


def test_a_view_that_was_never_refreshed_answers_nothing(table):
    """StarRocks 14888."""
    table.view("hourly").drop()
    table.create_view("empty", BY_K, build=False, refresh="deferred")
    check(table, from_parts=False)
    assert table.explain(BY_K).views[0]["reason"] == "VIEW_EMPTY"


def test_a_refresh_while_a_query_runs(table):
    """Doris 40173: what is pinned stays pinned."""
    pinned = Table(table.location)
    content = pinned.sql("SELECT * FROM t")
    assert answer(pinned, BY_K) == in_duckdb(BY_K, content)
    table.delete("k = 'a'")
    table.append(rows(some_rows([1, 2])))
    assert answer(pinned, BY_K) == in_duckdb(BY_K, content)
    late = Table(table.location, version=pinned.version)  # the newest parts, an old version
    assert answer(late, BY_K) == in_duckdb(BY_K, content)


def test_versions_named_in_a_statement_are_those_of_the_table(table):
    """Doris 43030."""
    version = table.version
    content = table.sql("SELECT * FROM t")
    table.delete("n > 3")
    found = table.sql(f"SELECT sum(n) AS n FROM t VERSION AS OF {version}")
    assert found.column("n")[0].as_py() == sum(content.column("n").to_pylist())


def test_an_insert_that_is_repeated_counts_once(table):
    """ClickHouse 2765, 76110."""
    for _ in range(2):
        table.append(rows(some_rows([7])), commit_as="once")
    check(table)


def test_updates_and_deletes_reach_a_view(table):
    """ClickHouse 12415: a view that sees inserts alone."""
    table.update({"n": "n * 10", "k": "'moved'"}, "k = 'a'")
    table.delete("k = 'b'")
    check(table)


def test_a_view_on_a_view_that_is_behind(table):
    """StarRocks 14704: a view made from another's groups, refreshed before that one."""
    table.create_view("late", HOURLY.replace("sum", "max"), refresh="deferred")
    daily = HOURLY.replace("HOUR", "DAY").replace("sum", "max").replace("FROM t", "FROM late")
    table.append(rows(some_rows([30, 90])))
    with pytest.raises(InvalidInputError, match="no view reads another"):
        table.create_view("daily", daily)
    table.create_view("daily", daily.replace("FROM late", "FROM t"))
    assert table.view("late").detail()["state"] == "behind"
    check(table, "SELECT k, max(n) AS n, count(*) AS c FROM t GROUP BY k")


def test_the_changed_key_of_a_parent(table, tmp_path):
    """SQL Server 2013: MERGE changes the key by which rows find their parent."""
    columns = {"key": "string", "name": "string", "id": "bigint"}
    parents = [{"key": key, "name": f"of {key}", "id": n} for n, key in enumerate("abc")]
    dimension = Table.create(tmp_path / "parents", columns, data=parents)
    tables = {"t": table, "p": dimension}
    joined = "SELECT name, sum(n) AS n, count(*) AS c FROM t LEFT JOIN p ON k = p.key GROUP BY name"
    table.create_view("named", joined, tables=tables)
    dimension.merge([{"key": "z", "name": "of a", "id": 0}], on=["id"])
    dimension.merge([{"key": "a", "name": "of c", "id": 2}], on=["id"])
    tables = {"t": table.refresh(), "p": dimension.refresh()}
    names = {"a": "of c", "b": "of b"}
    wanted = {}
    for k, n in (r.values() for r in table.sql("SELECT k, n FROM t").to_pylist()):
        total, count = wanted.get(names.get(k), (0, 0))
        wanted[names.get(k)] = (total + n, count + 1)
    for context in ({"useView": "named"}, {"noViews": True}):
        found = sql(joined, tables, context=context).to_pylist()
        assert {one["name"]: (one["n"], one["c"]) for one in found} == wanted


def test_columns_of_what_is_added_in_another_order(table):
    """Oracle 2488455.1: a delta whose columns were added crossed."""
    table.create_view("two", "SELECT k, sum(n) AS n, sum(g) AS g, max(n) AS m FROM t GROUP BY k")
    given = rows(some_rows([70]))
    table.append(given.select(given.column_names[::-1]))
    check(table, "SELECT k, sum(g) AS g, sum(n) AS n, max(n) AS m FROM t GROUP BY k")


def test_a_refresh_of_metadata_alone_makes_nothing_fresh(table):
    """Hyperspace 193."""
    view = table.view("hourly")
    view.set_properties({"refresh": "deferred"})
    table.append(rows(some_rows([70])))
    view.rename("renamed")
    view.set_properties({"chunk": "month"})
    table.compact(dry_run=True)
    assert view.detail()["state"] == "behind"
    check(table)


def test_a_condition_on_what_the_view_has_not(table):
    """Druid 6969: the derived answer differs from that of the base."""
    question = "SELECT k, sum(n) AS n FROM t WHERE g > 1 GROUP BY k"
    check(table, question, from_parts=False)


def test_the_last_bucket_is_built(table):
    """Druid 7119."""
    assert table.views().column("segments_covered")[0].as_py() == len(table.snapshot.segments)


def test_sums_of_keys_and_distinct_keys(table):
    """StarRocks 6984, 16607; CARBONDATA-4330, 3629."""
    table.create_view("by_g", "SELECT g, avg(n) AS a, max(price) AS p FROM t GROUP BY g")
    check(
        table,
        "SELECT sum(g) AS s, count(DISTINCT g) AS c FROM t",
        "SELECT max(g) AS m FROM t",
        "SELECT g, avg(n) AS a FROM t GROUP BY g",
    )


def test_an_average_is_refreshed_by_parts(table):
    """CARBONDATA-4330: an average forces no full refresh."""
    view = table.create_view("mean", "SELECT k, avg(n) AS a FROM t GROUP BY k", chunk="day")
    table.append(rows(some_rows([200])))
    assert view.detail()["last_refresh"]["rows_read"] < 20


def test_one_bad_view_harms_no_query(table):
    """StarRocks 38881, 43276: a store that cannot be read costs speed."""
    for file in (Path(table.location) / "views/data").iterdir():
        file.write_bytes(b"damaged")
    content = table.sql("SELECT * FROM t", context={"noViews": True})
    fresh = Table(table.location)
    assert answer(fresh, BY_K) == in_duckdb(BY_K, content)
    assert fresh.view("hourly").verify()
    for file in (Path(table.location) / "views/_projseg").glob("0*.json"):
        file.write_bytes(b"damaged")
    KEPT.clear()
    assert answer(Table(table.location), BY_K) == in_duckdb(BY_K, content)


def test_another_table_at_the_place_is_not_answered_from_the_views_of_the_first(table, tmp_path):
    shutil.rmtree(tmp_path / "t" / "_projseg")
    shutil.rmtree(tmp_path / "t" / "data")
    again = new_viewed_table(tmp_path / "t", some_rows(range(5)), properties={"views": "on"})
    check(again, from_parts=False)
    assert again.views().column("state").to_pylist() == ["broken"]
    with pytest.raises(InvalidInputError, match="PROJSEG_VIEW_BROKEN"):
        again.view("hourly").refresh()


def test_segments_across_the_edge_of_a_scope_are_not_covered(table):
    """Only whole segments are: the scope is in the midst of an hour."""
    view = table.create_view(
        "late",
        "SELECT k, sum(n) AS n FROM t WHERE time >= TIMESTAMP '2024-02-28 00:10:00' GROUP BY k",
    )
    table.view("hourly").drop()
    check(table, "SELECT k, sum(n) AS n FROM t GROUP BY k")
    assert view.detail()["uncovered_segments"] == 25
    check(
        table,
        "SELECT k, sum(n) AS n FROM t WHERE time >= TIMESTAMP '2024-02-28 00:10:00' GROUP BY k",
    )


def test_old_segments_leave_a_view_that_retains_little(tmp_path):
    now = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    several = [
        {"time": now - dt.timedelta(days=d), "k": "a", "g": d, "n": d, "price": None}
        for d in range(40)
    ]
    table = new_viewed_table(tmp_path / "t", several)
    view = table.create_view("recent", BY_K, retain="10 days", chunk="day")
    assert view.detail()["segments_covered"] in (10, 11)
    content = table.sql("SELECT * FROM t", context={"noViews": True})
    assert answer(table, BY_K) == in_duckdb(BY_K, content)
    times = [part["chunk"] for part in view.parts().to_pylist()]
    assert min(times) >= now - dt.timedelta(days=11)


@pytest.mark.parametrize("context", [{"useView": "hourly"}, {"forceViews": True}])
def test_a_view_that_cannot_be_used_is_not_forgotten_in_silence(table, tmp_path, context):
    bare = new_viewed_table(tmp_path / "bare", some_rows(range(4)))
    with pytest.raises(ProjectionNotUsableError, match="no view can answer here"):
        bare.sql(BY_K, context=context)
    star = "SELECT t.k, sum(t.n) AS n FROM t JOIN d ON t.k = d.k GROUP BY t.k"
    keys = Table.create(tmp_path / "d", {"k": "string"}, data=[{"k": "a"}])
    found = table.sql(star, tables={"d": keys}, context=context)
    assert (
        found.to_pylist()
        == table.sql(f"{BY_K} HAVING k = 'a'", context={"noViews": True}).to_pylist()
    )
    other = "SELECT t.n, count(*) AS c FROM t JOIN d ON t.k = d.k GROUP BY t.n"
    with pytest.raises(ProjectionNotUsableError, match="MISSING_GROUPING_COLUMN n"):
        table.sql(other, tables={"d": keys}, context=context)


def test_another_session_zone_and_other_buckets(table):
    for zone in ("America/Los_Angeles", "Asia/Kolkata"):
        question = "SELECT date_trunc('DAY', time) AS d, sum(n) AS n FROM t GROUP BY 1"
        with_views = table.sql(question, context={"timezone": zone}).sort_by("d")
        without = table.sql(question, context={"timezone": zone, "noViews": True}).sort_by("d")
        assert with_views == without


def test_columns_that_are_renamed_added_and_widened(table):
    table.rename_column("k", "kind")
    table.add_column("more", "int")
    table.append([{"time": START, "kind": "z", "g": 1, "n": 4, "price": None, "more": 3}])
    question = "SELECT kind, sum(n) AS n FROM t GROUP BY kind"
    check(table, question)
    table.create_view("more", "SELECT more, sum(g) AS g FROM t GROUP BY more")
    check(table, "SELECT more, sum(g) AS g FROM t GROUP BY more")
    table.widen_column("g", "bigint")
    check(table, question)
    table.append([{"time": START, "kind": "y", "g": 2**40, "n": 1, "price": None, "more": None}])
    check(table, question, "SELECT more, sum(g) AS g FROM t GROUP BY more")
    assert table.view("more").verify(deep=True) == []


def test_another_log_at_the_same_version_is_not_answered_from(table, tmp_path):
    """A copy went its own way, and has a version of the number that the view was refreshed at."""
    shutil.copytree(table.location, tmp_path / "copy")
    table.append(rows(some_rows([100], seed=1)))
    other = Table(tmp_path / "copy")
    other.view("hourly").disable()
    other.append(rows(some_rows([200], seed=2)))
    assert other.version == table.version
    shutil.rmtree(tmp_path / "copy" / "views")
    shutil.copytree(Path(table.location) / "views", tmp_path / "copy" / "views")
    check(Table(tmp_path / "copy"))


def test_distinct_values_are_not_those_of_another_sketch(table):
    """StarRocks 16607: count(DISTINCT) from a sketch, or from that of another column."""
    table.create_view(
        "sketched", "SELECT k, approx_count_distinct(n) AS n, count(*) AS c FROM t GROUP BY k"
    )
    question = "SELECT k, count(DISTINCT {}) AS c FROM t GROUP BY k"
    for column in ("n", "g"):
        check(table, question.format(column), from_parts=False)
    approximate = "SELECT approx_count_distinct({}) AS c FROM t"
    assert is_from_parts(table, approximate.format("n"))
    assert not is_from_parts(table, approximate.format("price"))
    for column in ("n", "price"):
        text = approximate.format(column)
        assert answer(table, text) == answer(table, text, noViews=True)
