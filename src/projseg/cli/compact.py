"""The verb `compact`: merge small segments."""

from __future__ import annotations

from typing import Annotated

import typer

from projseg.cli.arguments import Location, Output
from projseg.cli.output import print_fields, print_rows
from projseg.cli.progress import segments_shown
from projseg.cli.stores import open_table


def compact(
    location: Location,
    interval: Annotated[
        str | None, typer.Option(help="Only segments with rows in START/END or START/PERIOD.")
    ] = None,
    target_segment_rows: Annotated[
        int | None, typer.Option(help="Most rows of a new segment; default: the table's.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the segments that would be merged.")
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Only write segments anew that store removed values.")
    ] = False,
    output: Output = None,
) -> None:
    """Merge small segments of a time chunk into larger ones; rows and answers stay."""
    table = open_table(location)
    if dry_run:
        planned = table.compact(interval, target_segment_rows, dry_run=True, purge=purge)
        print_rows(planned, output)
        return
    with segments_shown() as show:
        made = table.compact(interval, target_segment_rows, purge=purge, on_progress=show)
    fields = {"location": location, "version": made.version, "segments": made.segments}
    print_fields({**fields, "rows": made.rows}, output)
