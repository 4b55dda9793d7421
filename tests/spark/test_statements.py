"""SQL statements about projections, segments and versions."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from scale import tries
from spark_sql import using
from statement_texts import STATEMENTS, drawn, statements

import projseg
from projseg.errors import CODES


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table of one row, to be copied."""
    place = tmp_path_factory.mktemp("stated") / "table"
    rows = spark.sql("SELECT TIMESTAMP'2024-01-01' AS t, 'a' AS k, 1 AS n")
    projseg.write(rows, place, timeColumn="t", segmentGranularity="day")
    return place


@pytest.fixture
def sql(spark, template, tmp_path):
    spark.conf.set("spark.projseg.enabled", "true")
    shutil.copytree(template, tmp_path / "stated")
    spark.sql(f"CREATE TABLE stated USING projseg LOCATION '{tmp_path / 'stated'}'")
    spark.sql("CREATE TABLE foreign_stated (n int) USING parquet")
    try:
        yield spark.sql
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        spark.sql("DROP TABLE stated")
        spark.sql("DROP TABLE foreign_stated")


@pytest.fixture(params=["name", pytest.param("path", marks=pytest.mark.slow)])
def table(request, tmp_path):
    return "stated" if request.param == "name" else f"projseg.`{tmp_path / 'stated'}`"


def test_projections_are_added_shown_and_dropped(sql, table, tmp_path):
    sql(
        f"""ALTER TABLE {table} ADD PROJECTION by_k AS (
            SELECT k, sum(n) AS n, count(*) WHERE n > 0 GROUP BY k
        );"""
    )
    sql(f"alter table {table} add projection if not exists by_k as (SELECT k GROUP BY k)")
    sql("INSERT INTO stated SELECT TIMESTAMP'2024-01-02', 'b', 2")
    (row,) = sql(f"SHOW PROJECTIONS FROM {table}").collect()
    assert (row.name, row.group_by, row.segments, row.segments_missing) == ("by_k", "k AS k", 1, 1)
    assert row.aggregators.startswith("sum(n)")
    shown = [one.projections for one in sql(f"SHOW SEGMENTS IN {table}").collect()]
    assert shown == ["", "by_k"]
    assert sql(f"SHOW SEGMENTS FROM {table}").first().min_time.day == 1
    sql(f"ALTER TABLE {table} DROP PROJECTION by_k")
    sql(f"ALTER TABLE {table} DROP PROJECTION IF EXISTS by_k")
    assert sql(f"SHOW PROJECTIONS IN {table}").collect() == []
    operations = [row.operation for row in sql(f"DESCRIBE HISTORY {table}").collect()]
    assert len(operations) == projseg.Table(tmp_path / "stated").history().num_rows == 4


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "ALTER TABLE stated ADD PROJECTION p AS (SELECT absent GROUP BY absent)",
            "UNKNOWN_COLUMN",
        ),
        ("ALTER TABLE stated ADD PROJECTION p AS (SELECT k FROM stated)", "BAD_PROJECTION"),
        ("ALTER TABLE stated DROP PROJECTION p", "UNKNOWN_PROJECTION"),
        ("SHOW PROJECTIONS FROM projseg.`/absent`", "NOT_A_TABLE"),
        ("SHOW PROJECTIONS FROM absent", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SHOW SEGMENTS FROM a.b.c", "(?i)catalog"),
        ("SHOW SEGMENTS FROM foreign_stated", "not a projseg table"),
        ("DESCRIBE PROJECTION p ON stated", "UNKNOWN_PROJECTION"),
    ],
)
def test_what_is_wrong_is_said(sql, statement, words):
    with pytest.raises((AnalysisException, IllegalArgumentException), match=words):
        sql(statement)


def test_a_projection_is_materialized(sql, table):
    sql("INSERT INTO stated SELECT TIMESTAMP'2024-02-02', 'b', 2")
    sql(f"ALTER TABLE {table} ADD PROJECTION by_k AS (SELECT k, sum(n) AS n GROUP BY k) DEFERRED")
    sql("INSERT INTO stated SELECT TIMESTAMP'2024-03-02', 'c', 3")

    def built():
        found = sql(f"SHOW SEGMENTS FROM {table}").collect()
        return [one.projections for one in sorted(found, key=lambda one: one.min_time)]

    assert built() == ["", "", ""]
    interval = "2024-02-01/2024-03-01"
    row = sql(f"ALTER TABLE {table} MATERIALIZE PROJECTION by_k FOR INTERVAL '{interval}'").first()
    assert (row.segments, row.rows) == (1, 1)
    assert built() == ["", "by_k", ""]
    assert sql(f"ALTER TABLE {table} MATERIALIZE PROJECTION by_k").first().segments == 2
    assert built() == ["by_k", "by_k", "by_k"]
    assert sorted(sql("SELECT k, sum(n) FROM stated GROUP BY k").collect()) == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]


@pytest.mark.parametrize(
    ("kind", "words", "is_deferred"),
    [
        ("MATERIALIZED VIEW", "", False),
        ("MATERIALIZED VIEW IF NOT EXISTS", "", False),
        ("DATAMAP", "USING 'mv' WITH DEFERRED REBUILD", True),
        ("DATAMAP IF NOT EXISTS", "USING 'preaggregate'", False),
        ("MATERIALIZED VIEW", "USING 'mv' WITH DEFERRED REFRESH", True),
    ],
)
def test_views_in_words_of_carbondata(sql, table, kind, words, is_deferred):
    select = f"SELECT k, sum(n) FROM {table} WHERE n > 0 GROUP BY k"
    create = f"CREATE {kind} by_k ON TABLE {table} {words} AS {select};"
    sql(create)
    if "EXISTS" in kind:
        sql(create)
    else:
        with pytest.raises(IllegalArgumentException, match="PROJECTION_EXISTS"):
            sql(create.replace("sum(n)", "max(n)"))
    noun = kind.removesuffix(" IF NOT EXISTS")
    plural = "MATERIALIZED VIEWS" if noun == "MATERIALIZED VIEW" else noun
    (row,) = sql(f"SHOW {plural} ON TABLE {table}").collect()
    assert (row.name, row.provider) == ("by_k", "projection")
    assert row.segments_covered == (0 if is_deferred else 1)
    assert row.definition.endswith("WHERE n > 0")
    for verb in ("REFRESH", "REBUILD"):
        made = sql(f"{verb} {noun} by_k ON TABLE {table}").first()
        assert made.segments == int(is_deferred and verb == "REFRESH")
    sql(f"DROP {noun} by_k ON TABLE {table}")
    sql(f"DROP {noun} IF EXISTS by_k ON TABLE {table}")
    assert sql(f"SHOW {plural} ON TABLE {table}").collect() == []


@pytest.mark.parametrize(
    ("properties", "chosen", "unit"),
    [
        ("DMPROPERTIES ('event_time' = 't', 'hour_granularity' = '1')", "t", "HOUR"),
        ("DMPROPERTIES('day_granularity'='1', 'event_time'='T')", "t", "DAY"),
        ("", "timeseries(t, 'minute')", "MINUTE"),
    ],
)
def test_time_series_in_words_of_carbondata(sql, properties, chosen, unit):
    sql(
        f"CREATE DATAMAP series ON TABLE stated USING 'timeseries' {properties} AS "
        f"SELECT {chosen}, k, max(t), sum(n) FROM stated WHERE n>=1 GROUP BY {chosen}, k"
    )
    (row,) = sql("SHOW PROJECTIONS FROM stated").collect()
    assert row.group_by.startswith(f"date_trunc('{unit}', t) AS")
    assert "max(t)" in row.aggregators
    assert row.filter.replace(" ", "") == "n>=1"


def test_a_namespace_may_have_the_formats_name(sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tmp_path / "stated", tmp_path / "edits")
    sql("CREATE DATABASE projseg")
    try:
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql("DESCRIBE HISTORY projseg.edits")
        sql("CREATE TABLE projseg.edits USING projseg AS SELECT 7 AS n")
        assert sql("DESCRIBE HISTORY projseg.edits").first().rows == 1
        assert sql("SELECT n FROM projseg.edits").first().n == 7
        (row,) = sql(f"DESCRIBE HISTORY PROJSEG.`{tmp_path / 'edits'}`").collect()
        assert row.operation == projseg.Table(tmp_path / "edits").history()["operation"][0].as_py()
    finally:
        sql("DROP DATABASE projseg CASCADE")


def test_a_view_without_a_table_is_sparks(sql):
    with pytest.raises(Exception, match=r"MATERIALIZED|SYNTAX|VIEW"):
        sql("CREATE MATERIALIZED VIEW by_n AS SELECT n, sum(n) FROM foreign_stated GROUP BY n")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        sql("CREATE DATAMAP by_k ON TABLE stated USING 'bloomfilter' AS SELECT k FROM stated")


def test_a_version_is_restored(sql, table):
    sql("INSERT INTO stated SELECT TIMESTAMP'2024-01-02', 'b', 2")
    sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    assert sql("SELECT k FROM stated").collect() == [("a",)]
    (moment,) = sql("SELECT max(timestamp) FROM values (now()) AS v (timestamp)").first()
    sql("INSERT INTO stated SELECT TIMESTAMP'2024-01-02', 'b', 2")
    sql(f"RESTORE {table} TO TIMESTAMP AS OF '{moment}'")
    assert sql("SELECT k FROM stated").collect() == [("a",)]
    newest = sql(f"DESCRIBE HISTORY {table}").first()
    assert (newest.operation, newest.readVersion) == ("restore", newest.version - 1)
    assert newest.operationParameters["timestamp"].startswith(str(moment)[:19])
    for target in ("VERSION AS OF 99", "TIMESTAMP AS OF '2001-01-01'"):
        with pytest.raises(IllegalArgumentException, match="PROJSEG_UNKNOWN_VERSION"):
            sql(f"RESTORE TABLE {table} TO {target}")


def test_small_segments_are_merged(sql, table):
    for k in "bcd":
        sql(f"INSERT INTO stated SELECT TIMESTAMP'2024-02-02', '{k}', 2")
    count = f"SHOW SEGMENTS FROM {table}"
    for interval in ("", "FOR INTERVAL '2024-02-01/2024-03-01'"):
        planned = sql(f"OPTIMIZE {table} {interval} DRY RUN").collect()
        assert [(row.segments, row.rows) for row in planned] == [(3, 3)]
    assert sql(count).count() == 4
    assert sql(f"OPTIMIZE {table} FOR INTERVAL '2024-01-01/2024-02-01'").first().segments == 0
    assert sql(f"OPTIMIZE {table}").first().segments == 1
    assert sql(count).count() == 2
    assert sql(f"OPTIMIZE {table} DRY RUN").collect() == []
    assert sorted(row.k for row in sql("SELECT k FROM stated").collect()) == list("abcd")


def test_a_table_is_vacuumed(sql, table, tmp_path):
    folder = tmp_path / "stated"
    (kept,) = projseg.Table(folder).segments()["segment"].to_pylist()
    orphan = kept.removesuffix("-0.pseg") + "-1.pseg"
    shutil.copy(folder / kept, folder / orphan)
    long_ago = time.time() - 30 * 86_400
    for file in (folder / "data").iterdir():
        os.utime(file, (long_ago, long_ago))

    def listed(statement):
        return {row.file: row.bytes for row in sql(statement).collect()}

    size = (folder / orphan).stat().st_size
    assert listed(f"VACUUM {table} DRY RUN") == {orphan: size}
    assert listed(f"VACUUM {table} RETAIN 1000 HOURS DRY RUN") == {}
    assert (folder / orphan).exists()
    assert listed(f"VACUUM {table} RETAIN 200 HOURS") == {orphan: size}
    assert not (folder / orphan).exists()
    assert sql("SELECT k FROM stated").collect() == [("a",)]
    with pytest.raises(IllegalArgumentException, match="PROJSEG_RETENTION_TOO_SHORT"):
        sql(f"VACUUM {table} RETAIN 1 HOURS")


def test_removed_values_are_purged(sql, tmp_path):
    sql("ALTER TABLE stated ADD PROJECTION by_k AS (SELECT k, sum(n) AS n GROUP BY k)")
    sql("INSERT INTO stated VALUES (TIMESTAMP'2024-01-02', 'b', 2)")
    sql("ALTER TABLE stated DROP PROJECTION by_k")
    assert [row.segments for row in sql("OPTIMIZE stated PURGE DRY RUN").collect()] == [1]
    assert [sql("OPTIMIZE stated PURGE").first().segments for _ in range(2)] == [1, 0]
    with pytest.raises(IllegalArgumentException, match="PROJSEG_RETENTION_TOO_SHORT"):
        sql("VACUUM stated RETAIN 0 HOURS")
    listed = sql("VACUUM stated RETAIN 0 HOURS FORCE DRY RUN").collect()
    assert sql("VACUUM stated RETAIN 0 HOURS FORCE").collect() == listed != []
    kept = len(list((tmp_path / "stated").rglob("*.pseg")))
    assert kept == sql("SHOW SEGMENTS FROM stated").count() == 2
    assert sorted(row.k for row in sql("SELECT k FROM stated").collect()) == ["a", "b"]


def test_a_projection_is_described(sql, table):
    sql(
        f"ALTER TABLE {table} ADD PROJECTION by_k AS (SELECT k, sum(n) AS n WHERE n > 0 GROUP BY k)"
    )
    for words in ("DESCRIBE", "desc"):
        told = {
            row.property: row.value for row in sql(f"{words} PROJECTION by_k ON {table}").collect()
        }
        assert told["group_by"] == "k AS k"
        assert told["aggregators"].startswith("sum(n)")
        assert (told["segments"], told["segments_missing"]) == ("0", "1")


def test_projections_of_all_tables_are_shown(sql):
    sql("ALTER TABLE stated ADD PROJECTION by_k (SELECT k, count(*) GROUP BY k)")
    sql("CREATE TEMPORARY VIEW stated_view AS SELECT * FROM stated")
    try:
        found = sql("SHOW PROJECTIONS").collect()
    finally:
        sql("DROP VIEW stated_view")
    assert [(row.table, row.name) for row in found if row.table.startswith("stated")] == [
        ("stated", "by_k")
    ]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT k, sum(n) AS n FROM stated GROUP BY k",
        "SELECT k, sum(n) AS n FROM `stated` WHERE n > 0 GROUP BY k",
        "SELECT k, sum(n) AS n FROM /* here */ default.stated GROUP BY k",
        "SELECT k, count_if(k IS DISTINCT FROM 'x') AS n FROM stated GROUP BY k",
        "SELECT k, sum(n) FILTER (WHERE k <> ')') AS n -- FROM elsewhere\n FROM stated GROUP BY k",
    ],
)
def test_a_select_may_name_its_own_table(sql, select):
    sql(f"ALTER TABLE spark_catalog.default.stated ADD PROJECTION by_k AS ({select})")
    (row,) = sql("SHOW PROJECTIONS FROM stated").collect()
    assert row.group_by == "k AS k"
    with pytest.raises(Exception, match="FROM"):
        sql(f"ALTER TABLE stated ADD PROJECTION q AS ({select.replace('stated', 'another')})")


@pytest.mark.parametrize(
    "statement",
    [
        "/* a /* nested */ comment */ SHOW -- these\n PROJECTIONS FROM stated;;",
        "show\tprojections\nin default . stated",
        "SHOW PROJECTIONS FROM `stated` ;",
    ],
)
def test_comments_and_spaces_are_skipped(sql, statement):
    assert sql(statement).collect() == []


def test_texts_that_only_look_like_statements_are_sparks(sql):
    assert sql("SELECT 'SHOW PROJECTIONS FROM stated' AS a").first().a.startswith("SHOW")
    for text in (
        "SHOW PROJECTIONS FROM 'stated'",
        "SHOW PROJECTIONS FROM stated extra",
        "SHOW PROJECTIONS FROM stated /* open",
        "ALTER TABLE stated ADD PROJECTION p AS (SELECT k",
        "ALTER TABLE stated ADD PROJECTION p AS SELECT k, count(*) GROUP BY k",
    ):
        with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|UNCLOSED_BRACKETED"):
            sql(text)


def test_other_statements_are_sparks(sql):
    assert sql("SHOW TABLES").count() >= 1
    assert sql("SELECT :a + 1 AS b", args={"a": 2}).first().b == 3
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        sql("SHOW PROJECTION FROM stated")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        sql("SELEC 1")


@pytest.mark.usefixtures("sql")
def test_without_the_extension_they_are_sparks_to_refuse(plain, table):
    for text, words in (
        ("SHOW PROJECTIONS FROM", "PARSE_SYNTAX"),
        ("DESCRIBE HISTORY", "`HISTORY`"),
    ):
        with pytest.raises(Exception, match=words):
            plain.sql(f"{text} {table}")
    assert plain.sql("SHOW TABLES LIKE 'stated'").count() == 1


def ending(spark, text):
    """Return how a statement ends; Spark's own errors may have several lines, and ours one."""
    try:
        spark.sql(text).isEmpty()
    except PySparkException as caught:
        error = caught
    else:
        return "worked"
    message = str(error)
    own = re.match(r"\[(PROJSEG_\w+)\] ", message)
    assert own or error.getCondition(), (text, message)
    assert "PROJSEG_INTERNAL" not in message, text
    assert not own or (own[1] in CODES and "\n" not in message), (text, message)
    return "projseg" if own else error.getCondition()


def test_whatever_a_statement_says_it_works_or_ends_in_one_line_with_a_code(spark, tmp_path):
    place = tmp_path / "odd"
    rows = spark.sql("SELECT TIMESTAMP'2024-01-01' AS t, 'a' AS k, 1 AS n")
    projseg.write(rows, place, timeColumn="t", segmentGranularity="day")
    ended = Counter()
    with using(spark, enabled="true"):
        spark.sql(f"CREATE TABLE t USING projseg LOCATION '{place}'")
        spark.sql("CREATE TABLE foreign_t (n int) USING parquet")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM t")
        try:
            for seed in range(tries(1_600)):
                text = drawn(seed, STATEMENTS) if seed % 5 else statements(seed)
                ended[ending(spark, text)] += 1
        finally:
            for drop in ("VIEW v", "TABLE t", "TABLE foreign_t"):
                spark.sql(f"DROP {drop}")
    assert min(ended["worked"], ended["projseg"], ended["PARSE_SYNTAX_ERROR"]) > 10, ended


def test_a_statement_about_a_table_of_others_is_theirs(sql):
    """No parser below knows the words here, so what is wrong is said of the table."""
    sql("CREATE TABLE history (k int) USING parquet")
    sql("CREATE TEMPORARY VIEW stated_view AS SELECT * FROM stated")
    try:
        assert sql("DESCRIBE HISTORY k").collect()[0].info_value == "k"  # a column of a table
        for text in ("OPTIMIZE", "VACUUM", "SHOW SEGMENTS FROM", "DESC PROJECTION p ON"):
            with pytest.raises(IllegalArgumentException, match=r"PROJSEG_NOT_A_TABLE.*foreign"):
                sql(f"{text} foreign_stated")
            with pytest.raises(IllegalArgumentException, match="temporary view"):
                sql(f"{text} stated_view")
        with pytest.raises(AnalysisException, match=r"NAMESPACE|TOO_MANY_NAME_PARTS"):
            sql("OPTIMIZE spark_catalog.default.more.stated")
    finally:
        sql("DROP TABLE history")
        sql("DROP VIEW stated_view")
