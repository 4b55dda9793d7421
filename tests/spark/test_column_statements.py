"""ALTER TABLE of columns, and writes that change them, as Spark SQL says them."""

from __future__ import annotations

import shutil

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


REFUSED = {
    "DROP COLUMN n": "by_k",
    "DROP COLUMN t": "time column",
    "DROP COLUMN nn": "did you mean 'n'",
    "RENAME COLUMN n TO k": "PROJSEG_COLUMN_EXISTS",
    "ALTER COLUMN n TYPE STRING": "PROJSEG_CANNOT_WIDEN",
    "ADD COLUMN N INT": "PROJSEG_COLUMN_EXISTS",
    "ADD COLUMN x INT FIRST": "a place among columns",
    "ADD COLUMN x INT NOT NULL": "NOT NULL",
    "ADD COLUMN k.x INT": "a field of a column",
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
