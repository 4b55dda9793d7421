"""A table with views, the same rows in DuckDB, and questions that both are asked."""

import datetime as dt
import decimal

import duckdb
import pyarrow as pa

from projseg import Table
from projseg.table.table_version import reader_of
from projseg.views.cover_test import listed_segments

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("n", pa.int64()),
        ("price", pa.decimal128(10, 2)),
    ]
)
START = dt.datetime(2024, 2, 27, tzinfo=dt.UTC)

VIEWS = [
    "SELECT k, date_trunc('HOUR', time) AS hour, sum(n) AS n, max(price) AS p FROM t GROUP BY ALL",
    "SELECT k, g, sum(n) AS n, count(*) AS c, min(price), sum(price) FROM t GROUP BY k, g",
    "SELECT date_trunc('DAY', time) AS day, g, avg(n) AS a, count(k) FROM t GROUP BY ALL",
    "SELECT k, sum(n) FILTER (WHERE g > 1) AS some, sum(n) AS n FROM t WHERE g IS NOT NULL "
    "GROUP BY k",
    "SELECT DISTINCT g, k FROM t",
    "SELECT sum(price) AS p, max(n) AS m FROM t",
    "SELECT k, date_trunc('HOUR', time) AS hour, count(*) AS c FROM t "
    "WHERE time >= TIMESTAMP '2024-02-28 00:00:00' GROUP BY ALL",
]

QUESTIONS = [
    "SELECT k, sum(n) AS n FROM t GROUP BY k",
    "SELECT g, count(*) AS c FROM t GROUP BY g",
    "SELECT sum(price) AS p, max(n) AS m FROM t",
    "SELECT k, max(price) AS p FROM t WHERE k <> 'b' GROUP BY k",
    "SELECT k, g, sum(n) AS n FROM t WHERE g > 0 GROUP BY k, g",
    "SELECT date_trunc('DAY', time) AS day, sum(n) AS n FROM t GROUP BY 1",
    "SELECT date_trunc('HOUR', time) AS hour, k, sum(n) AS n FROM t GROUP BY 1, 2",
    "SELECT k, sum(n) AS n FROM t WHERE time >= TIMESTAMP '2024-02-27 05:30:00' "
    "AND time < TIMESTAMP '2024-02-29 01:10:00' GROUP BY k",
    "SELECT sum(n) AS n FROM t WHERE time >= TIMESTAMP '2024-02-28 00:00:00'",
    "SELECT k, count(*) AS c FROM t WHERE time < TIMESTAMP '2024-02-28 07:00:00' GROUP BY k",
    "SELECT count(*) AS c FROM t",
    "SELECT k, sum(n) AS n FROM t WHERE g IS NOT NULL GROUP BY k",
    "SELECT k, sum(n) FILTER (WHERE g > 1) AS some FROM t WHERE g IS NOT NULL GROUP BY k",
    "SELECT DISTINCT k FROM t",
    "SELECT g, avg(n) AS a FROM t GROUP BY g",
    "SELECT count(DISTINCT k) AS c FROM t",
    "SELECT k, sum(g) AS s FROM t GROUP BY k",
    "SELECT k, sum(n) AS n FROM t GROUP BY k HAVING sum(n) > 10",
]


def row(hour, minute, k, g, n, cents):
    """Return one row."""
    price = None if cents is None else decimal.Decimal(cents).scaleb(-2)
    return {
        "time": START + dt.timedelta(hours=hour, minutes=minute),
        "k": k,
        "g": g,
        "n": n,
        "price": price,
    }


def rows(several):
    """Return rows as a table."""
    return pa.Table.from_pylist(several, SCHEMA)


def new_viewed_table(location, several=(), **options):
    """Return a table by hour; `several` are its first rows."""
    given = {"time_column": "time", "segment_granularity": "hour", **options}
    return Table.create(location, SCHEMA, data=rows(several) if several else None, **given)


def in_duckdb(sql, content):
    """Return DuckDB's answer over rows."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", content)
        found = connection.sql(sql.replace("TIMESTAMP '", "TIMESTAMPTZ '")).to_arrow_table()
    return as_set(zip(*(column.to_pylist() for column in found.columns), strict=True))


def as_set(answer):
    """Return rows in an order that depends on nothing else."""
    return sorted((tuple(map(_plain, one)) for one in answer), key=repr)


def _plain(value):
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, float):
        return round(value, 9)
    return decimal.Decimal(value) if isinstance(value, int) else value


def answer(table, sql, **context):
    """Return a table's answer in the same form."""
    found = table.sql(sql, context=context or None)
    columns = [column.to_pylist() for column in found.columns]
    return as_set(zip(*columns, strict=True))


def is_from_parts(table, sql, **context):
    """Whether a view answers, for some segments at least."""
    sources = table.explain(sql, context=context or None).views
    return any(one["reason"] is None for one in sources)


def check_covers(table):
    """Require that a view counts no segment twice, and that valid parts are of this version."""
    store = reader_of(table).view_store()
    listed = listed_segments(table.snapshot)
    for view in [] if store is None else store.views.values():
        seen = set()
        for part in store.parts(view):
            cover = store.cover(part)
            assert seen.isdisjoint(cover), view.name
            seen.update(cover)
        valid = table.view(view.name).parts().to_pylist()
        for one, part in zip(valid, store.parts(view), strict=True):
            assert one["is_valid"] == listed.issuperset(store.cover(part))
