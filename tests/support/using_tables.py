"""Use a table in every way that does not write, and find out which errors it raises."""

import datetime
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import projseg
from projseg.cli import segment_report
from projseg.errors import ProjsegError

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("channel", pa.string()),
        ("page", pa.string()),
        ("code", pa.int32()),
        ("big", pa.int64()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 0)),
        ("robot", pa.bool_()),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
PROJECTIONS = [
    projseg.Projection(
        "hourly",
        group_by=["date_trunc('HOUR', time) AS hour", "channel"],
        aggregators=[
            "count(*) AS n",
            "sum(big) AS big",
            "sum(code) AS code",
            "sum(price) AS price",
            "max(page) AS page",
            "hll_sketch_agg(page, 8) AS pages",
            "theta_sketch_agg(code, 6) AS codes",
        ],
    ),
    projseg.Projection(
        "robots",
        group_by=["channel", "robot"],
        aggregators=["count(*) AS n", "stddev(price) AS s", "max_by(code, time) AS last"],
        where="code > 2",
    ),
    projseg.Projection(
        "failing", group_by=["1 / (code - code) AS never"], aggregators=["count(*) AS n"]
    ),
]


def rows(count, first=0):
    """Rows of a day, of every kind of column; many repeat."""
    numbers = range(first, first + count)
    columns = {
        "time": [START + datetime.timedelta(seconds=n % 86_400) for n in numbers],
        "channel": [None if n % 11 == 0 else f"#{n % 7}" for n in numbers],
        "page": [f"page {n % 97}" for n in numbers],
        "code": [None if n % 13 == 0 else n % 5 for n in numbers],
        "big": [n * 7919 % 1000 - 500 for n in numbers],
        "price": [float("nan") if n % 101 == 0 else n % 17 / 4 for n in numbers],
        "amount": [Decimal(n % 1000).scaleb(-2) for n in numbers],
        "wide": [None if n % 9 == 0 else Decimal(10**30 + n % 3) for n in numbers],
        "robot": [n % 3 == 0 for n in numbers],
        "day": [datetime.date(2024, 5, 1 + n % 3) for n in numbers],
        "tags": [None if n % 5 == 0 else ["a", "b"][: n % 3] for n in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


def sound_table(location, counts=(3000, 150)):
    """Create a table of one segment for each count, with projections, of which one is not built."""
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        cluster_by=["channel"],
        projections=PROJECTIONS,
        properties={"owner": "tests"},
    )
    for number, count in enumerate(counts):
        table.append(rows(count, first=1000 * number))
    return table


BASE = {"context": {"noProjections": True, "threads": 1}}
QUERIES = [
    {"aggregators": "count(*) AS n"},
    {"aggregators": "min(time) AS a, max(big) AS b, count(code) AS c, max(price) AS d, min(page)"},
    {"group_by": "channel", "aggregators": "count(*) AS n, sum(big) AS s, sum(price) AS p"},
    {
        "group_by": "date_trunc('HOUR', time) AS hour",
        "aggregators": "approx_count_distinct(page, 0.1) AS pages, max(page) AS page",
        "order_by": "hour",
    },
    {"group_by": "channel", "aggregators": "theta_sketch_agg(code, 6) AS t", "order_by": "channel"},
    {"group_by": "robot", "aggregators": "stddev(price) AS s", "filter": "code > 2"},
    {"group_by": "channel", "aggregators": "count(*) AS n", "interval": "2024-05-01T00:01/PT1M"},
    {"group_by": "channel, robot", "aggregators": "max_by(code, time) AS c", **BASE},
    {"group_by": "code, day, wide", "aggregators": "count(distinct page) AS n", **BASE},
    {"group_by": "page", "aggregators": "sum(amount) AS a", "filter": "big >= 3 AND big < 99"},
    {"aggregators": "sum(wide) AS w, avg(price) AS p", "filter": "channel = '#3'", **BASE},
    {"aggregators": "count(*) AS n", "filter": "page IN ('page 5', 'page 7', 'x')", **BASE},
    {"filter": "robot AND day > DATE'2024-05-01'", "order_by": "big DESC", "limit": 5},
    {"columns": "time, channel, tags, wide", "interval": "2024-05-01/P1D", "limit": 300},
    {},
]
EXPLAINED = (1, 3, 9, 12)
VIEWS = ("detail", "segments", "projections", "projection_stats", "columns", "history")


def uses(location):
    """Yield (name, function) of each use of the table there; the first opens it."""
    opened = []

    def table():
        if not opened:
            opened.append(projseg.Table(location))
        return opened[0]

    yield "open", table
    for view in VIEWS:
        yield view, lambda view=view: getattr(table(), view)()
    for number, query in enumerate(QUERIES):
        yield f"query {number}", lambda query=query: table().query(**query)
    for number in EXPLAINED:
        yield (
            f"explain {number}",
            lambda n=number: _told(table().explain(**QUERIES[n], analyze=True)),
        )
    yield "scan", lambda: table().scan(filter="big > 0").read_all()
    yield "verify", lambda: table().verify()
    yield "verify deep", lambda: table().verify(deep=True)
    for path in sorted((Path(location) / "data").glob("*.pseg")):
        yield f"inspect {path.name}", lambda path=path: _inspected(str(path))


def _told(explain):
    return str(explain), explain.to_json(), repr(explain)


def _inspected(path):
    segment = segment_report.describe_segment(*segment_report.opened(path), path)
    return (
        segment_report.summary(segment),
        segment_report.table_rows(segment),
        segment_report.column_rows(segment),
        segment_report.dictionary_rows(segment),
    )


def raw_errors(location):
    """Use the table in every way; return, by use, what was raised and is not a proper error."""
    found = {}
    for name, use in uses(location):
        try:
            use()
        except ProjsegError as error:
            if not str(error).isprintable() or len(str(error)) > 3000:
                found[name] = f"a message that is not one line: {str(error)[:80]!r}"
            if error.code == "PROJSEG_INTERNAL":
                found[name] = str(error)
        except BaseException as error:  # noqa: BLE001 what leaves a reader is what this looks for
            found[name] = f"{type(error).__name__}: {error}"[:300]
    return found


def seeded(seed):
    """Return a random generator with a seed, so that failures can be repeated."""
    return random.Random(seed)
