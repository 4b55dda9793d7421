"""DELETE FROM, UPDATE, MERGE INTO and TRUNCATE TABLE of projseg tables."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import projseg

ROWS = [
    ("2024-01-01 00:00:00", "a", 1, 0.5),
    ("2024-01-01 12:30:00", "b", 2, None),
    ("2024-01-02 23:59:59", None, 3, 1.5),
    ("2024-01-03 00:00:00", "it's", None, -0.0),
    ("2024-01-03 01:00:00", "ä`", 5, float("nan")),
]


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table of the rows, to be copied."""
    place = tmp_path_factory.mktemp("changed") / "table"
    values = ", ".join(
        f"(TIMESTAMP'{time}', {text(k)}, {text(n)}, {text(x)})" for time, k, n, x in ROWS
    )
    by_k = projseg.Projection("by_k", group_by=["k"], aggregators=["sum(n)", "count(*)"])
    rows = spark.sql(f"SELECT * FROM VALUES {values} AS v (t, k, n, x)")
    projseg.write(rows, place, timeColumn="t", segmentGranularity="day", projections=[by_k])
    return place


@pytest.fixture
def sql(spark, template, tmp_path):
    spark.conf.set("spark.projseg.enabled", "true")
    for name in ("changed", "unchanged"):
        shutil.copytree(template, tmp_path / name)
        spark.sql(f"CREATE TABLE {name} USING projseg LOCATION '{tmp_path / name}'")
    before = files(tmp_path / "unchanged")
    try:
        yield spark.sql
        assert files(tmp_path / "unchanged") == before
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        for name in ("changed", "unchanged"):
            spark.sql(f"DROP TABLE {name}")


@pytest.fixture(params=["name", pytest.param("path", marks=pytest.mark.slow)])
def table(request, tmp_path):
    return "changed" if request.param == "name" else f"projseg.`{tmp_path / 'changed'}`"


def text(value):
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"double('{value}')"
    return repr(value) if isinstance(value, int) else '"' + value + '"'


def files(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def numbers(sql, rows="changed"):
    """Return the column n of all rows, which names them; its null as 4."""
    return sorted(row.n or 4 for row in sql(f"SELECT n FROM {rows}").collect())


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("n = 2", [1, 3, 4, 5]),
        ("n <> 2", [2, 4]),
        ("n IS NULL OR k = 'a'", [2, 3, 5]),
        ('k = "it\'s"', [1, 2, 3, 5]),
        ("k = 'ä`'", [1, 2, 3, 4]),
        ("x = 0.0", [1, 2, 3, 5]),
        ("x > 1", [1, 2, 4]),
        ("isnan(x)", [1, 2, 3, 4]),
        ("t >= '2024-01-02' AND t < TIMESTAMP'2024-01-03'", [1, 2, 4, 5]),
        ("to_date(t) = DATE'2024-01-03'", [1, 2, 3]),
        ("t < current_timestamp() AND n < 1 + 1", [2, 3, 4, 5]),
        ("n = cast('3' AS int)", [1, 2, 4, 5]),
        ("n > 99", [1, 2, 3, 4, 5]),
        ("k LIKE '%`'", [1, 2, 3, 4]),
        ("n IN (1, 2, NULL)", [3, 4, 5]),
        ("true", []),
        ("null", [1, 2, 3, 4, 5]),
    ],
)
def test_rows_are_deleted(sql, table, condition, left):
    told = sql(f"DELETE FROM {table} WHERE {condition}").first()
    assert told.num_affected_rows == len(ROWS) - len(left)
    assert numbers(sql) == left
    groups = sql("SELECT k, count(*) AS c FROM changed GROUP BY k").collect()
    assert sum(row.c for row in groups) == len(left)


def test_an_alias_and_a_zone(spark, sql, table):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        sql(f"DELETE FROM {table} AS one WHERE to_date(one.t) = '2024-01-03'")
        sql(f"UPDATE {table} AS one SET t = '2024-01-05' WHERE one.n = 1")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert numbers(sql) == [1, 2]
    moved = sql("SELECT cast(t AS string) AS t FROM changed WHERE n = 1").first().t
    assert moved == "2024-01-04 15:00:00"


@pytest.mark.parametrize("statement", ["DELETE FROM changed", "TRUNCATE TABLE changed"])
def test_all_rows_are_removed(sql, statement):
    assert sql(statement).first().num_affected_rows == len(ROWS)
    assert numbers(sql) == []
    sql("INSERT INTO changed SELECT * FROM unchanged")
    assert numbers(sql) == [1, 2, 3, 4, 5]


def test_rows_are_updated(sql, table):
    told = sql(f"UPDATE {table} SET n = n * 10, k = concat(k, '!'), x = n WHERE n < 3").first()
    assert told.num_affected_rows == 2
    rows = {row.n: (row.k, row.x) for row in sql("SELECT * FROM changed").collect()}
    assert rows[10] == ("a!", 1.0)
    assert rows[20] == ("b!", 2.0)
    assert rows[3] == (None, 1.5)
    assert sql(f"UPDATE {table} SET k = NULL").first().num_affected_rows == len(ROWS)
    assert sql("SELECT k, count(*) FROM changed GROUP BY k").collect() == [(None, len(ROWS))]


SOURCE = (
    "(SELECT * FROM VALUES (2, 'B', TIMESTAMP'2024-01-01 12:30:00', 7.5D), "
    "(5, NULL, TIMESTAMP'2024-01-03 01:00:00', NULL), (9, 'new', TIMESTAMP'2024-02-01', 1D), "
    "(NULL, 'no key', TIMESTAMP'2024-02-02', 1D) AS v (n, k, t, x))"
)


@pytest.mark.parametrize(
    ("clauses", "counts", "expected"),
    [
        (
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            (4, 2, 0, 2),
            {"a", "B", None, "it's", "new", "no key"},
        ),
        ("WHEN MATCHED THEN UPDATE SET k = s.k, x = s.x", (2, 2, 0, 0), {"a", "B", None, "it's"}),
        (
            "WHEN MATCHED THEN UPDATE SET k = upper(s.k) || '!'",
            (2, 2, 0, 0),
            {"a", "B!", None, "it's"},
        ),
        ("WHEN MATCHED THEN DELETE", (2, 0, 2, 0), {"a", None, "it's"}),
        (
            "WHEN NOT MATCHED THEN INSERT (n, k, t) VALUES (s.n, s.k, s.t)",
            (2, 0, 0, 2),
            {"a", "b", None, "it's", "ä`", "new", "no key"},
        ),
        (
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
            (4, 0, 2, 2),
            {"a", None, "it's", "new", "no key"},
        ),
    ],
)
def test_rows_are_merged(sql, table, clauses, counts, expected):
    told = sql(f"MERGE INTO {table} AS t USING {SOURCE} AS s ON t.n = s.n {clauses}").first()
    assert tuple(told) == counts
    assert {row.k for row in sql("SELECT k FROM changed").collect()} == expected
    groups = sql("SELECT k, count(*) AS c FROM changed GROUP BY k").collect()
    assert sum(row.c for row in groups) == len(ROWS) + counts[3] - counts[2]
    kept = sql("SELECT x FROM changed WHERE n = 2").collect()
    assert [row.x for row in kept] == (
        [] if counts[2] else [7.5 if "x" in clauses or "*" in clauses else None]
    )


def test_a_table_is_merged_into_from_another_and_from_itself(sql, table):
    merge = "WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT"
    told = sql(
        f"MERGE INTO {table} AS t USING (SELECT n, k FROM changed WHERE n > 1) AS s ON s.n = t.n "
        "WHEN MATCHED THEN UPDATE SET k = concat(s.k, s.k)"
    ).first()
    assert tuple(told) == (3, 3, 0, 0)
    sql(f"DELETE FROM {table} WHERE n < 3")
    sql(
        f"MERGE INTO {table} AS t USING unchanged AS s ON s.n = t.n AND t.t = s.t "
        f"WHEN MATCHED THEN UPDATE SET * {merge.split('s.k ')[1]} *"
    )
    assert numbers(sql) == [1, 2, 3, 4, 4, 5]


def test_a_time_is_updated_into_another_segment(sql, table, tmp_path):
    sql(f"UPDATE {table} SET t = TIMESTAMP'2024-01-02' WHERE n = 1")
    times = sql("SELECT min(t) AS first, count(*) AS c FROM changed WHERE k = 'a'").first()
    assert (times.first, times.c) == (datetime.datetime(2024, 1, 2), 1)
    assert not projseg.Table(tmp_path / "changed").verify(deep=True)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM changed WHERE n IN (SELECT n FROM unchanged)", "without subqueries"),
        ("DELETE FROM changed WHERE rand() < 2", "no exact meaning"),
        ("UPDATE changed SET n = DATE'2024-01-01'", "(?i)cast"),
        ("UPDATE changed SET n = 'x' || k", "PROJSEG_EVALUATION_BAD_CAST"),
        ("UPDATE changed SET nothing = 1", "nothing"),
        ("UPDATE changed SET n = 1, n = 2", "(?i)twice|multiple|conflict"),
        ("DELETE FROM changed WHERE nothing = 1", "nothing"),
        ("DELETE FROM changed_view WHERE n = 1", "(?i)view|support"),
        ("UPDATE changed SET t = NULL", "PROJSEG_NULL_TIME"),
        *[
            (f"MERGE INTO changed AS t USING unchanged AS s ON {on} WHEN {clause}", words)
            for on, clause, words in [
                ("t.n > s.n", "MATCHED THEN DELETE", "with the condition"),
                ("t.n <=> s.n", "MATCHED THEN DELETE", "with the condition"),
                ("t.n + 1 = s.n", "MATCHED THEN DELETE", "with the condition"),
                ("t.n = s.n AND t.n = length(s.k)", "MATCHED THEN DELETE", "on one column"),
                (
                    "t.n = s.n",
                    "MATCHED THEN UPDATE SET k = 'a', k = 'b'",
                    "(?i)twice|multiple|conflict",
                ),
                ("t.n = s.n", "MATCHED AND s.k = 'a' THEN DELETE", "clause with a condition"),
                ("t.n = s.n", "MATCHED THEN UPDATE SET n = s.n + 1", "update of a key"),
                ("t.n = s.n", "NOT MATCHED BY SOURCE THEN DELETE", "BY SOURCE"),
                ("t.n = s.n", "NOT MATCHED THEN INSERT (k, t) VALUES (s.k, s.t)", "source's key"),
                (
                    "t.n = s.n",
                    "MATCHED THEN UPDATE SET k = 'x' WHEN NOT MATCHED THEN INSERT *",
                    "different values",
                ),
                (
                    "t.n = s.n",
                    "MATCHED AND t.n = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET *",
                    "several clauses",
                ),
            ]
        ],
    ],
)
def test_what_cannot_be_is_said_and_nothing_changes(sql, tmp_path, statement, words):
    sql("CREATE TEMPORARY VIEW changed_view AS SELECT * FROM changed")
    before = files(tmp_path / "changed")
    try:
        with pytest.raises((AnalysisException, IllegalArgumentException), match=words):
            sql(statement)
    finally:
        sql("DROP VIEW changed_view")
    assert files(tmp_path / "changed") == before


def test_without_the_extension_spark_refuses(spark, sql):
    spark.conf.set("spark.projseg.enabled", "false")
    for statement in ("DELETE FROM changed WHERE n = 1", "TRUNCATE TABLE changed"):
        with pytest.raises(Exception, match=r"(?i)support"):
            sql(statement)
