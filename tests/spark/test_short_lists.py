"""Lists of length 0, 1 and 2 wherever a list stands: the extension answers as Spark."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.errors import PySparkException
from scale import IS_NIGHTLY, tries
from spark_sql import using

import projseg

pytestmark = pytest.mark.spark

ROWS = [(g, h, x) for g in ("a", "b", None) for h in (1, 2) for x in (1, 5, None, 7)]
KEYS = ("g", "h", "h + 1", "upper(g)")
CALLS = ("sum(x)", "count(*)", "min(x)", "count(DISTINCT h)", "max(x) FILTER (WHERE h = 1)")
VALUES = ("1", "2", "NULL", "7")


class Drawn:
    """A statement, drawn with lists of each length."""

    def __init__(self, seed):
        self._random = Random(seed)
        self.sql = self._statement()

    def _some(self, items, least=0):
        count = self._random.choice([n for n in (0, 1, 2) if least <= n <= len(items)])
        return self._random.sample(items, count)

    def _one(self, items):
        return self._random.choice(items)

    def _case(self):
        branches = self._some([f"WHEN h = {n} THEN {n + 2}" for n in (1, 2, 3)], 1)
        other = "".join(f" ELSE {value}" for value in self._some(["0"])[:1])
        return f"CASE {' '.join(branches)}{other} END"

    def _condition(self):
        values = ", ".join(self._some(VALUES, 1))
        rows = ", ".join(f"({value})" for value in self._some(VALUES, 1))
        conditions = [
            f"x IN ({values})",
            f"x NOT IN ({values})",
            f"x IN (SELECT * FROM VALUES {rows})",
            f"(g, h) IN (('a', {self._one('12')}))",
            f"{self._case()} > 2",
            f"coalesce({', '.join(['x', *self._some(['h', '3'])])}) = 1",
            f"concat({', '.join(self._some(['g', chr(39) + 'a' + chr(39)]))}) <> 'z'",
            f"array_contains(array({', '.join(self._some(['x', 'h'], 1))}), 1)",
        ]
        found = self._some(conditions)
        return f" WHERE {self._one([' AND ', ' OR ']).join(found)}" if found else ""

    def _grouping(self, keys):
        listed = ", ".join(keys)
        sets = ["()", *(f"({key})" for key in keys), f"({listed})"]
        return self._one(
            [
                listed or "()",
                f"GROUPING SETS ({', '.join(self._some(sets, 1))})",
                f"ROLLUP ({listed})" if keys else "GROUPING SETS (())",
                f"CUBE ({listed})" if keys else "GROUPING SETS ((), ())",
            ]
        )

    def _grouped(self, source):
        keys = self._some(KEYS)
        calls = self._some(CALLS, 0 if keys else 1)
        grouping = self._grouping(keys)
        named = keys if keys and all(key in grouping for key in keys) else []
        outputs = [f"{one} AS c{n}" for n, one in enumerate([*named, *calls] or ["count(*)"])]
        if "SETS" in grouping:
            found = [key for key in named if f"({key}" in grouping or f", {key}" in grouping]
            outputs += [f"grouping({found[0]}) AS gs"] if found else []
        having = "".join(f" HAVING {one}" for one in self._some(["count(*) > 1"]))
        text = f"SELECT {', '.join(outputs)} FROM {source}{self._condition()}"
        return f"{text} GROUP BY {grouping}{having}" if grouping != "()" or keys else text + having

    def _scan(self, source):
        columns = self._some(["g", "h", "x"], 1)
        order = self._some(columns)
        window = ""
        if self._one([True, False]):
            by = ", ".join(self._some(["g", "h"]))
            window = f", sum(x) OVER ({f'PARTITION BY {by}' if by else ''}) AS w"
        text = f"SELECT {', '.join(columns)}{window} FROM {source}{self._condition()}"
        return f"{text} ORDER BY {', '.join(order)}" if order and not window else text

    def _statement(self):
        make = self._one([self._grouped, self._grouped, self._grouped, self._scan])
        kind = self._random.randrange(5)
        if kind == 0:
            part = f"SELECT x AS c0 FROM short{self._condition()}"
            parts = [part, *(f"SELECT count(*) FROM short{self._condition()}" for _ in "ab")]
            return self._one([" UNION ALL ", " UNION ", " EXCEPT "]).join(
                parts[: self._one([1, 2])]
            )
        if kind == 1:
            rows = ", ".join(f"({value}, 'a')" for value in self._some(VALUES, 1))
            return (
                f"SELECT g, count(*) FROM short JOIN (VALUES {rows}) AS v(n, m) ON h = n GROUP BY g"
            )
        if kind == 2:
            tables = ["short", *self._some(["short", "short"])]
            union = " UNION ALL ".join(f"SELECT * FROM {one}" for one in tables)
            return make(f"({union})")
        return make("short")


def answer(spark, sql, is_enabled, local):
    settings = {"spark.projseg.enabled": is_enabled, "spark.projseg.local.enabled": local}
    with using(spark, **settings):
        try:
            return sorted(map(repr, spark.sql(sql).collect()))
        except PySparkException as error:
            # Spark's own word for what the drawing may write and Spark does not take.
            return error.getCondition() or type(error).__name__


@pytest.fixture(scope="module")
def short(spark, tmp_path_factory):
    """A table in two segments, one with a projection."""
    place = tmp_path_factory.mktemp("short") / "t"
    table = projseg.Table.create(place, {"g": "string", "h": "int", "x": "int"})
    rows = [dict(zip("ghx", row, strict=True)) for row in ROWS]
    table.append(rows[:8])
    calls = ["sum(x)", "count(*)", "min(x)"]
    table.add_projection(projseg.Projection("p", ["g", "h"], calls))
    table.append(rows[8:])
    spark.read.format("projseg").load(str(place)).createOrReplaceTempView("short")


CASES = tries(300, 12)


def test_lists_of_every_length_answer_as_spark(spark, short):
    answered = 0
    for seed in range(CASES):
        sql = Drawn(seed).sql
        expected = answer(spark, sql, "false", "true")
        for local in ("true", "false"):
            assert answer(spark, sql, "true", local) == expected, sql
        answered += isinstance(expected, list)
    assert answered > CASES // 2
    if IS_NIGHTLY:
        print(f"{CASES} statements, {answered} of them with rows")


@pytest.mark.parametrize("local", ["true", "false"])
@pytest.mark.parametrize("sets", ["(g)", "((g))", "((g), (g))", "(())", "((g, h))", "(g, ())"])
def test_grouping_sets_of_each_length(spark, short, sets, local):
    sql = f"SELECT g, sum(x), grouping(g) FROM short GROUP BY g, h GROUPING SETS {sets}"
    assert answer(spark, sql, "true", local) == answer(spark, sql, "false", "true")
