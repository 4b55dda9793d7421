"""DELETE FROM, UPDATE, MERGE INTO and TRUNCATE TABLE of projseg tables."""

from __future__ import annotations

import datetime
import shutil
import threading
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from spark_sql import using

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
        sql(f"UPDATE {table} AS one SET t = TIMESTAMP'2024-01-05' WHERE one.n = 1")
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


MERGES = [
    ("t.n > s.n", "MATCHED THEN DELETE", [1, 2, 4]),
    ("t.n <=> s.n", "MATCHED THEN DELETE", [1, 3]),
    ("t.n + 1 = s.n", "MATCHED AND s.k = 'B' THEN DELETE", [2, 3, 4, 5]),
    ("t.n = s.n", "MATCHED THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT *", None),
    ("t.n = s.n", "NOT MATCHED BY SOURCE AND t.n = 1 THEN DELETE", [2, 3, 4, 5]),
    ("t.n = s.n", "MATCHED AND t.n = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET n = 50", None),
    ("false", "NOT MATCHED AND s.n = 9 THEN INSERT (n, t) VALUES (s.n + 1, s.t)", None),
    ("cast(t.n AS bigint) = cast(s.n AS bigint) AND s.x > 0", "MATCHED THEN DELETE", [1, 3, 4, 5]),
]
MERGED = {3: [1, 3, 4, 4, 4, 9, 10], 5: [1, 3, 4, 50], 6: [1, 2, 3, 4, 5, 10]}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(MERGES)))
def test_every_form_of_merge(sql, number):
    condition, clauses, expected = MERGES[number]
    sql(f"MERGE INTO changed AS t USING {SOURCE} AS s ON {condition} WHEN {clauses}")
    assert numbers(sql) == (expected or MERGED[number])


def test_subqueries_and_other_types_in_conditions(sql):
    few = "(SELECT n FROM unchanged WHERE n < 3)"
    assert sql(f"DELETE FROM changed WHERE n IN {few}").first().num_affected_rows == 2
    assert numbers(sql) == [3, 4, 5]
    updated = sql(f"UPDATE changed SET n = n * 10 WHERE n NOT IN {few} AND map(1, t) IS NOT NULL")
    assert updated.first().num_affected_rows == 2
    assert numbers(sql) == [4, 30, 50]
    with_rows = f"WITH few AS {few} MERGE INTO changed USING few ON changed.n = few.n * 15"
    assert sql(f"{with_rows} WHEN MATCHED THEN UPDATE SET k = 'it'").first().num_updated_rows == 1
    exists = "EXISTS (SELECT 1 FROM unchanged u WHERE u.n * 10 = changed.n)"
    assert sql(f"DELETE FROM changed WHERE {exists}").first().num_affected_rows == 2
    assert numbers(sql) == [4]


def test_rows_are_replaced_by_a_condition(sql, table, tmp_path):
    rows = "SELECT t, upper(k) AS k, n, x FROM unchanged WHERE n IN (1, 2)"
    sql(f"INSERT INTO {table} REPLACE WHERE n < 4 {rows}")
    assert numbers(sql) == [1, 2, 4, 5]
    assert {row.k for row in sql("SELECT k FROM changed WHERE n < 4").collect()} == {"A", "B"}
    before = files(tmp_path / "changed")
    with pytest.raises(Exception, match="PROJSEG_ROWS_OUTSIDE_FILTER"):
        sql(f"INSERT INTO {table} REPLACE WHERE n < 2 {rows}")
    assert files(tmp_path / "changed") == before


@pytest.mark.slow
def test_changes_that_meet_happen_or_fail_whole(sql):
    outcomes = []

    def change(number):
        for _ in range(4):
            try:
                sql(f"UPDATE changed SET x = x + 1 WHERE n = {number}")
                outcomes.append("")
            except Exception as error:  # noqa: BLE001 - compared below
                outcomes.append(str(error))

    threads = [threading.Thread(target=change, args=(number,)) for number in (1, 1, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(not one or "PROJSEG_COMMIT_CONFLICT" in one for one in outcomes), outcomes
    assert outcomes.count("") > 4
    assert sql("SELECT x FROM changed WHERE n = 1").first().x == 0.5 + outcomes.count("")


@pytest.fixture
def declared(spark, tmp_path):
    """A table by name whose columns have clauses, one of them with a null that came by path."""
    with using(spark, enabled="true"):
        spark.sql(
            "CREATE TABLE declared (n int NOT NULL, v varchar(3), c char(4) DEFAULT 'zz', "
            "s string COLLATE UTF8_LCASE, d double DEFAULT 1.5, m map<string, int>) "
            f"USING projseg LOCATION '{tmp_path / 'declared'}'"
        )
        spark.sql(
            "INSERT INTO declared VALUES (1, 'x', 'c1', 'Ab', 0.5, map('a', 1)), "
            "(2, 'y', 'c2', 'B', NULL, NULL)"
        )
        yield lambda: [tuple(row) for row in spark.sql("FROM declared ORDER BY n").collect()]
        spark.sql("DROP TABLE declared")


def test_values_are_those_that_insert_would_store(spark, declared, tmp_path):
    spark.sql("UPDATE declared SET n = n * 10, v = 'ab', c = 'q', d = DEFAULT WHERE n = 1")
    assert declared()[1] == (10, "ab", "q   ", "Ab", 1.5, {"a": 1})
    told = spark.sql(
        "MERGE INTO declared t USING (SELECT * FROM VALUES (10L, 5), (77L, 6) AS v (n, x)) s "
        "ON t.n = s.n WHEN MATCHED THEN UPDATE SET n = t.n + s.x, v = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)"
    ).first()
    assert tuple(told) == (2, 1, 0, 1)
    made = (77, None, "zz  ", None, 1.5, None)
    assert declared()[1:] == [(15, None, "q   ", "Ab", 1.5, {"a": 1}), made]
    told = spark.sql(
        "MERGE INTO declared t USING (SELECT 'AB' COLLATE UTF8_LCASE AS s) s ON t.s = s.s "
        "WHEN MATCHED THEN DELETE"
    ).first()
    assert told.num_deleted_rows == 1
    assert spark.sql("DELETE FROM declared WHERE c = 'zz'").first().num_affected_rows == 1
    assert spark.sql("DELETE FROM declared WHERE m IS NULL").first().num_affected_rows == 1
    assert declared() == []


REFUSED = [
    ("UPDATE declared SET n = NULL WHERE n = 1", "NOT_NULL_ASSERT_VIOLATION"),
    ("UPDATE declared SET v = concat(v, 'long')", "EXCEED_LIMIT_LENGTH"),
    ("UPDATE declared SET c = 'longer'", "EXCEED_LIMIT_LENGTH"),
    ("UPDATE declared SET n = 1L << 40", "CAST_OVERFLOW"),
    ("UPDATE declared SET n = 'one'", "CANNOT_SAFELY_CAST"),
    (
        "MERGE INTO declared t USING (SELECT 5 AS n) s ON t.n = s.n "
        "WHEN NOT MATCHED THEN INSERT (v) VALUES ('v')",
        "NOT_NULL_ASSERT_VIOLATION",
    ),
    (
        "MERGE INTO declared t USING (SELECT 1 AS n FROM VALUES (1), (2)) s ON t.n = s.n "
        "WHEN MATCHED THEN UPDATE SET v = 'v'",
        "MERGE_CARDINALITY_VIOLATION",
    ),
]


def test_a_row_that_breaks_a_clause_ends_the_statement(spark, declared, tmp_path):
    before = files(tmp_path / "declared")
    for statement, condition in REFUSED:
        with pytest.raises(Exception, match=condition):
            spark.sql(statement)
        assert files(tmp_path / "declared") == before, statement
    # A length counts for rows that are written, and not for all of the source.
    spark.sql(
        "MERGE INTO declared t USING (SELECT * FROM VALUES (1, 'ok'), (9, 'much') AS v (n, v)) s "
        "ON t.n = s.n WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert [row[1] for row in declared()] == ["ok", "y"]


def test_a_null_that_came_by_path_is_not_stored_anew(spark, declared, tmp_path):
    projseg.Table(tmp_path / "declared").append([{"n": None, "v": "null"}])
    before = files(tmp_path / "declared")
    for statement in (
        "UPDATE declared SET v = 'x' WHERE v = 'null'",
        "MERGE INTO declared t USING (SELECT 'null' AS v) s ON t.v = s.v "
        "WHEN MATCHED THEN UPDATE SET d = 2",
    ):
        with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
            spark.sql(statement)
        assert files(tmp_path / "declared") == before
    assert spark.sql("UPDATE declared SET n = 3 WHERE v = 'null'").first().num_affected_rows == 1
    assert [row[0] for row in declared()] == [1, 2, 3]


def test_a_hung_engine_ends_a_statement(spark, declared, tmp_path):
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 6077\n")
    hanging.chmod(0o755)
    before = files(tmp_path / "declared")
    with using(spark, python=str(hanging), local_timeout="300ms"):
        for statement in (
            "DELETE FROM declared WHERE n = 1",
            "UPDATE declared SET n = 3",
            "MERGE INTO declared t USING (SELECT 1 AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE",
            "TRUNCATE TABLE declared",
        ):
            with pytest.raises(
                IllegalArgumentException, match=r"longer than spark\.projseg\.local"
            ):
                spark.sql(statement)
    assert files(tmp_path / "declared") == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE changed SET n = DATE'2024-01-01'", "(?i)cast"),
        ("UPDATE changed SET n = 'x' || k", "(?i)cast"),
        ("UPDATE changed SET nothing = 1", "nothing"),
        ("UPDATE changed SET n = 1, n = 2", "(?i)twice|multiple|conflict"),
        ("DELETE FROM changed WHERE nothing = 1", "nothing"),
        ("DELETE FROM changed WHERE 1 / (n - n) > 0", "DIVIDE_BY_ZERO"),
        ("DELETE FROM changed_view WHERE n = 1", "(?i)view|support"),
        ("UPDATE changed SET t = NULL", "PROJSEG_NULL_TIME"),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO changed USING unchanged ON changed.n = unchanged.n "
            "WHEN MATCHED THEN DELETE",
            "SCHEMA EVOLUTION",
        ),
    ],
)
def test_what_cannot_be_is_said_and_nothing_changes(sql, tmp_path, statement, words):
    sql("CREATE TEMPORARY VIEW changed_view AS SELECT * FROM changed")
    before = files(tmp_path / "changed")
    try:
        with pytest.raises(Exception, match=words):
            sql(statement)
    finally:
        sql("DROP VIEW changed_view")
    assert files(tmp_path / "changed") == before


@pytest.mark.usefixtures("sql")
def test_without_the_extension_spark_refuses(plain):
    for statement in ("DELETE FROM changed WHERE n = 1", "TRUNCATE TABLE changed"):
        with pytest.raises(Exception, match=r"(?i)support"):
            plain.sql(statement)
