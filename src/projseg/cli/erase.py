"""The verb `erase`: delete rows for good, and search what is left for their values."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from projseg.cli.arguments import Location, Output, Yes
from projseg.cli.output import print_fields
from projseg.cli.stores import open_table

EXIT_STILL_STORED = 3


def erase(
    location: Location,
    filter: Annotated[str, typer.Option("--filter", help="Rows for which this Spark SQL is true.")],
    interval: Annotated[
        str | None, typer.Option("--interval", help="Rows of this range of the time column.")
    ] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="Of times without a zone.")] = "UTC",
    retention_hours: Annotated[
        float, typer.Option("--retention-hours", help="Keep versions that were current since then.")
    ] = 0,
    yes: Yes = False,
    output: Output = None,
) -> None:
    """Delete rows for good; exit with 3 if their values are still found."""
    table = open_table(location)
    if not yes:
        counted = table.query(
            aggregators="count(*) AS n",
            filter=filter,
            interval=interval,
            context={"timezone": timezone},
        )
        would = {
            "would_erase_rows": counted["n"].to_pylist()[0],
            "tags_that_are_kept": table.tags()["tag"].to_pylist(),
            "location": location,
            "to_do_it": "repeat with --yes, while nothing else uses the table",
        }
        print_fields(would, output)
        return
    done = table.erase(filter, interval, timezone=timezone, retention_hours=retention_hours)
    found = done.found.to_pylist()
    told = {one.name: getattr(done, one.name) for one in fields(done)}
    print_fields({"location": location, **told, "found": found}, output)
    if found:
        raise typer.Exit(EXIT_STILL_STORED)
