"""Statements about views of stars, and materialized views as views of Spark's catalog."""

from __future__ import annotations

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from spark_sql import plan_of, using

import projseg

START = 1704067200
SELECT = (
    "SELECT d.region, date_trunc('HOUR', e.time) AS hour, sum(e.v) AS v, count(*) AS c "
    "FROM edits e JOIN places d ON e.country = d.code GROUP BY d.region, hour"
)
ASKED = (
    "SELECT d.region, sum(v), count(*) FROM edits e {} JOIN places d ON e.country = d.code "
    "GROUP BY d.region"
)


@pytest.fixture
def sql(spark, tmp_path):
    edits = spark.range(0, 600, 1, 1).selectExpr(
        f"timestamp_seconds({START} + id * 300) AS time",
        "concat('c', id % 7) AS country",
        "id % 100 AS v",
    )
    places = spark.range(0, 5, 1, 1).selectExpr(
        "concat('c', id) AS code", "concat('r', id % 2) AS region"
    )
    with using(spark, enabled="true"):
        spark.sql("CREATE DATABASE of_views")
        spark.sql("USE of_views")
        for name, rows, options in (
            ("edits", edits, {"timeColumn": "time", "segmentGranularity": "hour"}),
            ("places", places, {}),
        ):
            projseg.write(rows, str(tmp_path / name), **options)
            spark.sql(f"CREATE TABLE {name} USING projseg LOCATION '{tmp_path / name}'")
        spark.sql("CREATE TABLE strange USING parquet AS SELECT 'c1' AS code, 'x' AS region")
        try:
            yield spark.sql
        finally:
            spark.sql("USE default")
            spark.sql("DROP DATABASE of_views CASCADE")


def views(sql):
    return [row.viewName for row in sql("SHOW VIEWS").collect() if not row.isTemporary]


def executed(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def check(sql, text, view):
    """Compare an answer, which comes from a view or not, with Spark's own."""
    found = sql(text)
    assert (f"from view {view}: " in plan_of(found)) == (view is not None), plan_of(found)
    with using(found.sparkSession, enabled="false"):
        expected = sql(text)
        rows = expected.collect()
    assert sorted(map(tuple, found.collect()), key=repr) == sorted(map(tuple, rows), key=repr)


@pytest.mark.slow
def test_a_view_of_a_star_lives_by_statements(sql):
    told = sql(f"EXPLAIN CREATE MATERIALIZED VIEW by_region AS {SELECT}").collect()
    told = {row.property: row.value for row in told}
    assert (told["grade"], told["dimensions"], told["rows_read"]) == ("grouped", "places", "600")
    assert told["key of places"] == "(code)"
    assert told["delete, update, merge"] == "reads the rows that are gone alone"
    assert told["rows of places changed"] == "folds parts anew that have rows with their keys"
    made = sql(f"CREATE MATERIALIZED VIEW by_region COMMENT 'of regions' AS {SELECT}").first()
    assert (made.view, made.segments) == ("by_region", 50)
    over = "CREATE MATERIALIZED VIEW w {} AS SELECT region, sum(v) FROM by_region GROUP BY region"
    for clause in ("", "WITH DEFERRED REFRESH"):
        with pytest.raises(IllegalArgumentException, match=r"VIEW_TABLE.*is a materialized view"):
            sql(over.format(clause))
    check(sql, ASKED.format(""), "by_region")
    check(sql, ASKED.format("LEFT"), "by_region")
    check(sql, "SELECT sum(v) FROM edits WHERE country IN (SELECT code FROM places)", "by_region")
    check(sql, f"SELECT max(`sum(v)`) FROM ({ASKED.format('')})", "by_region")
    # A dimension's commits through Spark refresh the view.
    sql("UPDATE places SET region = 'changed' WHERE code = 'c3'")
    sql("INSERT INTO places VALUES ('c6', 'new')")
    sql("INSERT INTO edits SELECT TIMESTAMP'2024-02-01', 'c6', 7L")
    (row,) = sql("SHOW MATERIALIZED VIEWS ON TABLE edits").collect()
    assert (row.name, row.state, row.last_error) == ("by_region", "fresh", None)
    check(sql, ASKED.format("LEFT"), "by_region")
    sql("MERGE INTO places p USING (SELECT 'c1' c) s ON p.code = s.c WHEN MATCHED THEN DELETE")
    check(sql, ASKED.format(""), "by_region")
    # SQL Server 2013: MERGE changes a parent's key.
    sql(
        "MERGE INTO places p USING (SELECT 'c0' c) s ON p.code = s.c "
        "WHEN MATCHED THEN UPDATE SET code = 'c5'"
    )
    check(sql, ASKED.format("LEFT"), "by_region")
    assert sql("REFRESH MATERIALIZED VIEW by_region FULL").first().segments == 51
    told = {r.property: r.value for r in sql("DESCRIBE MATERIALIZED VIEW by_region").collect()}
    assert (told["state"], told["comment"]) == ("fresh", "of regions")
    statement = sql("SHOW CREATE MATERIALIZED VIEW by_region").first().createtab_stmt
    sql("DROP MATERIALIZED VIEW by_region")
    assert views(sql) == []
    check(sql, ASKED.format(""), None)
    sql(statement)
    check(sql, ASKED.format(""), "by_region")
    # A key that two rows have: Spark joins, and the view says what is wrong.
    sql("INSERT INTO places VALUES ('c2', 'twice')")
    check(sql, ASKED.format(""), None)
    (row,) = sql("SHOW MATERIALIZED VIEWS ON TABLE edits").collect()
    assert "PROJSEG_JOIN_KEY_NOT_UNIQUE" in row.last_error
    shown = executed(sql(ASKED.format("")))
    assert "not by_region: KEY_NOT_UNIQUE places (code = 'c2')" in shown
    log = "SELECT * FROM projseg_query_log() WHERE reasons LIKE '%; by_region: KEY_NOT_UNIQUE'"
    assert sql(log).count() > 0
    ranged = "SELECT sum(v) FROM edits JOIN places p ON country > p.code"
    assert "not by_region: NOT_A_STAR join 'places' has " in executed(sql(ranged))


def test_carbondatas_words_make_views_of_several_tables(sql):
    made = sql(
        'CREATE DATAMAP agg_region ON TABLE edits USING "mv" WITH DEFERRED REBUILD '
        f"DMPROPERTIES('TABLE_BLOCKSIZE'='256 MB') AS {SELECT}"
    ).first()
    assert (made.parts, made.ignored) == (0, "table_blocksize: without effect")
    check(sql, ASKED.format(""), None)
    assert sql("REBUILD DATAMAP agg_region").first().segments == 50
    check(sql, ASKED.format(""), "agg_region")
    (row,) = sql("SHOW DATAMAPS ON TABLE edits").collect()
    assert (row.name, row.provider) == ("agg_region", "mv")
    sql("DROP DATAMAP agg_region ON TABLE edits")
    assert sql("SHOW DATAMAPS ON TABLE edits").collect() == []
    assert views(sql) == []


def test_a_materialized_view_is_a_view_of_the_catalog(sql, spark):
    sql(
        "CREATE MATERIALIZED VIEW by_region (region COMMENT 'where', hour, v, c) "
        f"COMMENT 'of regions' AS {SELECT}"
    )
    found = sql("SELECT * FROM by_region")
    assert "from view by_region: " in plan_of(found)
    assert found.schema["region"].metadata.get("comment") == "where"
    with using(spark, enabled="false"):
        expected = sql(SELECT).collect()
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected))
    # It is never old, and follows what its definition reads.
    sql("INSERT INTO edits SELECT TIMESTAMP'2024-03-01', 'c1', 7L")
    (row,) = sql("SELECT v, c FROM by_region WHERE hour = TIMESTAMP'2024-03-01'").collect()
    assert tuple(row) == (7, 1)
    for write in (
        "INSERT INTO by_region SELECT 'r', TIMESTAMP'2024-03-01', 1L, 1L",
        "DELETE FROM by_region WHERE c = 1",
        "UPDATE by_region SET c = 2",
        "MERGE INTO by_region b USING places p ON b.region = p.region WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(PySparkException, match="PROJSEG_VIEW_READ_ONLY"):
            sql(write)
    sql("ALTER MATERIALIZED VIEW by_region RENAME TO regions")
    assert views(sql) == ["regions"]
    assert "from view regions: " in plan_of(sql("SELECT * FROM regions"))
    # Another database finds it by its whole name.
    sql("USE default")
    assert sql("REFRESH MATERIALIZED VIEW of_views.regions").first().added == 0
    sql("USE of_views")
    sql("DROP MATERIALIZED VIEW regions")
    assert views(sql) == []


def test_names_that_are_taken_and_tables_of_others_are_refused(sql):
    named = "CREATE MATERIALIZED VIEW {} AS " + SELECT
    for name in ("edits", "strange"):
        with pytest.raises(IllegalArgumentException, match="PROJSEG_VIEW_EXISTS"):
            sql(named.format(name))
    with pytest.raises(IllegalArgumentException, match=r"PROJSEG_VIEW_TABLE.*strange"):
        sql(named.format("v").replace("places d", "strange d"))
    required = named.format("v TBLPROPERTIES ('require' = 'incremental')")
    with pytest.raises(IllegalArgumentException, match="PROJSEG_NOT_A_STAR"):
        sql(required.replace("e.country = d.code", "e.country < d.code"))
    assert views(sql) == []
    # A SELECT without names of its own: the view has Spark's.
    sql("CREATE MATERIALIZED VIEW plain AS SELECT country, sum(v) FROM edits GROUP BY country")
    assert sql("SELECT * FROM plain").columns == ["country", "sum(v)"]
    sql(named.format("IF NOT EXISTS plain"))
    assert sql("SELECT * FROM plain").columns == ["country", "sum(v)"]


def test_the_view_of_a_table_that_was_dropped_gives_its_name_away(sql, tmp_path):
    made = (
        "CREATE MATERIALIZED VIEW by_country AS "
        "SELECT country, sum(v) AS v FROM edits GROUP BY country"
    )
    sql(made)
    sql("DROP TABLE edits")
    projseg.Table.create(tmp_path / "again", {"country": "string", "v": "bigint"})
    sql(f"CREATE TABLE edits USING projseg LOCATION '{tmp_path / 'again'}'")
    sql("INSERT INTO edits VALUES ('c', 3L)")
    sql(made)
    assert sql("SELECT * FROM by_country").collect() == [("c", 3)]
