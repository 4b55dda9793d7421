"""What DuckDB and Polars cost over a table: groups from projections, columns and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import projseg
from projseg.benchmarks.bench import Bench
from projseg.benchmarks.generator import EditStream

_GROUPS: Final = {
    "by channel": (
        "SELECT channel, count(*) AS n, sum(added) AS s FROM edits GROUP BY channel",
        "SELECT channel, count(*) AS n, sum(added) AS s FROM edits GROUP BY channel",
    ),
    "by day and channel": (
        "SELECT date_trunc('day', time) AS d, channel, sum(added) AS s FROM edits GROUP BY d, "
        "channel ORDER BY s DESC LIMIT 20",
        "SELECT date_trunc('DAY', time) AS d, channel, sum(added) AS s FROM edits GROUP BY d, "
        "channel ORDER BY s DESC LIMIT 20",
    ),
    "share of channels": (
        "SELECT channel, sum(added) / count(*) AS a FROM edits GROUP BY channel",
        "SELECT channel, sum(added) / count(*) AS a FROM edits GROUP BY channel",
    ),
    "count": ("SELECT count(*) AS n FROM edits", "SELECT count(*) AS n FROM edits"),
}
"""Statements of DuckDB's SQL and of ours, that projections or metadata answer."""
_COLUMNS: Final = {
    "users of a page": "SELECT user FROM edits WHERE page = '{page}'",
    "sum of a country": "SELECT sum(deleted) AS s FROM edits WHERE country = '{country}'",
    "rows of an hour": "SELECT page, added FROM edits WHERE time >= TIMESTAMPTZ '2015-09-12 "
    "10:00:00+00' AND time < TIMESTAMPTZ '2015-09-12 11:00:00+00'",
}


def run(bench: Bench) -> None:
    """Add the figures: milliseconds of each way, and their ratio to the quickest rival's."""
    import duckdb

    stream = EditStream(bench["rows"], bench["seed"])
    table = projseg.Table.create(
        bench.folder / "edits",
        stream.schema,
        time_column="time",
        segment_granularity="day",
        projections=[
            projseg.Projection("by_channel", ["channel"], ["count(*)", "sum(added)"]),
            projseg.Projection(
                "by_day", ["date_trunc('DAY', time) AS d", "channel"], ["count(*)", "sum(added)"]
            ),
        ],
    )
    table.append(stream.reader())
    parquet = str(bench.folder / "edits.parquet")
    with pq.ParquetWriter(parquet, stream.schema) as writer:
        for batch in stream.batches():
            writer.write_batch(batch)
    tables, handed, rows = projseg.duckdb({"edits": table}), duckdb.connect(), duckdb.connect()
    handed.register("edits", table.dataset())
    for ask in (tables.sql, handed.sql, rows.sql):
        ask(f"SET threads = {int(bench['threads'])}")
        ask("SET TimeZone = 'UTC'")
    rows.execute(f"CREATE VIEW edits AS FROM '{parquet}'")
    bench.peers.append("duckdb-parquet")
    for case, (theirs, ours) in _GROUPS.items():
        bench.progress(case)
        ways = {
            "table.sql": lambda ours=ours: table.sql(ours),
            "projseg.duckdb": lambda theirs=theirs: tables.sql(theirs),
            "dataset in DuckDB": lambda theirs=theirs: in_duckdb(handed, theirs),
            "duckdb-parquet": lambda theirs=theirs: in_duckdb(rows, theirs),
        }
        bench.compare("groups", case, ways)
    first = stream.block(0)
    values = {name: first.column(name)[7].as_py() for name in ("page", "country")}
    for case, text in _COLUMNS.items():
        bench.progress(case)
        asked = text.format(**{name: one.replace("'", "''") for name, one in values.items()})
        ways = {
            "dataset in DuckDB": lambda asked=asked: in_duckdb(handed, asked),
            "duckdb-parquet": lambda asked=asked: in_duckdb(rows, asked),
        }
        bench.compare("columns", case, ways)
    _add_polars(bench, table, parquet, values)


def _add_polars(
    bench: Bench, table: projseg.Table, parquet: str, values: Mapping[str, str]
) -> None:
    """Add Polars over the table and over Parquet."""
    try:
        import polars
    except ImportError:
        bench.problems.append("missing: polars is not installed")
        return
    bench.peers.append("polars-parquet")
    for name, wanted in (("page", "user"), ("country", "deleted")):
        bench.progress(f"Polars by {name}")

        def answer_of(frame: Any, name: str = name, wanted: str = wanted) -> pa.Table:
            found = frame.filter(polars.col(name) == values[name]).select(wanted).collect()
            return found.to_arrow().cast(pa.schema([table.schema.field(wanted)]))

        ways = {
            "table.lazy": lambda answer_of=answer_of: answer_of(table.lazy()),
            "polars-parquet": lambda answer_of=answer_of: answer_of(polars.scan_parquet(parquet)),
        }
        bench.compare("Polars", f"{wanted} of a {name}", ways)


def in_duckdb(connection: Any, text: str) -> pa.Table:
    """Return the answer of a statement."""
    found: pa.Table = connection.sql(text).to_arrow_table()
    return found
