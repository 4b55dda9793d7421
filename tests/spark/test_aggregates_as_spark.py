"""Our aggregates and Spark's over the same rows: values, types, and sketch bytes."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from support.state_cases import vector_of

from projseg.aggregation.final_values import finish_call
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.parse_aggregate import bind_aggregate, result_type
from projseg.algebra.aggregates.state_columns import decompose
from projseg.algebra.expressions.tree import Column
from projseg.segment_format.logical_types import TIMESTAMP, type_name

pytestmark = pytest.mark.spark

GROUP_COUNT = 7
ROW_COUNT = 3000


def random_rows() -> dict[str, tuple[pa.DataType, list]]:
    chooser = random.Random(5)
    start = datetime.datetime(2025, 3, 1, tzinfo=datetime.UTC)

    def some(draw):
        return [None if chooser.random() < 0.1 else draw() for _ in range(ROW_COUNT)]

    floats = [0.0, -0.0, 1.5, -2.25, 1e9, 0.1]
    return {
        "ti": (pa.int8(), some(lambda: chooser.randint(-128, 127))),
        "i": (pa.int32(), some(lambda: chooser.randint(-(2**31), 2**31 - 1))),
        "a": (pa.int64(), some(lambda: chooser.randint(-(2**50), 2**50))),
        "f": (pa.float64(), some(lambda: chooser.choice(floats))),
        "n": (pa.float64(), some(lambda: chooser.choice([math.nan, *floats]))),
        "g": (pa.float32(), some(lambda: chooser.choice([0.5, -3.0, 7.25]))),
        "d": (pa.decimal128(9, 2), some(lambda: Decimal(chooser.randint(-999, 999)).scaleb(-2))),
        "e": (pa.decimal128(30, 5), some(lambda: Decimal(chooser.randint(0, 10**28)).scaleb(-5))),
        "s": (pa.string(), some(lambda: chooser.choice(["", "a", "é", "z", "\U0001f600", "ab"]))),
        "u": (pa.string(), some(lambda: f"user {chooser.randint(0, 2000)}")),
        "b": (pa.bool_(), some(lambda: chooser.random() < 0.9)),
        "dt": (
            pa.date32(),
            some(lambda: start.date() + datetime.timedelta(chooser.randint(0, 99))),
        ),
        "t": (TIMESTAMP, [start + datetime.timedelta(seconds=i) for i in range(ROW_COUNT)]),
    }


ROWS = random_rows()
GROUPS = [i % (GROUP_COUNT - 1) for i in range(ROW_COUNT)]
SCHEMA = pa.schema({name: value_type for name, (value_type, _) in ROWS.items()})

EXACT = """
count(*) | count(s) | count(s, i) | count(DISTINCT s) | count(DISTINCT u) | count(DISTINCT n)
sum(ti) | sum(i) | sum(a) | sum(d) | sum(e) | sum(DISTINCT ti) | sum(DISTINCT d)
avg(ti) | avg(d) | avg(e) | avg(DISTINCT d)
min(ti) | min(a) | min(n) | min(g) | min(e) | min(s) | min(b) | min(dt) | min(t)
max(ti) | max(a) | max(n) | max(g) | max(e) | max(s) | max(b) | max(dt) | max(t)
bool_and(b) | bool_or(b) | every(b) | any(b) | bit_and(i) | bit_or(ti) | bit_xor(a)
min_by(s, t) | max_by(u, t) | min_by(d, t) | max_by(b, t)
median(a) | median(d) | median(g)
percentile_disc(0.9) WITHIN GROUP (ORDER BY i)
percentile_disc(array(0.1, 0.5)) WITHIN GROUP (ORDER BY d) | sort_array(collect_set(s))
sort_array(collect_set(n)) | sort_array(collect_set(dt)) | sort_array(collect_set(d))
approx_percentile(i, 0.5) | percentile_approx(a, array(0.0, 0.25, 0.999, 1))
approx_percentile(g, 0.3, 5000)
approx_percentile(d, array(0.5)) | approx_percentile(dt, 0.75D) | approx_percentile(t, 0.1)
count(DISTINCT s, i) | count(DISTINCT n, b, s) | count(DISTINCT dt, d) | count(DISTINCT u, e, g)
sort_array(collect_list(i)) | sort_array(collect_list(n)) | sort_array(collect_list(s))
sort_array(collect_list(e)) | sort_array(array_agg(dt)) | sort_array(collect_list(DISTINCT b))
mode(s, true) | mode(n, true) | mode(i, true) | mode(e, true) | mode(dt, true) | mode(b, true)
mode() WITHIN GROUP (ORDER BY ti) | mode(d, true) | mode(t, true) | mode(g, true) | mode(u, true)
try_sum(i) | try_sum(a) | try_sum(d) | try_sum(e) | try_avg(d) | try_avg(e)
theta_sketch_agg(u) | theta_sketch_agg(i, 5) | theta_sketch_agg(n) | theta_sketch_agg(g)
"""
CLOSE = """
try_sum(f) | try_avg(n) | try_avg(i)
sum(f) | sum(g) | avg(f) | avg(g) | avg(i) | avg(a) | avg(DISTINCT i)
percentile(ti, 0.3) | percentile(n, 0.1) | percentile_cont(0.9) WITHIN GROUP (ORDER BY i)
covar_pop(f, n) | covar_samp(f, f) | corr(f, n) | skewness(f) | kurtosis(f) | kurtosis(n)
var_pop(i) | var_samp(f) | stddev_pop(d) | stddev_samp(g) | variance(ti) | std(n)
"""


def texts(block: str) -> list[str]:
    return [text for line in block.strip().splitlines() for text in line.split(" | ")]


def is_known(spark, text):
    """Whether this Spark has the function; theta sketches came with 4.1."""
    return spark.catalog.functionExists(text.split("(")[0])


@pytest.fixture(scope="module")
def by_spark(request, spark):
    """Spark's answers to the texts that this run tries: one query."""
    fields = ", ".join(f"{name} {type_name(t)}" for name, (t, _) in ROWS.items())
    rows = list(zip(GROUPS, *(values for _, values in ROWS.values()), strict=True))
    frame = spark.createDataFrame(rows, f"grp int, {fields}").coalesce(2)
    tests = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    tried = {test.params.get("text") for test in tests}
    every = [text for text in (*texts(EXACT), *texts(CLOSE)) if text in tried]
    every = [text for text in every if is_known(spark, text)]
    columns = [f"{text} AS c{i}" for i, text in enumerate(every)]
    selected = ", ".join(columns)
    frame.createOrReplaceTempView("rows_of_aggregates")
    answer = spark.sql(f"SELECT grp, {selected} FROM rows_of_aggregates GROUP BY grp ORDER BY grp")
    collected = answer.collect()
    types = [field.dataType.simpleString() for field in answer.schema.fields[1:]]
    return {text: (types[i], [row[i + 1] for row in collected]) for i, text in enumerate(every)}


def by_projseg(text: str) -> tuple[str, list]:
    """Half of the rows added, half merged as states."""
    if text.startswith("sort_array"):  # our sets are sorted
        text = text.removeprefix("sort_array(")[:-1]
    call = bind_aggregate(text, SCHEMA)
    states = []
    for primitive in decompose(call):
        state = new_state(primitive, GROUP_COUNT)
        for start, form in ((0, "ids"), (1, "narrow"), (2, "opaque")):
            rows = slice(start, None, 3)
            ids = np.array(GROUPS[rows], np.uint8)
            inputs = []
            for argument in primitive.arguments:
                assert isinstance(argument, Column)
                value_type, values = ROWS[argument.name]
                inputs.append(vector_of(values[rows], value_type, form))
            part = new_state(primitive, GROUP_COUNT)
            part.add(Groups(ids, GROUP_COUNT, len(ids)), inputs)
            every = np.arange(GROUP_COUNT, dtype=np.uint8)
            state.merge(Groups(every, GROUP_COUNT, GROUP_COUNT), part.columns())
        states.append(state)
    chosen = np.arange(GROUP_COUNT - 1)
    return type_name(result_type(call)), finish_call(call, states, chosen).to_pylist()


def normal(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list):
        return [normal(each) for each in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return value


@pytest.mark.sampled(12)
@pytest.mark.parametrize("text", texts(EXACT))
def test_exact_aggregates(spark, by_spark, text):
    if spark.version < "4.1" and not is_known(spark, text):
        pytest.skip(f"this Spark has no {text}")
    spark_type, theirs = by_spark[text]
    our_type, ours = by_projseg(text)
    assert our_type == spark_type
    assert list(map(normal, ours)) == list(map(normal, theirs))


@pytest.mark.parametrize("text", texts(CLOSE))
def test_aggregates_in_double_precision(by_spark, text):
    spark_type, theirs = by_spark[text]
    our_type, ours = by_projseg(text)
    assert our_type == spark_type
    assert ours == pytest.approx(theirs, rel=1e-11, nan_ok=True)


def test_joined_texts(spark, by_spark):
    """Spark 4.3 fails where one query has listagg and DISTINCT aggregates, so it is asked apart."""
    calls = ["listagg(s, ',') WITHIN GROUP (ORDER BY s)", "listagg(DISTINCT s, '-')"]
    theirs = [
        [row.joined for row in spark.sql(f"SELECT grp, {call} AS joined FROM rows_of_aggregates "
                                         "GROUP BY grp ORDER BY grp").collect()]
        for call in (calls[0], f"{calls[1]} WITHIN GROUP (ORDER BY s)")
    ]  # fmt: skip
    assert [by_projseg(call)[1] for call in calls] == theirs


@pytest.mark.parametrize("lg_k", [4, 8, 12])
@pytest.mark.parametrize("count", [0, 7, 8, 100, 384, 385, 20_000])
def test_spark_reads_and_merges_our_hll_sketches(spark, lg_k, count):
    schema = pa.schema({"u": pa.string()})
    call = bind_aggregate(f"hll_sketch_agg(u, {lg_k})", schema)
    (primitive,) = decompose(call)
    state = new_state(primitive, 1)
    values = [f"user {i}" for i in range(count)]
    state.add(Groups(None, 1, count), [vector_of(values, pa.string(), "opaque")])
    sketch = state.finish()[0].as_py()
    spark.createDataFrame([(sketch,)], "ours binary").createOrReplaceTempView("our_sketch")
    row = spark.sql(
        "SELECT hll_sketch_estimate(ours) AS ours, hll_sketch_estimate(theirs) AS theirs,"
        " hll_sketch_estimate(hll_union(ours, theirs)) AS joint FROM our_sketch, ("
        f"  SELECT hll_sketch_agg(concat('user ', id), {lg_k}) AS theirs FROM range({count}))"
    ).collect()[0]
    assert row.joint == row.ours
    error = 4 * 1.04 / 2 ** (lg_k / 2) if count > 2**lg_k // 12 else 0.05
    assert row.ours == pytest.approx(count, rel=error, abs=4)
    assert row.theirs == pytest.approx(row.ours, rel=error, abs=4)


@pytest.mark.parametrize(
    ("item", "k", "count"),
    [("bigint", 200, 0), ("float", 8, 1), ("double", 200, 200), ("bigint", 300, 5000)]
    + [pytest.param(item, k, 20_000, marks=pytest.mark.slow)
       for item in ("bigint", "float", "double") for k in (8, 200, 65_535)],
)  # fmt: skip
def test_spark_reads_and_merges_our_kll_sketches(spark, item, k, count):
    if not is_known(spark, "kll_sketch_agg_bigint"):
        pytest.skip("this Spark has no KLL sketches")
    value_type = {"bigint": pa.int64(), "float": pa.float32(), "double": pa.float64()}[item]
    call = bind_aggregate(f"kll_sketch_agg_{item}(x, {k})", pa.schema({"x": value_type}))
    (primitive,) = decompose(call)
    state = new_state(primitive, 1)
    values = np.random.default_rng(count).permutation(count).astype(value_type.to_pandas_dtype())
    state.add(Groups(None, 1, count), [vector_of(values.tolist(), value_type, "numbers")])
    sketch = state.finish()[0].as_py()
    spark.createDataFrame([(sketch,)], "ours binary").createOrReplaceTempView("our_kll_sketch")
    of = f"kll_sketch_get_{{}}_{item}({{}}{{}})".format
    merged = f"kll_sketch_merge_{item}(ours, theirs)"
    shares = ", array(0.0, 0.1, 0.5, 0.9, 1.0)" if count else ""
    read = "quantile" if count else "n"
    row = spark.sql(
        f"SELECT {of('n', 'ours', '')} AS n, {of('n', merged, '')} AS joint_n,"
        f" {of(read, 'ours', shares)} AS ours, {of(read, merged, shares)} AS joint"
        f" FROM our_kll_sketch, (SELECT kll_sketch_agg_{item}(cast(id AS {item}), {k}) AS theirs"
        f" FROM range({count}))"
    ).collect()[0]
    assert (row.n, row.joint_n) == (count, 2 * count)
    if count:
        wanted = np.array([0.0, 0.1, 0.5, 0.9, 1.0]) * (count - 1)
        assert np.abs(np.array(row.ours) - wanted).max() <= 1.25 * count / k + 1
        assert np.abs(np.array(row.joint) - wanted).max() <= 8 * count / k + 1
        assert (row.ours[0], row.ours[-1]) == (0, count - 1)
