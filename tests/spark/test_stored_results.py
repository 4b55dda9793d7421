"""Views of grade `result`: rows of any deterministic SELECT, used for that SELECT alone."""

from __future__ import annotations

import json
import shutil

import pytest
from forged_views import forge_views
from pyspark.errors import IllegalArgumentException
from spark_sql import assert_same, using

import projseg

TOP = "SELECT k, sum(p) AS s FROM sales GROUP BY k HAVING sum(p) > 10 ORDER BY s DESC, k LIMIT 3"


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A fact and a dimension, to be copied."""
    place = tmp_path_factory.mktemp("template")
    rows = spark.range(0, 200, 1, 1).selectExpr(
        "timestamp_seconds(1704067200 + id * 900) AS t",
        "IF(id % 11 = 0, NULL, concat('c', id % 5)) AS k",
        "CAST(id % 7 AS int) AS q",
        "id * 3 AS p",
    )
    projseg.write(rows, place / "sales", timeColumn="t", segmentGranularity="day")
    places = spark.range(0, 4, 1, 1).selectExpr("concat('c', id) AS code", "id % 2 AS region")
    projseg.write(places, place / "places")
    return place


@pytest.fixture
def sql(spark, template, tmp_path):
    with using(spark, enabled="true"):
        for name in ("sales", "places"):
            shutil.copytree(template / name, tmp_path / name)
            spark.sql(f"CREATE TABLE {name} USING projseg LOCATION '{tmp_path / name}'")
        try:
            yield spark.sql
        finally:
            for view in spark.sql("SHOW VIEWS").collect():
                if not view.isTemporary:
                    spark.sql(f"DROP VIEW {view.viewName}")
            for name in ("sales", "places"):
                spark.sql(f"DROP TABLE {name}")


def is_used(frame, view="top"):
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return f"from view {view}: " in plan or f"rows of view {view} " in plan


def shown(sql):
    return [(one.name, one.grade, one.state, one.rows) for one in _views(sql)]


def _views(sql):
    return sql("SHOW MATERIALIZED VIEWS ON TABLE sales").collect()


def test_a_result_answers_its_select_and_nothing_else(spark, sql, tmp_path):
    told = {
        row.property: row.value
        for row in sql(f"EXPLAIN CREATE MATERIALIZED VIEW top AS {TOP}").collect()
    }
    assert (told["grade"], told["rows_read"]) == ("result", "200")
    assert "HAVING" in told["why"]
    sql(f"CREATE MATERIALIZED VIEW top AS {TOP}")
    assert shown(sql) == [("top", "result", "fresh", 3)]
    expected = [
        (one.k, one.s)
        for one in sql(TOP.replace("sales", "sales WITH (noViews = 'true')")).collect()
    ]
    asked = sql(TOP.lower().replace("as s", "as total").replace("order by s", "order by total"))
    assert is_used(asked)
    assert [tuple(one) for one in asked.collect()] == expected
    for text in (
        f"SELECT max(s) FROM ({TOP})",
        f"WITH x AS ({TOP}) SELECT k FROM x WHERE s > 0",
        f"SELECT count(*) FROM sales WHERE k IN (SELECT k FROM ({TOP}))",
        "SELECT * FROM top",
    ):
        assert is_used(sql(text)), text
    for text in (
        TOP.replace("LIMIT 3", "LIMIT 2"),
        TOP.replace("sales", "sales VERSION AS OF 0"),
        TOP.replace("sales", "sales WITH (excludeViews = 'top')"),
        TOP.replace("SELECT", "SELECT /*+ NO_VIEWS */", 1),
    ):
        assert not is_used(sql(text)), text
    for key, other in (
        ("spark.sql.session.timeZone", "Europe/Berlin"),
        ("spark.sql.ansi.enabled", "false"),
    ):
        with using(spark, **{key: other}):
            assert not is_used(sql(TOP))
    with using(spark, local_enabled="false"):
        assert is_used(sql(TOP))
        assert [tuple(one) for one in sql(TOP).collect()] == expected
    sql("INSERT INTO sales SELECT TIMESTAMP'2024-01-05', 'new', 1, 1000000L")
    assert shown(sql) == [("top", "result", "behind", 3)]
    assert not is_used(sql(TOP))
    (why,) = sql(f"EXPLAIN {TOP}").first()
    assert "no stored result: not top: DIMENSION_CHANGED sales (version 2, built at 1)" in why
    assert sql(TOP).first().k == "new"
    with using(spark, views_maxStaleness="1 hour"):
        assert is_used(sql(TOP))
        assert [tuple(one) for one in sql(TOP).collect()] == expected
    assert sql("REFRESH MATERIALIZED VIEW top DRY RUN").first().refolded == 1
    assert sql("REFRESH MATERIALIZED VIEW top").first().rows_read == 201
    assert sql("REFRESH MATERIALIZED VIEW top").first().kept == 1
    assert is_used(sql(TOP))
    assert sql(TOP).first().k == "new"
    table = projseg.Table(str(tmp_path / "sales"))
    assert table.view("top").verify(deep=True) == []
    with pytest.raises(projseg.ProjsegError, match="VIEW_NEEDS_SPARK"):
        table.view("top").query()
    with pytest.raises(projseg.ProjsegError, match="VIEW_NEEDS_SPARK"):
        table.view("top").refresh(full=True)
    (reason,) = table.explain("SELECT k, sum(p) FROM sales GROUP BY k").views
    assert reason["reason"] == "OTHER_SELECT"
    sql("ALTER MATERIALIZED VIEW top DISABLE")
    assert not is_used(sql(TOP))
    sql("ALTER MATERIALIZED VIEW top ENABLE")
    sql("ALTER MATERIALIZED VIEW top RENAME TO best")
    assert is_used(sql(TOP), "best")
    folders = list((tmp_path / "sales/views/results").iterdir())
    assert len(folders) == 2
    table.refresh()
    table.vacuum(0, dry_run=False, force=True)
    assert sum(one.exists() for one in folders) == 1
    assert is_used(sql(TOP), "best")
    sql("DROP MATERIALIZED VIEW best")
    assert shown(sql) == []
    assert not is_used(sql(TOP), "best")
    table.refresh()
    table.vacuum(0, dry_run=False, force=True)
    assert not any(one.exists() for one in folders)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("SELECT k FROM sales", "PROJSEG_BAD_VIEW.*projection"),
        ("SELECT * FROM sales WHERE p > 3", "PROJSEG_BAD_VIEW.*projection"),
        ("SELECT k, p + rand() FROM sales ORDER BY 1", "DETERMINISTIC.*rand"),
        ("SELECT k, p FROM sales WHERE t < now() ORDER BY 1", "DETERMINISTIC.*now"),
        ("SELECT k, current_user() FROM sales ORDER BY 1", "DETERMINISTIC.*current_user"),
        ("SELECT k, doubled(p) FROM sales ORDER BY 1", "DETERMINISTIC.*doubled"),
        ("SELECT k FROM sales VERSION AS OF 0 ORDER BY 1", "PROJSEG_BAD_VIEW"),
        ("SELECT k FROM sales TABLESAMPLE (10 PERCENT) ORDER BY 1", "TABLESAMPLE"),
        ("SELECT k FROM sales JOIN parquet.`{files}` USING (k) ORDER BY 1", "VIEW_TABLE"),
        ("SELECT nothing FROM sales ORDER BY 1", "nothing"),
    ],
)
def test_what_is_no_view_is_said(spark, sql, tmp_path, select, words):
    spark.range(3).selectExpr("'c1' AS k").write.parquet(str(tmp_path / "files"))
    spark.udf.register("doubled", lambda p: 2 * p, "long")
    with pytest.raises(IllegalArgumentException, match=words):
        sql(f"CREATE MATERIALIZED VIEW v AS {select.format(files=tmp_path / 'files')}")
    assert shown(sql) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ("REFRESH ON COMMIT", "no commit refreshes"),
        ("PARTITIONED BY (months(t))", "no chunk"),
        ("TBLPROPERTIES ('retain' = '9 days')", "no retain"),
        ("TBLPROPERTIES ('require' = 'incremental')", "VIEW_NOT_INCREMENTAL"),
    ],
)
def test_options_of_parts_are_refused(sql, clauses, words):
    with pytest.raises(IllegalArgumentException, match=words):
        sql(f"CREATE MATERIALIZED VIEW v {clauses} AS {TOP}")
    assert shown(sql) == []


SELECTS = {
    "ordered": "SELECT k, p FROM {sales} WHERE q > 3 ORDER BY p DESC, k LIMIT 7",
    "ranked": "SELECT k, p, rank() OVER (PARTITION BY k ORDER BY p DESC) AS r FROM {sales} "
    "WHERE q = 1",
    "united": "SELECT k FROM {sales} WHERE q = 2 UNION SELECT code FROM {places}",
    "sets": "SELECT k, q, count(*) AS c FROM {sales} GROUP BY GROUPING SETS ((k, q), (k), ())",
    "correlated": "SELECT code FROM {places} d WHERE EXISTS (SELECT 1 FROM {sales} s WHERE s.k = "
    "d.code AND s.q > 5)",
    "scalar": "SELECT k, count(*) AS c FROM {sales} WHERE p > (SELECT avg(p) FROM {sales}) "
    "GROUP BY k",
    "many": "SELECT a.k, count(*) AS c FROM {sales} a JOIN {sales} b ON a.q = b.q GROUP BY a.k",
    "full": "SELECT d.region, s.k FROM {sales} s FULL JOIN {places} d ON s.k = d.code",
    "rows": "SELECT s.p, d.region FROM {sales} s JOIN {places} d ON s.k = d.code",
    "cte": "WITH x AS (SELECT k, sum(p) AS s FROM {sales} GROUP BY k) SELECT a.k, b.s FROM "
    "x a JOIN x b ON a.k = b.k",
    "median": "SELECT k, median(p) AS m FROM {sales} GROUP BY k",
    "local": "SELECT hour(t) AS h, CAST(t AS string) AS w FROM {sales} WHERE q = 0 ORDER BY t",
}
CHANGES = {
    "nothing": (None, True),
    "compact": ("OPTIMIZE sales", True),
    "delete": ("DELETE FROM sales WHERE q = 4", False),
    "restore": ("RESTORE TABLE sales TO VERSION AS OF {before}", True),
    "dimension": ("UPDATE places SET region = 9 WHERE code = 'c1'", False),
}


@pytest.mark.slow
def test_results_are_those_of_spark_over_parquet_after_each_change(spark, sql, tmp_path):
    for name, select in SELECTS.items():
        sql(f"CREATE MATERIALIZED VIEW {name} AS {select.format(sales='sales', places='places')}")
    before = projseg.Table(str(tmp_path / "sales")).version
    used, wrong = 0, []
    for step, (change, is_kept) in CHANGES.items():
        if change is not None:
            sql(change.format(before=before))
        for name in ("sales", "places"):
            rows = projseg.read(spark, str(tmp_path / name))
            rows.write.mode("overwrite").parquet(str(tmp_path / f"{name}.parquet"))
            spark.read.parquet(str(tmp_path / f"{name}.parquet")).createOrReplaceTempView(
                f"{name}_rows"
            )
        for name, select in SELECTS.items():
            found = sql(select.format(sales="sales", places="places"))
            reads_changed = "{places}" in select if step == "dimension" else True
            may_be_used = is_kept or not reads_changed
            if is_used(found, name) != may_be_used:
                wrong.append((step, name))
            used += is_used(found, name)
            assert_same(found, sql(select.format(sales="sales_rows", places="places_rows")))
    assert (wrong, used > len(SELECTS) * 3) == ([], True)
    for name in SELECTS:
        sql(f"REFRESH MATERIALIZED VIEW {name}")
        assert is_used(sql(SELECTS[name].format(sales="sales", places="places")), name)
    shutil.rmtree(tmp_path / "places")
    projseg.write(spark.sql("SELECT 'c2' AS code, 5L AS region"), tmp_path / "places")
    assert not is_used(sql(SELECTS["rows"].format(sales="sales", places="places")), "rows")
    broken = {one.name for one in _views(sql) if one.state == "broken"}
    assert broken == {name for name, select in SELECTS.items() if "{places}" in select}


CLOCKS = (
    "SELECT date_trunc('DAY', t) AS d, CAST(min(t) AS string) AS s, count(*) AS c FROM {t} "
    "WHERE t >= '2024-03-30 12:00:00' GROUP BY 1 HAVING count(*) > 1"
)


@pytest.mark.parametrize(
    "begin", ["2024-03-30 20:00:00", pytest.param("2024-10-26 20:00:00", marks=pytest.mark.slow)]
)
def test_a_session_zone_at_a_change_of_the_clock(spark, sql, begin):
    """The rows are those of the zone that the SELECT was read in; another zone has none of them."""
    sql(
        f"INSERT INTO sales SELECT TIMESTAMP'{begin}' + make_interval(0,0,0,0,0,15 * id), "
        "'z', 1, 1L FROM range(80)"
    )
    sql("SELECT * FROM sales").write.mode("overwrite").saveAsTable("plain_sales")
    with using(spark, **{"spark.sql.session.timeZone": "Europe/Berlin"}):
        sql(f"CREATE MATERIALIZED VIEW clocks AS {CLOCKS.format(t='sales')}")
    try:
        # Refreshed by a session of another zone, which has no say in it.
        sql("REFRESH MATERIALIZED VIEW clocks FULL")
        for zone, is_known in (("Europe/Berlin", True), ("UTC", False), ("+01:00", False)):
            with using(spark, **{"spark.sql.session.timeZone": zone}):
                found = sql(CLOCKS.format(t="sales"))
                assert is_used(found, "clocks") == is_known
                assert_same(found, sql(CLOCKS.format(t="plain_sales")))
    finally:
        sql("DROP TABLE plain_sales")


def test_rules_of_the_session_that_read_the_select(spark, sql):
    """ANSI off: a failing cast is null; with ANSI it is an error of the build."""
    lax = "SELECT k, sum(p) AS s, CAST(k AS int) AS i FROM sales GROUP BY k, q HAVING q > 1"
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql(f"CREATE MATERIALIZED VIEW lax AS {lax}")
    assert shown(sql) == []
    with using(spark, **{"spark.sql.ansi.enabled": "false"}):
        sql(f"CREATE MATERIALIZED VIEW lax AS {lax}")
    assert sql("REFRESH MATERIALIZED VIEW lax FULL").first().refolded == 1
    with using(spark, **{"spark.sql.ansi.enabled": "false"}):
        found = sql(lax)
        assert is_used(found, "lax")
        assert {row.i for row in found.collect()} == {None}
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql(lax).collect()
    # A text in double quotes is a column in one session, and a value in the other.
    quoted = 'SELECT "k" AS k, count(*) AS c FROM sales GROUP BY 1 HAVING count(*) > 0'
    sql(f"CREATE MATERIALIZED VIEW quoted AS {quoted}")
    names = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
    with using(spark, **names):
        sql("REFRESH MATERIALIZED VIEW quoted FULL")
        assert not is_used(sql(quoted), "quoted")
        assert sql(quoted).count() == 6
    assert is_used(sql(quoted), "quoted")
    assert [tuple(row) for row in sql(quoted).collect()] == [("k", 200)]


@pytest.mark.slow
def test_a_refresh_whose_job_fails_keeps_the_rows_of_before(spark, sql, tmp_path):
    text = (
        "SELECT CAST(substr(k, 2) AS int) AS n, sum(p) AS s FROM sales GROUP BY k HAVING sum(p) > 0"
    )
    sql(f"CREATE MATERIALIZED VIEW cast_keys AS {text}")
    sql("INSERT INTO sales SELECT TIMESTAMP'2024-01-05', 'cx', 1, 5L")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql("REFRESH MATERIALIZED VIEW cast_keys")
    assert [(one.state, one.rows) for one in _views(sql)] == [("behind", 6)]
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql(text).collect()
    sql("DELETE FROM sales WHERE k = 'cx'")
    sql("REFRESH MATERIALIZED VIEW cast_keys")
    assert is_used(sql(text), "cast_keys")
    table = projseg.Table(str(tmp_path / "sales"))
    table.vacuum(0, dry_run=False, force=True)
    folders = [
        one for one in (tmp_path / "sales/views/results").iterdir() if any(one.rglob("*.pseg"))
    ]
    assert len(folders) == 1, "no row of the failed job stays"


def test_a_select_that_a_stranger_changed_reads_no_table_but_those_listed(spark, sql, tmp_path):
    secret = tmp_path / "hr" / "salaries"
    projseg.write(spark.sql("SELECT 'salary-of-the-boss' AS word"), secret)
    sql(f"CREATE MATERIALIZED VIEW top AS {TOP}")

    def read_another(view):
        definition = json.loads(view["definition"])
        definition["select"] = f"SELECT word FROM projseg.`{secret}` ORDER BY word LIMIT 5"
        view["definition"] = json.dumps(definition, separators=(",", ":"))

    forge_views(tmp_path / "sales", read_another)
    sql("INSERT INTO sales SELECT TIMESTAMP'2024-01-05', 'c1', 1, 500L")
    with pytest.raises(Exception, match="PROJSEG_VIEW_TABLE"):
        sql("REFRESH MATERIALIZED VIEW top")
    files = [path for path in (tmp_path / "sales").rglob("*") if path.is_file()]
    assert not any(b"salary-of-the-boss" in path.read_bytes() for path in files)
