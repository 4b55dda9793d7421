"""What companions over Parquet files cost and win: made, asked and followed, beside DuckDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

import projseg
from projseg.benchmarks.bench import Bench
from projseg.benchmarks.generator import EditStream
from projseg.benchmarks.scenarios.tool_doors import in_duckdb

_PROJECTIONS: Final = (
    projseg.Projection("by_channel", ["channel"], ["count(*)", "sum(added)", "sum(deleted)"]),
    projseg.Projection(
        "by_hour", ["date_trunc('HOUR', time) AS hour", "channel"], ["count(*)", "sum(added)"]
    ),
    projseg.Projection("by_country", ["country", "robot"], ["count(*)", "sum(added)"]),
    projseg.Projection("by_device", ["device", "channel"], ["count(*)", "max(added)"]),
)
_QUESTIONS: Final = {
    "all": "SELECT count(*) AS n, sum(added) AS s FROM edits",
    "by channel": "SELECT channel, count(*) AS n, sum(added) AS s FROM edits GROUP BY channel",
    "by hour": "SELECT date_trunc('hour', time) AS h, sum(added) AS s FROM edits GROUP BY h",
    "by hour and channel": "SELECT date_trunc('hour', time) AS h, channel, count(*) AS n "
    "FROM edits GROUP BY h, channel",
    "by country": "SELECT country, sum(added) AS s FROM edits GROUP BY country",
    "by device": "SELECT device, max(added) AS m FROM edits GROUP BY device",
}
_UNCOVERED: Final = {
    "by user": "SELECT user, sum(added) AS s FROM edits GROUP BY user",
    "sum of a page": "SELECT sum(deleted) AS s FROM edits WHERE page LIKE 'A%'",
}


def run(bench: Bench) -> None:
    """Add the figures: seconds and bytes of making, and milliseconds of questions."""
    import duckdb

    stream = EditStream(bench["rows"], bench["seed"])
    place = bench.folder / "lake"
    place.mkdir()
    paths = _write_files(stream, place, bench["files"])
    source = sum(path.stat().st_size for path in paths)
    pattern = f"{place}/*.parquet"
    created = _seconds(lambda: _created(bench, pattern))
    attached = _seconds(lambda: _attached(bench, pattern))
    table = projseg.Table(bench.folder / "ours")
    ours = table.detail()["bytes"]
    bench.add("making", "create", "projseg", {"seconds": created})
    figures = {"seconds": attached, "share of Parquet": ours / source, "bytes": float(ours)}
    bench.add("making", "attach", "projseg", figures)
    rows = duckdb.connect()
    rows.execute(f"SET threads = {int(bench['threads'])}")
    rows.execute("SET TimeZone = 'UTC'")
    rows.execute(f"CREATE VIEW edits AS FROM '{pattern}'")
    bench.peers.append("duckdb-parquet")
    for kind, questions in (("covered", _QUESTIONS), ("uncovered", _UNCOVERED)):
        for case, text in questions.items():
            bench.progress(case)
            ways: dict[str, Callable[[], pa.Table]] = {
                "projseg": partial(table.sql, text),
                "duckdb-parquet": partial(in_duckdb, rows, text),
            }
            bench.compare(kind, case, ways)
    last = pq.read_table(paths[-1])
    pq.write_table(last, place / "new.parquet")
    table = projseg.Table(bench.folder / "ours")
    for case in ("by channel", "by hour and channel"):
        text = _QUESTIONS[case]
        ways = {
            "projseg": partial(table.sql, text),
            "duckdb-parquet": partial(in_duckdb, rows, text),
        }
        bench.compare("one new file", case, ways)
    synced = _seconds(table.sync)
    bench.add("making", "sync of one file", "projseg", {"seconds": synced})


def _write_files(stream: EditStream, place: Path, count: int) -> list[Path]:
    """Write the rows in files of the writer's own order, about equally long."""
    rows = pa.Table.from_batches(stream.batches(), schema=stream.schema)
    step = -(-len(rows) // count)
    paths = []
    for number in range(count):
        paths.append(place / f"part-{number:05}.parquet")
        pq.write_table(rows.slice(number * step, step), paths[-1])
    return paths


def _created(bench: Bench, pattern: str) -> None:
    files = sorted(Path(pattern).parent.glob("*.parquet"))
    batches = (batch for file in files for batch in pq.ParquetFile(file).iter_batches(1 << 17))
    projseg.Table.create(
        bench.folder / "created", time_column="time", projections=_PROJECTIONS, data=batches
    )


def _attached(bench: Bench, pattern: str) -> None:
    projseg.Table.attach(
        bench.folder / "ours",
        f"parquet:{pattern}",
        time_column="time",
        projections=_PROJECTIONS,
    )


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
