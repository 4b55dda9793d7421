"""The verb `erase`: delete rows for good, and search what is left for their values."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.cli.arguments import Args, DryRun, Location, Output, Yes, is_preview
from projseg.cli.output import print_fields
from projseg.cli.stores import open_table

EXIT_STILL_STORED = 3


def erase(
    location: Location,
    filter: Annotated[str, typer.Option("--filter", help="Rows for which this Spark SQL is true.")],
    interval: Annotated[
        str | None, typer.Option("--interval", help="Rows of this range of the time column.")
    ] = None,
    args: Args = None,
    timezone: Annotated[str, typer.Option("--timezone", help="Of times without a zone.")] = "UTC",
    retention_hours: Annotated[
        float, typer.Option("--retention-hours", help="Keep versions that were current since then.")
    ] = 0,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Delete rows for good; exit with 3 if their values are still found."""
    table = open_table(location)
    given = arguments_of_texts(args or (), timezone)
    if is_preview(yes=yes, dry_run=dry_run):
        counted = table.delete(filter, interval, args=given, timezone=timezone, dry_run=True)
        would = {
            "would_erase_rows": counted.deleted_rows,
            "tags_that_are_kept": table.tags()["tag"].to_pylist(),
            "location": location,
            "to_do_it": "repeat with --yes, while nothing else uses the table",
        }
        print_fields(would, output)
        return
    done = table.erase(
        filter, interval, args=given, timezone=timezone, retention_hours=retention_hours
    )
    found = done.found.to_pylist()
    told = {one.name: getattr(done, one.name) for one in fields(done)}
    print_fields({"location": location, **told, "found": found}, output)
    if found:
        raise typer.Exit(EXIT_STILL_STORED)
