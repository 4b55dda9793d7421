"""Evaluation against a one-row-at-a-time twin and against DuckDB, and Spark's own answers."""

import datetime as dt
import math
import zoneinfo
from decimal import ROUND_HALF_UP, Context, Decimal

import duckdb
import pyarrow as pa
import pytest
from expression_cases import SCHEMA, conditions, numbers, rows, scalars
from expressions import Refused, order_key, value_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions import comparison, pattern_functions
from projseg.errors import EvaluationError
from projseg.segment_format.logical_types import type_name


def outcome(compute):
    try:
        return compute()
    except (Refused, EvaluationError):
        return "refused"


def same(left, right):
    if left is None or right is None or isinstance(left, bool):
        return left is right
    if isinstance(left, float) and isinstance(right, float):
        return order_key(left) == order_key(right) or math.isclose(left, right, rel_tol=1e-12)
    return left == right


def knows(expression):
    """Whether the twin has each function; it casts nothing."""
    return all(getattr(node, "function", "") != "cast" for node in expression.walk())


@given(rows(), scalars)
@settings(deadline=None, max_examples=tries(300))
def test_each_row_is_what_the_twin_says(table, text):
    columns, records = table
    expression = bind(text, SCHEMA)
    assume(knows(expression))
    for index, record in enumerate(records):
        taken = {name: column.slice(index, 1) for name, column in columns.items()}
        expected = outcome(lambda record=record: value_of(expression, record))
        found = outcome(lambda taken=taken: evaluate(expression, taken, 1)[0].as_py())
        assert same(found, expected), (text, record)


@given(rows(), scalars)
@settings(deadline=None, max_examples=tries(200))
def test_many_rows_are_the_rows_one_by_one(table, text):
    columns, records = table
    expression = bind(text, SCHEMA)
    whole = outcome(lambda: evaluate(expression, columns, len(records)))
    single = []
    for index in range(len(records)):
        taken = {name: column.slice(index, 1) for name, column in columns.items()}
        single.append(outcome(lambda taken=taken: evaluate(expression, taken, 1)[0].as_py()))
    if "refused" in single:
        assert isinstance(whole, str)
        return
    assert whole.type == expression.type
    assert len(whole) == len(records)
    assert all(same(a, b) for a, b in zip(whole.to_pylist(), single, strict=True))


@given(rows(), conditions)
@settings(deadline=None, max_examples=tries(150))
def test_conditions_agree_with_duckdb(table, text):
    columns, records = table
    assume(
        not any(word in text for word in ("<=>", "/", "%", "D", "u IN", "t >", "'it", "Y", "7S"))
    )
    expression = bind(text, SCHEMA)
    found = outcome(lambda: evaluate(expression, columns, len(records)).to_pylist())
    assume(found != "refused")
    held = pa.table({**columns, "row": pa.array(range(len(records)))})
    with duckdb.connect() as connection:
        connection.register("held", held)
        try:
            expected = connection.execute(
                f"SELECT {text.replace('3L', 'CAST(3 AS BIGINT)')} FROM held ORDER BY row"
            ).fetchall()
        except duckdb.Error:
            assume(False)
    assert found == [row[0] for row in expected], text


def one(text, timezone="UTC", **values):
    schema = pa.schema([(name, value.type) for name, value in values.items()])
    expression = bind(text, schema, timezone=timezone)
    columns = {name: pa.array([value.as_py()], value.type) for name, value in values.items()}
    return type_name(expression.type), evaluate(expression, columns, 1)[0].as_py()


@pytest.mark.parametrize(
    ("text", "type_text", "value"),
    [
        ("1 + 1", "int", 2),
        ("1 / 2", "double", 0.5),
        ("7 div 2", "bigint", 3),
        ("-7 div 2", "bigint", -3),
        ("-7 % 3", "int", -1),
        ("pmod(-7, 3)", "int", 2),
        ("pmod(5, -3)", "int", 2),
        ("pmod(-5, -3)", "int", -2),
        ("1.5 + 1", "decimal(3,1)", Decimal("2.5")),
        ("1.10 * 2.50", "decimal(7,4)", Decimal("2.7500")),
        ("1.00 / 3.0", "decimal(8,6)", Decimal("0.333333")),
        ("CAST(1.25 AS DECIMAL(2,1))", "decimal(2,1)", Decimal("1.3")),
        ("CAST(-1.25 AS DECIMAL(2,1))", "decimal(2,1)", Decimal("-1.3")),
        ("CAST(2.675D AS DECIMAL(10,2))", "decimal(10,2)", Decimal("2.68")),
        ("CAST('1e3' AS DECIMAL(10,2))", "decimal(10,2)", Decimal("1000.00")),
        ("CAST(' +5 ' AS INT)", "int", 5),
        ("CAST(-1.999D AS INT)", "int", -1),
        ("CAST('infinity' AS DOUBLE)", "double", math.inf),
        ("CAST('1.5d' AS DOUBLE)", "double", 1.5),
        ("CAST('T' AS BOOLEAN)", "boolean", True),
        ("CAST(1e7 AS STRING)", "string", "1.0E7"),
        ("CAST(1.0E-4D AS STRING)", "string", "1.0E-4"),
        ("CAST(123456.7D AS STRING)", "string", "123456.7"),
        ("CAST(-0.0D AS STRING)", "string", "-0.0"),
        ("CAST(CAST(16777216 AS FLOAT) AS STRING)", "string", "1.6777216E7"),
        ("CAST(CAST(0 AS DECIMAL(10,8)) AS STRING)", "string", "0.00000000"),
        ("CAST(TIMESTAMP '2015-09-12 01:02:03.450' AS STRING)", "string", "2015-09-12 01:02:03.45"),
        ("CAST(TIMESTAMP '2015-09-12 00:00:00' AS STRING)", "string", "2015-09-12 00:00:00"),
        ("CAST('2015-9-1' AS DATE)", "date", dt.date(2015, 9, 1)),
        ("CAST('2015' AS DATE)", "date", dt.date(2015, 1, 1)),
        ("CAST('2015-09-01T' AS DATE)", "date", dt.date(2015, 9, 1)),
        ("CAST('2015-09-01 junk' AS DATE)", "date", dt.date(2015, 9, 1)),
        ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)", "boolean", True),
        ("CAST('NaN' AS DOUBLE) > 1e308", "boolean", True),
        ("-0.0D = 0.0D", "boolean", True),
        ("0.0D IN (-0.0D, 1D)", "boolean", True),
        ("NULL = 1", "boolean", None),
        ("NULL <=> NULL", "boolean", True),
        ("1 IN (2, NULL)", "boolean", None),
        ("1 IN (1, NULL)", "boolean", True),
        ("substring('abc', 0, 2)", "string", "ab"),
        ("substring('abc', -5, 4)", "string", "ab"),
        ("substring('abc', -2)", "string", "bc"),
        ("substring('abc', 2, -1)", "string", ""),
        ("split_part('a,b,c', ',', -1)", "string", "c"),
        ("split_part('a,b', '', 1)", "string", "a,b"),
        ("split_part('a,b', ',', 5)", "string", ""),
        ("trim('\\ta ')", "string", "\ta"),
        ("trim(BOTH 'xy' FROM 'yxaxy')", "string", "a"),
        ("ltrim('x', 'xxa')", "string", "a"),
        ("btrim('xxa', 'x')", "string", "a"),
        ("replace('abc', 'b')", "string", "ac"),
        ("replace('abc', '', 'x')", "string", "abc"),
        ("upper('straße')", "string", "STRASSE"),
        ("length('héé')", "int", 3),
        ("position('b' IN 'abc')", "int", 2),
        ("'it''s'", "string", "it's"),
        ("'a\\nb' LIKE 'a%b'", "boolean", True),
        ("'a_b' LIKE 'a\\\\_b'", "boolean", True),
        ("'axb' LIKE 'a/_b' ESCAPE '/'", "boolean", False),
        ("'Abc' ILIKE 'aB%'", "boolean", True),
        ("'abc' RLIKE 'b'", "boolean", True),
        ("round(2.5D)", "double", 3.0),
        ("round(0.15D, 1)", "double", 0.2),
        ("round(12.345, 1)", "decimal(4,1)", Decimal("12.3")),
        ("round(15, -1)", "int", 20),
        ("floor(-1.5)", "decimal(2,0)", Decimal("-2")),
        ("ceil(1.2D)", "bigint", 2),
        ("sign(-3)", "double", -1.0),
        ("floor(CAST('NaN' AS DOUBLE))", "bigint", 0),
        ("greatest(1, NULL, 3L)", "bigint", 3),
        ("DATE '2020-02-29' + INTERVAL 1 YEAR", "date", dt.date(2021, 2, 28)),
        ("DATE '2020-02-29' - 1", "date", dt.date(2020, 2, 28)),
        ("DATE '2020-02-29' + INTERVAL '1-2' YEAR TO MONTH", "date", dt.date(2021, 4, 29)),
        ("last_day(DATE '2020-02-03')", "date", dt.date(2020, 2, 29)),
        ("weekofyear(DATE '2021-01-03')", "int", 53),
        ("extract(YEAROFWEEK FROM DATE '2021-01-03')", "int", 2020),
        ("dayofweek(DATE '2020-02-29')", "int", 7),
        ("extract(DOW_ISO FROM DATE '2020-02-29')", "int", 6),
        ("unix_timestamp(TIMESTAMP_NTZ '1969-12-31 23:59:58.5')", "bigint", -1),
        ("unix_seconds(TIMESTAMP '1969-12-31 23:59:58.5Z')", "bigint", -2),
        ("extract(SECOND FROM TIMESTAMP '2015-09-12 01:02:03.5')", "decimal(8,6)", Decimal("3.5")),
        ("coalesce(1, '7')", "bigint", 1),
        ("if(TRUE, 1, 1.5)", "decimal(11,1)", Decimal("1.0")),
        ("nullif(5, 5)", "int", None),
        ("5 & 6 | 8", "int", 12),
        ("lpad('abc', 5, 'xy')", "string", "xyabc"),
        ("lpad('abc', 2)", "string", "ab"),
        ("rpad('abc', 5)", "string", "abc  "),
        ("repeat('ab', 2)", "string", "abab"),
        ("octet_length('é')", "int", 2),
        ("make_date(2015, 1, 2)", "date", dt.date(2015, 1, 2)),
        ("1 + '1'", "bigint", 2),
        ("1.5 + '1'", "double", 2.5),
    ],
)
def test_values_and_types_are_those_that_spark_gave(text, type_text, value):
    assert one(text) == (type_text, value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a + 1", "PROJSEG_EVALUATION_OVERFLOW"),
        ("-(-a - 1)", "PROJSEG_EVALUATION_OVERFLOW"),
        ("CAST(a AS TINYINT)", "PROJSEG_EVALUATION_OVERFLOW"),
        ("a / 0", "PROJSEG_EVALUATION_DIVIDE_BY_ZERO"),
        ("a % 0", "PROJSEG_EVALUATION_DIVIDE_BY_ZERO"),
        ("a div 0", "PROJSEG_EVALUATION_DIVIDE_BY_ZERO"),
        ("1.5 / (a - a)", "PROJSEG_EVALUATION_DIVIDE_BY_ZERO"),
        ("CAST(s AS INT)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST(s AS DATE)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST(s AS TIMESTAMP)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST('2015-02-30' AS DATE)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST('2015-09-01 24:00:00' AS TIMESTAMP)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST('0x1F' AS INT)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST('1.5' AS INT)", "PROJSEG_EVALUATION_BAD_CAST"),
        ("CAST('9999999999' AS INT)", "PROJSEG_EVALUATION_OVERFLOW"),
        ("CAST(1e20 AS BIGINT)", "PROJSEG_EVALUATION_OVERFLOW"),
        ("floor(1e300)", "PROJSEG_EVALUATION_OVERFLOW"),
        ("make_date(2015, 2, 30)", "PROJSEG_EVALUATION_BAD_ARGUMENT"),
        ("CAST(1e20 AS DECIMAL(10,0))", "PROJSEG_EVALUATION_OVERFLOW"),
        ("s = 5", "PROJSEG_EVALUATION_BAD_CAST"),
        ("split_part(s, ',', a - a)", "PROJSEG_EVALUATION_BAD_ARGUMENT"),
        ("'a' LIKE concat(s, '\\\\a')", "PROJSEG_EVALUATION_BAD_ARGUMENT"),
        ("'a' RLIKE concat('(', s)", "PROJSEG_EVALUATION_BAD_ARGUMENT"),
        ("DATE '9999-12-31' + a", "PROJSEG_EVALUATION_OVERFLOW"),
    ],
)
def test_ansi_mode_refuses(text, code):
    with pytest.raises(EvaluationError) as caught:
        one(text, a=pa.scalar(2**31 - 1, pa.int32()), s=pa.scalar("x"))
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a <> 0 AND 10 / a > 1",
        "10 / a > 1 AND a <> 0",
        "a = 0 OR 10 / a > 1",
        "CASE WHEN a <> 0 THEN 10 / a END > 1",
        "coalesce(nullif(a, a), 1) = 1 OR 1 / a = 1",
        "if(a = 0, 0, 10 / a) > 1",
    ],
)
def test_what_is_not_asked_for_does_not_fail(text):
    schema = pa.schema([("a", pa.int32())])
    evaluate(bind(text, schema), {"a": pa.array([0, 5, None, 0], pa.int32())}, 4)


@given(st.lists(st.none() | st.text(max_size=6), max_size=20), st.text("ab%_\\", max_size=4))
@settings(deadline=None, max_examples=tries(200))
def test_like_equals_duckdb(values, pattern):
    assume("\\" not in pattern)
    schema = pa.schema([("s", pa.string())])
    column = pa.array(["ab", *values], pa.string()).slice(1)
    like = bind(f"s LIKE '{pattern}'", schema)
    found = evaluate(like, {"s": column}, len(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_functions, "SEARCHED_TEXTS_MIN", 0)
        assert evaluate(like, {"s": column}, len(values)).equals(found)
    with duckdb.connect() as connection:
        connection.register("held", pa.table({"s": column}))
        expected = connection.execute(f"SELECT s LIKE '{pattern}' FROM held").fetchall()
    assert found.to_pylist() == [row[0] for row in expected]


LONG_TEXTS = st.sampled_from(["", "a", "abcdefg", "bbcdefgh", "abcdefgh", "12345678é", "€2345678é"])


@given(st.lists(st.none() | LONG_TEXTS), LONG_TEXTS, st.lists(LONG_TEXTS, min_size=1, max_size=5))
@settings(deadline=None, max_examples=tries(100))
@pytest.mark.parametrize("kind", ["STRING", "BINARY"])
def test_many_texts_are_compared_as_few_are(kind, values, value, options):
    arrow_type = pa.string() if kind == "STRING" else pa.binary()
    column = pa.array([None, *values], pa.string()).cast(arrow_type).slice(1)
    schema = pa.schema([("s", arrow_type)])
    listed = ", ".join(f"CAST('{option}' AS {kind})" for option in options)
    wanted = f"CAST('{value}' AS {kind})"
    for text, holds in (
        (f"s = {wanted}", lambda one: one == value),
        (f"{wanted} = s", lambda one: one == value),
        (f"s <> {wanted}", lambda one: one != value),
        (f"s IN ({listed})", lambda one: one in options),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(comparison, "SEARCHED_TEXTS_MIN", 0)
            found = evaluate(bind(text, schema), {"s": column}, len(values))
        expected = [None if one is None else holds(one) for one in values]
        assert found.to_pylist() == expected, text


def test_struct_fields():
    column = pa.array([{"x": 1, "Y": "a"}, None, {"x": None, "Y": "b"}])
    schema = pa.schema([("r", column.type)])
    assert evaluate(bind("r.X + 1", schema), {"r": column}, 3).to_pylist() == [2, None, None]
    assert evaluate(bind("`r`.`y`", schema), {"r": column}, 3).to_pylist() == ["a", None, "b"]


def test_sliced_and_empty_columns():
    schema = pa.schema([("a", pa.int32()), ("t", pa.timestamp("us", tz="UTC"))])
    empty = {name: pa.array([], schema.field(name).type) for name in schema.names}
    for text in ("a + 1", "hour(t)", "CAST(t AS STRING)", "a IN (1, 2)", "CAST(a AS DECIMAL(5,1))"):
        for zone in ("UTC", "Asia/Kolkata"):
            assert len(evaluate(bind(text, schema, timezone=zone), empty, 0)) == 0
    sliced = pa.array([None, 1, None, 3], pa.int32()).slice(1, 3)
    assert evaluate(bind("a * 2", schema), {"a": sliced}, 3).to_pylist() == [2, None, 6]
    wide = bind("CAST(a AS DECIMAL(5,1)) + 0.5", schema)
    assert evaluate(wide, {"a": sliced}, 3).to_pylist() == [Decimal("1.5"), None, Decimal("3.5")]


@given(rows(), numbers)
@settings(deadline=None, max_examples=tries(60))
def test_a_constant_column_is_its_constant(table, text):
    columns, records = table
    found = outcome(lambda: evaluate(bind(f"({text}) IS NULL", SCHEMA), columns, len(records)))
    values = outcome(lambda: evaluate(bind(text, SCHEMA), columns, len(records)))
    if isinstance(values, str):
        return
    assert found.to_pylist() == [value is None for value in values.to_pylist()]


def rounded_by_text(value, digits):
    """What Java's BigDecimal makes of the shortest text that names the value."""
    if not math.isfinite(value):
        return value
    unit, context = Decimal(1).scaleb(-digits), Context(prec=800, rounding=ROUND_HALF_UP)
    return float(Decimal(repr(value)).quantize(unit, context=context))


ties = st.builds(
    lambda whole, digits: (whole + 0.5) / 10.0**digits, st.integers(-9999, 9999), st.integers(0, 6)
)


@given(st.lists(st.none() | st.floats() | ties, min_size=1, max_size=20), st.integers(-3, 17))
@settings(deadline=None, max_examples=tries(200))
def test_rounding_is_that_of_the_shortest_text(values, digits):
    schema = pa.schema([("f", pa.float64())])
    found = evaluate(
        bind(f"round(f, {digits})", schema), {"f": pa.array(values, pa.float64())}, len(values)
    )
    expected = [None if value is None else rounded_by_text(value, digits) for value in values]
    assert all(same(a, b) for a, b in zip(found.to_pylist(), expected, strict=True))
    assert all(
        a is None or math.isnan(a) or a == b
        for a, b in zip(found.to_pylist(), expected, strict=True)
    )


@given(st.lists(st.none() | st.floats() | st.floats(0.0005, 2e7), min_size=1, max_size=20))
@settings(deadline=None, max_examples=tries(200))
def test_the_text_of_a_double_reads_back(values):
    schema = pa.schema([("f", pa.float64())])
    columns = {"f": pa.array(values, pa.float64())}
    texts = evaluate(bind("CAST(f AS STRING)", schema), columns, len(values))
    again = evaluate(bind("CAST(CAST(f AS STRING) AS DOUBLE)", schema), columns, len(values))
    assert all(same(a, b) for a, b in zip(again.to_pylist(), values, strict=True))
    for text, value in zip(texts.to_pylist(), values, strict=True):
        if value is not None and math.isfinite(value):
            assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
            assert "." in text


@given(
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
    st.sampled_from(["", "Z", "+05:30", "-8", " UTC", " Asia/Kolkata"]),
    st.sampled_from(["UTC", "America/Los_Angeles"]),
)
@settings(deadline=None, max_examples=tries(200))
def test_timestamps_are_read_in_their_zone(moment, suffix, session):
    text = moment.isoformat(sep=" ") + suffix
    found = one(f"CAST('{text}' AS TIMESTAMP)", timezone=session)[1]
    name = {"": session, "Z": "UTC", "+05:30": "Asia/Kolkata", "-8": "Etc/GMT+8"}.get(suffix)
    zone = zoneinfo.ZoneInfo(name or suffix.strip())
    if moment.year > 1950:
        assert found in {moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1)}
    assert one(f"CAST(CAST('{text}' AS TIMESTAMP_NTZ) AS STRING)")[1] == spark_text(moment)


def spark_text(moment):
    text = moment.isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text


@pytest.mark.parametrize(
    ("zone", "text", "expected"),
    [
        # Half an hour before midnight the clock went on by an hour: a date begins where it went
        # on, a time is as late after the change as it would have been.
        ("America/Toronto", "CAST(DATE '1919-03-31' AS TIMESTAMP)", "1919-03-31T04:30"),
        ("America/Toronto", "CAST(TIMESTAMP_NTZ '1919-03-31' AS TIMESTAMP)", "1919-03-31T05:00"),
        ("America/Toronto", "date_trunc('DAY', TIMESTAMP '1919-03-31T04:40Z')", "1919-03-31T05:00"),
        (
            "America/Toronto",
            "date_trunc('WEEK', TIMESTAMP '1919-03-31T04:40Z')",
            "1919-03-31T04:30",
        ),
        # 02:30 of the day between is skipped.
        (
            "Europe/Madrid",
            "TIMESTAMP '2024-01-31 02:30:00' + INTERVAL 2 MONTHS 1 DAY",
            "2024-04-01T01:30",
        ),
        (
            "America/St_Johns",
            "date_trunc('HOUR', TIMESTAMP '2008-03-09T03:45Z')",
            "2008-03-09T04:30",
        ),
        (
            "America/Havana",
            "date_trunc('MONTH', TIMESTAMP '2015-11-01T05:30Z')",
            "2015-11-01T04:00",
        ),
        ("America/Havana", "date_trunc('DAY', TIMESTAMP '2015-11-01T05:30Z')", "2015-11-01T05:00"),
        # Steps of days start at one instant each; what is left of whole days is exact.
        (
            "Atlantic/Azores",
            "time_bucket(INTERVAL 1 DAY, TIMESTAMP '2024-10-27T00:30Z')",
            "2024-10-26T00:00",
        ),
        (
            "Atlantic/Azores",
            "time_bucket(INTERVAL 1 DAY, TIMESTAMP '2024-10-27T01:30Z')",
            "2024-10-27T01:00",
        ),
        (
            "America/New_York",
            "time_bucket(INTERVAL 36 HOURS, TIMESTAMP '2024-07-03T04:30Z')",
            "2024-07-02T16:00",
        ),
        (
            "Asia/Tokyo",
            "time_bucket(INTERVAL 1 MONTH, TIMESTAMP '1887-12-31T14:50Z')",
            "1887-11-30T14:41:01",
        ),
    ],
)
def test_instants_about_changes_of_clocks_as_spark_gives_them(zone, text, expected):
    assert one(text, timezone=zone)[1] == dt.datetime.fromisoformat(expected + "+00:00")


def test_a_field_is_the_clocks_own_not_that_of_the_bucket():
    """From 01:01 on, Spark's hour of that day in St John's begins at 02:00."""
    moment = "TIMESTAMP '2008-03-09T03:45Z'"
    assert one(f"hour({moment})", timezone="America/St_Johns")[1] == 1
    assert one(f"hour(date_trunc('HOUR', {moment}))", timezone="America/St_Johns")[1] == 2
