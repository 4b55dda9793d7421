import pyarrow as pa
import pytest
from matching_cases import SCHEMA

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.projection.druid_expressions import translate_expression
from projseg.algebra.projection.parse import parse_projection
from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError


def parse(**parts):
    declaration = {"type": "aggregate", "name": "d", "groupingColumns": ["channel"], **parts}
    return parse_projection(declaration, SCHEMA, time_column="time")


def aggregate(**parts):
    (call,) = parse(aggregators=[{"name": "a", **parts}]).aggregators
    return call


def stored(**parts):
    return [p.text for p in parse(aggregators=[{"name": "a", **parts}]).primitives]


def where(**filter_object):
    return to_sql(parse(filter=filter_object).filter)


def same(text):
    return to_sql(bind(text, SCHEMA))


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"type": "count"}, ["count(*)"]),
        ({"type": "longSum", "fieldName": "added"}, ["sum(added)"]),
        ({"type": "doubleSum", "fieldName": "delta"}, ["sum(delta)"]),
        ({"type": "floatSum", "fieldName": "delta"}, ["sum(delta)"]),
        ({"type": "longMin", "fieldName": "added"}, ["min(added)"]),
        ({"type": "doubleMax", "fieldName": "delta"}, ["max(delta)"]),
        ({"type": "doubleSum", "fieldName": "added"}, ["sum(CAST(added AS DOUBLE))"]),
        ({"type": "longSum", "fieldName": "delta"}, ["sum(CAST(delta AS BIGINT))"]),
        ({"type": "longSum", "expression": "added + deleted"}, ["sum(added + deleted)"]),
        ({"type": "HLLSketchBuild", "fieldName": "user"}, ["hll(user, 12)"]),
        ({"type": "HLLSketchBuild", "fieldName": "user", "lgK": 10, "tgtHllType": "HLL_8"},
         ["hll(user, 10)"]),
        ({"type": "quantilesDoublesSketch", "fieldName": "added"},
         ["kll(CAST(added AS DOUBLE), 128)"]),
        ({"type": "KllDoublesSketch", "fieldName": "delta"}, ["kll(delta, 200)"]),
        ({"type": "KllFloatsSketch", "fieldName": "delta", "k": 400},
         ["kll(CAST(delta AS FLOAT), 400)"]),
        ({"type": "longAny", "fieldName": "added"}, ["min(added)"]),
        ({"type": "stringAny", "fieldName": "page", "maxStringBytes": 1024}, ["min(page)"]),
        ({"type": "variance", "fieldName": "added"}, ["moments(added)"]),
        ({"type": "thetaSketch", "fieldName": "user"}, ["theta(user, 14)"]),
        ({"type": "thetaSketch", "fieldName": "user", "size": 4096}, ["theta(user, 12)"]),
        ({"type": "stringFirst", "fieldName": "page"}, ["min_by(page, time)"]),
        ({"type": "longLast", "fieldName": "added", "timeColumn": "__time"},
         ["max_by(added, time)"]),
        ({"type": "longLast", "fieldName": "added", "timeColumn": "day"}, ["max_by(added, day)"]),
    ],
)  # fmt: skip
def test_aggregators(parts, texts):
    assert stored(**parts) == texts


def test_a_filtered_aggregator_takes_the_inner_name_and_its_filter():
    inner = {"type": "longSum", "name": "robots", "fieldName": "added"}
    outer = {"type": "filtered", "aggregator": inner,
             "filter": {"type": "selector", "dimension": "robot", "value": "true"}}  # fmt: skip
    (call,) = parse(aggregators=[outer]).aggregators
    assert call.name == "robots"
    assert stored(**outer) == ["sum(added) FILTER (WHERE robot = TRUE)"]


def test_virtual_columns_serve_grouping_aggregators_and_filters():
    one = parse(
        virtualColumns=[
            {"type": "expression", "name": "__gran", "expression": "timestamp_floor(__time,'PT1H')",
             "outputType": "LONG"},
            {"type": "expression", "name": "both", "expression": "\"added\" + deleted"},
        ],
        groupingColumns=[{"type": "long", "name": "__gran"}, "channel", "__time"],
        aggregators=[{"type": "longMax", "name": "most", "fieldName": "both"}],
        filter={"type": "range", "column": "both", "matchValueType": "LONG", "lower": 3},
    )  # fmt: skip
    names = {named.name: to_sql(named.expression) for named in one.grouping}
    assert names == {"__gran": same("date_trunc('HOUR', time)"), "channel": "channel",
                     "time": "time"}  # fmt: skip
    assert [p.text for p in one.primitives] == [f"max({same('added + deleted')})"]
    assert to_sql(one.filter) == same("added + deleted >= 3")


@pytest.mark.parametrize(
    ("druid", "spark"),
    [
        ("timestamp_floor(__time, 'P1D')", "date_trunc('DAY', time)"),
        ("timestamp_floor(\"__time\",'PT1H',null,'Asia/Kolkata')",
         "timestamp_floor(time, 'PT1H', null, 'Asia/Kolkata')"),
        ("timestamp_extract(__time, 'HOUR')", "hour(time)"),
        ("timestamp_extract(__time, 'DOY')", "dayofyear(time)"),
        ("timestamp_extract(__time, 'DOW')", "weekday(time) + 1"),
        ("concat(channel, '-', page)", "concat(channel, '-', page)"),
        ("substring(channel, 0, 2)", "substring(channel, 1, 2)"),
        ("strlen(channel)", "length(channel)"),
        ("nvl(channel, 'none')", "coalesce(channel, 'none')"),
        ("added == 3 && !(deleted > 2 || robot)",
         "added = 3 AND NOT (deleted > 2 OR robot)"),
        ("if(added > 1, 'a', 'b')", "if(added > 1, 'a', 'b')"),
        ("case_searched(added > 1, 1, deleted > 2, 2, 3)",
         "CASE WHEN added > 1 THEN 1 WHEN deleted > 2 THEN 2 ELSE 3 END"),
        ("case_simple(added, 1, 'x', 'y')", "CASE WHEN added = 1 THEN 'x' ELSE 'y' END"),
        ("cast(added, 'STRING')", "CAST(added AS STRING)"),
        ("(added + 1) * -2", "(added + 1) * -2"),
        ("isnull(channel) || notnull(page)", "channel IS NULL OR page IS NOT NULL"),
        ("channel == 'it\\'s'", "channel = 'it\\'s'"),
        ("lower(trim(channel))", "lower(trim(channel))"),
    ],
)  # fmt: skip
def test_expressions(druid, spark):
    translated = translate_expression(druid, {"__time": "`time`"})
    assert bind(translated, SCHEMA) == bind(spark, SCHEMA)


@pytest.mark.parametrize(
    "text", ["", "added +* ", "(added", "added)", "f(", "concat(,)", "'open", "a b c ?", "cast(a)"]
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ProjsegError) as caught:
        bind(translate_expression(text, {}), SCHEMA)
    assert "\n" not in caught.value.message


def test_an_unknown_function_is_named():
    with pytest.raises(UnsupportedFeatureError, match=r"strlenn.*did you mean 'strlen'"):
        translate_expression("strlenn(channel)", {})
    with pytest.raises(UnsupportedFeatureError, match=r"HOURR.*did you mean 'HOUR'"):
        translate_expression("timestamp_extract(__time, 'HOURR')", {})
    with pytest.raises(InvalidInputError, match=r"no type TEXT; known are LONG"):
        translate_expression("cast(added, 'text')", {})


@pytest.mark.parametrize(
    ("filter_object", "spark"),
    [
        ({"type": "selector", "dimension": "channel", "value": "#en"}, "channel = '#en'"),
        ({"type": "selector", "dimension": "channel", "value": None}, "channel IS NULL"),
        ({"type": "selector", "dimension": "added", "value": "5"}, "added = 5"),
        ({"type": "selector", "dimension": "robot", "value": "true"}, "robot = true"),
        ({"type": "equals", "column": "delta", "matchValue": 1.5}, "delta = 1.5D"),
        ({"type": "in", "dimension": "channel", "values": ["a", "b"]}, "channel IN ('a', 'b')"),
        ({"type": "in", "dimension": "channel", "values": ["a", None]},
         "channel = 'a' OR channel IS NULL"),
        ({"type": "inType", "column": "added", "matchValueType": "LONG", "sortedValues": [1, 2]},
         "added IN (1, 2)"),
        ({"type": "range", "column": "added", "lower": 1, "upper": 9, "upperOpen": True},
         "added >= 1 AND added < 9"),
        ({"type": "bound", "dimension": "channel", "lower": "a", "lowerStrict": True},
         "channel > 'a'"),
        ({"type": "bound", "dimension": "channel", "upper": "b"},
         "channel <= 'b' OR channel IS NULL"),
        ({"type": "bound", "dimension": "added", "lower": "2", "ordering": "numeric"},
         "added >= 2"),
        ({"type": "like", "dimension": "page", "pattern": "A%"}, "page LIKE 'A%'"),
        ({"type": "null", "column": "page"}, "page IS NULL"),
        ({"type": "expression", "expression": "added > 3"}, "added > 3"),
        ({"type": "range", "column": "__time", "lower": "2024-01-01T00:00:00Z"},
         "time >= timestamp '2024-01-01 00:00:00Z'"),
        ({"type": "range", "column": "__time", "lower": 1704067200000},
         "time >= timestamp '2024-01-01 00:00:00Z'"),
        ({"type": "not", "field": {"type": "null", "column": "page"}}, "page IS NOT NULL"),
        ({"type": "or", "fields": [{"type": "null", "column": "page"},
                                   {"type": "equals", "column": "added", "matchValue": 1}]},
         "page IS NULL OR added = 1"),
        ({"type": "and", "fields": [{"type": "null", "column": "page"},
                                    {"type": "equals", "column": "added", "matchValue": 1}]},
         "page IS NULL AND added = 1"),
    ],
)  # fmt: skip
def test_filters(filter_object, spark):
    assert where(**filter_object) == same(spark)


def rejected(**parts):
    with pytest.raises(InvalidInputError) as caught:
        parse(**parts)
    assert "'d'" in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"type": "agregate"}, ["agregate", "did you mean 'aggregate'"]),
        ({"groupingColums": []}, ["groupingColums", "did you mean 'groupingColumns'"]),
        ({"groupingColumns": ["chanel"]}, ["chanel", "did you mean 'channel'"]),
        ({"groupingColumns": [{"type": "sting", "name": "channel"}]}, ["did you mean 'string'"]),
        ({"groupingColumns": [{"name": "channel", "tpe": "string"}]}, ["tpe", "type"]),
        ({"groupingColumns": "channel"}, ["groupingColumns", "list"]),
        ({"virtualColumns": [{"type": "expresion", "name": "v"}]}, ["did you mean 'expression'"]),
        ({"virtualColumns": [{"type": "expression", "name": "page", "expression": "added"}]},
         ["page", "another column"]),
        ({"virtualColumns": [{"type": "expression", "name": "v"}]}, ["'v'", "expression"]),
        ({"aggregators": [{"type": "longSun", "name": "a", "fieldName": "added"}]},
         ["did you mean 'longSum'"]),
        ({"aggregators": [{"type": "longSum", "name": "a", "field": "added"}]},
         ["'field'", "did you mean 'fieldName'"]),
        ({"aggregators": [{"type": "longSum", "name": "a", "fieldName": "aded"}]},
         ["aded", "did you mean 'added'"]),
        ({"aggregators": [{"type": "longSum", "name": "a", "fieldName": "channel"}]},
         ["needs a number", "channel"]),
        ({"aggregators": [{"type": "longSum", "fieldName": "added"}]}, ["name"]),
        ({"aggregators": [{"type": "HLLSketchMerge", "name": "a", "fieldName": "user"}]},
         ["merges a column of sketches", "take HLLSketchBuild"]),
        ({"aggregators": [{"type": "quantilesDoublesSketchMerge", "name": "a",
                           "fieldName": "added"}]},
         ["a column of sketches", "take quantilesDoublesSketch"]),
        ({"aggregators": [{"type": "variance", "name": "a", "fieldName": "added",
                           "estimator": "pop"}]},
         ["estimator", "population"]),
        ({"aggregators": [{"type": "HLLSketchBuild", "name": "a", "fieldName": "user",
                           "lgK": "x"}]},
         ["lgK", "integer"]),
        ({"aggregators": [{"type": "thetaSketch", "name": "a", "fieldName": "user",
                           "size": 1000}]},
         ["power of two"]),
        ({"aggregators": [{"type": "thetaSketch", "name": "a", "fieldName": "user",
                           "isInputThetaSketch": True}]},
         ["isInputThetaSketch"]),
        ({"filter": {"type": "range", "column": "added", "lower": 1, "lowerOpen": "no"}},
         ["lowerOpen", "true or false"]),
        ({"filter": {"type": "range", "column": "__time", "lower": 10**25}}, ["years 1 to 9999"]),
        ({"aggregators": ["count"]}, ["JSON object"]),
        ({"filter": {"type": "selectr"}}, ["did you mean 'selector'"]),
        ({"filter": {"type": "and", "fields": []}}, ["fields"]),
        ({"filter": {"type": "range", "column": "added"}}, ["lower or upper"]),
        ({"filter": {"type": "bound", "dimension": "added", "lower": "1"}}, ["lexicographic"]),
        ({"filter": {"type": "equals", "column": "added", "matchValue": "x"}}, ["not a number"]),
        ({"filter": {"type": "equals", "column": "robot", "matchValue": "x"}}, ["true nor false"]),
    ],
)  # fmt: skip
def test_unknown_parts_are_named(parts, words):
    message = rejected(**parts)
    assert all(word in message for word in words), message


def test_a_table_without_a_time_column_has_no_druid_time():
    declaration = {"type": "aggregate", "name": "d", "groupingColumns": ["__time"]}
    with pytest.raises(InvalidInputError, match="__time"):
        parse_projection(declaration, pa.schema([("a", pa.int64())]))
