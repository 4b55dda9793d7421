"""Casts between numbers and times, and decimals beside fractions: as Spark has them, or refused."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from spark_sql import assert_same, plan_of, time_by_double, using

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.errors import EvaluationError, ProjsegError

pytestmark = pytest.mark.spark

VALUES_EACH = 150


def decimals(precision, scale):
    def draw(chosen):
        digits = chosen.randint(1, precision)
        unscaled = chosen.choice(
            [
                chosen.randint(0, 10**digits - 1),
                10**precision - chosen.randint(1, 9),
                chosen.choice([5, 15, 25, 49, 51]) * 10 ** max(0, digits - 2),
                chosen.choice([2**31, 2**63, 253402300800]) * 10**scale + chosen.randint(-2, 2),
            ]
        )
        text = f"{chosen.choice('+-')}{unscaled % 10**precision}e-{scale}"
        return Decimal(text)

    return draw


def doubles(chosen):
    return chosen.choice(
        [
            *(0.0, -0.0, float("inf"), float("nan"), 2.0**63, -(2.0**63), 2.0**31, 0.5, -2.5),
            chosen.uniform(-1, 1) * 10 ** chosen.randint(-8, 15),
            chosen.randint(-(10**9), 10**9) + chosen.choice([0.5, 0.0000005, 0.25]),
        ]
    )


SOURCES = {
    "decimal(10,2)": (pa.decimal128(10, 2), decimals(10, 2)),
    "decimal(20,6)": (pa.decimal128(20, 6), decimals(20, 6)),
    "decimal(18,9)": (pa.decimal128(18, 9), decimals(18, 9)),
    "decimal(38,0)": (pa.decimal128(38, 0), decimals(38, 0)),
    "decimal(38,18)": (pa.decimal128(38, 18), decimals(38, 18)),
    "decimal(38,38)": (pa.decimal128(38, 38), decimals(38, 38)),
    "double": (pa.float64(), doubles),
    "float": (pa.float32(), doubles),
    "bigint": (pa.int64(), lambda chosen: chosen.randint(-(2**63), 2**63 - 1)),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        lambda chosen: chosen.choice(
            [chosen.randint(-(6 * 10**16), 25 * 10**16), chosen.randint(-9, 9) * 500_001]
        ),
    ),
}
TARGETS = [
    *("boolean", "tinyint", "int", "bigint", "float", "double", "timestamp", "decimal(5,1)"),
    *("decimal(10,2)", "decimal(20,6)", "decimal(38,0)", "decimal(38,18)", "decimal(38,37)"),
]
COMPARED = ["x = {}", "x < {}", "x >= {}", "x <=> {}", "x IN ({}, 7)", "coalesce(x, {})"]
CONSTANTS = ["0.5", "1.5", "0.555", "2.000000", "1.4999999999999999999", "3", "-0.5"]


def plain(array):
    """Values that compare by `==`: times as microseconds, NaN as text."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return [repr(v) if isinstance(v, float) else v for v in array.to_pylist()]


def is_a_time(value, source):
    """Whether a number of seconds, or a time itself, lies in the years that projseg has."""
    if source == "timestamp":
        return True
    return MIN_MICROS // 10**6 <= value < MAX_MICROS // 10**6


def ours(spark, expression, array, row):
    """What projseg has; of a time as a decimal what Spark 4.0 has."""
    is_time_as_decimal = pa.types.is_timestamp(array.type) and pa.types.is_decimal(expression.type)
    if is_time_as_decimal and spark.version < "4.1":
        return time_by_double(array[row].value, expression.type)
    try:
        return plain(evaluate(expression, {"x": array.slice(row, 1)}, 1))[0]
    except EvaluationError:
        return None


@pytest.mark.parametrize("source", SOURCES)
def test_casts_of_random_values(spark, source):
    arrow_type, draw = SOURCES[source]
    chosen = random.Random(source)
    drawn = [draw(chosen) for _ in range(VALUES_EACH)]
    if source == "timestamp":
        array = pa.array(drawn, pa.int64()).cast(arrow_type)
    else:
        array = pa.array(drawn, arrow_type)
    spark.createDataFrame(pa.table({"x": array})).createOrReplaceTempView("cast_values")
    expressions = {}
    for target in TARGETS:
        try:
            bound = bind(f"CAST(x AS {target})", pa.schema([("x", arrow_type)]))
        except ProjsegError:
            continue
        expressions[f"try_cast(x AS {target})"] = bound
    if arrow_type == pa.decimal128(38, 0):
        for constant in CONSTANTS:
            for text in (frame.format(constant) for frame in COMPARED):
                expressions[text] = bind(text, pa.schema([("x", arrow_type)]))
    outputs = ", ".join(f"{text} AS c{n}" for n, text in enumerate(expressions))
    answers = spark.sql(f"SELECT {outputs} FROM cast_values").toArrow()
    for number, (text, expression) in enumerate(expressions.items()):
        for row, expected in enumerate(plain(answers[f"c{number}"])):
            if "timestamp" in text and not is_a_time(array[row].as_py(), source):
                expected = None  # years beyond 9999 are refused, where Spark wraps around
            assert ours(spark, expression, array, row) == expected, (text, array[row])


def test_plain_sql_casts_times_as_its_release_does(spark, tmp_path):
    last = pa.array([253402300799999999, 71830785544277369, None], pa.timestamp("us", "UTC"))
    rows = pa.table({"t": last})
    projseg.Table.create(tmp_path / "t", rows.schema).append(rows)
    spark.read.format("projseg").load(str(tmp_path / "t")).createOrReplaceTempView("cast_times")
    text = "SELECT CAST(t AS DECIMAL(20, 6)) AS e, count(*) FROM cast_times GROUP BY 1"
    expected = spark.sql(text)
    with using(spark, enabled="true"):
        found = spark.sql(text)
        assert ("ProjsegAnswer" in plan_of(found)) == (spark.version >= "4.1")
        assert_same(found, expected)
