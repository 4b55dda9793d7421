"""INSERT into columns by name, and into those whose type has no value but NULL."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from spark_sql import using

pytestmark = pytest.mark.spark
PAIRS = [("straße", "strasse"), ("\u00b5", "\u03bc"), ("\u017fet", "set")]


@pytest.fixture
def sql(spark):
    with using(spark, enabled="true"):
        yield spark.sql
        for name in ("inserted", "inserted_parquet"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def outcome(sql, statement):
    """Return rows, or the condition that Spark names in its error."""
    try:
        return sql(statement).collect()
    except PySparkException as error:
        return error.getCondition()


@pytest.mark.sampled(len(PAIRS))
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_rows_are_inserted_by_name_as_into_parquet(sql, one, other):
    columns = f"`{one}` INT, `{other}` INT"
    for name, source in (("inserted", "projseg"), ("inserted_parquet", "parquet")):
        sql(f"CREATE TABLE {name} ({columns}) USING {source}")
    for statement in (
        f"INSERT INTO {{}} BY NAME SELECT 1 AS `{other}`, 2 AS `{one}`",
        f"INSERT INTO {{}} (`{other}`, `{one}`) VALUES (4, 5)",
        f"SELECT `{one}`, `{other}` FROM {{}} ORDER BY ALL",
    ):
        found = outcome(sql, statement.format("inserted"))
        assert found == outcome(sql, statement.format("inserted_parquet")), statement


VOIDS = ["array<void>", "array<array<void>>", "struct<x: void>"]
VALUES = ["array()", "array(NULL)", "NULL", "array(array())", "named_struct('x', NULL)"]


@pytest.mark.sampled(len(VOIDS))
@pytest.mark.parametrize("kind", VOIDS)
def test_values_of_void_are_stored_or_refused_in_one_line(sql, kind):
    sql(f"CREATE TABLE inserted (a {kind}) USING projseg")
    kept = []
    for value in VALUES:
        done = outcome(sql, f"INSERT INTO inserted SELECT {value}")
        if done == []:
            kept += [repr(row[0]) for row in sql(f"SELECT {value}").collect()]
        else:
            assert done.startswith("INCOMPATIBLE_DATA_FOR_TABLE"), value
    assert len(kept) >= 2
    assert sorted(repr(row.a) for row in sql("SELECT * FROM inserted").collect()) == sorted(kept)
