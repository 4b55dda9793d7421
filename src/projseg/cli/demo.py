"""The verb `demo`: a table made and kept, asked with and without its projections, and checked.

No question needs a sketch: on a machine's first run their kernels take as long to compile as all
others.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

import projseg
from projseg.algebra.query.request import Query
from projseg.benchmarks.bench import same_answer
from projseg.cli.output import (
    OutputFormat,
    chosen_format,
    print_rows,
    shown_progress,
    terminal,
)
from projseg.cli.shared_arguments import Output
from projseg.errors import InvalidInputError
from projseg.extras import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUNS: Final = 3
PROJECTIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "hourly",
        "sql": "SELECT date_trunc('HOUR', time) AS hour, sum(added) AS added, count(*) AS edits "
        "GROUP BY ALL",
    },
    {
        "name": "channel_daily",
        "sql": "SELECT date_trunc('DAY', time) AS day, channel, sum(added) AS added, "
        "sum(deleted) AS deleted, count(*) AS edits GROUP BY ALL",
    },
    {
        "name": "country_device",
        "sql": "SELECT country, device, sum(added) AS added, max(added) AS largest, "
        "count(*) AS edits GROUP BY ALL",
    },
)
FOLDER: Final = "projseg-demo"
_MARK, _MARKED = "madeBy", "projseg demo"
_KINDS: Final = (("base ms", "base rows"), ("projection ms", "rows read"))
_BAR_WIDTH: Final = 18
TABLE_OPTIONS: Final[dict[str, Any]] = {
    "properties": {_MARK: _MARKED},
    "time_column": "time",
    "segment_granularity": "P10D",
    "cluster_by": ("channel", "page"),
}
QUERIES: Final = {
    "all edits, characters added": Query((), ["count(*) AS edits", "sum(added) AS added"]),
    "by hour": Query(
        ["date_trunc('HOUR', time) AS hour"], ["count(*) AS edits", "sum(added) AS added"]
    ),
    "by channel": Query(["channel"], ["count(*) AS edits", "avg(added) AS mean"]),
    "by day and channel, one week": Query(
        ["date_trunc('DAY', time) AS day", "channel"],
        ["sum(deleted) AS deleted"],
        interval="2015-09-07/2015-09-14",
    ),
    "largest by country, no desktop": Query(
        ["country"], ["max(added) AS largest", "count(*) AS edits"], "device <> 'desktop'"
    ),
    "by page (no projection fits)": Query(["page"], ["sum(added) AS added"]),
}

Ask: TypeAlias = Callable[[Query], pa.Table]


def demo(
    *,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows to make.")] = 300_000,
    location: Annotated[
        str | None, "Keep the table here; default: projseg-demo, in place of an earlier demo's."
    ] = None,
    with_spark: Annotated[
        bool, typer.Option("--spark", help="Write and read through Spark (starts a JVM).")
    ] = False,
    output: Output = None,
) -> None:
    """Make rows, write them as segments, ask with and without projections, compare the answers."""
    if with_spark:
        require_spark("demo --spark")
    made = _made_by_spark if with_spark else _steps
    where = location or FOLDER
    if location is None:
        remove_earlier(Path(FOLDER), _MARKED)
    with made(where, rows) as ask:
        results = [_result(ask, where, title, query) for title, query in QUERIES.items()]
    if chosen_format(output) is OutputFormat.TABLE:
        terminal().print(_picture(results))
    else:
        print_rows(results, output)
    if not all(result["same answer"] for result in results):
        tell("an answer from projections differs from the base rows' answer: this is a bug")
        raise typer.Exit(1)
    tell(f"the table is kept in {where}; ask it yourself, such as:\n\n  {_next_command(where)}\n")


def remove_earlier(folder: Path, made_by: str) -> None:
    """Remove the table that an earlier run of a verb made; refuse another: PROJSEG_TABLE_EXISTS."""
    if not folder.exists() and not folder.is_symlink():
        return
    is_own = not folder.is_symlink() and projseg.is_table(folder)
    if not is_own or projseg.Table(folder).properties.properties.get(_MARK) != made_by:
        raise InvalidInputError(
            "PROJSEG_TABLE_EXISTS",
            f"'{folder}' is here and no table of an earlier {made_by}; give --location",
        )
    shutil.rmtree(folder)


def _picture(results: Sequence[Mapping[str, Any]]) -> RichTable:
    """Return the milliseconds of each query without and with projections, as bars."""
    slowest = max(result[kind] for result in results for kind, _ in _KINDS)
    table = RichTable(
        title="milliseconds of each query, from base rows and from projections",
        title_justify="left",
        box=None,
    )
    for name in ("query", ""):
        table.add_column(name, no_wrap=True)
    for name in ("ms", "rows read", "won"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        for kind, read in _KINDS:
            is_base = kind == "base ms"
            won = "" if is_base else f"{result['base ms'] / max(result[kind], 0.1):.0f}x"
            width = max(1, round(_BAR_WIDTH * result[kind] / max(slowest, 0.1)))
            bar = Text("█" * width, style="bright_black" if is_base else "green")
            label = result["query"] if is_base else f"  from {result['source']}"
            table.add_row(Text(label), bar, f"{result[kind]:,.1f}", f"{result[read]:,}", won)
    return table


def _next_command(where: str) -> str:
    program = Path(sys.argv[0])
    is_on_path = shutil.which("projseg") is not None or program.name != "projseg"
    name = "projseg" if is_on_path else os.path.relpath(program)
    statement = "SELECT channel, sum(added) FROM edits GROUP BY channel"
    return f'{name} sql {shlex.quote(where)} "{statement}"'


def _new_table(location: str) -> projseg.Table:
    # Imported here, as in `_steps`.
    from projseg.benchmarks.generator import SCHEMA

    return projseg.Table.create(location, SCHEMA, projections=PROJECTIONS, **TABLE_OPTIONS)


@contextmanager
def _steps(location: str, row_count: int) -> Iterator[Ask]:
    """Make the table, and yield what answers queries over it."""
    # Imported here: only the demos need rows made up.
    from projseg.benchmarks.generator import EditStream

    table = _new_table(location)
    with shown_progress() as progress:
        task = progress.add_task("making and writing rows", total=row_count)

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in EditStream(row_count).reader():
                yield batch
                progress.advance(task, batch.num_rows)

        table.append(batches())
    # Without the time: the first run on a machine compiles kernels.
    tell(f"wrote {row_count:,} rows in {table.segments().num_rows} segments")
    yield table.query


@contextmanager
def _made_by_spark(location: str, row_count: int) -> Iterator[Ask]:
    """Make the table through Spark, and yield what answers queries through it."""
    from projseg.benchmarks.generator import EditStream
    from projseg.benchmarks.workload import write_parquet
    from projseg.spark_datasource.read_write import read, write

    spark = _session()
    try:
        with tempfile.TemporaryDirectory(prefix="projseg-demo-rows-") as folder:
            write_parquet(EditStream(row_count).reader(), Path(folder) / "rows.parquet")
            rows = spark.read.parquet(folder)
            write(rows, _new_table(location).location, "append")
        tell(f"Spark wrote {row_count:,} rows")
        yield lambda query: read(spark, location, group_by=query).toArrow()
    finally:
        spark.stop()


def _session() -> SparkSession:
    """Start a small local session whose workers run this very Python."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("projseg demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _result(ask: Ask, location: str, title: str, query: Query) -> dict[str, Any]:
    """Return how a query is answered without and with projections."""
    base_query = replace(query, context={"noProjections": True})
    base, base_ms = _timed(ask, base_query)
    answer, projection_ms = _timed(ask, query)
    table = projseg.Table(location)
    explained = table.explain(query).segments
    sources = {source or "base rows" for source in explained["source"].to_pylist()}
    return {
        "query": title,
        "base ms": base_ms,
        "projection ms": projection_ms,
        "base rows": sum(table.explain(base_query).segments["rows"].to_pylist()),
        "rows read": sum(explained["rows"].to_pylist()),
        "source": ", ".join(sorted(sources)),
        "same answer": same_answer(base, answer),
    }


def _timed(ask: Ask, query: Query) -> tuple[pa.Table, float]:
    """Return the answer and the best of several times in milliseconds, after a warm-up."""
    answer = ask(query)
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        ask(query)
        times.append(time.perf_counter() - started)
    return answer, round(min(times) * 1000, 1)


def tell(line: str) -> None:
    """Print a line for a person, on standard error."""
    Console(stderr=True).print(line, highlight=False, markup=False, soft_wrap=True)
