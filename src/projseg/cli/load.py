"""The verb `import`: files into a table, made if it is not there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

import projseg
from projseg.cli import input_files
from projseg.cli.arguments import Location, Output, sql_list
from projseg.cli.declarations import parse_declarations
from projseg.cli.output import print_fields
from projseg.cli.progress import shown_progress
from projseg.cli.stores import given_options, open_table
from projseg.declarations import check_declared

Files = Annotated[
    list[str],
    typer.Argument(help="Parquet, CSV or JSON lines; text also as .gz, .bz2 or .zst."),
]


def load(
    location: Location,
    files: Files,
    *,
    time_column: Annotated[
        str | None,
        typer.Option("--time-column", help="The column that intervals and segments go by."),
    ] = None,
    segment_granularity: Annotated[
        str | None,
        typer.Option(
            "--segment-granularity",
            help="A segment lies within one such chunk: hour, day, P10D; default: all.",
        ),
    ] = None,
    cluster_by: Annotated[
        list[str] | None,
        typer.Option("--cluster-by", help="Columns that a segment is sorted by, before time."),
    ] = None,
    target_segment_rows: Annotated[
        int | None,
        typer.Option(
            "--target-segment-rows",
            min=1,
            help="Rows at which a segment is full; default: 3,000,000.",
        ),
    ] = None,
    projection: Annotated[
        list[str] | None,
        typer.Option(
            "--projection", "-p", help="JSON, or NAME=SELECT columns, aggregates GROUP BY ALL."
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="COLUMN=TYPE, a type of Spark SQL; default: as found."),
    ] = None,
    output: Output = None,
) -> None:
    """Append files to a table; a table that is not there is made from the first file's columns.

    A new table appears with its rows or not at all. For a table that is there, an option that
    contradicts what it declares is an error, and nothing is appended.
    """
    started = time.perf_counter()
    properties = {
        "time_column": time_column,
        "segment_granularity": segment_granularity,
        "cluster_by": sql_list(cluster_by) or None,
        "target_segment_rows": target_segment_rows,
        "projections": parse_declarations(projection) or None,
    }
    given: dict[str, Any] = {name: v for name, v in properties.items() if v is not None}
    byte_count = sum(map(input_files.stored_bytes, files))
    if projseg.is_table(location, given_options()):
        table = open_table(location)
        check_declared(table.properties, **given)
        input_files.check_types(types or [], table.schema)
        with _reading(files, byte_count, table.schema) as rows:
            table.append(rows)
    else:
        found = input_files.open_file(files[0], lambda _: None).schema
        schema = input_files.table_schema(found, types or [], time_column)
        with _reading(files, byte_count, schema) as rows:
            table = projseg.Table.create(
                location, schema, data=rows, storage_options=given_options(), **given
            )
    seconds = time.perf_counter() - started
    added = table.snapshot.metrics
    done = {
        "location": location,
        "version": table.version,
        "segments": added["added_segments"],
        "rows": added["added_rows"],
        "seconds": round(seconds, 2),
        "rows_per_second": round(added["added_rows"] / seconds),
    }
    print_fields(done, output)


@contextmanager
def _reading(
    files: list[str], byte_count: int, schema: pa.Schema
) -> Iterator[pa.RecordBatchReader]:
    """Yield all files' rows in a table's columns, and show how far they are read."""
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with shown_progress(*columns) as progress:
        task = progress.add_task("importing", total=byte_count)

        def batches() -> Iterator[pa.RecordBatch]:
            for path in files:
                reader = input_files.open_file(path, lambda n: progress.advance(task, n))
                yield from input_files.cast_batches(path, reader, schema)

        yield pa.RecordBatchReader.from_batches(schema, batches())
