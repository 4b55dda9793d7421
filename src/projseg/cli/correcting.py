"""Verbs that change rows which are in a table: delete, truncate, update, merge and erase."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Final, Literal

import pyarrow as pa
import typer

from projseg.catalog.external.input_columns import BadLines
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.text_files import TextForm
from projseg.cli.output import print_fields, print_preview
from projseg.cli.shared_arguments import Condition, Filter, IsPreview, Location, Output, open_table
from projseg.errors import InvalidInputError
from projseg.maintenance.row_changes.delete_and_update import Corrected

EXIT_STILL_STORED: Final = 3

WhenMatched = Literal["update", "delete", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]


def delete(
    location: Location,
    *,
    filter: Filter = None,
    condition: Condition,
    is_preview: IsPreview,
    output: Output = None,
) -> None:
    """Remove rows; without --yes, only count them."""
    if filter is None and condition["interval"] is None:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"nothing says which rows of {location} to delete; give --filter or --interval, or "
            "use truncate",
        )
    done = open_table(location).delete(filter, **condition, dry_run=is_preview)
    _print_done(location, done, "delete", output, is_preview=is_preview)


def truncate(location: Location, *, is_preview: IsPreview, output: Output = None) -> None:
    """Remove all rows; earlier versions keep them."""
    done = open_table(location).truncate(dry_run=is_preview)
    _print_done(location, done, "delete", output, is_preview=is_preview)


def update(
    location: Location,
    values: Annotated[
        list[str], typer.Option("--set", help="COLUMN=EXPRESSION in Spark SQL; repeatable.")
    ],
    *,
    filter: Filter = None,
    condition: Condition,
    is_preview: IsPreview,
    output: Output = None,
) -> None:
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
    _print_done(location, done, "update", output, is_preview=is_preview)


def merge(
    location: Location,
    file: Annotated[str, typer.Argument(help="Rows to merge: Parquet, CSV or JSON lines.")],
    on: Annotated[list[str], typer.Option("--on", help="A key column; repeatable.")],
    when_matched: Annotated[
        WhenMatched, typer.Option("--when-matched", help="For rows whose key is in the file.")
    ] = "update",
    when_not_matched: Annotated[
        WhenNotMatched, typer.Option("--when-not-matched", help="For keys of the file alone.")
    ] = "insert",
    *,
    is_preview: IsPreview,
    output: Output = None,
) -> None:
    """Update or delete rows by the keys of a file, and insert its other rows."""
    table = open_table(location)
    source = Sources([file], None, TextForm())
    given = pa.schema([field for field in table.schema if field.name in source.schema.names])
    bad = BadLines(advice="nothing was merged: mend it")
    rows = pa.Table.from_batches(source.rows(given, bad, lambda _: None), given)
    done = table.merge(rows, on, when_matched, when_not_matched, dry_run=is_preview)
    _print_done(location, done, "merge", output, is_preview=is_preview)


def _print_done(
    location: str, done: Corrected, verb: str, output: Output, *, is_preview: bool
) -> None:
    if not is_preview:
        print_fields({"location": location, **asdict(done)}, output)
        return
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
    print_preview(would, location, output)


def erase(
    location: Location,
    filter: Annotated[str, typer.Option("--filter", help="Rows for which this Spark SQL is true.")],
    *,
    condition: Condition,
    retention_hours: Annotated[
        float, typer.Option("--retention-hours", help="Keep versions that were current since then.")
    ] = 0,
    is_preview: IsPreview,
    output: Output = None,
) -> None:
    """Delete rows for good; exit with 3 if their values are still found."""
    table = open_table(location)
    if is_preview:
        counted = table.delete(filter, **condition, dry_run=True)
        kept = table.tags()["tag"].to_pylist()
        would = {"would_erase_rows": counted.deleted_rows, "tags_that_are_kept": kept}
        print_preview(would, location, output, ", while nothing else uses the table")
        return
    done = table.erase(filter, **condition, retention_hours=retention_hours)
    found = done.found.to_pylist()
    counts = {one.name: getattr(done, one.name) for one in fields(done)}
    print_fields({"location": location, **counts, "found": found}, output)
    if found:
        raise typer.Exit(EXIT_STILL_STORED)
