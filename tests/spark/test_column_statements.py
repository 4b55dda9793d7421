"""ALTER TABLE of columns, and writes that change them, as Spark SQL says them."""

from __future__ import annotations

import shutil
from datetime import datetime

import pytest

import projseg


@pytest.fixture
def sql(spark, tmp_path):
    spark.conf.set("spark.projseg.enabled", "true")
    spark.sql(
        f"CREATE TABLE altered USING projseg LOCATION '{tmp_path / 'altered'}' "
        "TBLPROPERTIES ('timeColumn' = 't', 'segmentGranularity' = 'day', 'projections' = "
        """'[{"name": "by_k", "sql": "SELECT k, sum(n) AS n, count(*) AS c GROUP BY ALL"}]') """
        "AS SELECT TIMESTAMP'2024-01-01' AS t, 'a' AS k, 1 AS n, 2.5F AS f"
    )
    spark.sql("CREATE TABLE altered_elsewhere USING parquet AS SELECT 1 AS n")
    try:
        yield spark.sql
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        spark.sql("DROP TABLE altered")
        spark.sql("DROP TABLE altered_elsewhere")


@pytest.fixture(params=["name", "path"])
def table(request, tmp_path):
    return "altered" if request.param == "name" else f"projseg.`{tmp_path / 'altered'}`"


def rows(frame):
    return [tuple(row) for row in frame.collect()]


def test_each_statement_changes_the_columns_of_a_table(sql, table, tmp_path):
    assert sql(f"ALTER TABLE {table} ADD COLUMNS (a INT, `b c` ARRAY<STRING>)").collect() == []
    sql(f"ALTER TABLE {table} ADD COLUMN d DECIMAL(9,2)")
    sql(f"ALTER TABLE {table} RENAME COLUMN k TO site")
    sql(f"ALTER TABLE {table} ALTER COLUMN n TYPE BIGINT")
    sql(f"ALTER TABLE {table} CHANGE COLUMN f TYPE DOUBLE")
    sql(f"ALTER TABLE {table} DROP COLUMN `b c`")
    sql(f"ALTER TABLE {table} DROP COLUMNS (a)")
    sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS a")
    sql(f"ALTER TABLE {table} ADD COLUMN a STRING")
    read = sql(f"SELECT * FROM {table}")
    assert read.dtypes == [
        ("t", "timestamp"), ("site", "string"), ("n", "bigint"), ("f", "double"),
        ("d", "decimal(9,2)"), ("a", "string"),
    ]  # fmt: skip
    assert rows(read.drop("t")) == [("a", 1, 2.5, None, None)]
    sql(f"INSERT INTO {table} SELECT TIMESTAMP'2024-01-02', 'b', 5000000000, 0.5, 1.25, 'x'")
    grouped = sql(f"SELECT site, sum(n), avg(f) FROM {table} GROUP BY site ORDER BY site")
    assert grouped.dtypes[1:] == [("sum(n)", "bigint"), ("avg(f)", "double")]
    assert rows(grouped) == [("a", 1, 2.5), ("b", 5_000_000_000, 0.5)]
    assert rows(sql(f"SELECT a FROM {table} WHERE a IS NOT NULL")) == [("x",)]
    told = [row.operation for row in sql(f"DESCRIBE HISTORY {table}").collect()]
    assert told[1:9] == [
        "ADD COLUMNS", "DROP COLUMNS", "DROP COLUMNS", "CHANGE COLUMN", "CHANGE COLUMN",
        "RENAME COLUMN", "ADD COLUMNS", "ADD COLUMNS",
    ]  # fmt: skip
    assert not projseg.Table(tmp_path / "altered").verify(deep=True)
    assert rows(sql(f"SELECT k, n FROM {table} VERSION AS OF 0")) == [("a", 1)]


def test_restoring_older_columns_brings_the_entry_along(sql):
    sql("ALTER TABLE altered ALTER COLUMN f COMMENT 'kept'")
    sql("ALTER TABLE altered ADD COLUMN x INT DEFAULT 5")
    sql("ALTER TABLE altered RENAME COLUMN t TO moment")
    sql("ALTER TABLE altered ALTER COLUMN n TYPE BIGINT")
    newest = sql("DESCRIBE HISTORY altered").first().version
    wide = [("moment", "timestamp"), ("k", "string"), ("n", "bigint"), ("f", "float"), ("x", "int")]
    for version, columns, x in ((0, [("t", "timestamp"), *wide[1:4]], []), (newest, wide, [5])):
        sql(f"RESTORE altered TO VERSION AS OF {version}")
        read = sql("SELECT * FROM altered")
        narrow = [(name, "int" if name == "n" and not x else kind) for name, kind in columns]
        assert read.dtypes == narrow
        assert rows(read) == [(datetime(2024, 1, 1), "a", 1, 2.5, *x)]
        assert {row.col_name: row.comment for row in sql("DESCRIBE altered").collect()}[
            "f"
        ] == "kept"
        properties = dict(map(tuple, sql("SHOW TBLPROPERTIES altered").collect()))
        assert properties["timeColumn"] == columns[0][0]
        sql(f"INSERT INTO altered SELECT * FROM altered WHERE {columns[0][0]} IS NULL")


REFUSED = {
    "DROP COLUMN n": "by_k",
    "DROP COLUMN t": "time column",
    "DROP COLUMN nn": "Did you mean",
    "RENAME COLUMN n TO k": "FIELD_ALREADY_EXISTS",
    "ALTER COLUMN n TYPE STRING": "PROJSEG_CANNOT_WIDEN",
    "ADD COLUMN N INT": "FIELD_ALREADY_EXISTS",
    "ADD COLUMNS (x INT, X INT)": "COLUMN_ALREADY_EXISTS",
    "ADD COLUMN x INT FIRST": "they come last",
    "ADD COLUMN x INT NOT NULL": "leave NOT NULL out",
    "ADD COLUMN k.x INT": "INVALID_FIELD_NAME",
    "ADD COLUMN x ARRAY<INT> DEFAULT array(1)": "SET DEFAULT",
    "ALTER COLUMN n SET NOT NULL": "non-nullable",
    "REPLACE COLUMNS (x INT)": "it would drop every value",
}


def test_what_cannot_be_done_is_refused_and_other_tables_are_spark_s(sql, tmp_path):
    for statement, words in REFUSED.items():
        with pytest.raises(Exception, match=words):
            sql(f"ALTER TABLE altered {statement}")
    assert projseg.Table(tmp_path / "altered").version == 0
    sql("ALTER TABLE altered_elsewhere ADD COLUMNS (m INT)")
    assert sql("SELECT * FROM altered_elsewhere").columns == ["n", "m"]
    with pytest.raises(Exception, match="RENAME COLUMN"):
        sql("ALTER TABLE altered_elsewhere RENAME COLUMN n TO x")


def test_a_table_of_the_catalog_of_its_own(spark, sql, tmp_path):
    name = "columns_house"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.spark.sql.projseg.ProjsegCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(tmp_path / "house"))
    try:
        sql(f"CREATE TABLE {name}.edits (k STRING, n INT) TBLPROPERTIES ('clusterBy' = 'k')")
        sql(f"INSERT INTO {name}.edits VALUES ('a', 1)")
        sql(f"ALTER TABLE {name}.edits RENAME COLUMN k TO site")
        sql(f"ALTER TABLE {name}.edits ALTER COLUMN n TYPE BIGINT")
        sql(f"ALTER TABLE {name}.edits ADD COLUMNS (a INT, b STRING)")
        sql(f"ALTER TABLE {name}.edits DROP COLUMNS (a)")
        sql(f"INSERT INTO {name}.edits VALUES ('b', 5000000000, 'x')")
        read = sql(f"SELECT * FROM {name}.edits ORDER BY site")
        assert read.dtypes == [("site", "string"), ("n", "bigint"), ("b", "string")]
        assert rows(read) == [("a", 1, None), ("b", 5_000_000_000, "x")]
        with pytest.raises(Exception, match="sorted by"):
            sql(f"ALTER TABLE {name}.edits DROP COLUMN site")
    finally:
        sql(f"DROP TABLE IF EXISTS {name}.edits")
        spark.conf.unset(f"spark.sql.catalog.{name}")
        spark.conf.unset(f"spark.sql.catalog.{name}.warehouse")
        shutil.rmtree(tmp_path / "house", ignore_errors=True)


@pytest.mark.slow
def test_a_write_merges_or_replaces_columns(spark, tmp_path):
    place = str(tmp_path / "merged")

    def save(query, mode="append", **options):
        spark.sql(query).write.format("projseg").mode(mode).options(**options).save(place)

    save("SELECT 'a' AS k, 1 AS n, 0.5F AS f, DATE'2024-01-01' AS d", clusterBy="k")
    wider = "SELECT 'b' AS k, 1.5D AS n, 0.25D AS f, DATE'2024-01-02' AS d, 'x' AS note"
    with pytest.raises(Exception, match="mergeSchema"):
        save(wider)
    with pytest.raises(Exception, match="mergeSchema"):
        save("SELECT 1.5D AS n")
    save(wider, mergeSchema="true")
    read = spark.read.format("projseg").load(place).orderBy("k")
    assert dict(read.dtypes) == {
        "k": "string", "n": "double", "f": "double", "d": "date", "note": "string"
    }  # fmt: skip
    assert rows(read.drop("d")) == [("a", 1.0, 0.5, None), ("b", 1.5, 0.25, "x")]
    save("SELECT 'c' AS k, 2 AS n", mergeSchema="true")  # narrower rows fit
    with pytest.raises(Exception, match="PROJSEG_SCHEMA_MISMATCH"):
        save("SELECT TIMESTAMP'2024-01-01' AS d", mergeSchema="true")

    table = projseg.Table(place)
    table.add_projection({"name": "by_k", "sql": "SELECT k, sum(n) AS n GROUP BY ALL"})
    fresh = "SELECT 'z' AS k, 'text' AS n, 7 AS extra"
    with pytest.raises(Exception, match="PROJSEG_SCHEMA_MISMATCH"):
        save(fresh, "overwrite")
    with pytest.raises(Exception, match="by_k"):
        save(fresh, "overwrite", overwriteSchema="true")
    for options in ({"mergeSchema": "true"}, {"replaceWhere": "n = 1"}):
        with pytest.raises(Exception, match="do not go together"):
            save(fresh, "overwrite", overwriteSchema="true", **options)
    with pytest.raises(Exception, match="needs mode"):
        save(fresh, overwriteSchema="true")
    with pytest.raises(Exception, match="sorted by"):
        save("SELECT 1 AS other", "overwrite", overwriteSchema="true")
    table.refresh().drop_projection("by_k")
    stale = projseg.Table(place)
    save(fresh, "overwrite", overwriteSchema="true")
    assert rows(spark.read.format("projseg").load(place)) == [("z", "text", 7)]
    assert spark.read.format("projseg").load(place).columns == ["k", "n", "extra"]
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_COMMIT_CONFLICT"):
        stale.append({"k": ["y"], "n": [1.0]})
    old = spark.read.format("projseg").option("versionAsOf", table.version).load(place)
    assert old.count() == 3
    assert not projseg.Table(place).verify(deep=True)
