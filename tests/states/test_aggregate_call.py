"""Texts of aggregates, and what they mean."""

from __future__ import annotations

import pyarrow as pa
import pytest

from projseg.algebra.aggregates.parse_aggregate import AggregateCall, bind_aggregate, result_type
from projseg.algebra.aggregates.state_columns import decompose
from projseg.algebra.expressions.bind import bind, bind_named
from projseg.algebra.expressions.tree import Column
from projseg.errors import CODES, InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.segment_format.logical_types import TIMESTAMP, type_name

SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "i": pa.int32(),
        "ti": pa.int8(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "e": pa.decimal128(38, 10),
        "f": pa.float64(),
        "g": pa.float32(),
        "b": pa.bool_(),
        "t": TIMESTAMP,
        "dt": pa.date32(),
        "an array": pa.list_(pa.int32()),
    }
)


def bound(text: str) -> AggregateCall:
    return bind_aggregate(text, SCHEMA, time_column="t")


# Names and types as Spark 4.3 gives them to the same texts.
AS_SPARK = """
count(*) | count(1) | bigint
count(1) | count(1) | bigint
count(a) | count(a) | bigint
count(a,s) | count(a, s) | bigint
COUNT(DISTINCT a) | count(DISTINCT a) | bigint
sum(a) | sum(a) | bigint
sum(i) | sum(i) | bigint
sum(d) | sum(d) | decimal(19,2)
sum(e) | sum(e) | decimal(38,10)
sum(g) | sum(g) | double
avg(a) | avg(a) | double
mean(a) | mean(a) | double
avg(d) | avg(d) | decimal(13,6)
avg(e) | avg(e) | decimal(38,14)
avg(g) | avg(g) | double
min(s) | min(s) | string
max(t) | max(t) | timestamp
var_pop(a) | var_pop(a) | double
variance(a) | variance(a) | double
stddev(a) | stddev(a) | double
std(a) | std(a) | double
stddev_samp(d) | stddev_samp(d) | double
first(s) | first(s) | string
last(s) | last(s) | string
min_by(s,t) | min_by(s, t) | string
max_by(i, dt) | max_by(i, dt) | int
bool_and(b) | bool_and(b) | boolean
every(b) | every(b) | boolean
some(b) | some(b) | boolean
any(b) | any(b) | boolean
bit_and(i) | bit_and(i) | int
bit_or(ti) | bit_or(ti) | tinyint
bit_xor(a) | bit_xor(a) | bigint
hll_sketch_agg(s) | hll_sketch_agg(s, 12) | binary
hll_sketch_agg(s,10) | hll_sketch_agg(s, 10) | binary
theta_sketch_agg(f) | theta_sketch_agg(f, 12) | binary
approx_count_distinct(s) | approx_count_distinct(s) | bigint
sum(distinct a) | sum(DISTINCT a) | bigint
avg(distinct a) | avg(DISTINCT a) | double
count(distinct a,s) | count(DISTINCT a, s) | bigint
collect_list(s) | collect_list(s) | array<string>
collect_list(distinct s) | collect_list(DISTINCT s) | array<string>
mode(d) | mode(d) | decimal(9,2)
try_sum(d) | try_sum(d) | decimal(19,2)
try_avg(i) | try_avg(i) | double
max_by(s,t) filter (where b) | max_by(s, t) FILTER (WHERE b) | string
"""


@pytest.mark.parametrize("line", AS_SPARK.strip().splitlines())
def test_names_and_types_are_sparks(line):
    text, name, spark_type = line.split(" | ")
    call = bound(text)
    assert (call.name, type_name(result_type(call))) == (name, spark_type)


def test_names_hold_the_names_of_their_expressions():
    condition = bind_named("a > 1", SCHEMA).name
    call = bound("sum(a+1) filter (where a>1)")
    assert call.name == f"sum({bind_named('a + 1', SCHEMA).name}) FILTER (WHERE {condition})"
    assert bound("count_if(a>1)").name == f"count_if({condition})"


def test_alias_is_the_name():
    assert bound("sum(a) AS total").name == "total"
    assert bound("sum(a) `x y`").name == "x y"
    assert bound("count(*) FILTER (WHERE b) AS `where`").name == "where"


def test_equal_meanings_are_equal_primitives():
    spellings = ["count_if(b)", "count(*) FILTER (WHERE b)", "COUNT(1) filter(where (b))"]
    assert len({decompose(bound(text)) for text in spellings}) == 1
    assert decompose(bound("count(*)")) == decompose(bound("count('x')"))
    assert decompose(bound("count(null)")) != decompose(bound("count(*)"))
    assert decompose(bound("bool_or(b)")) == decompose(bound("max(b)"))
    assert decompose(bound("max(DISTINCT s)")) == decompose(bound("max(s)"))
    assert decompose(bound("first(s)")) == decompose(bound("min_by(s, t)"))
    assert decompose(bound("approx_count_distinct(s)")) == decompose(bound("hll_sketch_agg(s)"))
    assert decompose(bound("sum(a)"))[0] in decompose(bound("avg(a)"))
    assert decompose(bound("sum(a + 1)")) == decompose(bound("sum((1 + a))"))


def test_primitive_text_holds_all_that_matters():
    (primitive,) = decompose(bound("hll_sketch_agg(s, 10) FILTER (WHERE a > 1)"))
    assert primitive.arguments == (Column(pa.string(), "s"),)
    assert primitive.parameters == (10,)
    assert primitive.filter == bind("a > 1", SCHEMA)
    assert "10" in primitive.text
    assert "FILTER" in primitive.text


def test_filters_of_count_if_join():
    call = bound("count_if(a > 1) FILTER (WHERE b)")
    assert call.arguments == ()
    assert call.filter == bind("b AND a > 1", SCHEMA)


def test_arguments_with_commas_and_quotes():
    text = "CASE WHEN s = '),(' OR s IN ('a', ')') THEN a END"
    call = bound(f"sum({text}) AS x")
    assert call.arguments == (bind(text, SCHEMA),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not one Spark SQL expression"),
        ("sum", "must be one call of an aggregate function"),
        ("sum(", "is not a Spark SQL expression"),
        ("sum(a", ") is missing after 'a'"),
        ("sum()", "takes 1 argument(s), found 0"),
        ("sum(a, i)", "takes 1 argument(s), found 2"),
        ("sum(a,)", "a part of a list is empty"),
        ("sum(,a)", "a part of a list is empty"),
        ("min_by(s, t, a)", "takes 2 argument(s), found 3"),
        ("sum(*)", "only count takes *"),
        ("count(DISTINCT *)", "only count takes *"),
        ("sum(s)", "needs a number, found string"),
        ("sum(b)", "needs a number, found boolean"),
        ("min(`an array`)", "array<int>"),
        ("bit_and(d)", "decimal(9,2)"),
        ("bool_and(i)", "needs a boolean, found int"),
        ("count_if(i)", "needs a boolean, found int"),
        ("hll_sketch_agg(f)", "found double"),
        ("hll_sketch_agg(s, 3)", "from 4 to 21"),
        ("hll_sketch_agg(s, a)", "from 4 to 21"),
        ("sum(a) FILTER (WHERE i)", "must be a boolean, found int"),
        ("sum(a) FILTER (b)", "WHERE is missing before 'b'"),
        ("sum(a) AS x y", "is not a Spark SQL expression"),
        ("sum(a) + 1", "must be one call of an aggregate function"),
        ("sum(a) OVER ()", "FILTER (WHERE ...) and an alias, and nothing else"),
        ("first(s) IGNORE NULLS", "FILTER (WHERE ...) and an alias, and nothing else"),
        ("sum('", "is not a Spark SQL expression"),
    ],
)
def test_bad_aggregates_are_named(text, words):
    with pytest.raises(InvalidInputError) as caught:
        bound(text)
    assert caught.value.code == "PROJSEG_BAD_AGGREGATE"
    assert words in caught.value.message


@pytest.mark.parametrize(
    "text", ["summ(a)", "regr_slope(a)", "stddev_samp(DISTINCT a)", "sum_distinct(a)"]
)
def test_unknown_functions(text):
    with pytest.raises(UnsupportedFeatureError) as caught:
        bound(text)
    assert caught.value.code == "PROJSEG_UNSUPPORTED_FUNCTION"
    assert ("did you mean 'sum'" in caught.value.message) == (text == "summ(a)")


def test_first_needs_a_time_column():
    with pytest.raises(InvalidInputError, match="min_by"):
        bind_aggregate("first(s)", SCHEMA)


def test_unknown_column_is_named():
    with pytest.raises(ProjsegError, match="PROJSEG_UNKNOWN_COLUMN"):
        bound("sum(ab)")


def test_codes_are_registered():
    assert {"PROJSEG_BAD_AGGREGATE", "PROJSEG_BAD_GROUP_IDS", "PROJSEG_OVERFLOW"} <= set(CODES)
