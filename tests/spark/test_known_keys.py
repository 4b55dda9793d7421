"""Keys that are known while planning become conditions of the tables that they are joined to."""

from __future__ import annotations

import pytest
from scale import one_of
from spark_sql import assert_same, using

import projseg

PASSED = """
SELECT f.v, a.name FROM {f} f JOIN VALUES (1, 'a'), (2, 'b'), (NULL, 'c'), (2, 'd') AS a(k, \
name) ON f.k = a.k
SELECT f.v FROM VALUES (1, 'a'), (9, 'b') AS a(k, name) JOIN {f} f ON a.k = f.k WHERE a.name > \
'a'
SELECT f.v, f.s FROM {f} f JOIN VALUES ('s1', 1), ('s2', NULL) AS a(s, n) ON f.s = a.s AND f.k > \
a.n
SELECT a.k, f.v FROM VALUES (1), (77), (NULL) AS a(k) LEFT JOIN {f} f ON f.k = a.k
SELECT f.v FROM {f} f LEFT SEMI JOIN VALUES (3L), (4L) AS a(k) ON f.k = a.k
SELECT f.v FROM {f} f JOIN VALUES (3), (4) AS a(k) ON f.k = a.k AND f.v = a.k
SELECT f.v, g.s FROM {f} f JOIN (SELECT k, max(n) AS s FROM {f} GROUP BY k HAVING max(v) > 5996) \
g ON f.k = g.k
SELECT f.v FROM {f} f WHERE f.k IN (SELECT k FROM {f} GROUP BY k HAVING max(v) > 5997)
SELECT f.v FROM {f} f JOIN (SELECT k FROM {f} GROUP BY k HAVING max(v) > 7777) g ON f.k = g.k
SELECT f.v, h.v FROM {f} f JOIN {f} h ON f.v = h.v JOIN VALUES (1), (2) AS a(k) ON f.k = a.k
""".strip().splitlines()
KEPT = """
SELECT f.v, a.k FROM {f} f LEFT JOIN VALUES (1), (2) AS a(k) ON f.k = a.k
SELECT f.v, a.k FROM {f} f FULL JOIN VALUES (1), (2) AS a(k) ON f.k = a.k
SELECT f.v FROM {f} f LEFT ANTI JOIN VALUES (1), (2) AS a(k) ON f.k = a.k
SELECT f.v, a.k FROM {f} f JOIN VALUES (1), (2) AS a(k) ON f.k <=> a.k
SELECT f.v FROM {f} f WHERE f.k NOT IN (SELECT k FROM {f} WHERE k IS NOT NULL GROUP BY k HAVING \
max(v) > 5997)
SELECT f.v, a.x FROM {f} f JOIN VALUES (1D), (-0D) AS a(x) ON f.x = a.x
SELECT f.v FROM {f} f JOIN VALUES (1), (2) AS a(k) ON f.k = a.k WHERE f.s || f.s || 1 = '' OR \
f.v + 1 > 9
SELECT f.v, a.id FROM {f} f JOIN range(1000) a ON f.k = a.id
""".strip().splitlines()
GROUPED = [
    "SELECT f.s, count(*) FROM {f} f WHERE f.k IN (SELECT k FROM {f} GROUP BY k "
    "HAVING max(v) > 5997) GROUP BY f.s",
    "SELECT a.name, sum(f.n) FROM {f} f JOIN VALUES (1, 'a'), (2, 'b'), (2, 'd') AS a(k, name) "
    "ON f.k = a.k GROUP BY a.name",
]


@pytest.fixture(scope="module", autouse=True)
def views(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    made = spark.range(6_000).selectExpr(
        "if(id % 41 = 0, NULL, CAST(id * 7 % 12 AS int)) AS k",
        "if(id % 37 = 0, NULL, concat('s', id % 11)) AS s",
        "CAST(id % 97 AS int) AS n",
        "id AS v",
        "if(id % 6 = 0, -0D, CAST(id % 6 AS double)) AS x",
    )
    made.coalesce(1).write.parquet(str(folder / "rows"))
    rows = spark.read.parquet(str(folder / "rows"))
    rows.createOrReplaceTempView("known_parquet")
    projseg.write(rows, folder / "table")
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(str(folder / "table"))
        frame.createOrReplaceTempView("known_projseg")


def filters_of(spark, frame):
    """Return the conditions that the reads of a plan have in the engine."""
    with using(spark, queryLog_literals="true", queryLog_maxQueries="1000000"):
        before = projseg.query_log(spark).count()
        frame._jdf.queryExecution().optimizedPlan()
        found = projseg.query_log(spark).collect()[before:]
    return " ".join(row.request or "" for row in found)


@pytest.mark.parametrize("statement", one_of(2, PASSED))
def test_known_keys_are_passed(spark, statement):
    with using(spark, enabled="true"):
        frame = spark.sql(statement.format(f="known_projseg"))
        conditions = filters_of(spark, frame)
        assert " IN (" in conditions or "FALSE" in conditions
        assert_same(frame, spark.sql(statement.format(f="known_parquet")))


@pytest.mark.parametrize("statement", KEPT)
def test_rows_without_partners_are_read_where_they_count(spark, statement):
    with using(spark, enabled="true"):
        frame = spark.sql(statement.format(f="known_projseg"))
        assert " IN (" not in filters_of(spark, frame)
        assert_same(frame, spark.sql(statement.format(f="known_parquet")))


@pytest.mark.parametrize("statement", one_of(2, GROUPED))
def test_groups_are_of_known_keys(spark, statement):
    with using(spark, enabled="true"):
        frame = spark.sql(statement.format(f="known_projseg"))
        assert_same(frame, spark.sql(statement.format(f="known_parquet")))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT f.v FROM {f} f JOIN VALUES (1), (2) AS a(k) ON f.k = a.k WHERE 1 / (f.v - 12) > 0",
        "SELECT q, count(*) FROM (SELECT k, n div (n - 12) AS q FROM {f}) f "
        "JOIN VALUES (1), (2) AS a(k) ON f.k = a.k GROUP BY q",
    ],
)
def test_errors_of_rows_without_partners_stay(spark, statement):
    with using(spark, enabled="true"):
        for view in ("known_parquet", "known_projseg"):
            with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
                spark.sql(statement.format(f=view)).collect()
