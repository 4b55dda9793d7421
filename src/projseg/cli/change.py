"""Verbs that change what a table declares: add-projection and drop-projection."""

from __future__ import annotations

from typing import Annotated

import typer

import projseg
from projseg.cli.arguments import Location, Output, Yes
from projseg.cli.declarations import parse_declaration
from projseg.cli.output import print_fields
from projseg.errors import InvalidInputError, did_you_mean


def add_projection(
    location: Location,
    declaration: Annotated[
        str, typer.Argument(help="JSON, or NAME=SELECT columns, aggregates GROUP BY ALL.")
    ],
    output: Output = None,
) -> None:
    """Declare a projection; segments written from now on embed it."""
    table = projseg.Table(location)
    for declared in parse_declaration(declaration):
        table.add_projection(declared)
    _print_outcome(location, output)


def drop_projection(
    location: Location,
    name: Annotated[str, typer.Argument(help="The projection's name.")],
    yes: Yes = False,
    output: Output = None,
) -> None:
    """Stop using a projection; segments that embed it keep its bytes until they are rewritten."""
    table = projseg.Table(location)
    known = table.projections()["name"].to_pylist()
    if name not in known:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"projection '{name}' is not declared on {location}{did_you_mean(name, known)}",
        )
    if not yes:
        print_fields(
            {"would_drop": name, "location": location, "to_do_it": "repeat with --yes"}, output
        )
        return
    table.drop_projection(name)
    _print_outcome(location, output)


def _print_outcome(location: str, output: Output) -> None:
    table = projseg.Table(location)
    names = table.projections()["name"].to_pylist()
    print_fields({"location": location, "version": table.version, "projections": names}, output)
