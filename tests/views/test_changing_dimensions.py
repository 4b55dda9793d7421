"""A view over a star follows its dimensions, reads no more than it must, and is never wrong."""

import datetime as dt
import decimal
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import projseg
from projseg import Table
from projseg.errors import InvalidInputError, UnsupportedFeatureError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STAR = ("SELECT region, sum(n) AS n, count(*) AS c FROM edits e JOIN places p ON country = p.code "
        "GROUP BY region")  # fmt: skip
VIEW = ("SELECT region, date_trunc('DAY', time) AS day, sum(n) AS n FROM edits e JOIN places p "
        "ON country = p.code GROUP BY ALL")  # fmt: skip
CODES = ["FR", "DE", "US", None, "ZZ"]


@pytest.fixture
def star(tmp_path):
    """A fact of 4 days, where `US` is found on the last alone, and its dimension."""
    rows = [
        {"time": START + dt.timedelta(hours=h), "country": code, "n": h}
        for h in range(96)
        for code in [CODES[h % 5] if CODES[h % 5] != "US" or h >= 72 else "FR"]
    ]
    edits = Table.create(
        tmp_path / "edits", {"time": "timestamp", "country": "string", "n": "bigint"},
        time_column="time", segment_granularity="hour", data=rows,
    )  # fmt: skip
    places = Table.create(
        tmp_path / "places", {"code": "string", "region": "string", "size": "int"},
        data=[{"code": "FR", "region": "eu"}, {"code": "DE", "region": "eu"},
              {"code": "US", "region": "am"}, {"code": "XX", "region": "no"},
              {"code": None, "region": "null"}],
    )  # fmt: skip
    return edits, places


def view_of(star, sql=VIEW, **options):
    edits, places = star
    given = {"chunk": "day", "refresh": "deferred", **options}
    return edits.create_view("v", sql, tables={"edits": edits, "places": places}, **given)


def ask(star, text=STAR, **context):
    edits, places = (table.refresh() for table in star)
    found = projseg.sql(text, {"edits": edits, "places": places}, context=context or None)
    return sorted(found.to_pylist(), key=repr)


def plan_of(star, text=STAR):
    edits, places = (table.refresh() for table in star)
    return projseg.sql(text, {"edits": edits, "places": places}, explain=True)


def check(star, *texts):
    for text in texts or (STAR, STAR.replace("JOIN", "LEFT JOIN")):
        assert ask(star, text) == ask(star, text, noViews=True), text


def test_rows_of_other_keys_touch_no_part_with_them(star):
    view = view_of(star)
    star[1].append([{"code": f"Q{n}", "region": "q", "size": n} for n in range(2000)])
    assert plan_of(star).views[0]["reason"].startswith("DIMENSION_CHANGED places")
    check(star)
    done = view.refresh()
    assert (done.relabelled, done.refolded, done.added, done.rows_read) == (4, 0, 0, 0)
    assert plan_of(star).sources == {"view:v": 4}
    check(star)


def test_a_key_that_comes_finds_the_rows_that_waited_for_it(star):
    view = view_of(star)
    star[1].append([{"code": "ZZ", "region": "late"}])
    check(star)
    assert view.refresh().refolded == 4
    assert {"region": "late", "n": 931, "c": 19} in ask(star, forceViews=True)
    check(star)


def test_a_changed_row_is_folded_anew_only_where_its_key_is(star):
    view = view_of(star)
    star[1].update({"region": "'west'"}, "code = 'US'")
    check(star)
    done = view.refresh()
    assert (done.relabelled, done.refolded, done.added) == (3, 1, 1)
    check(star)
    assert view.verify(deep=True) == []


def test_a_change_of_a_column_that_the_view_does_not_read_changes_nothing(star):
    view = view_of(star)
    star[1].update({"size": "7"}, "code = 'FR'")
    assert view.refresh().relabelled == 4
    check(star)


def test_a_row_that_leaves_takes_its_partner_away(star):
    view = view_of(star)
    star[1].delete("code = 'DE'")
    check(star)
    assert view.refresh().refolded == 4
    check(star)
    assert plan_of(star).sources == {"view:v": 4}


def test_a_dimension_with_the_same_rows_in_other_files_is_the_same(star):
    view_of(star)
    star[1].append([])
    star[1].add_column("more", "int")
    star[1].compact()
    assert plan_of(star).sources == {"view:v": 4}
    check(star)


def test_equal_version_numbers_after_a_restore_are_not_equal_rows(star):
    view = view_of(star)
    version = star[1].version
    star[1].delete("code = 'DE'")
    view.refresh()
    star[1].restore(version)
    assert plan_of(star).views[0]["reason"].startswith("DIMENSION_CHANGED")
    check(star)
    view.refresh()
    check(star)


def test_a_vacuumed_version_of_a_dimension_folds_all_anew(star):
    view = view_of(star)
    star[1].append([{"code": "QQ", "region": "q"}])
    star[1].vacuum(0, dry_run=False, force=True)
    check(star)
    assert view.refresh().refolded == 4
    check(star)


def test_another_table_at_the_same_place_and_version_is_another(star, tmp_path):
    edits, places = star
    view = view_of(star)
    shutil.rmtree(tmp_path / "places")
    schema = {"code": "string", "region": "string", "size": "int"}
    again = Table.create(tmp_path / "places", schema, data=[{"code": "FR", "region": "new"}])
    assert again.version == 0 or again.version == places.version
    star = (edits, again)
    check(star)
    assert plan_of(star).views[0]["reason"] is not None
    with pytest.raises(InvalidInputError, match=r"PROJSEG_VIEW_BROKEN.*'places'.*another table"):
        view.refresh()
    edits.append([{"time": edits.query(columns="time")["time"][0].as_py(), "country": "FR"}])
    assert edits.views().column("state").to_pylist() == ["broken"]
    check(star)
    view.drop()
    view_of(star)
    assert plan_of(star).sources == {"view:v": 4}
    check(star)


def test_a_dimension_that_is_gone_leaves_the_questions_that_do_not_read_it(star, tmp_path):
    edits, _ = star
    view_of(star)
    shutil.rmtree(tmp_path / "places")
    edits.refresh()
    assert edits.sql("SELECT sum(n) AS n FROM edits", context={"useView": "v"}).num_rows == 1
    assert edits.views().column("state").to_pylist() == ["broken"]
    with pytest.raises(InvalidInputError, match=r"PROJSEG_NOT_A_TABLE.*places"):
        edits.view("v").refresh()


def test_a_key_that_is_there_twice_fails_the_view_and_no_write(star):
    edits, places = star
    view_of(star, refresh="commit")
    places.refresh().append([{"code": "FR", "region": "other"}])
    edits.refresh()
    row = edits.views().to_pylist()[0]
    assert row["state"] == "failed"
    assert "PROJSEG_JOIN_KEY_NOT_UNIQUE" in row["last_error"]
    with pytest.raises(InvalidInputError, match=r"PROJSEG_JOIN_KEY_NOT_UNIQUE.*'FR'"):
        ask(star)
    total = "SELECT count(*) AS c FROM edits"
    assert ask(star, total) == ask(star, total, noViews=True)
    places.refresh().delete("region = 'other'")
    check(star)


def test_explain_tells_of_a_key_that_is_there_twice(star):
    edits, places = star
    view_of(star, refresh="commit")
    places.refresh().append([{"code": "FR", "region": "other"}])
    edits.refresh()
    tables = {"edits": edits, "places": places.refresh()}
    shown = "not view v: KEY_NOT_UNIQUE p (code = 'FR')"
    for ask_how in (
        lambda: projseg.sql(STAR, tables, explain=True),
        lambda: projseg.sql(f"EXPLAIN {STAR}", tables),
        lambda: edits.sql(STAR, tables={"places": tables["places"]}, explain=True),
        lambda: edits.explain(
            "p.region", "sum(n)", joins=[projseg.Join(tables["places"], "country = p.code", "p")]
        ),
    ):
        with pytest.raises(InvalidInputError, match="PROJSEG_JOIN_KEY_NOT_UNIQUE") as refused:
            ask_how()
        assert refused.value.message.endswith(shown)
    # Semi joins are answered, but the view could not follow the dimension.
    semi = "SELECT sum(n) AS n FROM edits WHERE country IN (SELECT code FROM places)"
    assert plan_of(star, semi).views[0]["reason"] == "KEY_NOT_UNIQUE places (code = 'FR')"
    assert ask(star, semi) == ask(star, semi, noViews=True)
    places.refresh().delete("region = 'other'")
    assert plan_of(star, semi).views[0]["reason"] is None


def test_explain_tells_of_joins_that_are_no_star(star):
    edits, places = star
    view_of(star)
    tables = {"edits": edits, "places": places}
    text = "SELECT sum(n) AS n FROM edits JOIN places p ON country > p.code"
    with pytest.raises(UnsupportedFeatureError) as refused:
        projseg.sql(text, tables, explain=True)
    assert "; not view v: NOT_A_STAR join 'p' has no equality" in refused.value.message
    # A view of other tables is not concerned.
    with pytest.raises(UnsupportedFeatureError) as refused:
        projseg.sql("SELECT 1 FROM places a JOIN places b ON a.size < b.size", tables, explain=True)
    assert "not view" not in refused.value.message


def test_a_dry_run_says_what_each_change_will_cost(star):
    assert view_of(star, dry_run=True).costs == {
        "append": "folds the new segments alone",
        "delete, update, merge": "reads the rows that are gone alone",
        "key of places": "(code)",
        "rows of places changed": "folds parts anew that have rows with their keys",
    }
    costs = view_of(star, VIEW.replace("sum(n)", "min(n)"), dry_run=True).costs
    assert costs["delete, update, merge"].endswith("as nothing is subtracted from min(n)")
    view = view_of(star)
    star[0].delete("n = 1")
    assert view.explain_refresh().costs["key of places"] == "(code)"


def test_no_view_reads_another(star):
    edits, places = star
    view_of(star)
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_VIEW.*FROM names view 'V'"):
        edits.create_view("w", "SELECT region, sum(n) AS n FROM V GROUP BY region")
    joined = "SELECT p.region, sum(n) AS n FROM v JOIN places p ON country = p.code GROUP BY 1"
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_VIEW.*no view reads another"):
        edits.create_view("w", joined, tables={"places": places})
    assert edits.views().num_rows == 1


def test_commits_of_a_dimension_refresh_the_view(star):
    view = view_of(star, refresh="commit")
    star[1].refresh().update({"region": "'west'"}, "code = 'US'")
    star[0].refresh()
    assert view.detail()["last_refresh"]["refolded"] == 1
    check(star)
    view.drop()
    assert star[1].refresh().detail()["properties"] == {}


# Published wrong results (StarRocks 36536, 27163, 20965, Doris 63268, CALCITE-1965)
QUESTIONS = [
    "SELECT region, sum(n) AS n FROM edits e LEFT JOIN places p ON country = p.code "
    "GROUP BY region",
    "SELECT region, sum(n) AS n FROM edits e JOIN places p ON country = p.code GROUP BY region",
    "SELECT sum(n) AS n, count(*) AS c FROM edits",
    "SELECT sum(n) AS n FROM edits e LEFT SEMI JOIN places p ON country = p.code",
    "SELECT sum(n) AS n FROM edits e LEFT ANTI JOIN places p ON country = p.code",
    "SELECT sum(n) AS n FROM edits WHERE country IN (SELECT code FROM places)",
    "SELECT p.code, sum(n) AS n FROM edits e JOIN places p ON country = p.code GROUP BY p.code",
    "SELECT region, count(p.code) AS c FROM edits e LEFT JOIN places p ON country = p.code "
    "GROUP BY region",
    "SELECT sum(n) AS n FROM edits e LEFT JOIN places p ON country = p.code WHERE region IS NULL",
    "SELECT sum(n) AS n FROM edits e LEFT JOIN places p ON country = p.code AND region = 'eu' "
    "WHERE region IS NULL",
    "SELECT region, sum(n) AS n FROM edits e JOIN places p ON country = p.code "
    "AND region = 'eu' GROUP BY region",
]
KINDS = ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_view_of_one_kind_of_join_answers_the_others_as_rows_do(star, kind):
    columns = "country" if "SEMI" in kind or "ANTI" in kind else "country, region"
    sql = f"SELECT {columns}, sum(n) AS n FROM edits e {kind} places p ON country = p.code"
    view_of(star, f"{sql} GROUP BY ALL")
    check(star, *QUESTIONS)
    answered = [plan_of(star, text).sources.get("view:v", 0) for text in QUESTIONS]
    assert sum(map(bool, answered)) >= 6, answered


def test_a_view_without_the_key_keeps_rows_that_an_inner_join_loses(star):
    view_of(star)
    check(star, *QUESTIONS)
    assert plan_of(star, QUESTIONS[2]).sources == {"view:v": 4}
    reason = plan_of(star, QUESTIONS[6]).views[0]["reason"]
    assert reason.startswith("MISSING_GROUPING_COLUMN country")


def test_nulls_in_keys_match_nothing(star):
    view_of(star)
    assert all(row["region"] != "null" for row in ask(star, forceViews=True))


def test_a_condition_on_a_dimension_that_changes_is_not_believed(star):
    sql = VIEW.replace("GROUP BY", "WHERE region = 'eu' GROUP BY")
    view = view_of(star, sql)
    text = STAR.replace("GROUP BY", "WHERE region = 'eu' GROUP BY")
    assert plan_of(star, text).sources == {"view:v": 4}
    star[1].update({"region": "'eu'"}, "code = 'US'")
    check(star, text)
    assert view.refresh().refolded == 1
    check(star, text)
    star[1].append([{"code": "ZZ", "region": "eu"}])
    check(star, text)
    assert view.refresh().refolded == 4
    check(star, text)
    assert plan_of(star, text).sources == {"view:v": 4}


def test_the_same_dimension_twice_and_the_fact_as_its_own(tmp_path):
    people = Table.create(
        tmp_path / "people", {"id": "bigint", "boss": "bigint", "pay": "int"},
        data=[{"id": n, "boss": n // 2, "pay": 10 * n} for n in range(1, 40)],
    )  # fmt: skip
    sql = ("SELECT b.pay AS b, c.pay AS c, sum(a.pay) AS s FROM people a LEFT JOIN bosses b "
           "ON a.boss = b.id LEFT JOIN bosses c ON b.boss = c.id GROUP BY ALL")  # fmt: skip
    tables = {"people": people, "bosses": people}
    view = people.create_view("v", sql, tables=tables)
    texts = [sql, "SELECT c.pay AS c, sum(a.pay) AS s FROM people a LEFT JOIN bosses b "
             "ON a.boss = b.id LEFT JOIN bosses c ON b.boss = c.id GROUP BY ALL"]  # fmt: skip
    for number in (50, 60):
        for text in texts:
            found = projseg.sql(text, tables).to_pylist()
            plain = projseg.sql(text, tables, context={"noViews": True}).to_pylist()
            assert sorted(found, key=repr) == sorted(plain, key=repr)
            assert "view:v" in projseg.sql(text, tables, explain=True).sources
        people.append([{"id": number, "boss": 1, "pay": 5}, {"id": 1 + number, "boss": number}])
        assert view.detail()["last_error"] is None


def test_keys_of_other_types(tmp_path):
    one = decimal.Decimal
    fact = Table.create(
        tmp_path / "f", {"d": "decimal(6,2)", "i": "int", "s": "string", "n": "int"},
        data=[{"d": one("1.50"), "i": 1, "s": "01", "n": 1}, {"d": one("2.00"), "i": 2, "s": "1",
              "n": 2}, {"d": None, "i": None, "s": None, "n": 4}],
    )  # fmt: skip
    dimension = Table.create(
        tmp_path / "d", {"d": "decimal(9,3)", "i": "bigint", "s": "string", "label": "string"},
        data=[{"d": one("1.500"), "i": 1, "s": "1", "label": "a"},
              {"d": one("2.001"), "i": 2**40, "s": "x", "label": "b"}],
    )  # fmt: skip
    tables = {"f": fact, "d": dimension}
    for name in "dis":
        sql = f"SELECT label, sum(n) AS n FROM f LEFT JOIN d ON f.{name} = d.{name} GROUP BY label"
        fact.create_view(name, sql, tables=tables)
        found = projseg.sql(sql, tables, context={"useView": name}).to_pylist()
        plain = projseg.sql(sql, tables, context={"noViews": True}).to_pylist()
        assert sorted(found, key=repr) == sorted(plain, key=repr)


@pytest.mark.parametrize("rows", [[], [{"code": None, "region": "x"}]])
def test_an_empty_dimension_and_a_fact_without_a_segment(tmp_path, rows):
    edits = Table.create(tmp_path / "edits", {"country": "string", "n": "int"})
    places = Table.create(tmp_path / "places", {"code": "string", "region": "string"})
    places.append(pa.Table.from_pylist(rows, places.schema))
    tables = {"edits": edits, "places": places}
    text = "SELECT region, sum(n) AS n FROM edits JOIN places p ON country = p.code GROUP BY region"
    view = edits.create_view("v", text, tables=tables)
    assert projseg.sql(text, tables).num_rows == 0
    edits.append([{"country": "FR", "n": 1}, {"country": "DE", "n": 1}])
    assert projseg.sql(text, tables, context={"useView": "v"}).num_rows == 0
    places.refresh().append([{"code": "FR", "region": "eu"}])
    edits.refresh()
    assert view.detail()["last_error"] is None
    found = projseg.sql(text, tables, context={"useView": "v"}).to_pylist()
    assert found == [{"region": "eu", "n": 1}]


def test_columns_that_views_read_are_not_dropped(star):
    edits, places = star
    view = view_of(star)
    for table, column in ((edits, "n"), (edits, "country"), (places, "region"), (places, "code")):
        with pytest.raises(InvalidInputError, match=r"PROJSEG_COLUMN_IN_USE.*'v'"):
            table.refresh().drop_column(column)
    places.refresh().drop_column("size")
    places.rename_column("region", "area")
    check(star, STAR.replace("region", "area"))
    assert plan_of(star, STAR.replace("region", "area")).sources == {"view:v": 4}
    view.drop()
    places.refresh().drop_column("area")


def test_a_moved_warehouse_keeps_its_views(star, tmp_path):
    view_of(star)
    other = tmp_path / "other" / "place"
    other.mkdir(parents=True)
    for name in ("edits", "places"):
        shutil.move(tmp_path / name, other / name)
    moved = Table(other / "edits"), Table(other / "places")
    moved[1].update({"region": "'west'"}, "code = 'US'")
    assert moved[0].view("v").refresh().refolded == 1
    check(moved)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (STAR.replace("country = p.code", "country > p.code"), "PROJSEG_NOT_A_STAR"),
        (STAR.replace("country = p.code", "country = p.region"), "PROJSEG_JOIN_KEY_NOT_UNIQUE"),
        (STAR + " HAVING sum(n) > 1", "PROJSEG_VIEW_NEEDS_SPARK"),
        (STAR.replace("places p", "places VERSION AS OF 0 p"), "PROJSEG_BAD_VIEW"),
        (STAR.replace("region, ", "rand() AS r, "), "PROJSEG_VIEW_NOT_DETERMINISTIC"),
        ("SELECT e.n, p.region FROM edits e JOIN places p ON country = p.code",
         "PROJSEG_BAD_VIEW"),
        (STAR.replace("places", "towns"), None),
    ],
)  # fmt: skip
def test_what_is_no_star_is_refused(star, sql, code):
    with pytest.raises(projseg.ProjsegError) as caught:
        view_of(star, sql)
    assert code is None or caught.value.code == code
    assert star[0].refresh().views().num_rows == 0


@pytest.mark.parametrize(
    "sql",
    [
        STAR + " HAVING sum(n) > 1",
        STAR + " UNION ALL SELECT 'a', 1",
        STAR.replace("sum(n)", "row_number() OVER (ORDER BY n)"),
        STAR.replace("SELECT ", "SELECT (SELECT 1), "),
    ],
)
def test_spark_is_no_way_out_for_a_view_that_is_to_be_incremental(star, sql):
    edits, places = star
    given = {"tables": {"places": places}, "properties": {"require": "incremental"}}
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_VIEW_NOT_INCREMENTAL") as caught:
        edits.create_view("v", sql, **given)
    assert "Spark" not in caught.value.message


def test_the_table_verifies_its_views(star):
    view_of(star)
    assert star[0].refresh().verify(deep=True) == []
    part = next((Path(star[0].location) / "views" / "data").rglob("*.pseg"))
    part.write_bytes(part.read_bytes()[:-9] + b"\0" * 9)
    (finding,) = star[0].verify()
    assert finding.file.startswith("views/data/")
    check(star)


def test_versions_that_are_asked_for_are_those_that_answer(star):
    edits, places = star
    view = view_of(star)
    before = places.version
    places.update({"region": "'west'"}, "code = 'US'")
    view.refresh()
    pinned = Table(places.location, version=before)
    for dimension in (pinned, places.refresh()):
        tables = {"edits": edits.refresh(), "places": dimension}
        found, plain = (
            sorted(projseg.sql(STAR, tables, context=context).to_pylist(), key=repr)
            for context in (None, {"noViews": True})
        )
        assert found == plain
    sources = projseg.sql(STAR, {"edits": edits, "places": pinned}, explain=True).sources
    # Three parts have no row of the changed key, but were built with the new version.
    assert sources.get("view:v", 0) == 0
    text = STAR.replace("places p", f"places VERSION AS OF {before} p")
    assert ask(star, text) == ask(star, text, noViews=True)


def test_a_store_of_views_that_cannot_be_read_stops_no_write(star):
    edits, places = star
    view_of(star, refresh="commit")
    shutil.rmtree(Path(edits.location) / "views" / "_projseg" / "manifests")
    places.refresh().append([{"code": "QQ", "region": "q"}])
    places.drop_column("size")
    edits.refresh().append([{"time": START, "country": "QQ", "n": 1}])
    assert {"region": "q", "n": 1, "c": 1} in ask(star)
