"""`Table.sql` and Spark SQL over Parquet give the same names, types and rows."""

import pyarrow.parquet as pq
import pytest
from answers_agree import same
from scale import one_of
from sql_statements import OF_ALL, OF_SPARK, statement_rows, statement_table

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("sql"), statement_rows()
    pq.write_table(rows, folder / "edits.parquet")
    spark.read.parquet(str(folder / "edits.parquet")).createOrReplaceTempView("edits")
    yield statement_table(folder / "edits", rows)
    spark.catalog.dropTempView("edits")


@pytest.mark.parametrize("statement", one_of(25, [*OF_ALL, *OF_SPARK]))
def test_spark_agrees(statement, table, spark):
    expected = spark.sql(statement).toArrow()
    found = table.sql(statement)
    assert found.column_names == expected.column_names
    assert found.schema.types == expected.schema.types
    rows, others = (
        list(zip(*(column.to_pylist() for column in one.columns), strict=True))
        for one in (found, expected)
    )
    if "ORDER BY" not in statement.upper():
        rows, others = sorted(rows, key=repr), sorted(others, key=repr)
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        assert all(map(same, row, other)), (row, other)
