"""Write docs/coverage.md: 25 queries on the wiki sample, what answers each, and why not the others.

    python docs/make_coverage.py wikiticker-2015-09-12-sampled.json.gz

Every answer is compared with the one from base rows before its line is written.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.json

import projseg

PAGE = Path(__file__).with_name("coverage.md")

PROJECTIONS = [
    {
        "type": "aggregate",
        "name": "page_hourly",
        "virtualColumns": [
            {"type": "expression", "name": "h", "expression": "timestamp_floor(__time, 'PT1H')"}
        ],
        "groupingColumns": [
            {"type": "long", "name": "h"},
            {"type": "string", "name": "channel"},
            {"type": "string", "name": "page"},
        ],
        "aggregators": [
            {"type": "HLLSketchBuild", "name": "users", "fieldName": "user"},
            {"type": "longSum", "name": "sum_added", "fieldName": "added"},
            {"type": "longSum", "name": "sum_deleted", "fieldName": "deleted"},
        ],
    },
    {
        "name": "channel_hourly",
        "sql": "SELECT date_trunc('HOUR', time) AS hour, channel, isRobot, sum(added) AS added, "
        "sum(deleted) AS deleted, count(*) AS edits, count(metroCode) AS metro, "
        "approx_count_distinct(user) AS users GROUP BY ALL",
    },
    {
        "name": "humans_by_namespace",
        "sql": "SELECT date_trunc('DAY', time) AS day, namespace, channel, sum(delta) AS delta, "
        "max(added) AS largest, count(*) AS edits WHERE isRobot = false GROUP BY ALL",
    },
    {
        "name": "countries",
        "sql": "SELECT countryName, upper(countryIsoCode) AS code, isAnonymous, "
        "var_samp(delta) AS spread, avg(added) AS mean, count(*) AS edits GROUP BY ALL",
    },
]
DAY = ("2015-09-12", "2015-09-13")
HOUR = "date_trunc('HOUR', time) AS hour"
QUERIES = [
    ("total edits", {"aggregators": "count(*) AS n"}),
    ("totals", {"aggregators": "sum(added) AS a, sum(deleted) AS d"}),
    ("by channel", {"group_by": "channel", "aggregators": "sum(added) AS a, count(*) AS n"}),
    ("distinct users", {"group_by": "channel", "aggregators": "approx_count_distinct(user) AS u"}),
    ("by hour", {"group_by": HOUR, "aggregators": "sum(added) AS a"}),
    (
        "hours of one channel",
        {"group_by": HOUR, "aggregators": "sum(added) AS a", "filter": "channel = '#en.wikipedia'"},
    ),
    ("another spelling", {"group_by": "timestamp_floor(time, 'PT1H')", "aggregators": "count(*)"}),
    ("by day", {"group_by": "to_date(time) AS day", "aggregators": "sum(deleted) AS d"}),
    ("six hours", {"group_by": "timestamp_floor(time, 'PT6H')", "aggregators": "sum(added)"}),
    ("minutes", {"group_by": "date_trunc('MINUTE', time) AS m", "aggregators": "sum(added)"}),
    ("pages", {"group_by": "page", "aggregators": "sum(added)", "filter": "channel LIKE '#e%'"}),
    ("upper case", {"group_by": "lower(channel) AS c", "aggregators": "sum(added)"}),
    ("robots aside", {"group_by": "channel", "aggregators": "count(*)", "filter": "NOT isRobot"}),
    (
        "filtered aggregate",
        {"group_by": "channel", "aggregators": "sum(added) FILTER (WHERE isRobot) AS robots"},
    ),
    (
        "humans by namespace",
        {"group_by": "namespace", "aggregators": "sum(delta)", "filter": "isRobot = false"},
    ),
    ("all by namespace", {"group_by": "namespace", "aggregators": "sum(delta)"}),
    (
        "largest human edit",
        {
            "group_by": "channel",
            "aggregators": "max(added)",
            "filter": "isRobot = false AND namespace IN ('Main', 'Talk')",
        },
    ),
    ("spread by country", {"group_by": "countryName", "aggregators": "stddev_samp(delta)"}),
    ("mean by code", {"group_by": "upper(countryIsoCode)", "aggregators": "avg(added)"}),
    ("countries of anonymous", {"group_by": "countryName", "filter": "isAnonymous"}),
    ("channels seen", {"aggregators": "count(DISTINCT channel) AS n, max(channel) AS last"}),
    ("cities", {"group_by": "cityName", "aggregators": "sum(added)"}),
    ("one day", {"group_by": "channel", "aggregators": "sum(added)", "interval": DAY}),
    (
        "ragged interval",
        {
            "group_by": "channel",
            "aggregators": "sum(added), count(*)",
            "interval": ("2015-09-12T03:30", "2015-09-12T21:15"),
        },
    ),
    ("edits themselves", {"columns": "time, page, user", "filter": "page = 'Wikipedia'"}),
]


def make_table(location: str, file: str) -> projseg.Table:
    """Return a table of the sample's edits, a segment a day."""
    rows = pyarrow.json.read_json(file)
    times = rows["time"].cast(pa.timestamp("us", "UTC"))
    rows = rows.set_column(0, "time", times)
    table = projseg.Table.create(
        location,
        rows.schema,
        time_column="time",
        segment_granularity="day",
        projections=PROJECTIONS,
    )
    table.append(rows)
    return table


def line(table: projseg.Table, title: str, query: dict) -> str:
    """Return a query's line, after comparing its answer with the base rows'."""
    answer = table.query(**query)
    base = table.query(**query, context={"noProjections": True})
    if "approx" not in str(query) and not _same(answer, base):
        raise SystemExit(f"'{title}' differs from its answer from base rows: this is a bug")
    explained = table.explain(**query)
    busiest = max(explained.segments.to_pylist(), key=lambda row: len(row["rejected"]))
    largest = _reasons_on_the_largest_day(table, query)
    sources = ", ".join(f"{count} x {name}" for name, count in explained.sources.items())
    rows = sum(explained.segments["rows"].to_pylist())
    shown = "; ".join(f"`{name}` {why}" for name, why in largest or busiest["rejected"])
    text = ", ".join(f"{key}: `{value}`" for key, value in query.items())
    return f"| {title} | {text} | {sources} | {rows:,} | {shown} |"


def _same(answer: pa.Table, base: pa.Table) -> bool:
    def rounded(table: pa.Table) -> Counter:
        cells = [
            [round(v, 6) if isinstance(v, float) else v for v in row.values()]
            for row in table.to_pylist()
        ]
        return Counter(map(repr, cells))

    return rounded(answer) == rounded(base)


def _reasons_on_the_largest_day(table: projseg.Table, query: dict) -> list:
    largest = max(table.segments().to_pylist(), key=lambda row: row["rows"])["segment"]
    found = [r for r in table.explain(**query).segments.to_pylist() if r["segment"] == largest]
    return found[0]["rejected"] if found else []


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(f"{folder}/edits", sys.argv[1])
        lines = [line(table, title, query) for title, query in QUERIES]
    head = [
        "# What answers 25 queries",
        "",
        "Made by `python docs/make_coverage.py FILE` from the wiki sample of Druid's quickstart: "
        "39,244 edits in 46 daily segments. 45 of them hold a single row: every column is constant "
        "there, so that almost any projection can serve. Sources are counted over segments; the "
        "reasons are those of the one large segment. The projections:",
        "",
        *(f"- `{p['name']}`: {p.get('sql', 'Druid JSON, see the script')}" for p in PROJECTIONS),
        "",
        "| query | arguments | sources | rows read | why not the others |",
        "|---|---|---|---|---|",
    ]
    PAGE.write_text("\n".join([*head, *lines, ""]))


if __name__ == "__main__":
    main()
