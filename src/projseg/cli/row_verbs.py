"""Verbs that bring rows in or change them: import, delete, truncate, update, merge and erase."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import islice
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

import projseg
from projseg.catalog.external.input_columns import FAIL, SKIP, BadLines, check_types, table_schema
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.readings import TextForm
from projseg.cli.declaration_verbs import parse_declarations
from projseg.cli.file_options import Files, GivenForm
from projseg.cli.output import (
    Ended,
    Found,
    OutputFormat,
    previewed,
    print_fields,
    print_rows,
    shown_progress,
)
from projseg.cli.shared_arguments import (
    Condition,
    Filter,
    IsPreview,
    Location,
    Output,
    given_options,
    open_table,
    sql_list,
)
from projseg.declarations import check_declared
from projseg.errors import InvalidInputError
from projseg.maintenance.row_changes.delete_and_update import Corrected
from projseg.segment_format.logical_types import type_name

EXIT_STILL_STORED: Final = 3

WhenMatched = Literal["update", "delete", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]


def load(
    location: Location,
    files: Files,
    *,
    time_column: Annotated[str | None, "The column that intervals and segments go by."] = None,
    segment_granularity: Annotated[
        str | None, "A segment lies within one such chunk: hour, day, P10D; default: all."
    ] = None,
    cluster_by: Annotated[
        list[str] | None, "Columns that a segment is sorted by, before time."
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
    file_form: GivenForm,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Show the columns and so many rows; write nothing."),
    ] = None,
    on_error: Annotated[
        str, "fail; skip; or a file that gets bad lines, with their numbers and the reasons."
    ] = FAIL,
    max_errors: Annotated[
        int | None, typer.Option("--max-errors", min=0, help="The most lines to skip.")
    ] = None,
    merge_schema: Annotated[bool, "Add columns that the table lacks."] = False,
    commit_as: Annotated[
        str | None, "A name for this import; repeated, it changes nothing."
    ] = None,
    output: Output = None,
) -> None:
    """Append files to a table; a table that is not there is made from the first file's columns.

    A new table appears with its rows or not at all. For a table that is there, an option that
    contradicts what it declares is an error, and nothing is appended.
    """
    types = file_form.types
    sources = Sources(files, file_form.kind, file_form.texts)
    if sample is not None:
        _show_sample(sources, types, time_column, sample, output)
        return
    started = time.perf_counter()
    properties = {
        "time_column": time_column,
        "segment_granularity": segment_granularity,
        "cluster_by": sql_list(cluster_by) or None,
        "target_segment_rows": target_segment_rows,
        "projections": parse_declarations(projection) or None,
    }
    given: dict[str, Any] = {name: v for name, v in properties.items() if v is not None}
    with BadLines(on_error, max_errors) as bad:
        if projseg.is_table(location, given_options()):
            table = open_table(location)
            check_declared(table.properties, **given)
            if merge_schema:
                _add_columns(table, sources, time_column)
            check_types(types, table.schema)
            before = table.version
            with _reading(sources, table.schema, bad) as rows:
                table.append(rows, commit_as=commit_as)
            is_repeated = table.version == before and commit_as is not None
        else:
            found = sources.all_columns if merge_schema else sources.schema
            schema = table_schema(found, types, time_column)
            with _reading(sources, schema, bad) as rows:
                table = projseg.Table.create(
                    location,
                    schema,
                    data=rows,
                    commit_as=commit_as,
                    storage_options=given_options(),
                    **given,
                )
            is_repeated = False
    for note in sources.notes:
        sys.stderr.write(f"{note}\n")
    seconds = time.perf_counter() - started
    nothing = {"added_segments": 0, "added_rows": 0}
    added = nothing if is_repeated else table.snapshot.metrics
    done = {
        "location": location,
        "version": table.version,
        "segments": added["added_segments"],
        "rows": added["added_rows"],
        "bad_lines": bad.count,
        "seconds": round(seconds, 2),
        "rows_per_second": round(added["added_rows"] / seconds),
    }
    print_fields(done, output)


def _show_sample(
    sources: Sources,
    types: Sequence[str],
    time_column: str | None,
    count: int,
    output: OutputFormat | None,
) -> None:
    """Print the columns that a table would have, and its first rows."""
    schema = table_schema(sources.schema, types, time_column)
    print_rows([{"column": field.name, "type": type_name(field.type)} for field in schema], output)
    rows = sources.rows(schema, BadLines(SKIP), lambda _: None)
    found = pa.Table.from_batches(islice(rows, 1), schema)
    print_rows(found.slice(0, count), output)


def _add_columns(table: projseg.Table, sources: Sources, time_column: str | None) -> None:
    known = {name.lower() for name in table.schema.names}
    for field in table_schema(sources.all_columns, [], time_column):
        if field.name.lower() not in known:
            table.add_column(field.name, field.type)


@contextmanager
def _reading(sources: Sources, schema: pa.Schema, bad: BadLines) -> Iterator[pa.RecordBatchReader]:
    """Yield all files' rows in a table's columns, and show how far they are read."""
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with shown_progress(*columns) as progress:
        task = progress.add_task("importing", total=sources.byte_count)

        def advance(byte_count: int) -> None:
            progress.advance(task, byte_count)

        rows = sources.rows(schema, bad, advance)
        yield pa.RecordBatchReader.from_batches(schema, rows)


def delete(
    location: Location,
    *,
    filter: Filter = None,
    condition: Condition,
    is_preview: IsPreview,
) -> Found:
    """Remove rows; without --yes, only count them."""
    if filter is None and condition["interval"] is None:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"nothing says which rows of {location} to delete; give --filter or --interval, or "
            "use truncate",
        )
    done = open_table(location).delete(filter, **condition, dry_run=is_preview)
    return _report(location, done, "delete", is_preview=is_preview)


def truncate(location: Location, *, is_preview: IsPreview) -> Found:
    """Remove all rows; earlier versions keep them."""
    done = open_table(location).truncate(dry_run=is_preview)
    return _report(location, done, "delete", is_preview=is_preview)


def update(
    location: Location,
    *,
    values: Annotated[
        list[str], typer.Option("--set", help="COLUMN=EXPRESSION in Spark SQL; repeatable.")
    ],
    filter: Filter = None,
    condition: Condition,
    is_preview: IsPreview,
) -> Found:
    """Set columns of rows; without --yes, only count them."""
    assigned = {}
    for text in values:
        name, mark, expression = text.partition("=")
        if not mark:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"--set '{text}' is not of the form COLUMN=EXPRESSION"
            )
        assigned[name.strip()] = expression
    done = open_table(location).update(assigned, filter, **condition, dry_run=is_preview)
    return _report(location, done, "update", is_preview=is_preview)


def merge(
    location: Location,
    file: Annotated[str, "Rows to merge: Parquet, CSV or JSON lines."],
    *,
    on: Annotated[list[str], "A key column; repeatable."],
    when_matched: Annotated[WhenMatched, "For rows whose key is in the file."] = "update",
    when_not_matched: Annotated[WhenNotMatched, "For keys of the file alone."] = "insert",
    is_preview: IsPreview,
) -> Found:
    """Update or delete rows by the keys of a file, and insert its other rows."""
    table = open_table(location)
    source = Sources([file], None, TextForm())
    names = {name.lower() for name in source.schema.names}
    given = pa.schema([field for field in table.schema if field.name.lower() in names])
    bad = BadLines(advice="nothing was merged: mend it")
    rows = pa.Table.from_batches(source.rows(given, bad, lambda _: None), given)
    done = table.merge(rows, on, when_matched, when_not_matched, dry_run=is_preview)
    return _report(location, done, "merge", is_preview=is_preview)


def _report(location: str, done: Corrected, verb: str, *, is_preview: bool) -> Found:
    if not is_preview:
        return {"location": location, **asdict(done)}
    counts = {
        "delete": done.deleted_rows,
        "update": done.updated_rows,
        "insert": done.inserted_rows,
    }
    if verb == "merge":
        would = {f"would_{what}_rows": count for what, count in counts.items()}
        would = {"would_merge_rows": sum(counts.values()), **would}
    else:
        would = {f"would_{verb}_rows": counts[verb]}
    return previewed(would, location)


def erase(
    location: Location,
    *,
    filter: Annotated[str, "Rows for which this Spark SQL is true."],
    condition: Condition,
    retention_hours: Annotated[float, "Keep versions that were current since then."] = 0,
    is_preview: IsPreview,
) -> Found | Ended:
    """Delete rows for good; exit with 3 if their values are still found."""
    table = open_table(location)
    if is_preview:
        counted = table.delete(filter, **condition, dry_run=True)
        kept = table.tags()["tag"].to_pylist()
        would = {"would_erase_rows": counted.deleted_rows, "tags_that_are_kept": kept}
        return previewed(would, location, ", while nothing else uses the table")
    done = table.erase(filter, **condition, retention_hours=retention_hours)
    found = done.found.to_pylist()
    counts = {one.name: getattr(done, one.name) for one in fields(done)}
    shown = {"location": location, **counts, "found": found}
    return Ended(shown, EXIT_STILL_STORED if found else 0)
