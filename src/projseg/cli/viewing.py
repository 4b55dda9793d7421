"""Verbs of a table's views."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from projseg.cli.output import print_fields, print_rows, segments_shown
from projseg.cli.shared_arguments import (
    IsPreview,
    Location,
    OtherTables,
    Output,
    SegmentInterval,
    open_table,
    tables_named,
)
from projseg.errors import InvalidInputError
from projseg.views.refresh_work import Refresh

_Name = Annotated[str, typer.Argument(help="The view.")]
_LISTED = ("name", "status", "state", "segments", "segments_covered", "parts", "rows", "bytes")


def views(location: Location, output: Output = None) -> None:
    """List the views of a table."""
    found = open_table(location).views()
    print_rows(found.to_pylist() if output else found.select(list(_LISTED)).to_pylist(), output)


def create_view(
    location: Location,
    definition: Annotated[str, typer.Argument(help="NAME=SELECT columns, aggregates FROM t ...")],
    table: OtherTables = None,
    deferred: Annotated[
        bool, typer.Option("--deferred", help="Only refresh-view refreshes it, not each commit.")
    ] = False,
    chunk: Annotated[str | None, typer.Option(help="The unit of time of parts: month.")] = None,
    retain: Annotated[
        str | None, typer.Option(help="Segments with older rows only are left out: '90 days'.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop a view of this name in the same commit.")
    ] = False,
    output: Output = None,
) -> None:
    """Store the groups of a SELECT in parts that stand for many segments."""
    name, found, sql = definition.partition("=")
    if not found:
        raise InvalidInputError(
            "PROJSEG_BAD_VIEW", f"'{definition[:80]}' is not NAME=SELECT ...; give the view a name"
        )
    fact = open_table(location)
    with segments_shown() as progress:
        fact.create_view(
            name.strip(),
            sql,
            tables=tables_named(table),
            refresh="deferred" if deferred else "commit",
            chunk=chunk,
            retain=retain,
            replace=replace,
            on_progress=progress,
        )
    _print_view(location, name.strip(), output)


def refresh_view(
    location: Location,
    name: Annotated[str | None, typer.Argument(help="The view; or --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Each view that is enabled.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Build all parts anew.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is to do.")] = False,
    interval: SegmentInterval = None,
    output: Output = None,
) -> None:
    """Bring views up to the newest version of the table."""
    if every == (name is not None):
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "name one view, or say --all")
    table = open_table(location)
    listed = table.views().to_pylist()
    names = [one["name"] for one in listed if one["status"] == "ENABLED"] if every else [name]
    rows = []
    for one in names:
        done = table.view(str(one)).refresh(full, interval, dry_run)
        rows.append({"view": one, **_figures(done)})
    print_rows(rows, output)


def alter_view(
    location: Location,
    name: _Name,
    enable: Annotated[bool, typer.Option("--enable", help="Let it answer and follow.")] = False,
    disable: Annotated[bool, typer.Option("--disable", help="Keep it, unused.")] = False,
    rename: Annotated[str | None, typer.Option(help="Call it so.")] = None,
    output: Output = None,
) -> None:
    """Enable, disable or rename a view."""
    if [enable, disable, rename is not None].count(True) != 1:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "give one of --enable, --disable and --rename"
        )
    view = open_table(location).view(name)
    if rename is not None:
        view.rename(rename)
    elif enable:
        view.enable()
    else:
        view.disable()
    _print_view(location, rename or name, output)


def drop_view(
    location: Location, name: _Name, *, is_preview: IsPreview, output: Output = None
) -> None:
    """Drop a view; a vacuum of the table removes its files. Needs --yes."""
    view = open_table(location).view(name)
    detail = view.detail()
    fields = {"view": view.name, "parts": detail["parts"], "bytes": detail["bytes"]}
    if not is_preview:
        view.drop()
    print_fields({**fields, "dropped": not is_preview}, output)


def explain_view(location: Location, name: _Name, output: Output = None) -> None:
    """Print what a view stores, and how far."""
    print_fields(open_table(location).view(name).detail(), output)


def _print_view(location: str, name: str, output: Any) -> None:
    found = open_table(location).view(name).detail()
    print_fields({key: found[key] for key in _LISTED}, output)


def _figures(done: Refresh) -> dict[str, Any]:
    found = dataclasses.asdict(done)
    return {**found, "not_built": dict(done.not_built)}
