"""Calls of every scalar function over awkward values, such as times near changes of clocks."""

from __future__ import annotations

import math
from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import strategies as st

from projseg.algebra.expressions.binder import Binder
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.tree import Call, Column, Literal
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_table
from projseg.errors import ProjsegError
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

SCHEMA = pa.schema(
    [
        *[("y", pa.int8()), ("h", pa.int16()), ("i", pa.int32()), ("j", pa.int32())],
        *[("b", pa.int64()), ("c", pa.int64()), ("g", pa.float32()), ("f", pa.float64())],
        *[("e", pa.float64()), ("m", pa.decimal128(10, 2)), ("l", pa.decimal128(18, 4))],
        *[("w", pa.decimal128(38, 10)), ("x", pa.decimal128(38, 0))],
        *[("s", pa.string()), ("u", pa.string()), ("v", pa.string()), ("z", pa.binary())],
        *[("p", pa.bool_()), ("q", pa.bool_()), ("d", pa.date32()), ("k", pa.date32())],
        *[("t", TIMESTAMP), ("o", TIMESTAMP), ("n", TIMESTAMP_NTZ)],
        ("r", pa.struct([("left", pa.int32())])),
        *[("a", pa.list_(pa.string())), ("aj", pa.list_(pa.int32()))],
    ]
)
_WIDE = Context(prec=60)
ZONES = [
    *("UTC", "+05:30", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"),
    *("America/Havana", "Africa/Monrovia", "Asia/Manila", "America/Juneau", "Pacific/Apia"),
    *("America/Sao_Paulo", "America/St_Johns", "Antarctica/Casey", "Africa/Cairo"),
]

_PAIRS = ["y, h", "i, j", "b, c", "g, f", "f, e", "m, l", "w, x", "m, w"]
_NUMBERS = ["y", "h", "i", "b", "g", "f", "m", "l", "w", "x"]
_TIMES = ["t", "n"]
_COMPARED = [*_PAIRS, "s, u", "z, z", "p, q", "d, k", "t, o", "n, n", "f, 1D", "s, 'b'", "m, 2.5"]
_FACTORS = ["3", "-3", "0", "1.5", "-1.5"]
_DOUBLE_FACTORS = ["2D", "-2D", "0D", "1e300", "5e-324", "double('inf')", "double('nan')"]
_CASTS = {
    "y": ["smallint", "bigint", "float", "double", "decimal(5,2)", "boolean", "string"],
    "h": ["tinyint", "float", "decimal(5,0)", "timestamp"],
    "i": ["tinyint", "bigint", "float", "double", "decimal(10,0)", "timestamp", "string"],
    "b": ["int", "float", "double", "decimal(20,2)", "decimal(10,0)", "timestamp", "boolean"],
    "g": ["double", "int", "bigint", "decimal(10,2)", "string", "timestamp", "boolean"],
    "f": ["float", "tinyint", "bigint", "decimal(38,10)", "string", "timestamp"],
    "m": ["int", "double", "float", "decimal(4,1)", "decimal(20,8)", "string", "timestamp"],
    "w": ["int", "bigint", "double", "float", "decimal(20,2)", "string", "timestamp", "boolean"],
    "s": ["int", "double", "decimal(10,2)", "date", "timestamp", "boolean", "binary"],
    "z": ["string"],
    "p": ["int", "double", "decimal(3,1)", "string"],
    "d": ["timestamp", "timestamp_ntz", "string"],
    "t": ["date", "timestamp_ntz", "bigint", "int", "double", "decimal(20,6)", "string"],
    "n": ["date", "timestamp", "string"],
}
_PATTERNS = ["yyyyMM", "EEEE DDD", "QQQ y", "h:mm a", "XXX"]
_FAILING_CASTS = [
    *("s AS int", "s AS double", "s AS decimal(10,2)", "s AS date", "s AS timestamp"),
    *("s AS boolean", "z AS string", "b AS int", "f AS bigint", "f AS decimal(38,10)"),
    *("w AS int", "m AS tinyint", "b AS timestamp", "t AS int"),
]
_UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"]
_PERIODS = ["PT7M", "PT30M", "PT2H", "PT6H", "PT7H", "P2D", "P2W", "P2M", "PT0.001S"]
_INTERVALS = ["1 MONTH", "-13 MONTHS", "1 DAY", "-40 DAYS", "5 HOURS", "1 MONTH 2 DAYS 1 HOUR"]
_DATE_INTERVALS = ["1 MONTH", "-40 DAYS", "1 MONTH 2 DAYS"]
_BUCKETS = ["2 DAYS", "36 HOURS", "1 MONTH", "1 WEEK"]


def _infix(operator: str, pairs: list[str]) -> list[str]:
    return [pair.replace(",", f" {operator}", 1) for pair in pairs]


def _each(function: str, arguments: list[str]) -> list[str]:
    return [f"{function}({argument})" for argument in arguments]


CALLS: dict[str, list[str]] = {
    **{op: _infix(op, _COMPARED) for op in ("=", "!=", "<", "<=", ">", ">=")},
    "<=>": _infix("<=>", _COMPARED),
    "in": ["i IN (1, 2, 3)", "f IN (1D, double('nan'))", "s IN ('a', 'b')"],
    "is_null": ["i IS NULL", "s IS NULL", "r IS NULL"],
    "isnan": ["isnan(f)", "isnan(g)"],
    "and": ["p AND q"],
    "or": ["p OR q"],
    "not": ["NOT p"],
    "case": ["CASE WHEN p THEN i WHEN q THEN j ELSE 3 END", "if(p, s, u)"],
    "coalesce": ["coalesce(i, j)", "coalesce(s, u, 'x')"],
    **{
        op: _infix(op, [*_PAIRS, *(f"b, {k}" for k in _FACTORS), *(f"m, {k}" for k in _FACTORS)])
        + _infix(op, [f"f, {factor}" for factor in _DOUBLE_FACTORS])
        for op in ("+", "-", "*", "/", "%")
    },
    "div": _infix("DIV", ["y, h", "b, c", "m, l", "b, 3", "b, -3", "m, -1.5", "w, 7"]),
    "pmod": _each("pmod", ["y, h", "b, c", "m, l", "f, e", "b, -3"]),
    "negative": _each("-", _NUMBERS),
    "abs": _each("abs", _NUMBERS),
    "sign": _each("sign", _NUMBERS),
    "floor_to_digits": _each("floor", ["i, -1", "f, 2", "m, 1", "m, -1", "w, 20", "l, 0"]),
    "ceil_to_digits": _each("ceil", ["i, -1", "f, 2", "m, 1", "m, -1", "w, 20", "l, 0"]),
    "bround": _each("bround", ["f", "f, 2", "g, -1", "m, 1", "w, -3", "b, -2", "y, -3"]),
    "floor": _each("floor", ["g", "f", "m", "w"]),
    "ceil": _each("ceil", ["g", "f", "m", "w"]),
    "round": _each("round", [*_NUMBERS, "f, 2", "g, -1", "m, 1", "w, -3", "b, -2"]),
    **{name: _each(name, _PAIRS) for name in ("least", "greatest")},
    **{name: _each(name, ["f", "i", "m"]) for name in ("sqrt", "exp", "ln", "log10", "log2")},
    "log": ["log(2, f)", "log(f, e)"],
    "power": ["power(f, e)", "power(i, 2)"],
    **{op: _infix(op, ["y, y", "i, j", "b, c"]) for op in ("&", "|", "^")},
    "~": ["~y", "~b"],
    "shiftleft": ["i << j", "shiftleft(b, i)", "shiftleft(y, 33)", "b << -1"],
    "shiftright": ["i >> j", "shiftright(b, i)", "shiftright(h, 2)"],
    "shiftrightunsigned": ["i >>> j", "shiftrightunsigned(b, i)", "y >>> 1"],
    **{name: [f"{name}(s)", f"{name}(u)"] for name in ("ascii", "base64")},
    "unhex": ["unhex(s)", "unhex(hex(b))", "unhex(hex(z))"],
    **{name: _each(name, ["s"]) for name in ("lower", "upper", "reverse")},
    "octet_length": _each("octet_length", ["s", "z"]),
    "length": _each("length", ["s", "z"]),
    "concat": ["s || u", "concat(s, '-', u)", "z || z", "s || '-'", "'-' || s"],
    "trim": ["trim(s)", "btrim(s, u)", "btrim(s, 'ab')"],
    "ltrim": ["ltrim(s)", "ltrim(u, s)"],
    "rtrim": ["rtrim(s)", "rtrim('a', s)"],
    "replace": ["replace(s, u, v)", "replace(s, 'a', 'bb')", "replace(s, 'a')", "replace(s, '')"],
    **{
        name: _each(name, ["s, u", "s, 'a'", "'abab', u"])
        for name in ("startswith", "endswith", "contains")
    },
    "substring": [
        *("substring(s, i, j)", "substring(s, 1, 2)", "substring(s, 0)", "substring(s, 1, j)"),
        *("substring(s, -2)", "substring(z, 1, 2)", "substring(s, 2, 2)", "left(s, 3)"),
        "substring(s, 1, 2147483647)",
    ],
    "right": ["right(s, j)", "right(s, 2)"],
    "split_part": ["split_part(s, u, i)", "split_part(s, 'a', 1)"],
    "position": ["position(u, s)", "position(u, s, j)", "position('a', s, 1)"],
    "lpad": ["lpad(s, i, u)", "lpad(s, 4)"],
    "rpad": ["rpad(s, i, u)", "rpad(s, 4)"],
    "repeat": ["repeat(s, i)", "repeat(s, 2)"],
    "like": ["s LIKE u", "s LIKE 'a%'", "s LIKE '%a_b%'", "s LIKE 'a'"],
    "text_match": ["text_match(s, 'a OR b')", "text_match(s, '-a*')", "text_match(u, 'ab')"],
    "rlike": ["s RLIKE u", "s RLIKE '^a.*b$'", "s RLIKE 'a\\\\s*$'", "s RLIKE '(?i)(^|,)A'"],
    "regexp_extract": [
        *("regexp_extract(s, '(a)(b)?')", "regexp_extract(s, '[a-z]+', 0)"),
        *("regexp_extract(s, '(-?)([0-9]+)$', 2)", "regexp_extract(s, '^(.)(.)', 2)"),
    ],
    "regexp_replace": [
        *("regexp_replace(s, '[ab]+', '<$0>')", "regexp_replace(s, '(a)(b)?', '$2$1')"),
        *("regexp_replace(s, 'a+?$', '-')", "regexp_replace(s, '^(.)a|\\\\s+$', 'x')"),
    ],
    "concat_ws": [
        *("concat_ws(u, s, v)", "concat_ws(',', s, i, a)", "concat_ws(', ', a, NULL, s)"),
        *("concat_ws('-')", "concat_ws(s)", "concat_ws('', s, p)"),
    ],
    "initcap": ["initcap(s)", "initcap(s || ' ' || u)"],
    "translate": ["translate(s, u, v)", "translate(s, 'ab', 'x')"],
    "hex": ["hex(b)", "hex(y)", "hex(s)", "hex(z)", "hex(m)"],
    "split": ["split(s, ' ')", "split(s, '[ab]')", "split(s, '')", "split(s, 'a+', 2)"],
    "array": ["array(s, u)", "array(i, 1, j)"],
    "array_contains": ["array_contains(a, s)", "array_contains(aj, i)", "array_contains(aj, b)"],
    "size": ["size(a)", "size(aj)"],
    "item": ["a[i]", "aj[0]", "split(s, 'a')[1]", "(array(i, j))[y]"],
    **{
        name: _each(name, ["a, i", "aj, 1", "aj, -1"])
        for name in ("get", "element_at", "try_element_at")
    },
    **{name: _each(name, ["s", "z"]) for name in ("md5", "sha1", "crc32")},
    "sha2": ["sha2(s, 256)", "sha2(z, 0)", "sha2(s, i)"],
    "bin": ["bin(b)", "bin(y)"],
    **{
        name: _each(name, ["b", "p", "f", "s, i", "m, w, z", "d, t, g"])
        for name in ("hash", "xxhash64")
    },
    "field": ["r.left"],
    "cast": [f"CAST({name} AS {wanted})" for name in _CASTS for wanted in _CASTS[name]],
    "try_cast": [f"TRY_CAST({cast})" for cast in _FAILING_CASTS],
    **{
        f"try_{name}": _each(f"try_{name}", ["i, j", "b, c", "f, e", "m, l", "w, x", "b, 3"])
        for name in ("add", "subtract", "multiply", "divide", "mod")
    },
    "date_format": [
        *(f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')" for name in ("n", "d")),
        *(f"date_format(t, '{pattern}')" for pattern in _PATTERNS),
        *("from_unixtime(b)", "from_unixtime(i, 'E h a')"),
    ],
    "time_floor": [
        *(f"date_trunc('{unit}', t)" for unit in _UNITS),
        *(f"trunc(d, '{unit}')" for unit in _UNITS[:4]),
        *(f"timestamp_floor({name}, '{period}')" for name in _TIMES for period in _PERIODS),
        "timestamp_floor(t, 'PT6H', timestamp '2024-03-10 01:30:00Z')",
        "timestamp_floor(d, 'P3D')",
        "window(t, '7 hours').start",
    ],
    **{
        name: _each(name, ["d", "t", "n"])
        for name in (
            *("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear"),
            *("weekofyear", "yearofweek"),
        )
    },
    **{name: _each(name, _TIMES) for name in ("hour", "minute", "second", "second_with_fraction")},
    "add_interval": [
        *(f"{name} + INTERVAL '{size}'" for name in _TIMES for size in _INTERVALS),
        *(f"d + INTERVAL '{size}'" for size in _DATE_INTERVALS),
    ],
    "time_bucket": [f"time_bucket(INTERVAL '{size}', t)" for size in _BUCKETS],
    "date_add": ["date_add(d, i)", "d + 40"],
    "date_sub": ["date_sub(d, i)", "d - 40"],
    "datediff": ["datediff(d, k)"],
    "timestampdiff": [f"timestampdiff({unit}, t, n)" for unit in ("MONTH", "DAY", "SECOND")],
    "add_months": ["add_months(d, i)", "add_months(d, 1)", "add_months(d, -13)"],
    "last_day": ["last_day(d)"],
    "make_date": ["make_date(i, j, b)", "make_date(i, 2, 29)", "make_date(2023, y, 1)"],
    "make_timestamp_ntz": [
        *("make_timestamp_ntz(2015, y, y, y, y, l)", "make_timestamp_ntz(i, 2, 29, 23, 59, 60)"),
        "make_timestamp(2024, 3, y, 2, y, 1.5)",
    ],
    "hll_sketch_estimate": ["hll_sketch_estimate(z)"],
    "timestamp_seconds": ["timestamp_seconds(b)", "timestamp_seconds(i)"],
    "timestamp_millis": ["timestamp_millis(b)"],
    "timestamp_micros": ["timestamp_micros(b)"],
    "unix_timestamp": ["unix_timestamp(t)", "unix_timestamp(n)"],
    "unix_millis": ["unix_millis(t)"],
    "unix_micros": ["unix_micros(t)"],
}


def call_of(function: str, text: str, zone: str) -> Call | None:
    """Return the call of a function in a text, with columns in place of arguments that vary.

    None if the text is bound to another function in that zone.
    """
    for node in Binder(SCHEMA, zone).bind(parse_sql(text)).walk():
        if isinstance(node, Call) and node.function == function:
            arguments = tuple(
                argument if isinstance(argument, Literal) else Column(argument.type, f"a{index}")
                for index, argument in enumerate(node.arguments)
            )
            return Call(node.type, function, arguments, node.parameters)
    return None


def changes_of(zone: str) -> list[int]:
    """Return the instants at which a zone's clock is changed; any instant if it never is."""
    return zone_table(zone).starts[1:].tolist() or [0]


def values_of(arrow_type: pa.DataType, changes: list[int]) -> st.SearchStrategy:
    """Return awkward values of a type: dates as days, times as microseconds, most near changes."""
    if pa.types.is_integer(arrow_type):
        limit = 1 << (arrow_type.bit_width - 1)
        ends = st.sampled_from([-limit, 1 - limit, limit - 1, limit - 2, 0])
        years = st.integers(-3, 31) | st.integers(max(-limit, 1), min(9999, limit - 1))
        return ends | years | st.integers(-limit, limit - 1)
    if pa.types.is_floating(arrow_type):
        ends = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])
        few = st.integers(-9, 9).map(lambda n: n / 2)
        return ends | few | st.floats(width=arrow_type.bit_width)
    if pa.types.is_decimal(arrow_type):
        limit, scale = 10**arrow_type.precision - 1, arrow_type.scale
        unscaled = st.integers(-limit, limit) | st.sampled_from([-limit, limit])
        small = st.integers(-300, 300).map(lambda n: n * 10**scale // 100)
        return (unscaled | small).map(lambda n: Decimal(n).scaleb(-scale, _WIDE))
    if pa.types.is_boolean(arrow_type):
        return st.booleans()
    if arrow_type == pa.binary():
        return st.binary(max_size=4)
    if arrow_type == pa.date32():
        return _moments(changes).map(lambda micros: min(micros, MAX_MICROS - 1) // DAY)
    if arrow_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return _moments(changes)
    if pa.types.is_nested(arrow_type):
        return _nested(arrow_type)
    plain = st.text(st.characters(codec="utf-8"), max_size=5) | st.text("ab -%_", max_size=6)
    values = ["1", "-7.5", "NaN", "1e400", "2024-02-30", "2024-03-10 02:30", "t", "(", "ß"]
    return plain | st.sampled_from(values)


def _nested(arrow_type: pa.DataType) -> st.SearchStrategy:
    if pa.types.is_struct(arrow_type):
        return st.fixed_dictionaries({"left": st.none() | st.integers(-5, 5)})
    is_text = arrow_type.value_type == pa.string()
    items = st.sampled_from(["", "a", "b"]) if is_text else st.integers(-2, 9)
    return st.lists(st.none() | items, max_size=3)


def _moments(changes: list[int]) -> st.SearchStrategy:
    steps = st.integers(-26 * HOUR, 26 * HOUR) | st.integers(-90, 90).map(lambda n: n * MINUTE)
    steps |= st.integers(-104, 104).map(lambda n: n * 15 * MINUTE)
    steps |= st.integers(-90, 90).map(lambda n: n * DAY) | st.sampled_from([-1, 0, 1, SECOND])
    about = st.tuples(st.sampled_from(changes), steps).map(sum)
    ends = st.sampled_from([MIN_MICROS, MAX_MICROS - 1])
    return about | about | about | ends | st.integers(MIN_MICROS, MAX_MICROS - 1)


def array_of(values: list, arrow_type: pa.DataType) -> pa.Array:
    """Return values in the form of `values_of` as an array."""
    if arrow_type == pa.date32():
        return pa.array(values, pa.int32()).cast(arrow_type)
    if arrow_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


RAISED = "raised"


def outcomes(call: Call, columns: dict[str, list], row_count: int) -> list:
    """Return the call's value for each row as a Python value, RAISED where it raises."""
    arrays = {
        argument.name: array_of(columns[argument.name], argument.type)
        for argument in call.arguments
        if isinstance(argument, Column)
    }
    try:
        return comparable(evaluate(call, arrays, row_count))
    except ProjsegError:
        if row_count == 1:
            return [RAISED]
    found = []
    for row in range(row_count):
        one = {name: values[row : row + 1] for name, values in columns.items()}
        found += outcomes(call, one, 1)
    return found


def comparable(array: pa.Array) -> list:
    """Return values that compare as Spark's do, except NaN; times are numbers."""
    if array.type == pa.date32():
        return array.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64()).to_pylist()
    if array.type == pa.string():
        return array.cast(pa.binary()).to_pylist()
    return array.to_pylist()
