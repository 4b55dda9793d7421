"""Hypothesis strategies for whole cases: rows, segments, projections, queries.

Every expression and condition is SQL text with a Python function that computes the same.
"""

import datetime
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

UTC = datetime.UTC
START = datetime.datetime(2024, 2, 28, 20, tzinfo=UTC)

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("channel", pa.string()),
        ("page", pa.string()),
        ("code", pa.int32()),
        ("big", pa.int64()),
        ("robot", pa.bool_()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
    ]
)

_TIMES = st.integers(0, 4 * 24 * 60).map(lambda m: START + datetime.timedelta(minutes=m))


def _nullable(values):
    return st.one_of(st.none(), values, values, values)


ROW = st.fixed_dictionaries(
    {
        "time": _TIMES,
        "channel": _nullable(st.sampled_from(["#a", "#b", "#c", ""])),
        "page": _nullable(st.sampled_from(["Main", "Talk", "Élan", "zz", "\U0001f600"])),
        "code": _nullable(st.integers(-3, 3)),
        "big": _nullable(
            st.one_of(st.integers(-100, 100), st.sampled_from([2**62, -(2**62), 10**12]))
        ),
        "robot": _nullable(st.booleans()),
        "price": _nullable(
            st.sampled_from([0.0, -0.0, 0.25, 1.5, -7.75, 1e6, float("inf"), float("nan")])
        ),
        "amount": _nullable(st.integers(-(10**9), 10**9).map(lambda n: Decimal(n).scaleb(-2))),
        "day": _nullable(
            st.integers(0, 40).map(lambda n: datetime.date(2024, 2, 20) + datetime.timedelta(n))
        ),
    }
)


@dataclass(frozen=True)
class Expr:
    """SQL, and a function of a row that computes the same."""

    sql: str
    of: object

    def __repr__(self):
        return self.sql


def column(name):
    return Expr(name, lambda row: row[name])


def _lifted(function):
    """Return a function that is null if any argument is, as in SQL."""
    return lambda *values: None if any(v is None for v in values) else function(*values)


def _over(name, sql, function):
    lifted = _lifted(function)
    return Expr(sql, lambda row: lifted(row[name]))


HOUR = _over(
    "time", "date_trunc('HOUR', time)", lambda t: t.replace(minute=0, second=0, microsecond=0)
)
DAY = _over(
    "time",
    "date_trunc('DAY', time)",
    lambda t: t.replace(hour=0, minute=0, second=0, microsecond=0),
)
TIME_FLOORS = [HOUR, DAY]
VIRTUAL = [
    _over("channel", "upper(channel)", str.upper),
    _over("page", "substring(page, 1, 2)", lambda p: p[:2]),
    _over("code", "abs(code)", abs),
    _over("code", "code + 1", lambda c: c + 1),
    Expr("coalesce(channel, 'none')", lambda r: "none" if r["channel"] is None else r["channel"]),
]
KEY_COLUMNS = [column(n) for n in ("channel", "page", "code", "robot", "price", "day", "amount")]
KEYS = [*TIME_FLOORS, *VIRTUAL, *KEY_COLUMNS]

MEASURES = {
    "sum": ["code", "big", "price", "amount"],
    "avg": ["code", "price", "amount"],
    "min": ["code", "big", "price", "amount", "page", "time", "day", "robot"],
    "max": ["code", "big", "price", "amount", "page", "time", "day", "robot"],
    "count": ["code", "page", "robot"],
    "count_distinct": ["page", "code", "channel"],
    "var_pop": ["code"],
}

_is = _lifted(lambda a, b: a == b)
CONDITIONS = [
    Expr("robot", lambda r: r["robot"]),
    Expr("NOT robot", lambda r: None if r["robot"] is None else not r["robot"]),
    Expr("channel = '#a'", lambda r: _is(r["channel"], "#a")),
    Expr("channel IN ('#a', '#b')", lambda r: _lifted(lambda c: c in ("#a", "#b"))(r["channel"])),
    Expr("channel <> '#c'", lambda r: _lifted(lambda c: c != "#c")(r["channel"])),
    Expr("channel IS NULL", lambda r: r["channel"] is None),
    Expr("page LIKE 'T%'", lambda r: _lifted(lambda p: p.startswith("T"))(r["page"])),
    Expr("page >= 'Talk'", lambda r: _lifted(lambda p: p.encode() >= b"Talk")(r["page"])),
    Expr("code > 0", lambda r: _lifted(lambda c: c > 0)(r["code"])),
    Expr("code BETWEEN -1 AND 2", lambda r: _lifted(lambda c: -1 <= c <= 2)(r["code"])),
    Expr("code IS NOT NULL", lambda r: r["code"] is not None),
    Expr("price > 1", lambda r: _lifted(lambda p: p != p or p > 1)(r["price"])),
    Expr("big >= 10", lambda r: _lifted(lambda b: b >= 10)(r["big"])),
]


def _and(a, b):
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a, b):
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


CONDITION = st.recursive(
    st.sampled_from(CONDITIONS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(
            lambda p: Expr(f"({p[0].sql} AND {p[1].sql})", lambda r: _and(p[0].of(r), p[1].of(r)))
        ),
        st.tuples(inner, inner).map(
            lambda p: Expr(f"({p[0].sql} OR {p[1].sql})", lambda r: _or(p[0].of(r), p[1].of(r)))
        ),
    ),
    max_leaves=3,
)


@dataclass(frozen=True)
class Aggregate:
    """An aggregate as SQL and as the oracle's call."""

    sql: str
    call: tuple

    def __repr__(self):
        return self.sql


def _aggregate(name, measure, condition, spelling):
    """An aggregate; its condition is spelled FILTER, or CASE around the measure."""
    value, function = {
        "count_star": ("1" if condition and spelling == "case" else "*", "count("),
        "count_distinct": (measure, "count(DISTINCT "),
    }.get(name, (measure, f"{name}("))
    if condition is None:
        text = f"{function}{value})"
    elif spelling == "case" and measure != "big":
        text = f"{function}CASE WHEN {condition.sql} THEN {value} END)"
    else:
        text = f"{function}{value}) FILTER (WHERE {condition.sql})"
    argument = None if name == "count_star" else (lambda row: row[measure])
    return Aggregate(text, (name, argument, None if condition is None else condition.of))


def _sum_or_zero(measure, condition):
    def value(row):
        return row[measure] if condition.of(row) is True else 0

    return Aggregate(
        f"sum(CASE WHEN {condition.sql} THEN {measure} ELSE 0 END)", ("sum", value, None)
    )


PLAIN_AGGREGATE = st.one_of(
    st.just(("count_star", None)),
    st.sampled_from([(name, m) for name, measures in MEASURES.items() for m in measures]),
).flatmap(
    lambda pair: st.builds(
        _aggregate,
        st.just(pair[0]),
        st.just(pair[1]),
        st.one_of(st.none(), st.none(), st.sampled_from(CONDITIONS)),
        st.sampled_from(["filter", "case"]),
    )
)
SUM_OR_ZERO = st.builds(
    _sum_or_zero, st.sampled_from(["code", "amount"]), st.sampled_from(CONDITIONS)
)
_WHOLE = PLAIN_AGGREGATE.filter(
    lambda a: a.sql.startswith(("sum(code)", "count(")) and "DISTINCT" not in a.sql
)


def _composed(sql, function):
    """Return a strategy of expressions over two aggregates whose values are whole numbers."""
    return st.tuples(_WHOLE, _WHOLE).map(
        lambda parts: Aggregate(
            sql.format(*(part.sql for part in parts)),
            (function, [part.call for part in parts]),
        )
    )


COMPOSED = st.one_of(
    _composed("{0} + 2 * {1}", _lifted(lambda a, b: a + 2 * b)),
    _composed("coalesce({0}, {1}, 0)", lambda a, b: next((v for v in (a, b) if v is not None), 0)),
    _composed("{0} / nullif({1}, 0)", lambda a, b: _lifted(lambda x, y: x / y)(a, b or None)),
    _composed(
        "CASE WHEN {0} > 2 THEN {1} ELSE -1 END",
        lambda a, b: b if a is not None and a > 2 else -1,
    ),
)
AGGREGATE = st.one_of(*[PLAIN_AGGREGATE] * 6, COMPOSED, COMPOSED, SUM_OR_ZERO)
HAVING = st.one_of(
    _composed("{0} > {1}", _lifted(lambda a, b: a > b)),
    _composed("{0} IS NOT NULL AND {1} <> 1", lambda a, b: _and(a is not None, _unlike_one(b))),
)
_unlike_one = _lifted(lambda value: value != 1)
STORED_AGGREGATE = AGGREGATE.filter(lambda a: "DISTINCT" not in a.sql)


@dataclass(frozen=True)
class Case:
    """Batches of rows, the projections declared before each, and queries to ask at the end."""

    batches: list
    projections: list
    queries: list = field(default_factory=list)


@dataclass(frozen=True)
class ProjectionCase:
    """A projection of generated parts."""

    keys: list
    aggregates: list
    condition: object


@dataclass(frozen=True)
class QueryCase:
    """A query of generated parts."""

    keys: list
    aggregates: list
    condition: object
    interval: object
    having: object = None

    @property
    def keep(self):
        """The condition on rows, the interval included."""

        def kept(row):
            if self.interval and not self.interval[0] <= row["time"] < self.interval[1]:
                return False
            return True if self.condition is None else self.condition.of(row)

        return kept


def _distinct(strategy, **sizes):
    return st.lists(strategy, unique_by=lambda e: e.sql, **sizes)


PROJECTION = st.builds(
    ProjectionCase,
    _distinct(st.sampled_from(KEYS), max_size=4),
    _distinct(STORED_AGGREGATE, max_size=5),
    st.one_of(st.none(), st.none(), CONDITION),
).filter(lambda p: p.keys or p.aggregates)

_BOUND = st.integers(0, 4 * 24 * 2).map(lambda n: START + datetime.timedelta(minutes=30 * n))
QUERY = st.builds(
    QueryCase,
    _distinct(st.sampled_from(KEYS), max_size=3),
    _distinct(AGGREGATE, min_size=1, max_size=4),
    st.one_of(st.none(), CONDITION),
    st.one_of(st.none(), st.tuples(_BOUND, _BOUND).map(sorted)),
    st.one_of(st.none(), st.none(), HAVING),
)

CASE = st.builds(
    Case,
    st.lists(st.lists(ROW, max_size=25), min_size=1, max_size=3),
    st.lists(PROJECTION, min_size=1, max_size=3),
    st.lists(QUERY, min_size=1, max_size=4),
)
