"""Tables that live: rows over days, projections that come and go, and DuckDB to compare with."""

import datetime

import duckdb
import pyarrow as pa

import projseg
from projseg.segment_format.footer import BASE_TABLE
from projseg.table_layer.commits.footer_match import open_uncached

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("channel", pa.string()),
        ("page", pa.string()),
        ("robot", pa.bool_()),
        ("added", pa.int64()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
HOURLY = {
    "name": "hourly",
    "sql": "SELECT date_trunc('HOUR', time) AS hour, channel, robot, sum(added) AS added, "
    "count(*) AS n, max(page) AS page, sum(price) AS price GROUP BY ALL",
}
BY_CHANNEL = {
    "name": "by_channel",
    "sql": "SELECT channel, sum(added) AS added, count(*) AS n, max(page) AS page GROUP BY ALL",
}
QUERIES = {
    "channel": "SELECT channel, sum(added), count(*), max(page) FROM edits GROUP BY 1",
    "hour": "SELECT date_trunc('hour', time), robot, count(*), sum(price) FROM edits GROUP BY 1, 2",
    "page": "SELECT page, count(*), min(added) FROM edits WHERE NOT robot GROUP BY 1",
}
ASKED = {
    "channel": {"group_by": "channel", "aggregators": "sum(added), count(*), max(page)"},
    "hour": {
        "group_by": "date_trunc('HOUR', time), robot",
        "aggregators": "count(*), sum(price)",
    },
    "page": {"group_by": "page", "aggregators": "count(*), min(added)", "filter": "NOT robot"},
}


def rows(day, count=40, first=0):
    """Rows of one day; values repeat, some are null."""
    numbers = range(first, first + count)
    columns = {
        "time": [START + datetime.timedelta(days=day, minutes=31 * n % 1440) for n in numbers],
        "channel": [None if n % 11 == 0 else f"#{(n + day) % 5}" for n in numbers],
        "page": [f"page {(n * 7 + day) % 23}" for n in numbers],
        "robot": [n % 3 == 0 for n in numbers],
        "added": [None if n % 13 == 0 else n * 31 % 97 - 40 for n in numbers],
        "price": [n % 17 / 4 for n in numbers],
        "tags": [None if n % 5 == 0 else ["a", "b"][: n % 3] for n in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


def new_table(location, **options):
    options = {"segment_granularity": "day", "cluster_by": ["channel"], **options}
    return projseg.Table.create(location, SCHEMA, time_column="time", **options)


def keyed(result, key_count):
    """Answers by group; floats as rounded as 12 digits are, which no order of addition changes."""
    rows = zip(*(column.to_pylist() for column in result.columns), strict=True)
    return {
        tuple(row[:key_count]): tuple(
            float(f"{v:.12g}") if isinstance(v, float) else v for v in row[key_count:]
        )
        for row in rows
    }


def answers(table, **context):
    """The answers of all queries, by whatever sources."""
    found = {}
    for name, query in ASKED.items():
        found[name] = keyed(table.query(**query, context=context), 2 if name == "hour" else 1)
    return found


def expected(data):
    """What DuckDB says of these rows."""
    with duckdb.connect() as peer:
        peer.execute("SET TimeZone = 'UTC'")
        peer.register("edits", data.drop(["tags"]))
        return {
            name: keyed(peer.sql(text).to_arrow_table(), 2 if name == "hour" else 1)
            for name, text in QUERIES.items()
        }


def stored_rows(table):
    """All base rows, each as text, in no order."""
    return sorted(map(repr, table.query(columns=", ".join(SCHEMA.names)).to_pylist()))


def sources(table):
    """For each query, how many segments each source answers for."""
    return {name: dict(table.explain(**query).sources) for name, query in ASKED.items()}


def opened_segments(table):
    return [open_uncached(table.snapshot.storage, entry) for entry in table.snapshot.segments]


def base_parts(segment):
    """The bytes of every part that base rows are stored in, by what they are."""
    parts = {}
    used = set()
    for column in segment.table(BASE_TABLE).columns:
        used.add(column.dictionary)
        records = segment.directory(BASE_TABLE, "base", column.name).records
        parts["pages", column.name] = _contents(segment, records)
        index = segment.bitmap_index(BASE_TABLE, "base", column.name)
        if index is not None:
            parts["index", column.name] = _contents(segment, index.records)
    for position, entry in enumerate(segment.footer.dictionaries):
        if position in used:
            records = segment.dictionary_directory(entry).records
            parts["dictionary", entry.name] = _contents(segment, records)
            if entry.hashes is not None:
                hashes = entry.hashes
                parts["hashes", entry.name] = segment.read(hashes.file_offset, hashes.byte_count)
    return parts


def _contents(segment, records):
    return [
        segment.read(int(record["file_offset"]), int(record["stored_bytes"])) for record in records
    ]
