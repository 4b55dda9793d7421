"""CHAR and VARCHAR in sessions that keep them as types, as Spark itself has them."""

from __future__ import annotations

import pytest
from spark_sql import using

CHARS = (
    "concat('[', c, ']')",
    "c = 'x  '",
    "c IN ('x  ', 'y')",
    "coalesce(c, 'q')",
    "c || v",
    "a[0] || 'z'",
    "length(c) + length(v)",
    "c < v",
)
MAKERS = {
    "CTAS": ["CREATE TABLE {} USING {} AS {select}"],
    "CREATE": ["CREATE TABLE {} (c char(3), v varchar(4), a array<char(3)>) USING {}", "{insert}"],
    "RTAS": ["CREATE TABLE {} (n int) USING {}", "CREATE OR REPLACE TABLE {} USING {} AS {select}"],
    "ALTER": [
        "CREATE TABLE {} (c char(3), v varchar(4), a array<char(3)>) USING {}",
        "{insert}",
        "ALTER TABLE {} ADD COLUMN d char(2)",
        "ALTER TABLE {} DROP COLUMN d",
    ],
}
SELECTED = (
    "SELECT CAST('x' AS char(3)) AS c, CAST('yy' AS varchar(4)) AS v, "
    "array(CAST('x' AS char(3))) AS a"
)
CHANGES = {
    "UPDATE {} SET v = concat(v, 'z') WHERE c = 'x  '": ("x  ", "yyz"),
    "UPDATE {} SET c = 'y' WHERE concat(c, 'q') = 'x  q'": ("y  ", "yyz"),
    "MERGE INTO {} t USING (SELECT 'y  ' AS k) s ON t.c = s.k "
    "WHEN MATCHED THEN UPDATE SET v = concat('q', t.c)": ("y  ", "qy  "),
    "DELETE FROM {} WHERE c = 'nop' OR v || c = 'nop'": ("y  ", "qy  "),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("house", ["", "kept_chars.n."], ids=["session", "own"])
def test_sessions_may_keep_char_and_varchar_as_types(spark, tmp_path, maker, house):
    """However a table was made, and of Spark's own catalog or of one of projseg."""
    spark.conf.set("spark.sql.catalog.kept_chars", "org.apache.spark.sql.projseg.ProjsegCatalog")
    spark.conf.set("spark.sql.catalog.kept_chars.warehouse", str(tmp_path))
    if house:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS kept_chars.n")
    keeps = {"spark.sql.preserveCharVarcharTypeInfo": "true"}
    title = f"{house}kept_{maker.lower()}"
    try:
        with using(spark, **keeps):
            for step in MAKERS[maker]:
                insert = f"INSERT INTO {title} VALUES ('x', 'yy', array('x'))"
                text = step.replace("{insert}", insert).replace("{select}", SELECTED)
                spark.sql(text.format(title, "projseg"))
            spark.sql(f"CREATE OR REPLACE TEMP VIEW peer AS {SELECTED}")
            for expression in CHARS:
                asked = f"SELECT {expression} AS r FROM {{}}"
                found = spark.sql(asked.format(title)).collect()
                assert found == spark.sql(asked.format("peer")).collect(), expression
            types = dict(spark.table(title).dtypes)
            assert types == {"c": "char(3)", "v": "varchar(4)", "a": "array<char(3)>"}
            for statement, (c, v) in CHANGES.items():
                spark.sql(statement.format(title))
                assert spark.table(title).select("c", "v").collect() == [(c, v)], statement
        assert dict(spark.table(title).dtypes) == {
            "c": "string",
            "v": "string",
            "a": "array<string>",
        }
        (row,) = spark.sql(f"SELECT concat(c, v) AS r FROM {title} WHERE c = 'y  '").collect()
        assert row.r == "y  qy  "
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {title}")
