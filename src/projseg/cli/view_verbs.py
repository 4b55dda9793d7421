"""Verbs of a table's views."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from projseg.cli.output import Found, listed, previewed, print_rows, segments_shown
from projseg.cli.shared_arguments import (
    IsPreview,
    Location,
    OtherTables,
    Output,
    SegmentInterval,
    open_table,
    sql_list,
    tables_named,
)
from projseg.errors import InvalidInputError, ProjsegError
from projseg.views.refresh_work import Refresh

_Name = Annotated[str, "The view."]
_LISTED = ("name", "status", "state", "segments", "segments_covered", "parts", "rows", "bytes")


def views(location: Location, *, output: Output = None) -> None:
    """List the views of a table."""
    found = listed(open_table(location).views(), f"{location} has no views")
    print_rows(found.to_pylist() if output else found.select(list(_LISTED)).to_pylist(), output)


def create_view(
    location: Location,
    definition: Annotated[str, "NAME=SELECT columns, aggregates FROM t ..."],
    *,
    table: OtherTables = None,
    deferred: Annotated[bool, "Only refresh-view refreshes it, not each commit."] = False,
    chunk: Annotated[str | None, "The unit of time of parts: month."] = None,
    retain: Annotated[str | None, "Segments with older rows only are left out: '90 days'."] = None,
    cluster_by: Annotated[list[str] | None, "Columns that a part is ordered by first."] = None,
    replace: Annotated[bool, "Drop a view of this name in the same commit."] = False,
) -> Found:
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
            cluster_by=sql_list(cluster_by),
            replace=replace,
            on_progress=progress,
        )
    return _view(location, name.strip())


def refresh_view(
    location: Location,
    name: Annotated[str | None, "The view; or --all."] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Each view that is enabled.")] = False,
    full: Annotated[bool, "Build all parts anew."] = False,
    dry_run: Annotated[bool, "Only say what is to do."] = False,
    interval: SegmentInterval = None,
) -> Found:
    """Refresh views to the newest version of the table; a failed view does not stop others."""
    if every == (name is not None):
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "name one view, or say --all")
    table = open_table(location)
    listed = table.views().to_pylist()
    names = [one["name"] for one in listed if one["status"] == "ENABLED"] if every else [name]
    rows, failures = [], []
    for one in names:
        try:
            done = table.view(str(one)).refresh(full, interval, dry_run)
        except ProjsegError as error:
            failures.append(error)
        else:
            rows.append({"view": one, **_figures(done)})
    if failures:
        raise failures[0]
    return rows


def alter_view(
    location: Location,
    name: _Name,
    *,
    enable: Annotated[bool, "Let it answer and follow."] = False,
    disable: Annotated[bool, "Keep it, unused."] = False,
    rename: Annotated[str | None, "Call it so."] = None,
) -> Found:
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
    return _view(location, rename or name)


def drop_view(location: Location, name: _Name, *, is_preview: IsPreview) -> Found:
    """Drop a view; a vacuum of the table removes its files. Needs --yes."""
    view = open_table(location).view(name)
    detail = view.detail()
    stored, fields = view.name, {"parts": detail["parts"], "bytes": detail["bytes"]}
    if is_preview:
        return previewed({"would_drop": stored, **fields}, location)
    view.drop()
    return {"view": stored, **fields, "dropped": True}


def explain_view(location: Location, name: _Name) -> Found:
    """Print what a view stores, and which segments it covers."""
    return open_table(location).view(name).detail()


def _view(location: str, name: str) -> Found:
    found = open_table(location).view(name).detail()
    return {key: found[key] for key in _LISTED}


def _figures(done: Refresh) -> dict[str, Any]:
    found = dataclasses.asdict(done)
    return {**found, "not_built": dict(done.not_built)}
