"""Pairs of a projection and a question that it answers only by what follows from its states.

Each kind draws a projection and a question; `KINDS` names them. The rows hold nulls, NaN, both
zeros and numbers near the ends of their types.
"""

import datetime
import decimal
import math

import pyarrow as pa

import projseg
from projseg.errors import ProjsegError

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("h", pa.int32()),
        ("d", pa.date32()),
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.int16()),
        ("big", pa.int64()),
        ("p", pa.decimal128(12, 2)),
        ("q", pa.decimal128(10, 3)),
        ("f", pa.float64()),
        ("r", pa.float32()),
        ("b", pa.bool_()),
        ("one", pa.string()),
        ("t", pa.string()),
    ]
)
_DAYS = (9, 10, 11)


def rows(r, count):
    """Return rows with nulls in some columns; `big` nears the end of bigint."""

    def nullable(value):
        return None if r.random() < 0.2 else value

    def row():
        return {
            "ts": datetime.datetime(
                2024, 3, r.choice(_DAYS), r.randrange(24), r.randrange(60), r.choice((0, 5)),
                r.choice((0, 0, 999_999)), tzinfo=datetime.UTC,
            ),
            "k": nullable(r.choice("abcd")),
            "g": r.randint(-2, 3),
            "h": nullable(r.randint(0, 4)),
            "d": nullable(datetime.date(2024, 3, r.randint(1, 28))),
            "x": r.randint(-50, 1000),
            "y": nullable(r.randint(-9, 9)),
            "i": r.randint(-100, 100_000),
            "s": r.randint(-300, 300),
            "big": r.choice((0, 1, -7, 2**62, 2**63 - 3)),
            "p": decimal.Decimal(r.randint(-10_000, 99_999)) / 100,
            "q": nullable(decimal.Decimal(r.randint(-999, 9_999)) / 1000),
            "f": nullable(r.choice([0.0, -0.0, 1.5, -2.25, 1e9, math.nan, math.inf])),
            "r": nullable(r.choice([0.5, -1.25, 3.0])),
            "b": nullable(r.random() < 0.5),
            "one": "only",
            "t": nullable(r.choice(["page1", "page2", "pagé", "pa", "", "Xage", "paging"])),
        }  # fmt: skip

    return pa.Table.from_pylist([row() for _ in range(count)], schema=SCHEMA)


def _keys(r):
    """Grouping columns of a projection, and those of a question among them."""
    stored = r.sample(["k", "g", "h", "b"], r.randint(1, 3))
    return stored, r.sample(stored, r.randint(0, len(stored)))


def _pair(r, aggregators, calls, *, group_by=(), where=None, filter=None, keys=None):
    stored, asked = _keys(r) if keys is None else keys
    return (
        ([*dict.fromkeys((*stored, *group_by))], aggregators, where),
        {"group_by": asked, "aggregators": calls, "filter": filter},
    )


def _constant(r):
    return r.choice(["1", "2", "-3", "100"])


def linear(r):
    """Sums and averages of linear expressions of whole numbers."""
    c, e = _constant(r), _constant(r)
    form = r.choice(
        [
            *(f"x + {c}", f"{c} * x", f"{c} * x - {e}", "x - y", "x + y", "-x", f"{c} * (x - {e})"),
            *("i + s", f"i * {c} + y", "x + i - s", f"y - {c}", f"({c} + y) * {e} - 2 * x"),
        ]
    )
    names = [name for name in ("x", "y", "i", "s") if name in form]
    stored = ["count(*)", *(f"{f}({name})" for name in names for f in ("sum", "count"))]
    if "y" in names:
        stored += [f"sum({name}) FILTER (WHERE y IS NOT NULL)" for name in names if name != "y"]
    return _pair(r, stored, [f"{r.choice(['sum', 'avg'])}({form})"])


def linear_decimals(r):
    """The same of decimals, whose results have more digits."""
    form = r.choice(["p + 1", "2 * p", "p * 1.10", "p - 0.005", "p * 3 - 1.5", "-p", "p * 1.5 + x"])
    return _pair(r, ["count(*)", "sum(p)", "sum(x)"], [f"{r.choice(['sum', 'avg'])}({form})"])


def by_grouped(r):
    """Products of a column with grouping columns."""
    form = r.choice(
        ["x * g", "x * (1 - g)", "p * (1 - g)", "x + g", "x * h", "x - h * 2", "p * g * 1.5 + 1"]
    )
    stored = ["g", "h", *r.sample(["k", "b"], r.randint(0, 1))]
    keys = stored, r.sample(stored, r.randint(0, 2))
    call = f"{r.choice(['sum', 'sum', 'avg'])}({form})"
    return _pair(r, ["count(*)", "sum(x)", "sum(p)"], [call], keys=keys)


def chosen(r):
    """Sums of CASE by conditions on grouping columns."""
    condition = r.choice(["k = 'a'", "h > 1", "k IN ('a', 'b') AND g >= 0", "b", "NOT b OR g = 1"])
    form = r.choice(
        [
            *(f"CASE WHEN {condition} THEN x ELSE 0 END", f"if({condition}, y, 0)"),
            *(f"CASE WHEN {condition} THEN p ELSE 0 END", f"x * if({condition}, 1, 0)"),
            *(f"CASE WHEN {condition} THEN x WHEN h = 0 THEN y ELSE 1 END",),
            *(f"CASE WHEN {condition} THEN x + 1 ELSE -x END", f"if({condition}, 1, 0)"),
        ]
    )
    stored = ["k", "g", "h", "b"]
    return _pair(
        r,
        ["count(*)", "sum(x)", "sum(y)", "count(y)", "sum(p)"],
        [f"{r.choice(['sum', 'sum', 'avg'])}({form})"],
        keys=(stored, r.sample(stored, r.randint(0, 2))),
    )


def widened(r):
    """Casts to wider types inside aggregates."""
    name = r.choice(["x", "y", "i", "s", "p", "q", "r"])
    wide = {
        "x": ["DECIMAL(20,0)", "DOUBLE", "DECIMAL(22,2)"], "y": ["DECIMAL(20,0)", "DOUBLE"],
        "i": ["BIGINT", "DOUBLE", "DECIMAL(10,0)"], "s": ["INT", "BIGINT", "DOUBLE"],
        "p": ["DECIMAL(20,2)", "DECIMAL(18,4)"], "q": ["DECIMAL(12,3)"], "r": ["DOUBLE"],
    }[name]  # fmt: skip
    function = r.choice(["sum", "avg", "min", "max", "count"])
    stored = [f"{f}({name})" for f in ("sum", "count", "min", "max")]
    return _pair(r, stored, [f"{function}(CAST({name} AS {r.choice(wide)}))"])


def of_nulls(r):
    """COALESCE, IS NULL and what is never null."""
    call, more, where = r.choice(
        [
            ("sum(coalesce(y, 0))", [], None),
            ("sum(coalesce(y, 5))", [], None),
            ("avg(coalesce(y, 0))", [], None),
            ("sum(coalesce(q, 0))", ["sum(q)", "count(q)"], None),
            ("sum(nvl(y, 0) + x)", ["sum(x)"], None),
            ("count_if(y IS NULL)", [], None),
            ("count_if(y IS NOT NULL)", [], None),
            ("count(*) FILTER (WHERE y IS NULL)", [], None),
            ("sum(if(y IS NULL, 1, 0))", [], None),
            ("count(coalesce(y, 0))", [], None),
            ("count(y IS NULL)", [], None),
            ("count(if(y > 1, 1, 0))", [], None),
            ("count(x + 1)", [], None),
            ("sum(y)", [], "y IS NOT NULL"),
            ("avg(y)", [], "y IS NOT NULL"),
            ("count(*)", [], "y IS NOT NULL"),
            ("min(y)", ["min(y)"], "y IS NOT NULL"),
        ]
    )
    return _pair(r, ["count(*)", "sum(y)", "count(y)", *more], [call], filter=where)


def of_extremes(r):
    """Extremes of functions that rise or fall."""
    form, name = r.choice(
        [
            *((f"{f}({c})", c) for c in ("ts", "d") for f in ("year", "to_date", "last_day")),
            *(("date_trunc('MONTH', ts)", "ts"), ("unix_timestamp(ts)", "ts"), ("x + 1", "x")),
            *(
                ("ts + INTERVAL 9 HOURS", "ts"),
                ("d + 3", "d"),
                ("date_sub(d, 2)", "d"),
                ("-x", "x"),
            ),
            *(("100 - x", "x"), ("x * 2", "x"), ("CAST(y AS DOUBLE)", "y"), ("floor(p)", "p")),
            *(("round(p)", "p"), ("x + g", "x"), ("left(k, 1)", "k"), ("x DIV 10", "x")),
            *(("CAST(i AS SMALLINT)", "i"), ("big + 1", "big"), ("x - h", "x")),
        ]
    )
    calls = [f"{r.choice(['min', 'max'])}({form})"]
    if r.random() < 0.4:
        name = r.choice(["x", "y"])
        condition = r.choice([f"{name} > 5", f"{name} >= -9", f"{name} < 0", f"NOT {name} > 500"])
        calls = [f"{r.choice(['bool_or', 'bool_and'])}({condition})"]
    keys = ["g", "h"], r.sample(["g", "h"], r.randint(0, 2))
    return _pair(r, [f"min({name})", f"max({name})"], calls, keys=keys)


def of_times(r):
    """Arithmetic on times as grouping columns and in filters."""
    bucket = r.choice(["date_trunc('HOUR', ts)", "timestamp_floor(ts, 'PT30M')"])
    stored = [bucket, *r.sample(["k", "g"], 1)]
    form = r.choice(
        [
            "unix_timestamp(ts) DIV 3600",
            "floor(unix_timestamp(ts) / 3600)",
            "date_trunc('DAY', ts + INTERVAL 9 HOURS)",
            "to_date(ts - INTERVAL 3 HOURS)",
            "hour(ts + INTERVAL 9 HOURS)",
            "date_trunc('HOUR', ts - INTERVAL 60 MINUTES)",
            "CAST(to_timestamp(ts) AS BIGINT) DIV 7200",
            "unix_micros(ts) DIV 86400000000",
        ]
    )
    condition = r.choice(
        [
            None,
            "ts + INTERVAL 9 HOURS >= TIMESTAMP '2024-03-10 12:00:00'",
            "unix_timestamp(ts) >= 1710072000",
            "ts - INTERVAL 1 DAY < TIMESTAMP '2024-03-09 05:00:00'",
            "unix_timestamp(ts) DIV 3600 = 475020",
        ]
    )
    keys = stored, r.choice([[form], [form, stored[1]], [stored[1]] if condition else [form]])
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)", "count(*)"], keys=keys, filter=condition)


def of_ranges(r):
    """OR of ranges of time."""
    hour = r.choice(["00", "05", "12"])
    aligned = (
        f"(ts >= TIMESTAMP '2024-03-09 {hour}:00:00' AND ts < TIMESTAMP '2024-03-10 {hour}:00:00')"
    )
    ragged = "(ts > TIMESTAMP '2024-03-10 22:10:07' AND ts <= TIMESTAMP '2024-03-11 03:30:00')"
    other = r.choice(
        [
            "ts >= TIMESTAMP '2024-03-11 07:00:00'",
            "to_date(ts) = DATE '2024-03-11'",
            "hour(ts) = 23",
            "k = 'a'",
        ]
    )
    condition = r.choice(
        [f"{aligned} OR {other}", f"NOT ({aligned} OR {other})", f"{aligned} OR {ragged}"]
    )
    keys = ["date_trunc('HOUR', ts)", "k"], r.choice([[], ["k"], ["to_date(ts)"]])
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)"], keys=keys, filter=condition)


def of_constants(r):
    """Filters that follow once a column has one value, or one day, in the segment."""
    where = r.choice(["k = 'a'", "k = 'a' AND one = 'only'", "g > 0", "k IN ('a', 'b')"])
    first = where.split(" AND ")[0]
    condition = r.choice(
        [
            f"({first}) AND (one = 'only' OR h = 2)",
            f"({first}) OR one = 'other'",
            f"(one = 'only' AND {first}) OR (one = 'other' AND x > 3)",
            f"({first} AND to_date(ts) >= DATE '2024-03-09') OR to_date(ts) < DATE '2024-03-01'",
        ]
    )
    keys = ["g", "k"], r.choice([[], ["g"], ["one", "k"]])
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)"], keys=keys, where=where, filter=condition)


def of_finer(r):
    """The same function of a finer constant: quotients of quotients, prefixes of prefixes."""
    stored, asked = r.choice(
        [
            (f"x DIV {(n := r.choice([10, -3, 1]))}", f"x DIV {n * r.choice([2, -7, 1])}"),
            ("i DIV 5", "i DIV 100"),
            (f"left(t, {r.randint(3, 5)})", f"left(t, {r.randint(0, 3)})"),
            ("substr(t, 1, 4)", f"substring(t, {r.randint(0, 2)}, {r.randint(-1, 2)})"),
            ("left(t, 4)", f"startswith(t, '{r.choice(['pa', 'page', 'paé', ''])}')"),
            ("left(t, 3)", "CASE WHEN startswith(t, 'pag') THEN left(t, 2) ELSE 'z' END"),
            ("NOT b", r.choice(["b", "coalesce(b, false)", "b AND g > 0 OR b IS NULL"])),
            ("b = false", "NOT b"),
        ]
    )
    condition = r.choice([None, f"({asked}) IS NOT NULL"])
    keys = [stored, "g"], [asked]
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)"], keys=keys, filter=condition)


def of_texts_of_times(r):
    """The first characters of the text of a time, from buckets of it."""
    bucket, most = r.choice(
        [
            ("date_trunc('HOUR', ts)", 13),
            ("to_date(ts)", 10),
            ("date_trunc('MONTH', ts)", 7),
            ("date_trunc('MINUTE', ts)", 16),
        ]
    )
    length = r.choice([n for n in (0, 4, 7, 10, 12, 13, 16) if n <= most])
    form = r.choice(["left(CAST(ts AS STRING), {})", "substr(CAST(ts AS STRING), 1, {})"])
    form = form.format(length)
    condition = r.choice([None, f"{form} > '2024-03-10'", f"{form} LIKE '2024%'"])
    keys = [bucket, "k"], r.choice([[form], [form, "k"]])
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)"], keys=keys, filter=condition)


def of_presence(r):
    """Whether some value, or each, is null: from counts."""
    value = r.choice(["y", "q", "f", "x", "y + 1", "k"])
    call = r.choice(["any", "every", "bool_or", "bool_and", "max", "min"])
    call = f"{call}({value} IS {r.choice(['', 'NOT '])}NULL)"
    if r.random() < 0.3:
        call += f" FILTER (WHERE {r.choice(['g > 0', 'h = 1', 'b'])})"
    condition = r.choice([None, None, "g >= 0", "h IS NULL", "g > 100"])
    more = [f"count({value}) FILTER (WHERE g > 0)"] if r.random() < 0.3 else []
    keys = ["g", "h", "b"], r.sample(["g", "h", "b"], r.randint(0, 2))
    return _pair(r, ["count(*)", f"count({value})", *more], [call], keys=keys, filter=condition)


def chosen_extremes(r):
    """The least and the greatest of CASE by conditions on grouping columns."""
    condition = r.choice(["k = 'a'", "h > 1", "k IN ('a', 'b') AND g >= 0", "b", "NOT b OR g = 1"])
    value, other = r.choice(
        [
            ("x", "0"), ("x + 1", "7"), ("y", "-100"), ("y", "y + 1"), ("2 * x", "x"), ("p", "0"),
            ("p + 1", "NULL"), ("f", "0D"), ("f", "CAST('NaN' AS DOUBLE)"), ("r", "-r"),
            ("d", "NULL"), ("x", "g"), ("k", "'zz'"), ("y", "CASE WHEN g = 0 THEN 5 ELSE x END"),
        ]
    )  # fmt: skip
    form = r.choice(["CASE WHEN {} THEN {} ELSE {} END", "if({}, {}, {})"])
    form = form.format(condition, value, other)
    if r.random() < 0.2:
        form = f"coalesce({form}, 3)" if value in ("x", "y", "x + 1") else form
    names = [name for name in "xypfrd" if name in f"{value} {other}"]
    stored = ["count(*)", *(f"{f}({name})" for name in names for f in ("min", "max"))]
    call = f"{r.choice(['min', 'max'])}({form})"
    if r.random() < 0.2:
        call += f" FILTER (WHERE {r.choice(['g > 0', 'h IS NULL', 'k <> ' + repr('b')])})"
    keys = ["k", "g", "h", "b"], r.sample(["k", "g", "h", "b"], r.randint(0, 2))
    return _pair(r, stored, [call], keys=keys)


def of_inverses(r):
    """Keys of which a projection groups by a function that can be inverted."""
    stored, asked = r.choice(
        [
            ("CAST(g AS BIGINT)", "g"),
            ("g + 1", "g"),
            ("CAST(s AS STRING)", "s"),
            ("concat('a', k)", "k"),
            ("concat(k, '-x')", "k"),
            ("-g", "g"),
            ("10 - g", "g % 2"),
            ("CAST(d AS STRING)", "d"),
            ("CAST(g AS DECIMAL(12,2))", "g + 5"),
        ]
    )
    condition = r.choice([None, f"{asked} IS NOT NULL"])
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)"], keys=([stored], [asked]), filter=condition)


def of_sketches(r):
    """Sketches of lower precision."""
    stored, call = r.choice(
        [
            ("hll_sketch_agg(x, 12)", "hll_sketch_agg(x, 10)"),
            ("theta_sketch_agg(x, 12)", "theta_sketch_agg(x, 10)"),
            ("kll_sketch_agg_bigint(x, 400)", "kll_sketch_agg_bigint(x, 200)"),
            ("hll_sketch_agg(x)", "approx_count_distinct(x)"),
            ("approx_percentile(x, 0.5, 10000)", "approx_percentile(x, 0.25, 100)"),
            ("approx_percentile(y, 0.5, 100)", r.choice(["min(y)", "max(y)", "max(-y)"])),
            ("kll_sketch_agg_double(f, 8)", r.choice(["min(f)", "max(f)"])),
            ("approx_percentile(p, 0.5, 100)", r.choice(["min(p)", "max(p)", "min(floor(p))"])),
            ("hll_sketch_agg(k, 12)", "hll_sketch_agg(k, 4)"),
            ("theta_sketch_agg(i, 12)", "theta_sketch_agg(i, 4)"),
        ]
    )
    return _pair(r, [stored, "count(*)"], [call])


def filtered_for_its_part(r):
    """A question wider than the filter of a projection, which rows complete."""
    where = r.choice(["k = 'a'", "g > 0", "k IN ('a', 'b')"])
    keys = ["g", "k"], r.choice([[], ["g"]])
    condition = r.choice([None, "k <> 'z'", f"{where} OR g = -2", f"{where} OR y > 2"])
    return _pair(r, ["count(*)", "sum(x)"], ["sum(x)"], keys=keys, where=where, filter=condition)


def plain(r):
    """What is stored, narrowed or grouped again."""
    call = r.choice(["sum(x)", "avg(y)", "count(*)", "max(h)", "sum(g)", "count(DISTINCT k)"])
    stored, asked = ["k", "g", "h"], r.sample(["k", "g", "upper(k)", "g % 2"], r.randint(0, 2))
    condition = r.choice([None, "h = 1", "k IN ('a', 'c') OR g > 2"])
    stored_calls = ["count(*)", "sum(x)", "sum(y)", "count(y)"]
    return _pair(r, stored_calls, [call], keys=(stored, asked), filter=condition)


KINDS = {
    linear: 40,
    linear_decimals: 20,
    by_grouped: 25,
    chosen: 25,
    widened: 25,
    of_nulls: 25,
    of_extremes: 25,
    of_times: 20,
    of_ranges: 10,
    of_constants: 10,
    of_inverses: 8,
    of_finer: 12,
    of_texts_of_times: 10,
    chosen_extremes: 12,
    of_presence: 10,
    of_sketches: 5,
    filtered_for_its_part: 4,
    plain: 8,
}
"""From each kind to how many of 294 pairs are of it."""


def pairs(r, count=250):
    """Return (kind, projection, question): `count` of them, of all kinds."""
    share = count / sum(KINDS.values())
    return [
        (kind.__name__, *kind(r))
        for kind, many in KINDS.items()
        for _ in range(round(many * share))
    ]


def named(number, declared):
    """Return a projection's declaration."""
    keys, aggregators, where = declared
    return projseg.Projection(
        f"p{number}",
        [f"{key} AS g{place}" for place, key in enumerate(keys)],
        [f"{call} AS a{place}" for place, call in enumerate(dict.fromkeys(aggregators))],
        where,
    )


def asked(question):
    """Return the arguments of `Table.query`, with aliases."""
    return {
        "group_by": [f"{key} AS k{place}" for place, key in enumerate(question["group_by"])],
        "aggregators": [
            f"{call} AS v{place}" for place, call in enumerate(question["aggregators"])
        ],
        "filter": question["filter"],
    }


def make_table(r, location, drawn, *, row_count=150):
    """Return a table of three segments that hold a projection of each pair."""
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="ts",
        segment_granularity="day",
        projections=[named(number, declared) for number, (_, declared, _) in enumerate(drawn)],
    )
    table.append(rows(r, row_count))
    return table


def answered(table, number, question):
    """Return the rows that the projection of a pair answers with, None if it cannot.

    An error that base rows raise too is what they raise.
    """
    try:
        return table.query(**asked(question), context={"useProjection": f"p{number}"})
    except ProjsegError as error:
        if error.code == "PROJSEG_PROJECTION_NOT_USABLE":
            return None
        raise
