"""Aggregates over joins: rows are grouped before the join, and answers are those over Parquet."""

from __future__ import annotations

import re

import pytest
from scale import one_of
from spark_sql import assert_same, plan_of, using

BELOW = """
SELECT a.name, sum(f.n), count(*), avg(f.n), min(f.v), max(f.d) FROM {f} f JOIN ja a ON f.k = \
a.k GROUP BY a.name
SELECT a.name, sum(f.n) AS s FROM {f} f JOIN ja a ON f.k = a.k WHERE a.weight > 3 AND f.n > 10 \
GROUP BY a.name HAVING sum(f.n) > 100 AND count(*) > 2
SELECT count(*) FROM {f} f JOIN ja a ON f.k = a.k
SELECT count(*), sum(f.n), avg(f.d), max(a.weight) FROM {f} f, ja a WHERE f.k = a.k AND a.name = \
'no'
SELECT count(*), count(f.n), sum(f.d), avg(f.d) FROM {f} f JOIN je e ON f.k = e.k
SELECT e.name, count(*), sum(f.d) FROM {f} f LEFT JOIN je e ON f.k = e.k GROUP BY e.name
SELECT a.name, sum(f.d), avg(f.d), sum(f.n) / count(*) + 1 AS m FROM {f} f LEFT JOIN ja a ON f.k \
= a.k GROUP BY a.name
SELECT a.name, avg(f.d), count(f.n) FROM ja a RIGHT JOIN {f} f ON f.k = a.k GROUP BY a.name
SELECT a.name, b.region, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k JOIN jb b ON f.s = b.s GROUP \
BY a.name, b.region
SELECT y.year, b.region, sum(f.n), count(*) FROM {f} f JOIN jb b ON f.s = b.s JOIN jd y ON f.day \
= y.day WHERE b.region <> 'r1' GROUP BY ALL
SELECT a.name, y.year, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k JOIN jd y ON f.day = y.day \
WHERE f.s = 's3' GROUP BY a.name, y.year
SELECT upper(a.name) AS u, f.s, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY \
upper(a.name), f.s
SELECT concat(a.name, f.s) AS u, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY 1
SELECT year(f.day), a.name, max(f.v) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY 1, 2
SELECT a.name, sum(f.n) FROM {f} f JOIN jl a ON f.k = a.k GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f JOIN jt a ON f.k = CAST(a.k AS int) GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k AND a.weight < f.k GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k WHERE f.k + a.weight > 9 OR f.s = \
a.name GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f JOIN ja a ON f.k <=> a.k GROUP BY a.name
SELECT sum(f.n), count(*) FROM {f} f LEFT SEMI JOIN ja a ON f.k = a.k
SELECT f.s, count(*) FROM {f} f LEFT ANTI JOIN ja a ON f.k = a.k GROUP BY f.s
SELECT f.s, count(*) FROM {f} f WHERE f.k IN (SELECT k FROM ja WHERE weight > 4) GROUP BY f.s
SELECT f.s, count(*) FROM {f} f WHERE f.k NOT IN (SELECT k FROM ja WHERE k IS NOT NULL) GROUP BY \
f.s
SELECT sum(CASE WHEN a.weight > 3 THEN f.n ELSE 0 END), sum(CASE WHEN a.weight > 3 THEN f.d END) \
FROM {f} f JOIN ja a ON f.k = a.k
SELECT a.name, sum(if(a.weight > 3, f.v, f.n)), count_if(a.weight > 3), min(if(a.weight > 3, \
f.n, 7)), sum(if(a.weight > 3, 1, 0)) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY a.name
SELECT a.name, sum(f.n) FILTER (WHERE a.weight > 2), count(*) FILTER (WHERE a.weight > f.k), \
avg(f.d) FILTER (WHERE a.weight > 4 AND f.n > 3) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY \
a.name
SELECT a.name, count(a.weight), max(a.weight), count(DISTINCT f.s), count(DISTINCT a.weight), \
sum(f.n) FROM {f} f LEFT JOIN ja a ON f.k = a.k GROUP BY a.name
SELECT count(*), count(a.name), count(*) FILTER (WHERE a.weight > 2), sum(f.n), sum(f.n) FILTER \
(WHERE a.weight > 2), sum(if(a.weight > 4, f.n, 0)) FROM {f} f JOIN ja a ON f.k = a.k
SELECT a.name, bool_or(f.flag), bit_xor(f.n), bit_and(f.v), count_if(f.flag) FROM {f} f JOIN ja \
a ON f.k = a.k GROUP BY a.name
SELECT a.name, stddev(f.n), var_pop(f.v), avg(f.x), sum(f.x) FROM {f} f JOIN ja a ON f.k = a.k \
GROUP BY a.name
SELECT DISTINCT a.name, f.s FROM {f} f JOIN ja a ON f.k = a.k
SELECT a.name, sum(f.n) FROM (SELECT k, n * 2 AS n, s FROM {f} WHERE n > 5) f JOIN ja a ON f.k = \
a.k WHERE f.s LIKE 's1%' GROUP BY a.name
SELECT a.name, sum(f.n) AS s FROM {f} f JOIN ja a ON f.k = a.k GROUP BY a.name ORDER BY s DESC \
LIMIT 2
WITH g AS (SELECT a.name, f.s, sum(f.n) AS n FROM {f} f JOIN ja a ON f.k = a.k GROUP BY ALL) \
SELECT name, max(n), count(*) FROM g GROUP BY name
SELECT a.name, sum(f.n) FROM {f} f CROSS JOIN ja a GROUP BY a.name, f.s
SELECT f.s, sum(f.n) FROM {f} f JOIN {f} g ON f.k = g.n GROUP BY f.s
SELECT f.s, g.flag, sum(f.n), max(g.s) FROM {f} f JOIN {f} g ON f.k = g.n AND g.v < 900 GROUP BY \
ALL
SELECT f.k, count(*) FROM {f} f WHERE f.k > (SELECT avg(weight) FROM ja) AND f.n < 9 GROUP BY \
f.k
""".strip().splitlines()
BESIDE = """
SELECT a.name, sum(f.n * a.weight) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY a.name
SELECT a.name, sum(a.weight), sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f FULL JOIN ja a ON f.k = a.k GROUP BY a.name
SELECT a.name, count(f.n), count(*) FROM ja a LEFT JOIN {f} f ON f.k = a.k GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f JOIN ja a ON f.v = a.k GROUP BY a.name
SELECT a.name, count(*) FROM {f} f CROSS JOIN ja a GROUP BY a.name
SELECT a.name, sum(f.n) FROM {f} f JOIN ja a ON f.x = a.weight GROUP BY a.name
SELECT a.name, max_by(f.n, f.v) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY a.name
SELECT a.name, f.k, sum(f.n) FROM {f} f JOIN ja a ON f.k = a.k GROUP BY GROUPING SETS ((a.name), \
(f.k))
SELECT count(*) FROM {f} f WHERE EXISTS (SELECT 1 FROM ja a WHERE a.k = f.k AND a.weight > 3)
""".strip().splitlines()


def is_below(frame):
    """Whether groups of a projseg table stand below a join or a condition of the plan."""
    return bool(re.search(r"ProjsegAnswer \[.*below a join|Relation.*\[g0#", plan_of(frame)))


def check(spark, statement, fact, local="true", ansi="true"):
    """Compare the answers; return whether groups stand below a join."""
    with using(spark, enabled="true", local_enabled=local, **{"spark.sql.ansi.enabled": ansi}):
        expected = spark.sql(statement.format(f=f"{fact}_parquet"))
        found = spark.sql(statement.format(f=f"{fact}_projseg"))
        assert_same(found, expected)
        return is_below(found)


@pytest.mark.parametrize("statement", BELOW)
def test_groups_below_joins_answer_as_over_parquet(spark, stars, statement):
    assert check(spark, statement, "jf")


@pytest.mark.parametrize("statement", BESIDE)
def test_rows_are_joined_where_groups_would_not_be_exact_or_fewer(spark, stars, statement):
    assert not check(spark, statement, "jf")


@pytest.mark.parametrize("statement", one_of(7, BELOW))
def test_joins_of_shared_groups_answer_as_over_parquet(spark, stars, statement):
    check(spark, statement, "jf", local="false")


@pytest.mark.parametrize("statement", one_of(11, BELOW + BESIDE))
def test_joins_answer_as_over_parquet_outside_of_ansi(spark, stars, statement):
    check(spark, statement, "jf", ansi="false")


@pytest.mark.parametrize("statement", one_of(11, BELOW + BESIDE))
def test_joins_of_no_rows_answer_as_over_parquet(spark, stars, statement):
    check(spark, statement, "jo")
