"""The verb `demo`: a table made, asked with and without its projections, and checked."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import typer
from rich.console import Console

import projseg
from projseg.cli.answers import same_answer
from projseg.cli.arguments import Output
from projseg.cli.demo_queries import (
    BASE_ONLY,
    PROJECTIONS,
    QUERIES,
    TABLE_OPTIONS,
    DemoQuery,
    rows_read,
)
from projseg.cli.output import print_rows
from projseg.extras import require_spark

_RUNS: Final = 3


def demo(
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows to make.")] = 300_000,
    location: Annotated[
        str | None, typer.Option("--location", help="Keep the table here; default: do not keep it.")
    ] = None,
    with_spark: Annotated[
        bool, typer.Option("--spark", help="Write and read through Spark (starts a JVM).")
    ] = False,
    output: Output = None,
) -> None:
    """Make rows, write them as segments, ask with and without projections, compare the answers."""
    with tempfile.TemporaryDirectory(prefix="projseg-demo-") as folder:
        where = location or str(Path(folder) / "edits")
        if with_spark:
            require_spark("demo --spark")
            # Imported here: pyspark is heavy and this is the only verb that uses it.
            from projseg.cli.demo_spark import run_spark_demo

            results = run_spark_demo(where, rows, _tell)
        else:
            results = run_demo(where, rows, _tell)
    print_rows(results, output)
    if not all(result["same answer"] for result in results):
        _tell("an answer from projections differs from the base rows' answer: this is a bug")
        raise typer.Exit(1)


def run_demo(location: str, row_count: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Make the demo's table and ask it the demo's questions.

    Parameters
    ----------
    location : str
        Where to make the table; nothing may be there.
    row_count : int
        Rows to make.
    tell : callable
        Told what happens, a line at a time.

    Returns
    -------
    list of dict
        One for each question: times in milliseconds, rows read, and whether the answers agree.
    """
    # Imported here: only the demos need rows made up.
    from projseg.benchmarks.generator import SCHEMA, EditStream

    stream = EditStream(row_count)
    started = time.perf_counter()
    table = projseg.Table.create(location, SCHEMA, projections=PROJECTIONS, **TABLE_OPTIONS)
    table.append(stream.reader())
    seconds = time.perf_counter() - started
    segment_count = table.segments().num_rows
    tell(f"wrote {row_count:,} rows in {segment_count} segments in {seconds:.1f} s: {location}")
    return [_ask(table, query) for query in QUERIES]


def _ask(table: projseg.Table, query: DemoQuery) -> dict[str, Any]:
    base, base_ms = _timed(lambda: table.query(**query.arguments, context=BASE_ONLY))
    answer, projection_ms = _timed(lambda: table.query(**query.arguments))
    return {
        "query": query.title,
        "base ms": base_ms,
        "projection ms": projection_ms,
        **rows_read(table, query),
        "same answer": same_answer(base, answer),
    }


def _timed(run: Callable[[], pa.Table]) -> tuple[pa.Table, float]:
    """Return the answer and the best of several times in milliseconds, after a warm-up."""
    answer = run()
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return answer, round(min(times) * 1000, 1)


def _tell(line: str) -> None:
    Console(stderr=True).print(line, highlight=False, markup=False)
