"""Every scalar function over every type and awkward values: the texts, the rows, Spark's values."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

sys.path.append(str(Path(__file__).parents[2] / "docs"))

from function_notes import FUNCTIONS, OWN_FUNCTIONS

_YEAR_1, _YEAR_9999 = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
_MOMENTS = [
    *(_YEAR_1, _YEAR_9999, dt.datetime(1, 1, 1, 13, 5, 6, 7), dt.datetime(1582, 10, 10, 1, 2, 3)),
    *(dt.datetime(1883, 11, 18, 12, 3, 58), dt.datetime(1899, 12, 31, 23, 59, 59, 999_999)),
    *(dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), dt.datetime(1970, 1, 1)),
    *(dt.datetime(2015, 9, 12, 3, 4, 5, 678_901), dt.datetime(2020, 2, 29, 12)),
    *(dt.datetime(2024, 3, 10, 2, 30), dt.datetime(2024, 3, 10, 10, 30)),
    *(dt.datetime(2024, 11, 3, 1, 30), dt.datetime(2024, 11, 3, 6, 30), dt.datetime(2021, 1, 3)),
    dt.datetime(2038, 1, 19, 3, 14, 8),
]


def _whole(bits):
    edge = 1 << (bits - 1)
    return [-edge, 1 - edge, edge - 1, edge - 2, -7, -3, -1, 0, 1, 2, 3, 5, 12, 29, 100]


def _decimals(precision, scale):
    edge, unit = 10**precision - 1, 10**scale
    few = [0, 1, -1, unit // 2, -unit // 2, 3 * unit // 2, 5 * unit // 2, -7 * unit, 12 * unit]
    unscaled = [*few, edge, -edge, edge // 2, -edge // 3, 100 * unit + 1]
    return [Decimal(f"{value}E-{scale}") for value in unscaled if abs(value) <= edge]


_DOUBLES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.0, -7.0, 12.0, 1e-3, 9.999e-4, 9999999.0, 1e7, 0.1),
    *(math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2250738585072014e-308, 4.9e-322, 1e-310),
    *(1.7976931348623157e308, 1e22, 2.0**53 + 2, 2.0**63, -(2.0**63), 123456.789, 2e-3),
]
_FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 9999999.0, 1e7, 0.1, 1.4e-45, -2.8e-45),
    *(math.nan, math.inf, -math.inf, 3.4028234663852886e38, 16777216.0, 33.3),
]
_TEXTS = [
    *("", " ", "a", "ab", "abc", "Abc aB", "  ab  ", "a%b_c", "é", "héé", "straße", "İi", "日本語"),
    *("😀a😀", "e\u0301a", "a.b.c", "xyxab", "\\", "a\\b", "'", "\n", "a\nb", "\t a\t", "ab" * 40),
    *("\x00a", "\ufb01", "\u0391\u03a3", "\x7f \x1f"),
]
_NUMBER_TEXTS = [
    *("1", "-7", "+3", " 5 ", "007", "1.5", "-.5", "1.", "1e3", "1E-3", "1e400", "-1e-400", "NaN"),
    *("nan", "inf", "-Infinity", "+INF", "1d", "1.5F", "1L", "0x10", "9223372036854775807", ""),
    *(
        "9223372036854775808",
        "-9223372036854775808",
        "128",
        "99999999999999999999999999999999999999",
    ),
    *("1e38", "0.00000000000000000000000000000000000001", "12a", "t", "TRUE", "no", "y", "f", "0"),
    *("- 1", "1 2", "\uff11", "4.9e-324", "\x011\x1f", "1e", "e1", "."),
]
_TIME_TEXTS = [
    *("2015-09-12", "2015-09-12T", "2015-09-12 ", "2015-09-12T03:04:05.678Z", "2015-9-1", "2015"),
    *("2015-09", "2015-09-12 03:04:05", "2015-09-12 3:4:5.1234567", "2015-09-12 03:04", "T03:04"),
    *(
        "2015-09-12 03",
        "2015-09-12 03:04:05+05:30",
        "2015-09-12 03:04:05 Europe/Paris",
        "0001-01-01",
    ),
    *("9999-12-31 23:59:59.999999", "10000-01-01", "+10000-01-01", "-0001-01-01", "0000-01-01"),
    *("2015-02-29", "2016-02-29", "2015-13-01", "2015-00-10", "2015-09-31", "2015-09-12 24:00:00"),
    *("2015-09-12 23:60:00", "2015-09-12 23:59:60", "2015-09-12abc", "2015-09-12 abc", "epoch"),
    *("now", "today", "2024-03-10 02:30:00", "2024-11-03 01:30:00 America/New_York", "20150912"),
    *(" 2015-09-12 01:02:03 ", "2015-09-12 01:02:03 UTC", "2015-09-12 01:02:03GMT+1", "15-9-12"),
    *("2015-09-12T1", "2015-09-12 01:02:03.", "2015-09-12 01:02:03 +1", "2015-09-12 01:02:03-0330"),
    *("2015-09-12 01:02:03 PST", "2015-09-12 01:02:03 UTC+01:02:03", "2015-09-12 01:02:03 z"),
    *("2015-09-12T01:02:03+19:00", "2015-09-12 :02", "2015-09-12T T", "2015-", "2015-09-", "1970"),
    *(
        "03:04:05",
        "2015-09-12T03:04:05 ",
        "\uff12015-09-12",
        "2015-09-12\t",
        "99999-12-31",
        "2015-09-12+01",
    ),
]
_BINARIES = [
    *(
        b"",
        b"a",
        b"abc",
        b"  ab ",
        b"\x00",
        b"\xff",
        b"\x80\x81",
        b"\xc3\xa9",
        b"\xc3",
        b"\xed\xa0\x80",
    ),
    *(b"\xf0\x9f\x98\x80", b"a\xffb", b"ab" * 30, bytes(range(0, 256, 17)), b"2015-09-12", b"12"),
]

VALUES = {
    "y": (pa.int8(), _whole(8)),
    "h": (pa.int16(), _whole(16)),
    "i": (pa.int32(), _whole(32)),
    "b": (pa.int64(), [*_whole(64), 1_442_027_045, 253_402_300_800, -62_135_596_800, 10**15]),
    "g": (pa.float32(), _FLOATS),
    "f": (pa.float64(), _DOUBLES),
    "m": (pa.decimal128(10, 2), _decimals(10, 2)),
    "l": (pa.decimal128(18, 4), _decimals(18, 4)),
    "k": (pa.decimal128(22, 6), _decimals(22, 6)),
    "w": (pa.decimal128(38, 10), _decimals(38, 10)),
    "x": (pa.decimal128(38, 0), _decimals(38, 0)),
    "c": (pa.decimal128(38, 38), _decimals(38, 38)),
    "p": (pa.bool_(), [True, False]),
    "s": (pa.string(), _TEXTS),
    "u": (pa.string(), _NUMBER_TEXTS),
    "v": (pa.string(), _TIME_TEXTS),
    "z": (pa.binary(), _BINARIES),
    "d": (pa.date32(), [moment.date() for moment in _MOMENTS]),
    "t": (TIMESTAMP, [moment.replace(tzinfo=dt.UTC) for moment in _MOMENTS]),
    "n": (TIMESTAMP_NTZ, _MOMENTS),
    "a": (pa.list_(pa.string()), [[], ["a"], ["a", None, "b"], [None], ["é", "", "b"]]),
    "e": (pa.list_(pa.int32()), [[], [1], [3, None, -1], [None], [0, 1, 2]]),
    "r": (pa.struct([("left", pa.int32())]), [{"left": 1}, {"left": None}, {"left": -5}]),
}
"""From a column to its type and its values that are not null."""

OWN = ("timestamp_floor(", "in_zone(", "yearofweek(", "second_with_fraction(", "text_match(")
"""Functions that Spark lacks."""
_LENGTHENING = ("lpad", "rpad", "repeat")
"""Functions of which Spark makes texts of any length."""
_NUMBERS = "yhibgfmlkwxc"
_ROWS = 1 + max(len(values) for _, values in VALUES.values())
_CONSTANTS = [
    *(
        "NULL",
        "1",
        "-1",
        "0",
        "2",
        "2147483647",
        "-2147483648",
        "4294967296",
        "-9223372036854775808",
    ),
    *(
        "99999999999999999999999999999999999999",
        "2.5",
        "-0.0",
        "1e-38",
        "1.5D",
        "CAST('nan' AS DOUBLE)",
    ),
    *(
        "CAST('inf' AS FLOAT)",
        "5e-324",
        "1e308",
        "'a'",
        "''",
        "'12'",
        "' '",
        "'%'",
        "'\\\\'",
        "'('",
        "'[a'",
    ),
    *("'DAY'", "'week'", "'yyyy-MM-dd'", "'P1D'", "'PT0S'", "'-P1M'", "'P99999999Y'", "'1 day'"),
    *("'-1 month'", "'UTC'", "'Mars/Base'", "'+19:00'", "'SECOND'", "'😀'", "'ß'", "TRUE", "FALSE"),
    *(
        "X''",
        "X'ff41'",
        "DATE '0001-01-01'",
        "DATE '9999-12-31'",
        "TIMESTAMP '2015-09-12 03:04:05'",
    ),
    *("TIMESTAMP '0001-01-01 00:00:00Z'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'", "array()"),
    *(
        "array(1, NULL)",
        "array('a')",
        "INTERVAL '1' DAY",
        "CAST(NULL AS BINARY)",
        "CAST(NULL AS DATE)",
    ),
    *(
        "CAST(NULL AS STRING)",
        "CAST(NULL AS TIMESTAMP)",
        "CAST(NULL AS DECIMAL(38,38))",
        "array(array(1))",
    ),
]
_ODD_FORMS = [
    *("INTERVAL {x} DAY", "({x} + INTERVAL {y} DAY)", "{x}[{y}]", "{x}.left", "{x}.start", "- {x}"),
    *(
        "CAST({x} AS DECIMAL(39,2))",
        "CAST({x} AS DECIMAL(2,5))",
        "CAST({x} AS INTERVAL)",
        "{x}::int",
    ),
    *(
        "CAST({x} AS ARRAY<INT>)",
        "CAST({x} AS CHAR(3))",
        "({x} LIKE {y} ESCAPE {y})",
        "({x} RLIKE {y})",
    ),
    *(
        "({x} LIKE {y} ESCAPE 'ab')",
        "({x} IN ())",
        "({x} IN {y})",
        "window({x}, {y}).start",
        "window({x}).end",
    ),
    *(
        "EXTRACT({y} FROM {x})",
        "EXTRACT(EPOCH FROM {x})",
        "in_zone({x}, {y})",
        "in_zone('Mars/Base', {x})",
    ),
    *(
        "date_trunc({x}, {y})",
        "trunc({x}, {y})",
        "timestamp_floor({x}, {y}, {x}, {y})",
        "time_bucket({x}, {y})",
    ),
    *(
        "time_bucket(INTERVAL {x}, {y})",
        "time_bucket(INTERVAL '1' DAY, t, {x})",
        "regexp_extract(s, {x}, {y})",
    ),
    *(
        "split(s, {x}, {y})",
        "date_format(t, {x})",
        "from_unixtime({x}, {y})",
        "round({x}, {y})",
        "bround({x}, {y})",
    ),
    *(
        "floor({x}, {y})",
        "ceil({x}, {y})",
        "sha2({x}, {y})",
        "CASE WHEN {x} THEN {y} END",
        "CASE {x} WHEN {y} THEN {x} ELSE {y} END",
    ),
    *(
        "({x} BETWEEN {y} AND {x})",
        "({x} NOT IN ({y}, NULL))",
        "element_at({x}, {y})",
        "array_contains({x}, {y})",
    ),
    *(
        "trim({x} FROM {y})",
        "substring({x} FROM {y})",
        "position({x} IN {y})",
        "({x} || {y})",
        "CAST({x} AS TIMESTAMP)",
    ),
    *(
        "(s RLIKE 'a{{x}}')",
        "{x} IS NOT TRUE",
        "~{x}",
        "({x} <=> {y})",
        "({x} DIV {y})",
        "({x} % {y})",
        "date_part({x}, {y})",
    ),
    *(
        "make_date({x}, {y}, 1)",
        "({x} - {y})",
        "least({x})",
        "greatest({x}, {y})",
        "lpad({x}, {y})",
        "repeat({x}, {y})",
    ),
    *(
        "least({x}, {y}, {x})",
        "hash()",
        "{x}[{y}][0]",
        "struct({x})",
        "map({x}, {y})",
        "count({x})",
        "sum({x}) OVER ()",
    ),
]
_TYPES = [
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)"),
    *("DECIMAL(38,18)", "DECIMAL(5,0)", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
]
_INFIX = [
    "=",
    "<=>",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "DIV",
    "&",
    "|",
    "^",
    "||",
    "<<",
    ">>",
    ">>>",
]
_UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"]
_FIELDS = ["YEAR", "YEAROFWEEK", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOW_ISO", "DOY"]
_FIELDS += ["HOUR", "MINUTE", "SECOND"]
_PATTERNS = ["yyyy-MM-dd HH:mm:ss.SSSSSS", "G y yy yyyyy", "Q QQQ M MMM MMMM", "D DDD E EEEE"]
_PATTERNS += ["a h hh k kk K KK", "X XX XXX XXXXX Z ZZZZZ x xxx", "''yy''"]
_INTERVALS = ["1 MONTH", "-13 MONTHS", "40 DAYS", "-5 HOURS", "1 MONTH 2 DAYS 0.000001 SECONDS"]
_ALONE = [
    *("({x} IS NULL)", "(- {x})", "(~ {x})", "(NOT {x})", "({x} IN ({x}, {y}))"),
    *("({x} IN (1, NULL, 2.5))", "({x} BETWEEN '1' AND {y})"),
    *("CASE WHEN p THEN {x} ELSE {y} END", "CASE {x} WHEN {y} THEN 1 ELSE 2 END"),
    *("coalesce({x}, {y})", "if({x}, 1, 2)", "({x} LIKE 'a%')", "({x} ILIKE '%A_')"),
    *("({x} RLIKE '^a+')", "trim(LEADING 'a' FROM {x})", "trim(BOTH {y} FROM {x})"),
    *("({x} IS TRUE)", "({x} IS DISTINCT FROM {y})", "{x}[0]", "split(s, 'a')[{x}]"),
    *("least({x}, {y}, NULL)", "concat({x}, {y}, {x})"),
    *("date_format({x}, 'yyyy')", "from_unixtime({x})", "hash({x})", "xxhash64({x}, {y})"),
    *(f"date_trunc('{unit}', {{x}})" for unit in _UNITS),
    *(f"trunc({{x}}, '{unit}')" for unit in _UNITS[:5]),
    *(f"EXTRACT({field} FROM {{x}})" for field in _FIELDS),
    *(f"date_format({{x}}, '{pattern}')" for pattern in _PATTERNS),
    *(f"({{x}} + INTERVAL '{size}')" for size in _INTERVALS),
    *(f"timestampdiff({unit}, {{x}}, {{y}})" for unit in [*_UNITS, "MICROSECOND"]),
    *(f"date_diff({unit}, {{x}}, d2)" for unit in ("month", "DAY")),
    *(f"convert_timezone({zones}, {{x}})" for zones in ("'Asia/Tokyo'", "'+01:00', 'UTC'")),
    *(f"time_bucket(INTERVAL '{size}', {{x}})" for size in ("15 MINUTES", "1 MONTH", "2 DAYS")),
    *(f"CAST({{x}} AS {wanted})" for wanted in _TYPES),
    *(f"TRY_CAST({{x}} AS {wanted})" for wanted in _TYPES),
    *(f"round({{x}}, {digits})" for digits in (-3, -1, 0, 1, 20)),
    *(f"bround({{x}}, {digits})" for digits in (-3, 0, 1)),
    *(f"{name}({{x}}, {digits})" for name in ("floor", "ceil") for digits in (-1, 0, 2)),
    *(f"sha2({{x}}, {bits})" for bits in (0, 224, 384, 5)),
]
"""Forms with a column {x}, and another {y}, that no example has."""


def table() -> pa.Table:
    """Return the rows: each column has all of its values and a null, at different places.

    A column that ends in 2 has the same values in another order.
    """
    rng = random.Random(1)
    columns = {}
    for suffix in ("", "2"):
        for name, (arrow_type, values) in VALUES.items():
            repeated = [*itertools.islice(itertools.cycle([*values, None]), _ROWS)]
            if suffix or name not in "suv":
                rng.shuffle(repeated)
            columns[name + suffix] = pa.array(repeated, arrow_type)
    return pa.table(columns)


def calls() -> list[str]:
    """Return a call for each function, argument and column: other arguments as in the example."""
    found = []
    for name, arguments in _examples():
        for place in range(len(arguments)):
            for value in [*VALUES, "NULL"]:
                given = [*arguments]
                is_size = name in _LENGTHENING and place == 1
                given[place] = f"least({value}, 40)" if is_size and value in _NUMBERS else value
                found.append(f"{name}({', '.join(given)})")
        if len(arguments) > 1:
            same = ([one] + [f"{one}2"] * (len(arguments) - 1) for one in VALUES)
            found += [f"{name}({', '.join(given)})" for given in same if name not in _LENGTHENING]
            found += [f"{name}({one}, {one}2)" for one in "sz" if name not in _LENGTHENING]
    found += [f"{name}({one}, 5, {one}2)" for name in _LENGTHENING[:2] for one in VALUES]
    found += [f"{name}(z, 5)" for name in _LENGTHENING]
    return found


def forms() -> list[str]:
    """Return special syntax and options over each column, and operators over pairs of columns."""
    found = []
    for form in _ALONE:
        found += [form.format(x=name, y=f"{name}2") for name in VALUES]
    for operator in _INFIX:
        found += [f"({one} {operator} {other}2)" for one in VALUES for other in VALUES]
    return found


def odd_call(rng: random.Random) -> str:
    """Draw a call of any function or form, of columns and odd constants, also of a wrong number."""
    if rng.random() < 0.3:
        form = rng.choice(_ALONE + _ODD_FORMS)
        return form.format(x=_value(rng, 1), y=_value(rng, 1))
    name = rng.choice([*SPELLINGS])
    spelling = SPELLINGS[name]
    count = rng.randint(spelling.fewest, max(spelling.fewest, min(spelling.most, 4))) + rng.choice(
        [0] * 18 + [1, -1]
    )
    return f"{name}({', '.join(_value(rng, 2) for _ in range(count))})"


def _value(rng: random.Random, depth: int) -> str:
    """Draw a column, a constant, or a call of these."""
    drawn = rng.random()
    if drawn < 0.1 and depth:
        return odd_call(rng)
    if drawn < 0.45:
        return rng.choice([*VALUES])
    return rng.choice(_CONSTANTS)


def _examples():
    """Yield (name, arguments) of each function on the page that is written as a call."""
    for note in [*itertools.chain(*FUNCTIONS.values()), *OWN_FUNCTIONS]:
        name = note[0]
        spelling = SPELLINGS.get(name)
        if spelling is None:
            continue
        if name in ("like", "ilike"):
            yield name, ["'a_b'", "'a/_%'"]
            continue
        yield name, _arguments(name, note[-1], spelling.fewest)


def _arguments(name, example, fewest):
    from sqlglot import exp

    from projseg.algebra.expressions.dialect import parse_sql

    tree = parse_sql(example)
    written = [
        one.expressions for one in tree.find_all(exp.Anonymous) if str(one.this).casefold() == name
    ]
    if written:
        return [argument.sql(dialect="spark") for argument in written[0]]
    parts = [part for part in tree.args.values() if isinstance(part, exp.Expression)]
    found = [part.sql(dialect="spark") for part in parts]
    return (found + ["1"] * fewest)[: max(fewest, len(found))]
