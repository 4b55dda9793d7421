import json

import pyarrow as pa
import pytest
from matching_cases import SCHEMA, spec
from msgspec.structs import replace

import projseg.declarations
from projseg.algebra.projection.parse import parse_projection, parse_projections
from projseg.algebra.projection.spec import from_definition
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import CorruptTableError, InvalidInputError, ProjsegError


def parse(declaration, schema=SCHEMA):
    return parse_projection(declaration, schema, time_column="time")


KEYWORDS = {
    "name": "hourly",
    "group_by": ["date_trunc('HOUR', time) AS hour", "channel"],
    "aggregators": ["sum(added) AS added", "count(*) AS edits"],
    "where": "robot = false",
}
SQL = {
    "name": "hourly",
    "sql": "SELECT date_trunc('HOUR', time) AS hour, channel, sum(added) AS added,"
    " count(*) AS edits WHERE NOT robot GROUP BY ALL",
}
DRUID = {
    "type": "aggregate",
    "name": "hourly",
    "virtualColumns": [
        {
            "type": "expression",
            "name": "hour",
            "expression": "timestamp_floor(__time, 'PT1H')",
            "outputType": "LONG",
        }
    ],
    "groupingColumns": [{"type": "long", "name": "hour"}, {"type": "string", "name": "channel"}],
    "aggregators": [
        {"type": "longSum", "name": "added", "fieldName": "added"},
        {"type": "count", "name": "edits"},
    ],
    "filter": {"type": "equals", "column": "robot", "matchValueType": "STRING",
               "matchValue": "false"},
}  # fmt: skip


def test_the_three_forms_are_one_projection():
    first = parse(KEYWORDS)
    assert parse(SQL) == first
    assert parse(DRUID) == first
    declared = projseg.declarations.Projection(**KEYWORDS)
    assert parse(declared) == first
    assert first.time_grouping.granularity == Granularity.parse("PT1H")
    assert [p.text for p in first.primitives] == ["sum(added)", "count(*)"]


def test_texts_are_json():
    first = parse(KEYWORDS)
    assert [parse(json.dumps(form)) for form in (KEYWORDS, SQL, DRUID)] == [first] * 3
    several = json.dumps([KEYWORDS, {**SQL, "name": "other"}])
    assert [s.name for s in parse_projections(several, SCHEMA)] == ["hourly", "other"]
    assert len(parse_projections(json.dumps(SQL), SCHEMA)) == 1


@pytest.mark.parametrize("declared", ["SELECT channel", "3", "[]", 3, None, True, []])
def test_what_is_no_declaration_is_refused(declared):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_PROJECTION"):
        parse(declared)


def test_camel_case_keys_and_comma_separated_texts_are_accepted():
    texts = {
        "name": "hourly",
        "groupBy": "date_trunc('HOUR', time) AS hour, channel",
        "aggregators": "sum(added) AS added, count(*) AS edits",
        "filter": "NOT robot",
    }
    assert parse(texts) == parse(KEYWORDS)


def test_a_definition_is_read_back_equal():
    one = spec(
        "odd name",
        ["`time` AS `when it was`", "to_date(time)", "concat(channel, '#') AS c",
         "timestamp_floor(time, 'P1D', null, 'Asia/Kolkata') AS k", "hour(time) AS o"],
        ["first(page)", "count(DISTINCT user)", "avg(delta) FILTER (WHERE robot) AS a",
         "hll_sketch_agg(user, 10) AS h", "count_if(robot)", "last(delta)"],
        where="channel IN ('a', 'b') AND added > 3",
    )  # fmt: skip
    again = from_definition(one.definition, SCHEMA)
    assert again == one
    assert again.definition_hash == one.definition_hash
    assert json.loads(one.definition)["name"] == "odd name"


def test_identity_is_the_meaning_not_the_names():
    one = spec("a", ["date_trunc('hour', time) AS h", "channel"], ["avg(added) AS x"])
    same = spec("b", ["window(time, '1 hour').start", "channel AS c"],
                ["count(added)", "sum(added)"])  # fmt: skip
    assert same.definition_hash == one.definition_hash
    assert same.definition != one.definition
    others = [
        spec("a", ["channel", "date_trunc('hour', time) AS h"], ["avg(added) AS x"]),
        spec("a", ["date_trunc('day', time) AS h", "channel"], ["avg(added) AS x"]),
        spec("a", ["date_trunc('hour', time) AS h", "channel"], ["sum(added) AS x"]),
        spec("a", ["date_trunc('hour', time) AS h", "channel"], ["avg(added) AS x"], "robot"),
    ]
    assert len({one.definition_hash, *(other.definition_hash for other in others)}) == 5


@pytest.mark.parametrize("text", ["{}", "[]", "not json", '{"name":"a"}'])
def test_a_damaged_definition_is_corruption(text):
    with pytest.raises(CorruptTableError, match="PROJSEG_BAD_DEFINITION"):
        from_definition(text, SCHEMA)


@pytest.mark.parametrize(
    ("group_by", "expected"),
    [
        (["channel"], None),
        (["time"], (0, "none")),
        (["channel", "date_trunc('DAY', time) d", "date_trunc('HOUR', time) h"], (2, "PT1H")),
        (["to_date(time)"], (0, "P1D")),
        (["timestamp_floor(time, 'PT1H', null, 'Asia/Kolkata')"], None),
        (["timestamp_floor(time, 'P7D', timestamp '2024-01-03 00:00:00Z')"], None),
        (["hour(time)"], None),
        (["day", "date_trunc('MINUTE', time)"], (1, "PT1M")),
    ],
)
def test_the_time_column_is_the_finest_pure_floor(group_by, expected):
    time = spec("p", group_by, ["count(*)"]).time_grouping
    assert expected == (time and (time.index, time.granularity.period_text))


def rejected(declaration):
    with pytest.raises(ProjsegError) as caught:
        parse(declaration)
    assert isinstance(caught.value, InvalidInputError) or "UNSUPPORTED" in caught.value.code
    assert "\n" not in caught.value.message
    return str(caught.value)


def keywords(**changes):
    return {**KEYWORDS, **changes}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, ["name"]),
        ({"name": "  "}, ["name"]),
        ({"name": None}, ["name"]),
        ({"name": "__base"}, ["__base", "reserved", "base table"]),
        ({"name": "__mine"}, ["__mine", "reserved"]),
        ({"group_by": [], "aggregators": []}, ["hourly", "no grouping column and no aggregator"]),
        ({"group_by": ["chanel"]}, ["hourly", "chanel", "did you mean 'channel'"]),
        ({"aggregators": ["sum(addd)"]}, ["hourly", "addd", "added"]),
        ({"aggregators": ["sum(channel)"]}, ["hourly", "sum(channel)", "number"]),
        ({"aggregators": ["added"]}, ["hourly", "added"]),
        ({"group_by": ["channel", "page AS channel"]}, ["hourly", "two outputs named 'channel'"]),
        ({"aggregators": ["sum(added) AS hour"]}, ["two outputs named 'hour'"]),
        ({"where": "added + 1"}, ["filter", "bigint", "boolean"]),
        ({"where": "nope = 1"}, ["hourly", "nope"]),
        ({"group_by": [3]}, ["hourly", "3"]),
        ({"agregators": []}, ["unknown key 'agregators'", "did you mean 'aggregators'"]),
        ({"filter": "robot"}, ["where", "filter"]),
    ],
)
def test_a_bad_declaration_names_projection_column_and_reason(changes, words):
    message = rejected(keywords(**changes))
    assert all(word in message for word in words), message


def test_nested_columns_are_no_grouping_columns():
    schema = pa.schema([("tags", pa.list_(pa.string())), ("at", pa.struct([("x", pa.int64())]))])
    with pytest.raises(InvalidInputError, match=r"tags.*array<string>"):
        parse({"name": "p", "group_by": ["tags"]}, schema=schema.append(SCHEMA.field("time")))
    assert parse({"name": "p", "group_by": ["at.x AS x"]},
                 schema=schema.append(SCHEMA.field("time")))  # fmt: skip


def test_two_projections_of_one_name_are_refused():
    with pytest.raises(InvalidInputError, match="declared more than once"):
        parse_projections([KEYWORDS, SQL], SCHEMA, time_column="time")
    assert len(parse_projections([KEYWORDS, keywords(name="b")], SCHEMA)) == 2


def sql(text):
    return {"name": "s", "sql": text}


def test_sql_group_by_list_gives_the_order():
    one = parse(sql("SELECT channel, count(*) n, page p, sum(added) GROUP BY p, 1"))
    assert [named.name for named in one.grouping] == ["p", "channel"]
    assert one.aggregators[0].name == "n"
    two = parse(sql("select upper(channel) as c group by upper( channel )"))
    assert [named.name for named in two.grouping] == ["c"]


def test_sql_keeps_spark_spellings_and_odd_places_of_keywords():
    one = parse(sql("SELECT extract(HOUR FROM time) h, count(*) FILTER (WHERE robot) r"
                    " WHERE channel IS DISTINCT FROM 'x' GROUP BY ALL"))  # fmt: skip
    assert [p.text for p in one.primitives] == ["count(*) FILTER (WHERE robot)"]
    assert one.filter is not None
    assert not parse(sql("SELECT count(*)")).grouping


def test_sql_of_distinct_rows_groups_by_every_output():
    distinct = parse(sql("SELECT DISTINCT channel, upper(page) AS p WHERE channel <> ''"))
    assert distinct == parse(
        sql("SELECT channel, upper(page) AS p WHERE channel <> '' GROUP BY ALL")
    )
    assert [named.name for named in distinct.grouping] == ["channel", "p"]
    assert not distinct.aggregators
    assert parse(sql("SELECT count(DISTINCT page)")).aggregators


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT channel FROM edits", "FROM"),
        ("SELECT channel, count(*)", "GROUP BY"),
        ("SELECT channel, count(*) GROUP BY page", "page"),
        ("SELECT channel, page GROUP BY page", "channel"),
        ("SELECT channel GROUP BY ALL ORDER BY channel", "ORDER BY"),
        ("SELECT channel GROUP BY ALL LIMIT 3", "LIMIT"),
        ("SELECT channel GROUP BY ALL HAVING count(*) > 1", "HAVING"),
        ("SELECT channel, added WHERE robot", "puts out 'channel' without GROUP BY"),
        ("SELECT channel, page", "puts out 'channel' without GROUP BY"),
        ("SELECT channel WHERE robot", "SELECT DISTINCT"),
        ("SELECT DISTINCT channel GROUP BY channel", "both DISTINCT and GROUP BY"),
        ("SELECT DISTINCT channel, count(*)", "'count(*)' after DISTINCT"),
        ("SELECT DISTINCT", "cannot be read"),
        ("SELECT channel; SELECT page", "second statement"),
        ("SELECT channel WHERE robot WHERE robot GROUP BY ALL", "cannot be read"),
        ("channel GROUP BY ALL", "SELECT"),
        ("SELECT 'open GROUP BY ALL", "read"),
        (None, "sql"),
    ],
)
def test_sql_of_another_shape_is_refused(text, word):
    assert word in rejected(sql(text))


def test_keys_beside_sql_are_refused():
    assert "unknown key 'where'" in rejected({**sql("SELECT DISTINCT channel"), "where": "robot"})


def test_specs_are_values():
    assert replace(parse(SQL), name="x") != parse(SQL)
    assert hash(parse(SQL)) == hash(parse(KEYWORDS))


ROWS = {"name": "sorted", "columns": "channel, added, time", "order_by": "channel, added"}


def test_the_forms_of_a_projection_of_rows_are_one():
    first = parse(ROWS)
    assert first.holds_rows
    assert [column.name for column in first.order] == ["channel", "added"]
    others = [
        {"name": "sorted", "sql": "SELECT channel, added, time ORDER BY channel ASC, added"},
        {"name": "sorted", "columns": list(map(str.strip, ROWS["columns"].split(","))),
         "orderBy": ["channel", "added NULLS FIRST"]},
        projseg.declarations.Projection("sorted", columns=["channel", "added", "time"],
                                      order_by=["channel", "added"]),
    ]  # fmt: skip
    assert [parse(other) for other in others] == [first] * 3
    assert from_definition(first.definition, SCHEMA) == first


def test_columns_of_rows_may_be_all_or_computed_and_are_ordered_by_alias_or_expression():
    every = parse({"name": "p", "sql": "SELECT * ORDER BY channel"})
    assert [named.name for named in every.grouping] == SCHEMA.names
    by_alias = parse({"name": "p", "sql": "SELECT upper(channel) AS c WHERE added > 0 ORDER BY c"})
    assert by_alias == parse(
        {"name": "p", "sql": "SELECT upper(channel) AS c WHERE added > 0 ORDER BY upper(channel)"}
    )
    assert by_alias.stored_order == ("upper(channel)",)


def test_the_hash_of_rows_depends_on_order_and_not_on_names():
    def digest(sql):
        return parse({"name": "p", "sql": sql}).definition_hash

    first = digest("SELECT channel, added ORDER BY channel, added")
    assert digest("SELECT added AS a, channel ORDER BY channel, a") == first
    others = [
        "SELECT channel, added ORDER BY added, channel",
        "SELECT channel, added ORDER BY channel",
        "SELECT channel, added, time ORDER BY channel, added",
        "SELECT channel, added WHERE added > 0 ORDER BY channel, added",
        "SELECT DISTINCT channel, added",
    ]
    assert len({first, *map(digest, others)}) == 6


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"sql": "SELECT channel ORDER BY channel DESC"}, "leave the direction out"),
        ({"sql": "SELECT channel ORDER BY channel NULLS LAST"}, "leave the direction out"),
        ({"sql": "SELECT channel ORDER BY added"}, "none of the projection's columns"),
        ({"sql": "SELECT channel ORDER BY 1"}, "none of the projection's columns"),
        ({"sql": "SELECT channel, count(*) ORDER BY channel"}, "ORDER BY beside groups"),
        ({"sql": "SELECT channel GROUP BY ALL ORDER BY channel"}, "ORDER BY beside groups"),
        ({"sql": "SELECT DISTINCT channel ORDER BY channel"}, "ORDER BY beside groups"),
        ({"sql": "SELECT channel, channel ORDER BY channel"}, "two outputs named"),
        ({"columns": "channel"}, "no order"),
        ({"order_by": "channel"}, "no columns"),
        ({"columns": "channel", "order_by": "channel", "group_by": "added"}, "leave columns"),
        ({"columns": "channel", "order_by": "channel", "orderBy": "channel"}, "they are the same"),
    ],
)
def test_what_is_no_projection_of_rows_is_refused(declared, problem):
    with pytest.raises(InvalidInputError, match=problem):
        parse({"name": "p", **declared})


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d | {"orderBy": []},
        lambda d: d | {"orderBy": ["added"]},
        lambda d: d | {"groupBy": [], "aggregators": []},
        lambda d: d | {"columns": []},
        lambda d: {key: value for key, value in d.items() if key != "columns"},
    ],
)
def test_definitions_of_rows_that_nobody_wrote_are_refused(change):
    definition = json.loads(
        parse({"name": "p", "sql": "SELECT channel ORDER BY channel"}).definition
    )
    with pytest.raises(CorruptTableError, match="PROJSEG_BAD_DEFINITION"):
        from_definition(json.dumps(change(definition)), SCHEMA)
