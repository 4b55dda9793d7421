"""Verbs that work on a table's versions: restore."""

from __future__ import annotations

from typing import Annotated

import typer

import projseg
from projseg.cli.arguments import Location, Output, Yes
from projseg.cli.output import print_fields


def restore(
    location: Location,
    version: Annotated[int | None, typer.Option("--version", help="The version.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", help="The newest version committed at or before this time."),
    ] = None,
    yes: Yes = False,
    output: Output = None,
) -> None:
    """Make a table what it was at an earlier version; the versions since then are kept."""
    table = projseg.Table(location)
    if not yes and (version is not None or timestamp is not None):
        old = projseg.Table(location, version, timestamp)
        would = {"would_restore": old.version, "rows": old.detail()["rows"]}
        print_fields({**would, "location": location, "to_do_it": "repeat with --yes"}, output)
        return
    made = table.restore(version, timestamp=timestamp)
    print_fields(
        {
            "location": location,
            "version": made.version,
            "restored_segments": made.segments,
            "restored_rows": made.rows,
        },
        output,
    )
