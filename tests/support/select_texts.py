"""Keys, conditions and outputs of SELECTs over `query_cases.SCHEMA`, for Spark and DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

import query_cases
from hypothesis import strategies as st

DATES = [f"DATE '2024-03-{day:02}'" for day in range(8, 15)]


@dataclass(frozen=True)
class Text:
    """An expression in Spark's words, and in DuckDB's; None: DuckDB has another meaning."""

    sql: str
    peer: str | None

    def __repr__(self):
        return self.sql


def both(sql):
    return Text(sql, sql)


def of_spark(sql):
    return Text(sql, None)


def said(form, *parts, peer=None):
    """Return a text made of others."""
    others = [part.peer for part in parts]
    text = form if peer is None else peer
    return Text(
        form.format(*(part.sql for part in parts)), None if None in others else text.format(*others)
    )


TIME_KEYS = [
    *(both(f"date_trunc('{unit}', time)") for unit in ("HOUR", "DAY", "WEEK", "MONTH")),
    Text("to_date(time)", "CAST(time AS DATE)"),
    both("CAST(time AS DATE)"),
    Text("trunc(time, 'MM')", "CAST(date_trunc('month', time) AS DATE)"),
    *(both(f"{name}(time)") for name in ("year", "month", "day", "hour")),
    Text("date_format(time, 'yyyy-MM-dd HH')", "strftime(time, '%Y-%m-%d %H')"),
]
OTHER_KEYS = [
    *(both(name) for name in ("channel", "page", "code", "robot", "day", "amount", "price")),
    *(both(text) for text in ("upper(channel)", "substring(page, 1, 2)", "code % 2", "year(day)")),
    *(both(text) for text in ("md5(page)", "regexp_extract(channel, '([a-c])', 1)", "code + 1")),
    Text("sha2(channel, 256)", "sha256(channel)"),
    Text("split(page, 'a')[0]", "str_split(page, 'a')[1]"),
    Text("bin(code)", "bin(CAST(code AS BIGINT))"),
    Text("try_cast(channel AS INT)", "TRY_CAST(channel AS INT)"),
    both("CASE WHEN code > 0 THEN 'more' WHEN robot THEN channel END"),
    both("coalesce(channel, page, 'none')"),
    Text("date_format(day, 'yyyy/MM')", "strftime(day, '%Y/%m')"),
]
SPARK_KEYS = [
    *(of_spark(f"{name}(channel, code)") for name in ("hash", "xxhash64")),
    *(of_spark(text) for text in ("bround(amount, 1)", "floor(amount, 1)", "crc32(page)")),
    of_spark("date_format(time, 'E h a')"),
    of_spark("from_unixtime(code * 3600)"),
]
KEYS = [*TIME_KEYS, *TIME_KEYS, *OTHER_KEYS]
EVERY_KEY = [*KEYS, *SPARK_KEYS]

_DATE = st.sampled_from(DATES)
_COMPARISON = st.sampled_from(["=", "<", "<=", ">", ">=", "<>"])
_CLOCK = st.sampled_from(["00:00:00", "01:00:00", "02:30:00", "03:00:00", "12:00:00"])
_INSTANT = st.builds(
    lambda date, clock: Text(
        f"TIMESTAMP '{date[6:16]} {clock}'", f"TIMESTAMPTZ '{date[6:16]} {clock}'"
    ),
    _DATE,
    _CLOCK,
)
_DAY_OF_TIME = st.sampled_from([TIME_KEYS[4], TIME_KEYS[5]])
TIME_CONDITION = st.one_of(
    st.builds(
        lambda day, sign, date: said(f"{{0}} {sign} {date}", day), _DAY_OF_TIME, _COMPARISON, _DATE
    ),
    st.builds(
        lambda day, dates: said(f"{{0}} BETWEEN {dates[0]} AND {dates[1]}", day),
        _DAY_OF_TIME,
        st.tuples(_DATE, _DATE).map(sorted),
    ),
    st.builds(
        lambda day, dates: said(f"{{0}} IN ({', '.join(dates)})", day),
        _DAY_OF_TIME,
        st.lists(_DATE, min_size=1, max_size=3),
    ),
    st.builds(
        lambda unit, sign, time: said(f"date_trunc('{unit}', time) {sign} {{0}}", time),
        st.sampled_from(["HOUR", "DAY", "WEEK"]),
        _COMPARISON,
        _INSTANT,
    ),
    st.builds(lambda sign, time: said(f"time {sign} {{0}}", time), _COMPARISON, _INSTANT),
    st.sampled_from(
        [
            *(both(text) for text in ("year(time) = 2024", "year(time) < 2024", "hour(time) < 6")),
            both("month(time) = 3 AND day(time) > 9"),
            Text(
                "trunc(time, 'MM') = DATE '2024-03-01'",
                "CAST(date_trunc('month', time) AS DATE) = DATE '2024-03-01'",
            ),
            Text(
                "date_format(time, 'yyyy-MM-dd') = '2024-03-10'",
                "strftime(time, '%Y-%m-%d') = '2024-03-10'",
            ),
        ]
    ),
)
VALUE_CONDITION = st.sampled_from(
    [
        *(both(condition.sql) for condition in query_cases.CONDITIONS),
        *(both(text) for text in ("left(page, 1) = 'T'", "substring(page, 1, 2) >= 'Ma'")),
        *(both(text) for text in ("lower(channel) = '#a'", "abs(code) = 2", "code % 2 = 0")),
        *(both(text) for text in ("CAST(code AS DOUBLE) > 0.5", "floor(amount) < 0", "code <> 0")),
        both("CASE WHEN robot THEN code > 0 ELSE channel = '#a' END"),
        both("day BETWEEN DATE '2024-02-25' AND DATE '2024-03-05'"),
        both("md5(channel) < '8'"),
        Text("split(page, 'a')[0] = 'M'", "str_split(page, 'a')[1] = 'M'"),
        Text("try_divide(1, code) > 0", "1 / nullif(code, 0) > 0"),
    ]
)
ONE_CONDITION = st.one_of(TIME_CONDITION, VALUE_CONDITION)
CONDITION = st.recursive(
    ONE_CONDITION,
    lambda inner: st.one_of(
        st.builds(lambda a, b: said("({0} AND {1})", a, b), inner, inner),
        st.builds(lambda a, b: said("({0} OR {1})", a, b), inner, inner),
        inner.map(lambda one: said("(NOT ({0}))", one)),
        inner.map(lambda one: said("(({0}) IS NOT TRUE)", one)),
    ),
    max_leaves=3,
)

_MEASURED = [
    *(("sum", name) for name in ("code", "price", "amount")),
    *(("avg", name) for name in ("code", "price")),
    *((least, name) for least in ("min", "max") for name in query_cases.MEASURES["min"]),
    *(("count", name) for name in ("code", "page", "robot", "price")),
    ("var_pop", "code"),
]
_WHOLE = [("sum", "code"), ("count", "code"), ("count", "page"), ("max", "code"), ("min", "code")]


def _conditional(pair, condition, spelling):
    name, measure = pair
    if spelling == "plain":
        return both(f"{name}({measure})")
    forms = {
        "filter": f"{name}({measure}) FILTER (WHERE {{0}})",
        "case": f"{name}(CASE WHEN {{0}} THEN {measure} END)",
        "if": f"{name}(if({{0}}, {measure}, NULL))",
        "not": f"{name}(CASE WHEN {{0}} THEN NULL ELSE {measure} END)",
    }
    return said(forms[spelling], condition)


def _of_rows(condition, spelling):
    forms = {
        "plain": "count(*)",
        "filter": "count(*) FILTER (WHERE {0})",
        "count_if": "count_if({0})",
        "count": "count(CASE WHEN {0} THEN 1 END)",
        "sum": "coalesce(sum(CASE WHEN {0} THEN 1 ELSE 0 END), 0)",
        "if": "coalesce(sum(if({0}, code, 0)), 0)",
    }
    peer = forms["filter"] if spelling == "count_if" else None  # DuckDB's is null over no rows
    return said(forms[spelling], condition, peer=peer)


_SPELLING = st.sampled_from(["plain", "plain", "plain", "filter", "case", "if", "not"])
COUNT = st.builds(
    _of_rows, ONE_CONDITION, st.sampled_from(["plain", "plain", "filter", "count_if", "count"])
)
SUM_OR_ZERO = st.builds(_of_rows, ONE_CONDITION, st.sampled_from(["sum", "if"]))
PLAIN = st.builds(_conditional, st.sampled_from(_MEASURED), ONE_CONDITION, _SPELLING)
WHOLE = st.one_of(
    COUNT,
    SUM_OR_ZERO,
    st.builds(_conditional, st.sampled_from(_WHOLE), ONE_CONDITION, _SPELLING),
)
FROM_ROWS = st.sampled_from(
    [
        both("median(code)"),
        Text("percentile(code, 0.25)", "quantile_cont(code, 0.25)"),
        Text("percentile(amount, 0.5)", "quantile_cont(CAST(amount AS DOUBLE), 0.5)"),
        Text("median(price) FILTER (WHERE price < 9)", "median(price) FILTER (WHERE price < 9)"),
        *(
            Text(
                f"collect_set({name})",
                f"list_sort(coalesce(list(DISTINCT {name}) FILTER (WHERE {name} IS NOT NULL), []))",
            )
            for name in ("code", "channel")
        ),
        *(both(f"count(DISTINCT {name})") for name in ("page", "code", "CAST(time AS DATE)")),
        *(both(text) for text in ("bool_or(code > 0)", "bool_and(robot)", "bit_xor(code)")),
        both("max(date_trunc('DAY', time))"),
        both("min(CAST(time AS DATE))"),
        both("sum(code * 2 + 1)"),
        both("max(upper(page))"),
        both("sum(CAST(code AS DOUBLE) * 0.5)"),
    ]
)


def _composed(form, peer=None):
    return st.builds(lambda a, b: said(form, a, b, peer=peer), WHOLE, WHOLE)


COMPOSED = st.one_of(
    _composed("{0} + 2 * {1}"),
    _composed("coalesce({0}, {1}, 0)"),
    _composed("{0} / nullif({1}, 0)"),
    _composed("try_divide({0}, {1})", "{0} / nullif({1}, 0)"),
    _composed("CASE WHEN {0} > 2 THEN {1} ELSE -1 END"),
    _composed("if({0} > {1}, {0}, NULL)"),
    _composed("greatest({0}, {1}, 0)"),
    _composed("CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
    _composed("{0} IS NULL OR {0} < {1}"),
    st.just(both("coalesce(sum(amount), 0) + sum(code)")),
    st.just(both("sum(price) / count(price)")),
)
STORED = st.one_of(PLAIN, PLAIN, COUNT, SUM_OR_ZERO, COMPOSED)
OUTPUT = st.one_of(PLAIN, PLAIN, PLAIN, COUNT, WHOLE, COMPOSED, COMPOSED, FROM_ROWS)
HAVING = st.one_of(
    _composed("{0} > {1}"),
    _composed("{0} IS NOT NULL AND {1} <> 1"),
    _composed("{0} + {1} BETWEEN 0 AND 6"),
)
