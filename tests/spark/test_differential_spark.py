"""Random queries: Spark over the rows themselves, and projseg over every mix of sources, agree."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pytest
from answers_agree import assert_same
from asking import ask, declare, keyed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from query_cases import PROJECTION, QUERY, ROW, SCHEMA, START
from scale import IS_NIGHTLY, tries
from select_asking import assert_answers, rows_of, tables_of
from select_cases import STORED_ROWS, selects
from select_texts import EVERY_KEY
from spark_sql import using

import projseg
from projseg.errors import EvaluationError

pytestmark = pytest.mark.spark

TABLES = tries(100, 2)
QUERIES_A_TABLE = 8 if IS_NIGHTLY else 5
SELECTS_A_TABLE = 8 if IS_NIGHTLY else 3


def sql_of(query):
    outputs = [f"{key.sql} AS k{n}" for n, key in enumerate(query.keys)]
    outputs += [f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)]
    # TRUE first, since Spark reads `FROM edits WHERE (robot)` as a table alias with one column.
    conditions = [] if query.condition is None else [query.condition.sql]
    if query.interval:
        start, end = (f"TIMESTAMP '{bound:%Y-%m-%d %H:%M:%S}'" for bound in query.interval)
        conditions.append(f"time >= {start} AND time < {end}")
    where = " AND ".join(["TRUE", *(f"({condition})" for condition in conditions)])
    keys = ", ".join(key.sql for key in query.keys)
    grouped = f" GROUP BY {keys}" if keys else ""
    having = f" HAVING {query.having.sql}" if query.having is not None else ""
    return f"SELECT {', '.join(outputs)} FROM edits WHERE {where}{grouped}{having}"


def ask_spark(spark, query):
    try:
        table = spark.sql(sql_of(query)).toArrow()
    except Exception as error:
        if "OVERFLOW" in str(error) or "OUT_OF_RANGE" in str(error):
            return None
        raise
    return keyed(table, len(query.keys))


def ask_projseg(table, query, **context):
    try:
        return ask(table, query, **context)
    except EvaluationError:
        return None


@settings(max_examples=TABLES, suppress_health_check=list(HealthCheck))
@given(
    st.lists(ROW, min_size=1, max_size=60),
    st.lists(PROJECTION, min_size=1, max_size=3),
    st.lists(QUERY, min_size=QUERIES_A_TABLE, max_size=QUERIES_A_TABLE),
)
def test_spark_agrees(spark, rows, projections, queries):
    data = pa.Table.from_pylist(rows, SCHEMA)
    spark.createDataFrame(data).createOrReplaceTempView("edits")
    with tempfile.TemporaryDirectory() as location:
        table = projseg.Table.create(
            location, SCHEMA, time_column="time", segment_granularity="day"
        )
        table.append(data.slice(0, len(data) // 3))
        for number, projection in enumerate(projections):
            declare(table, f"p{number}", projection)
        table.append(data.slice(len(data) // 3))
        for query in queries:
            expected = ask_spark(spark, query)
            for context in ({}, {"noProjections": True}):
                found = ask_projseg(table, query, **context)
                if expected is None:
                    # Spark's sum may overflow on the way to a total that fits; ours does not.
                    assert any("sum(big)" in a.sql for a in query.aggregates)
                else:
                    assert found is not None
                    assert_same(found, expected)


@settings(max_examples=max(1, TABLES // 3), suppress_health_check=list(HealthCheck))
@given(STORED_ROWS, selects(EVERY_KEY, SELECTS_A_TABLE))
def test_spark_agrees_on_selects_of_every_shape(spark, stored, asked):
    data = pa.Table.from_pylist(stored.rows, SCHEMA)
    spark.createDataFrame(data).createOrReplaceTempView("all_edits")
    kept = f"SELECT * FROM all_edits WHERE ({stored.deleted.sql}) IS NOT TRUE"
    with tables_of(stored, data) as (whole, mixed):
        for table, source in ((whole, "TABLE all_edits"), (mixed, kept)):
            spark.sql(source).createOrReplaceTempView("edits")
            for select in asked:
                try:
                    with using(spark, **{"spark.sql.session.timeZone": select.zone}):
                        expected = rows_of(spark.sql(select.sql).toArrow())
                except AnalysisException:
                    # HAVING and ORDER BY of sets may not name a grouping column that is no output.
                    assert select.has_sets
                else:
                    assert_answers(table, select, expected)


def test_the_generated_times_lie_in_the_sessions_zone(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert START.utcoffset().total_seconds() == 0
