"""Random tables with times near changes of a zone's clock, and queries in that zone.

Rows lie in the hours before and after a few changes of one zone's clock, by `time`, the table's
time column, and by `sent`, another time, which may be null. Projections keep one or both by that
clock or in UTC; queries ask for floors, dates and fields by that clock.
"""

import random
import re
from dataclasses import dataclass

import pyarrow as pa

import projseg
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import zone_table
from projseg.errors import ProjsegError

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [("time", TIME), ("channel", pa.string()), ("value", pa.int64()), ("sent", TIME)]
)
UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"]
FIELDS = [
    *("hour", "minute", "second", "to_date", "day", "dayofweek", "weekday", "dayofyear"),
    *("weekofyear", "month", "quarter", "year", "last_day"),
]
SPARK_KEYS = [
    *(f"date_trunc('{unit}', time)" for unit in UNITS * 2),
    *(f"{field}(time)" for field in FIELDS),
    *("extract(YEAROFWEEK FROM time)", "trunc(to_date(time), 'MM')", "trunc(time, 'WEEK')"),
    *("to_date(date_trunc('DAY', time))", "hour(date_trunc('HOUR', time))"),
    *("to_date(date_trunc('HOUR', time))", "year(date_trunc('MONTH', time))"),
    *("date_trunc('DAY', date_trunc('HOUR', time))", "date_trunc('HOUR', date_trunc('DAY', time))"),
    *("date_trunc('MONTH', to_date(time))", "date_trunc('HOUR', to_date(time))"),
    *("date_trunc('DAY', to_date(time))", "cast(to_date(time) AS timestamp)"),
    *("to_date(cast(to_date(time) AS timestamp))", "to_date(date_trunc('WEEK', to_date(time)))"),
    *("cast(time AS timestamp_ntz)", "date_trunc('DAY', cast(time AS timestamp_ntz))"),
    *("cast(date_trunc('HOUR', time) AS string)", "time + INTERVAL '1' DAY"),
    *(
        "time - INTERVAL '1' MONTH",
        "date_trunc('HOUR', time) + INTERVAL '30' MINUTE",
    ),
    *("time_bucket(INTERVAL '2' DAY, time)", "time_bucket(INTERVAL '1' MONTH, time)"),
    *("time_bucket(INTERVAL '45' MINUTE, time)", "time_bucket(INTERVAL '36' HOUR, time)"),
    *("time_bucket(INTERVAL '1' DAY, time)", "to_date(time_bucket(INTERVAL '1' WEEK, time))"),
]
PERIODS = [
    *("PT7M", "PT15M", "PT30M", "PT45M", "PT1H", "PT2H", "PT6H", "PT7H", "PT12H", "P1D", "P2D"),
    *("P3D", "P1W", "P2W", "P1M", "P2M", "P3M", "P6M", "P1Y", "P10Y"),
]
NAMES = ["minute", "fifteen_minute", "thirty_minute", "hour", "six_hour", "day", "week", "quarter"]
OWN_KEYS = [
    *(f"timestamp_floor(time, '{period}')" for period in PERIODS + NAMES),
    *("timestamp_floor(to_date(time), 'P3D')", "time + INTERVAL 1 MONTH 2 DAYS"),
]
SPARK_CALLS = [
    *("count(*)", "sum(value)", "min(time)", "max(time)", "count(DISTINCT channel)"),
    *("min(to_date(time))", "max(hour(time))", "count(DISTINCT date_trunc('HOUR', time))"),
    *("max(sent)", "count(sent)", "max(to_date(sent))", "count(DISTINCT date_trunc('DAY', sent))"),
]


@dataclass(frozen=True)
class Case:
    """A table and what it was made of.

    Parameters
    ----------
    table : projseg.Table
        Several segments, not all with the same projections.
    rows : pa.Table
        All its rows.
    zone : str
        The zone near whose changes of clock the rows lie.
    declared : list of list of str
        The keys of each projection, by the zone's clock.
    names : list of str
        The projections' names.
    conditions : list of str
        The filters of the projections that have one.
    """

    table: projseg.Table
    rows: pa.Table
    zone: str
    declared: list
    names: list
    conditions: list


def times_about(r, changes, count):
    """Return distinct instants, microseconds, near some of the instants `changes`."""
    chosen = r.sample(changes, min(len(changes), r.randint(1, 3)))
    found = set(chosen)
    while len(found) < count:
        distance = r.choice(
            [
                r.randint(-4 * HOUR, 4 * HOUR) // SECOND * SECOND,
                r.randint(-16, 16) * 15 * MINUTE,
                r.randint(-30, 30) * HOUR,
                r.randint(-40 * DAY, 40 * DAY),
                r.choice([-1, 1, SECOND, -SECOND]),
            ]
        )
        found.add(r.choice(chosen) + distance)
    return sorted(found)


def rows_about(r, changes, count):
    """Return rows near some of the instants `changes`."""
    times = times_about(r, changes, count)
    r.shuffle(times)
    columns = {
        "time": pa.array(times, TIME),
        "channel": [r.choice("abc") for _ in times],
        "value": [r.randint(-5, 100) for _ in times],
        "sent": pa.array([_sent_of(r, at, times) for at in times], TIME),
    }
    return pa.table(columns, schema=SCHEMA)


def _sent_of(r, at, times):
    """Return the other time of a row: that of any row, or one near its own, or none."""
    hours = r.choice([-30, -9, -1, 0, 1, 2, 26])
    return r.choice([None, *[r.choice(times)] * 3, *[at + hours * HOUR] * 4])


def changes_of(zone, start, end):
    """Return the instants in `[start, end)` at which a zone's clock is changed, else some other."""
    found = [at for at in zone_table(zone).starts[1:].tolist() if start <= at < end]
    return found or [end - 40 * DAY]


def make_case(seed, location, zone, changes):
    """Return a table with times near some of a zone's changes of clock."""
    r = random.Random(seed)
    rows = rows_about(r, changes, r.choice([30, 120]))
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity=r.choice(["all", "all", "month", "year"]),
        cluster_by=r.choice([(), (), ("channel",)]),
    )
    declared, names, conditions = [], [], []
    all_times = rows["time"].cast(pa.int64()).to_pylist()
    cuts = sorted(r.choices(range(len(rows)), k=2))
    for first, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        for _ in range(r.randint(0, 2)):
            name, keys = f"p{len(names)}", time_keys(r)
            own = [key if r.random() < 0.15 else f"in_zone('{zone}', {key})" for key in keys]
            own += ["channel"] * r.choice([0, 1])
            calls = r.sample(SPARK_CALLS[:5], r.randint(1, 5))
            where = condition(r, all_times) if r.random() < 0.25 else None
            filtered = None if where is None else f"in_zone('{zone}', {where})"
            try:
                table.add_projection(projseg.Projection(name, own, calls, filtered))
            except ProjsegError:
                continue  # it has a key twice
            declared.append(keys)
            names.append(name)
            conditions += [] if where is None else [where]
        table.append(rows.slice(first, end - first))
    return Case(table, rows, zone, declared, names, conditions)


def time_keys(r):
    """Return one or two keys, mostly fine enough to serve others; or a floor of each time."""
    fine = ["date_trunc('HOUR', time)", "date_trunc('DAY', time)", "to_date(time)", "hour(time)"]
    fine += [f"timestamp_floor(time, '{period}')" for period in PERIODS[:12]]
    keys = r.sample([*fine, *fine, *SPARK_KEYS, *OWN_KEYS], r.choice([1, 1, 2]))
    if r.random() < 0.4:
        floor = f"date_trunc('{r.choice(UNITS[2:6])}', time)"
        return r.sample([floor, of_sent(floor)], 2)
    return [of_either(r, key) for key in keys]


def of_sent(text):
    """Return an expression of `time` as that of `sent`."""
    return re.sub(r"\btime\b", "sent", text)


def of_either(r, text):
    """Return an expression of `time`, or the same of `sent`."""
    return of_sent(text) if r.random() < 0.35 else text


def condition(r, times):
    """Return a condition on a time as SQL that Spark reads too."""
    return of_either(r, _condition_on_time(r, times))


def _condition_on_time(r, times):
    micros = r.choice(times)
    compare = r.choice(["<", "<=", ">", ">=", "=", "!="])
    unit = r.choice(UNITS[:7])
    instant = f"timestamp_micros({micros})"
    return r.choice(
        [
            f"time {compare} {instant}",
            f"time {compare} date_trunc('{unit}', {instant})",
            f"date_trunc('{unit}', time) {compare} date_trunc('{unit}', {instant})",
            f"date_trunc('{unit}', time) {compare} {instant}",
            f"to_date(time) {compare} to_date({instant})",
            f"to_date(time) IN (to_date({instant}), DATE '2024-03-31')",
            f"hour(time) {compare} hour({instant})",
            f"year(time) {compare} year({instant}) AND channel = 'a'",
            f"NOT (time {compare} {instant}) OR hour(time) = hour({instant})",
        ]
    )


def make_query(r, case, *, for_spark):
    """Return the arguments of `Table.query`, apart from the context."""
    pool = SPARK_KEYS if for_spark else SPARK_KEYS + OWN_KEYS
    keys = [of_either(r, key) for key in r.sample(pool, r.choice([0, 1, 1, 1, 2]))]
    if case.declared and r.random() < 0.4:
        every = {*pool, *map(of_sent, pool)}
        keys = [key for key in r.choice(case.declared) if key in every][: r.randint(1, 2)] or keys
    calls = r.sample(SPARK_CALLS, r.randint(1, 3))
    times = case.rows["time"].cast(pa.int64()).to_pylist()
    if r.random() < 0.25:
        calls.append(f"sum(value) FILTER (WHERE {condition(r, times)})")
    wanted = [condition(r, times)] if r.random() < 0.3 else []
    wanted += r.sample(case.conditions, r.randint(0, min(1, len(case.conditions))))
    query = {
        "group_by": [f"{key} AS k{index}" for index, key in enumerate(keys)],
        "aggregators": [f"{call} AS v{index}" for index, call in enumerate(calls)],
        "filter": " AND ".join(f"({part})" for part in wanted) or None,
    }
    if r.random() < 0.25:
        low, high = (at // HOUR * HOUR for at in sorted(r.sample(times, 2)))
        bounds = pa.array([low, high], pa.timestamp("us", tz="UTC")).to_pylist()
        query["interval"] = tuple(bounds)
    return query


def answer(table, query, context):
    """Return sorted rows, times as microseconds, or the code of the error."""
    try:
        return comparable(table.query(**query, context=context))
    except ProjsegError as error:
        return error.code


def comparable(table):
    """Return an answer's rows in an order of their own, times as microseconds."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns.append(column.to_pylist())
    return sorted(zip(*columns, strict=True), key=repr)
