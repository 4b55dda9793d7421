"""Random rows and random SQL expressions over them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("b", pa.int64()),
        ("y", pa.int8()),
        ("f", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("u", pa.string()),
        ("p", pa.bool_()),
        ("d", pa.date32()),
        ("t", TIMESTAMP),
        ("n", TIMESTAMP_NTZ),
    ]
)
_naive = st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2090, 1, 1))
_VALUES = {
    "i": st.integers(-(2**31), 2**31 - 1) | st.integers(-5, 5),
    "b": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    "y": st.integers(-128, 127) | st.integers(-5, 5),
    "f": st.floats(width=64) | st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
    "m": st.decimals(-(10**8) + 1, 10**8 - 1, places=2) | st.sampled_from([Decimal("0.00")]),
    "s": st.text(max_size=4) | st.sampled_from(["", "a", "ab", "Ab", "é", "1", "-7", " 5 "]),
    "u": st.sampled_from(["a", "b", "AB", "%", "a_", "12"]),
    "p": st.booleans(),
    "d": st.dates(dt.date(1950, 1, 1), dt.date(2090, 1, 1)),
    "t": _naive.map(lambda value: value.replace(tzinfo=dt.UTC)),
    "n": _naive,
}


@st.composite
def rows(draw, most=8):
    """Draw (columns by name, rows as dicts), with nulls."""
    count = draw(st.integers(1, most))
    lists = {
        name: draw(st.lists(st.none() | values, min_size=count, max_size=count))
        for name, values in _VALUES.items()
    }
    columns = {name: pa.array(lists[name], SCHEMA.field(name).type) for name in SCHEMA.names}
    return columns, [{name: lists[name][index] for name in lists} for index in range(count)]


_COMPARE = ["=", "!=", "<", "<=", ">", ">=", "<=>"]
_SMALL = st.integers(-5, 5)


def _joined(*parts):
    return st.tuples(*parts).map(lambda texts: f"({' '.join(map(str, texts))})")


def _extended(number, text, condition):
    whole = st.one_of(st.sampled_from(["i", "b", "y"]), _SMALL.map(str))
    return (
        st.one_of(
            _joined(number, st.sampled_from(["+", "-", "*"]), number),
            _joined(number, st.sampled_from(["/", "%"]), number),
            _joined(st.just("-"), number),
            st.tuples(condition, number, number).map(
                lambda c: f"CASE WHEN {c[0]} THEN {c[1]} ELSE {c[2]} END"
            ),
            st.tuples(number, number).map(lambda c: f"coalesce({c[0]}, {c[1]})"),
            text.map(lambda t: f"length({t})"),
        ),
        st.one_of(
            text.map(lambda t: f"lower({t})"),
            text.map(lambda t: f"upper({t})"),
            _joined(text, st.just("||"), text),
            st.tuples(condition, text, text).map(lambda c: f"if({c[0]}, {c[1]}, {c[2]})"),
        ),
        st.one_of(
            _joined(condition, st.sampled_from(["AND", "OR"]), condition),
            condition.map(lambda c: f"(NOT {c})"),
            _joined(number, st.sampled_from(_COMPARE), number),
            _joined(text, st.sampled_from(_COMPARE), text),
            st.tuples(number, whole, whole).map(lambda c: f"({c[0]} BETWEEN {c[1]} AND {c[2]})"),
            st.tuples(number, st.lists(_SMALL, min_size=1, max_size=4)).map(
                lambda c: f"({c[0]} IN ({', '.join(map(str, c[1]))}))"
            ),
            _joined(
                st.one_of(number, text, condition), st.sampled_from(["IS NULL", "IS NOT NULL"])
            ),
            _joined(condition, st.sampled_from(["IS TRUE", "IS NOT TRUE", "IS NOT FALSE"])),
        ),
    )


_NUMBER_LEAVES = st.one_of(
    st.sampled_from(["i", "b", "y", "f", "m"]),
    _SMALL.map(str),
    st.sampled_from(["2.50", "0.1", "3L", "1.5D", "-2Y", "CAST(NULL AS INT)", "7S"]),
)
_TEXT_LEAVES = st.sampled_from(["s", "u", "'a'", "'é'", "''", "CAST(NULL AS STRING)", "'it\\'s'"])
_CONDITION_LEAVES = st.one_of(
    st.sampled_from(["p", "TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"]),
    _joined(st.sampled_from(["i", "b", "f", "m"]), st.sampled_from(_COMPARE), _SMALL),
    st.sampled_from(["(s = 'a')", "(u IN ('a', 'b', NULL))", "(t > '2015-09-12')", "(d IS NULL)"]),
)


def _family(depth):
    if depth == 0:
        return _NUMBER_LEAVES, _TEXT_LEAVES, _CONDITION_LEAVES
    lower = _family(depth - 1)
    leaves = _family(0)
    return tuple(
        st.one_of(leaf, extended) for leaf, extended in zip(leaves, _extended(*lower), strict=True)
    )


numbers, texts, conditions = _family(2)
scalars = st.one_of(numbers, texts, conditions)

TIME_EXPRESSIONS = [
    "date_trunc('HOUR', t)",
    "date_trunc('DAY', t)",
    "date_trunc('WEEK', n)",
    "CAST(t AS DATE)",
    "CAST(n AS TIMESTAMP)",
    "CAST(t AS STRING)",
    "CAST(d AS TIMESTAMP)",
    "trunc(d, 'MM')",
    "trunc(t, 'YEAR')",
    "timestamp_floor(t, 'PT15M')",
    "timestamp_floor(n, 'P1D')",
    "timestamp_floor(t, 'P2M', TIMESTAMP '2020-01-05 06:00:00Z')",
    "timestamp_floor(t, 'PT6H', NULL, 'Asia/Kolkata')",
    "timestamp_floor(d, 'P3D', TIMESTAMP_NTZ '2020-01-02 00:00:00')",
    "year(t)",
    "month(d)",
    "weekofyear(n)",
    "hour(t)",
    "minute(n)",
    "extract(SECOND FROM t)",
    "dayofweek(date_trunc('MONTH', t))",
    "t + INTERVAL '1' MONTH",
    "n - INTERVAL 3 HOURS",
    "d + 5",
    "datediff(t, d)",
    "date_diff(MONTH, t, d)",
    "convert_timezone('Asia/Tokyo', n)",
    "unix_timestamp(n)",
    "add_months(d, i % 3)",
    "(hour(t) = 3) AND in_zone('Asia/Kolkata', hour(t) = 4)",
]
