"""The verb `import`: files into a table, made if it is not there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

import projseg
from projseg.cli import input_files
from projseg.cli.arguments import Location, Output, sql_list
from projseg.cli.declarations import parse_declarations
from projseg.cli.output import print_fields

Files = Annotated[list[str], typer.Argument(help="Parquet, CSV or JSON lines; text ones also .gz.")]


def load(
    location: Location,
    files: Files,
    *,
    time_column: Annotated[str | None, typer.Option("--time-column")] = None,
    segment_granularity: Annotated[
        str | None, typer.Option("--segment-granularity", help="Such as day; default: all.")
    ] = None,
    cluster_by: Annotated[
        list[str] | None, typer.Option("--cluster-by", help="Sort order inside a segment.")
    ] = None,
    target_segment_rows: Annotated[int | None, typer.Option("--target-segment-rows", min=1)] = None,
    projection: Annotated[
        list[str] | None,
        typer.Option("--projection", "-p", help="A declaration as JSON, or NAME=SELECT ..."),
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="column=type; repeatable.")
    ] = None,
    output: Output = None,
) -> None:
    """Append files to a table; a table that is not there is made from the first file's columns.

    The properties and projections given here are those of a new table.
    """
    started = time.perf_counter()
    properties = {
        "time_column": time_column,
        "segment_granularity": segment_granularity,
        "cluster_by": sql_list(cluster_by) or None,
        "target_segment_rows": target_segment_rows,
        "projections": parse_declarations(projection) or None,
    }
    given = {name: value for name, value in properties.items() if value is not None}
    table = _open_or_create(location, files[0], types or [], time_column, given)
    commit = _append(table, files)
    seconds = time.perf_counter() - started
    done = {
        "location": location,
        "version": commit.version,
        "segments": _count(commit.segments),
        "rows": commit.rows,
        "seconds": round(seconds, 2),
        "rows_per_second": round(commit.rows / seconds),
    }
    print_fields(done, output)


def _open_or_create(
    location: str,
    first_file: str,
    types: list[str],
    time_column: str | None,
    given: dict[str, Any],
) -> projseg.Table:
    if not projseg.is_table(location):
        found = input_files.open_file(first_file, lambda _: None).schema
        schema = input_files.table_schema(found, types, time_column)
        return projseg.Table.create(location, schema, **given)
    if given or types:
        sys.stderr.write(f"{location} is a table already; its own properties are used\n")
    return projseg.Table(location)


def _append(table: projseg.Table, files: list[str]) -> projseg.Commit:
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        total = sum(map(input_files.stored_bytes, files))
        task = progress.add_task("importing", total=total)

        def batches() -> Iterator[pa.RecordBatch]:
            for path in files:
                reader = input_files.open_file(path, lambda n: progress.advance(task, n))
                yield from input_files.cast_batches(path, reader, table.schema)

        return table.append(pa.RecordBatchReader.from_batches(table.schema, batches()))


def _count(segments: Any) -> int:
    return segments if isinstance(segments, int) else len(segments)
