"""Random predicates over columns of awkward values, and rows to evaluate them on."""

import datetime
import math

import pyarrow as pa
from hypothesis import strategies as st

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate

COLUMNS = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
    ]
)
TIMES = [
    datetime.datetime(2024, 3, day, hour, minute, tzinfo=datetime.UTC)
    for day in (9, 10, 11)
    for hour in (0, 7, 8, 23)
    for minute in (0, 30)
]
VALUES = {
    "i": [-1, 0, 1, 2, 3, 4],
    "j": [0, 1, 2],
    "s": ["", "a", "ab", "abc", "ac", "b", "é", "a\U0010ffff"],
    "x": [-math.inf, -1.5, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan],
    "b": [True, False],
    "t": TIMES,
    "d": [datetime.date(2024, 3, day) for day in (1, 10, 31)],
}
COMPARISONS = ["=", "!=", "<", "<=", ">", ">=", "<=>"]
DOUBLES = ["-1.5D", "0D", "1D", "double('NaN')", "double('Infinity')"]


def constants(name):
    """SQL texts of constants to compare a column with."""
    return {
        "i": ["0", "1", "2", "3"],
        "j": ["0", "1"],
        "s": ["'a'", "'ab'", "'b'", "''"],
        "x": DOUBLES,
        "b": ["true", "false"],
        "t": [f"timestamp '2024-03-{d} {h}:00:00Z'" for d in ("09", "10") for h in ("00", "07")],
        "d": ["date '2024-03-10'"],
    }[name]


@st.composite
def atoms(draw):
    """One condition on one column, or on two."""
    name = draw(st.sampled_from(COLUMNS.names))
    form = draw(st.integers(0, 8))
    pick = st.sampled_from(constants(name))
    if form <= 2:
        return f"{name} {draw(st.sampled_from(COMPARISONS))} {draw(pick)}"
    if form == 3:
        options = draw(st.lists(pick, min_size=1, max_size=3))
        return f"{name} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(options)})"
    if form == 4:
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if form == 5:
        return f"{name} BETWEEN {draw(pick)} AND {draw(pick)}"
    if form == 6:
        return draw(st.sampled_from(["i < j", "i = j", "i + j > 2", "b", "isnan(x)", "b IS TRUE"]))
    if form == 7:
        return draw(st.sampled_from(["s LIKE 'a%'", "s LIKE 'ab%'", "s LIKE 'a'", "s LIKE '%b'"]))
    unit, zone = draw(st.sampled_from(["HOUR", "DAY"])), "2024-03-10 00:00:00Z"
    return f"date_trunc('{unit}', t) {draw(st.sampled_from(COMPARISONS))} timestamp '{zone}'"


def predicates():
    """Conditions joined by AND, OR, NOT and IS TRUE."""
    return st.recursive(
        atoms(),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
                lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
            ),
            inner.map(lambda text: f"(NOT ({text}))"),
            inner.map(lambda text: f"(({text}) IS TRUE)"),
        ),
        max_leaves=4,
    )


@st.composite
def tables(draw, most=40):
    """Rows with nulls, NaN and both zeros; sometimes a column of one value or of none."""
    count = draw(st.integers(1, most))
    columns = {}
    for name in COLUMNS.names:
        values = draw(st.lists(st.sampled_from(VALUES[name]), min_size=1, max_size=4))
        options = st.sampled_from([*values, None] if draw(st.booleans()) else values)
        columns[name] = draw(st.lists(options, min_size=count, max_size=count))
    return pa.table(columns, schema=COLUMNS)


def condition(text):
    """Return the bound expression of a condition."""
    return bind(text, COLUMNS)


def truths(expression, table):
    """Return True, False or None for each row."""
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return evaluate(expression, columns, table.num_rows).to_pylist()
