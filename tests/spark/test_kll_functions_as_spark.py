"""kll_sketch_get_* of our sketches and of Spark's: values, types, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from scale import one_of
from support.state_cases import vector_of

from projseg.aggregation.states.state import Groups
from projseg.aggregation.states.state_table import new_state
from projseg.algebra.aggregates.call import bind_aggregate
from projseg.algebra.aggregates.decompose import decompose
from projseg.algebra.expressions.binding.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import EvaluationError
from projseg.segment_format.layout.logical_types import type_name

pytestmark = pytest.mark.spark

TYPES = {"bigint": pa.int64(), "float": pa.float32(), "double": pa.float64()}
SHARES = "array(0.0D, 0.1D, 0.25D, 0.3D, 0.5D, 0.50001D, 0.7D, 0.9D, 0.99999999D, 1.0D)"
VALUES = {
    "bigint": [5, -3, 2**63 - 1, -(2**63), 0, 5, 5, 17, 1000],
    "float": [0.5, -0.0, 0.0, math.inf, -math.inf, 3.25, 3.25, 1e30],
    "double": [0.1, -0.0, 0.0, math.inf, -math.inf, 7.5, 7.5, 1e300],
}
CASES = [(item, k, count) for item in TYPES for k in (8, 200) for count in (1, 2, 30, 203, 3000)]


def our_sketch(values, item, k):
    call = bind_aggregate(f"kll_sketch_agg_{item}(x, {k})", pa.schema({"x": TYPES[item]}))
    (primitive,) = decompose(call)
    state = new_state(primitive, 1)
    vector = vector_of(values, TYPES[item], "numbers")
    state.add(Groups(None, 1, len(values)), [vector])
    return state.finish()[0].as_py()


def texts_of(item, asked):
    quantile, rank, n = (f"kll_sketch_get_{what}_{item}" for what in ("quantile", "rank", "n"))
    values = f"array({', '.join(f'CAST({value!r} AS {item})' for value in asked)})"
    return [
        *(f"{n}(sketch)", f"{quantile}(sketch, {SHARES})", f"{quantile}(sketch, 0.3)"),
        *(f"{rank}(sketch, {values})", f"{rank}(sketch, CAST({asked[0]!r} AS {item}))"),
        *(f"{rank}(sketch, CAST(NULL AS {item}))", f"{quantile}(sketch, CAST(NULL AS DOUBLE))"),
    ]


def ours(text, sketches):
    schema = pa.schema({"sketch": pa.binary()})
    bound = bind(text, schema)
    values = evaluate(bound, {"sketch": pa.array(sketches, pa.binary())}, len(sketches))
    return type_name(bound.type), values.to_pylist()


@pytest.mark.parametrize(("item", "k", "count"), one_of(len(CASES), CASES))
def test_values_are_sparks(spark, item, k, count):
    if not spark.catalog.functionExists("kll_sketch_agg_bigint"):
        pytest.skip("this Spark has no KLL sketches")
    drawn = np.random.default_rng(count).choice(VALUES[item][4:], count).tolist()
    values = (VALUES[item] + drawn)[:count]
    spread = list(range(count)) if item == "bigint" else [n / 4 for n in range(count)]
    frame = spark.createDataFrame([(v,) for v in spread[::-1]], f"x {item}").coalesce(1)
    made = frame.selectExpr(f"kll_sketch_agg_{item}(x, {k}) AS sketch").collect()
    sketches = [our_sketch(values, item, k), bytes(made[0].sketch), our_sketch(spread, item, k)]
    frame = spark.createDataFrame([*((one,) for one in sketches), (None,)], "sketch binary")
    asked = [value for value in (*VALUES[item], spread[count // 3], 2, 3) if abs(value) != math.inf]
    asked = [value for value in asked if value != -(2**63)]
    texts = texts_of(item, asked)
    answer = frame.coalesce(1).selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(texts)))
    rows = answer.collect()
    for n, (text, field) in enumerate(zip(texts, answer.schema.fields, strict=True)):
        theirs = [row[n] for row in rows]
        assert ours(text, [*sketches, None]) == (field.dataType.simpleString(), theirs), text


EMPTY = bytes.fromhex("02010f01c8000800")
ONE = bytes.fromhex("02020f04c80008000700000000000000")


REFUSED = [
    ("kll_sketch_get_quantile_bigint(sketch, 1.01)", ONE),
    ("kll_sketch_get_quantile_bigint(sketch, array(0.5, -0.01))", ONE),
    ("kll_sketch_get_quantile_bigint(sketch, 0.5)", EMPTY),
    ("kll_sketch_get_rank_bigint(sketch, 5)", EMPTY),
    ("kll_sketch_get_rank_double(sketch, double('nan'))", ONE),
    ("kll_sketch_get_n_bigint(sketch)", b""),
    ("kll_sketch_get_n_bigint(sketch)", b"\0"),
    ("kll_sketch_get_n_float(sketch)", ONE[:9]),
]


@pytest.mark.parametrize(("text", "sketch"), one_of(len(REFUSED), REFUSED))
def test_what_spark_refuses_is_refused(spark, text, sketch):
    with pytest.raises(EvaluationError, match="kll_sketch_get"):
        ours(text, [sketch])
    if spark.catalog.functionExists("kll_sketch_agg_bigint"):
        frame = spark.createDataFrame([(sketch,)], "sketch binary")
        with pytest.raises(Exception, match="KLL_"):
            frame.selectExpr(text).collect()
