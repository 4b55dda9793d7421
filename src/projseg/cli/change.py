"""Verbs about projections: add-projection, materialize-projection and drop-projection."""

from __future__ import annotations

from typing import Annotated

import typer

from projseg.cli.arguments import DryRun, Location, Output, Yes, is_preview
from projseg.cli.declarations import parse_declaration
from projseg.cli.output import print_fields
from projseg.cli.progress import segments_shown
from projseg.cli.stores import open_table
from projseg.errors import InvalidInputError, did_you_mean


def add_projection(
    location: Location,
    declaration: Annotated[
        str, typer.Argument(help="JSON, or NAME=SELECT columns, aggregates GROUP BY ALL.")
    ],
    materialize: Annotated[
        bool, typer.Option("--materialize", help="Also build it in the segments that are there.")
    ] = False,
    build: Annotated[
        str,
        typer.Option(help="immediate; or deferred: only materialize-projection and compact do it."),
    ] = "immediate",
    interval: Annotated[
        str | None, typer.Option(help="Segments with no row in it go without the projection.")
    ] = None,
    retain: Annotated[
        str | None, typer.Option(help="Segments with older rows only go without: '90 days'.")
    ] = None,
    max_row_ratio: Annotated[
        float | None, typer.Option(help="The most rows, as a share of a segment's base rows.")
    ] = None,
    max_bytes_ratio: Annotated[
        float | None, typer.Option(help="The most bytes, as a share of the base table's.")
    ] = None,
    output: Output = None,
) -> None:
    """Declare a projection; segments written from now on embed it."""
    table = open_table(location)
    for declared in parse_declaration(declaration):
        table.add_projection(
            declared,
            materialize=materialize,
            build=build,
            interval=interval,
            retain=retain,
            max_row_ratio=max_row_ratio,
            max_bytes_ratio=max_bytes_ratio,
        )
    _print_outcome(location, output)


def materialize_projection(
    location: Location,
    name: Annotated[
        str | None, typer.Argument(help="The projection; default: all that are declared.")
    ] = None,
    interval: Annotated[
        str | None, typer.Option(help="Only segments with rows in START/END or START/PERIOD.")
    ] = None,
    output: Output = None,
) -> None:
    """Build declared projections in the segments that lack them; base rows are copied as stored."""
    table = open_table(location)
    with segments_shown() as show:
        made = table.materialize_projection(name, interval, on_progress=show)
    fields = {"location": location, "version": made.version, "segments": made.segments}
    print_fields({**fields, "rows": made.rows}, output)


def drop_projection(
    location: Location,
    name: Annotated[str, typer.Argument(help="The projection's name.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Stop using a projection; segments that embed it keep its bytes until they are rewritten."""
    table = open_table(location)
    known = table.projections()["name"].to_pylist()
    if name not in known:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"projection '{name}' is not declared on {location}{did_you_mean(name, known)}",
        )
    if is_preview(yes=yes, dry_run=dry_run):
        print_fields(
            {"would_drop": name, "location": location, "to_do_it": "repeat with --yes"}, output
        )
        return
    table.drop_projection(name)
    _print_outcome(location, output)


def _print_outcome(location: str, output: Output) -> None:
    table = open_table(location)
    names = table.projections()["name"].to_pylist()
    print_fields({"location": location, "version": table.version, "projections": names}, output)
