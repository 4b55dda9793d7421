"""Random tables whose segments hold different projections, and queries that these nearly answer.

Queries are made from projections with small changes, since a random projection hardly ever answers
a random query.
"""

import datetime
import math
import random
from dataclasses import dataclass

import pyarrow as pa

import projseg
from projseg.errors import ProjsegError

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("c", pa.string()),
        ("p", pa.string()),
        ("n", pa.int64()),
        ("m", pa.int32()),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
    ]
)
STORED_KEYS = [
    *("c", "p", "n", "m", "b", "d", "x", "ts", "to_date(ts)", "hour(ts)"),
    *(f"date_trunc('{unit}', ts)" for unit in ("MINUTE", "HOUR", "DAY")),
    *("timestamp_floor(ts, 'PT30M')", "timestamp_floor(ts, 'P1D', null, 'America/Los_Angeles')"),
    *("upper(c)", "m % 3", "coalesce(c, 'zz')", "length(c) + m", "date_trunc('MONTH', d)"),
]
OTHER_KEYS = [
    *("date_trunc('WEEK', ts)", "year(ts)", "day(ts)", "timestamp_floor(ts, 'PT2H')"),
    *(f"timestamp_floor(ts, 'PT1H', null, '{zone}')" for zone in ("Asia/Kolkata", "Asia/Tokyo")),
    *("concat(c, p)", "n + m", "cast(n AS string)", "c IS NULL", "b AND c = 'a'"),
]
VALUES = ["n", "m", "x", "c", "p", "b", "d", "ts", "m + n", "n + 1", "length(c)", "upper(c)"]
NUMBERS = ["n", "m", "x", "m + n", "length(c)", "n * 2"]
BOUNDS = [
    *("2024-03-09", "2024-03-09T05:00", "2024-03-10", "2024-03-10T03:10"),
    *("2024-03-11", "2024-03-11T12:00", "2024-03-12"),
]
ZONES = ["America/Los_Angeles", "Asia/Kolkata", "Europe/Madrid"]


@dataclass(frozen=True)
class Declared:
    """A projection's texts without aliases."""

    keys: list
    aggregates: list
    where: str | None

    def named(self, name):
        """Return the declaration, with aliases."""
        return projseg.Projection(
            name,
            [f"{key} AS g{index}" for index, key in enumerate(self.keys)],
            [f"{call} AS a{index}" for index, call in enumerate(self.aggregates)],
            self.where,
        )


def atom(r):
    """One condition."""
    date, hour = r.choice(["09", "10", "11"]), r.choice(["00:00", "05:00", "08:30", "13:17"])
    compare = r.choice(["<", "<=", ">", ">=", "=", "!="])
    return r.choice(
        [
            f"c = '{r.choice('abcd')}'",
            f"c IN ({', '.join(repr(v) for v in r.sample('abcd', r.randint(1, 3)))})",
            f"n {compare} {r.randint(-3, 6)}",
            f"m BETWEEN {r.randint(-2, 2)} AND {r.randint(1, 5)}",
            f"{r.choice('cnxbp')} IS {r.choice(['', 'NOT '])}NULL",
            r.choice(["b", "NOT b", "b IS TRUE", "b IS NOT FALSE"]),
            f"x {compare} {r.choice(['0', '1.5', repr('NaN')])}",
            f"ts {compare} timestamp '2024-03-{date} {hour}:00'",
            f"date_trunc('{r.choice(['HOUR', 'DAY'])}', ts) = timestamp '2024-03-{date}'",
            f"to_date(ts) {compare} date '2024-03-{date}'",
            f"NOT (ts::date BETWEEN date '2024-03-10' AND date '2024-03-{date}')",
            f"year(ts) {compare} 2024 OR trunc(d, 'WEEK') {compare} date '2024-03-04'",
            f"left(p, 1) {compare} 'q' AND floor(m) {compare} 1",
            f"upper(c) = '{r.choice('ABC')}'",
            f"m % 3 = {r.randint(0, 2)}",
            f"d {compare} date '2024-03-{date}'",
            f"c <=> {r.choice(['null', repr('a')])}",
            f"p > '{r.choice('qr')}'",
            f"hour(ts) < {r.randint(1, 23)}",
            f"p LIKE '{r.choice(['q%', 'r1', '%1', 'q_'])}'",
        ]
    )


def condition(r, depth=2):
    """A condition, perhaps of several."""
    if depth == 0 or r.random() < 0.5:
        return atom(r)
    joined = r.choice(["AND", "OR", "NOT"])
    if joined == "NOT":
        return f"NOT ({condition(r, depth - 1)})"
    return f"({condition(r, depth - 1)} {joined} {condition(r, depth - 1)})"


def filtered(r, call):
    """An aggregate, perhaps with a FILTER."""
    plain = "FILTER" in call or r.random() < 0.75
    return call if plain else f"{call} FILTER (WHERE {condition(r, 1)})"


def aggregate(r):
    """An aggregate over some column or expression."""
    value, number, whole = r.choice(VALUES), r.choice(NUMBERS), r.choice("nm")
    call = r.choice(
        [
            "count(*)",
            f"{r.choice(['count', 'min', 'max', 'first', 'last'])}({value})",
            f"{r.choice(['sum', 'avg', 'var_pop', 'stddev_samp'])}({number})",
            f"count(DISTINCT {value})",
            f"{r.choice(['sum', 'avg'])}(DISTINCT {whole})",
            f"{r.choice(['bit_xor', 'bit_and', 'bit_or'])}({whole})",
            f"{r.choice(['bool_and', 'bool_or'])}(b)",
            f"{r.choice(['min_by', 'max_by'])}({value}, {r.choice('nmd')})",
            f"approx_count_distinct({r.choice('cnm')})",
            f"{r.choice(['hll', 'theta'])}_sketch_agg({r.choice('cn')})",
        ]
    )
    return filtered(r, call)


def rows(r, count):
    """Rows with nulls, NaN, both zeros, and now and then a column of one value."""
    share = r.choice([0, 0.15, 0.15])
    constant = r.choice([None, None, "a"])

    def nullable(value):
        return None if r.random() < share else value

    return pa.Table.from_pylist(
        [
            {
                "ts": datetime.datetime(
                    2024, 3, r.choice((9, 10, 11)), r.randrange(24), r.choice((0, 17, 30, 59)),
                    r.choice((0, 5)), tzinfo=datetime.UTC,
                ),
                "c": constant or nullable(r.choice("abcd")),
                "p": nullable(r.choice(["q", "q1", "r", "r1"])),
                "n": nullable(r.randint(-3, 6)),
                "m": r.randint(-2, 5),
                "x": nullable(r.choice([0.0, -0.0, 1.5, -2.25, math.nan, math.inf])),
                "b": nullable(r.random() < 0.5),
                "d": nullable(datetime.date(2024, 3, r.randint(1, 28))),
            }
            for _ in range(count)
        ],
        schema=SCHEMA,
    )  # fmt: skip


def declaration(r):
    """A projection that may or may not be legal."""
    keys = r.sample(STORED_KEYS, r.randint(0, 4))
    aggregates = [aggregate(r) for _ in range(r.randint(0 if keys else 1, 5))]
    return Declared(keys, aggregates, condition(r, 1) if r.random() < 0.3 else None)


def make_table(r, location):
    """Return a table whose segments hold different projections, and all these projections."""
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="ts",
        segment_granularity=r.choice(["day", "day", "all"]),
        cluster_by=r.choice([(), ("c",), ("ts",)]),
    )
    declared, live = [], set()
    for _ in range(r.randint(1, 3)):
        for name in r.sample(["p0", "p1", "p2", "p3"], r.randint(0, 3)):
            if name in live:
                table.drop_projection(name)
                live.discard(name)
            candidate = declaration(r)
            try:
                table.add_projection(candidate.named(name))
            except ProjsegError:
                continue  # it is not legal, for example with two equal keys
            live.add(name)
            declared.append(candidate)
        table.append(rows(r, r.choice([1, 5, 60, 200])))
    return table, declared


def query_like(r, declared):
    """Return keys, aggregates and conditions that a projection answers, or nearly."""
    keys = r.sample(declared.keys, r.randint(0, len(declared.keys)))
    calls = r.sample(declared.aggregates, r.randint(0, len(declared.aggregates)))
    calls = [filtered(r, call) for call in calls]
    for key in declared.keys:
        if r.random() < 0.3:
            form = r.choice(["min(%s)", "max(%s)", "count(%s)", "count(DISTINCT %s)"])
            calls.append(filtered(r, form % key))
    if r.random() < 0.1:
        calls.append(r.choice(["sum(n)", "sum(m)", "avg(m)", "var_pop(n)", "sum(m + n)"]))
    if r.random() < 0.25:
        keys.append(r.choice(OTHER_KEYS))
    conditions = []
    if declared.where is not None and r.random() < 0.8:
        conditions.append(f"({declared.where})")
    if declared.keys and r.random() < 0.3:
        key = r.choice(declared.keys)
        forms = ["(%s) IS NOT NULL", "(%s) IS NULL", "((%s) IS NOT NULL OR c = 'a')"]
        conditions.append(r.choice(forms) % key)
    if r.random() < 0.3:
        conditions.append(condition(r, 1))
    return keys, calls, conditions


def make_query(r, declared):
    """Return the arguments of `Table.query`, apart from the context, and the zone."""
    if declared and r.random() < 0.85:
        keys, calls, conditions = query_like(r, r.choice(declared))
    else:
        keys = r.sample(STORED_KEYS + OTHER_KEYS, r.choice([0, 1, 1, 2]))
        calls = [aggregate(r) for _ in range(r.choice([0, 1, 2]))]
        conditions = [condition(r)] if r.random() < 0.5 else []
    if not keys and not calls:
        calls = ["count(*)"]
    query = {
        "group_by": [f"{key} AS k{index}" for index, key in enumerate(keys)],
        "aggregators": [f"{call} AS v{index}" for index, call in enumerate(calls)],
        "filter": " AND ".join(conditions) or None,
    }
    if r.random() < 0.4:
        query["interval"] = "/".join(sorted(r.choices(BOUNDS, k=2)))
    return query, {"timezone": r.choice(ZONES)} if r.random() < 0.3 else {}


def answer(table, query, context):
    """Return sorted comparable rows, or the code of the error."""
    try:
        found = table.query(**query, context=context)
    except ProjsegError as error:
        return error.code
    return sorted((tuple(map(comparable, row.values())) for row in found.to_pylist()), key=repr)


def comparable(value):
    """Return a value that equals itself, doubles rounded."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 6) + 0.0
    return value


def random_of(seed):
    """Return the generator of a case."""
    return random.Random(seed)
