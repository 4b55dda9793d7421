"""Verbs about columns: add-column, rename-column, drop-column and widen-column."""

from __future__ import annotations

from typing import Annotated

import typer

import projseg
from projseg.cli.arguments import DryRun, Location, Output, Yes, is_preview
from projseg.cli.output import print_fields
from projseg.cli.stores import open_table
from projseg.segment_format.types import type_name

_Name = Annotated[str, typer.Argument(help="The column.")]


def add_column(
    location: Location,
    name: _Name,
    type: Annotated[str, typer.Argument(help="As in Spark SQL: bigint, decimal(10,2).")],
    output: Output = None,
) -> None:
    """Add a column, which is null in the rows that are there."""
    table = open_table(location)
    table.add_column(name, type)
    _print_outcome(location, table, output)


def rename_column(
    location: Location,
    old: Annotated[str, typer.Argument(help="The column's present name.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    output: Output = None,
) -> None:
    """Give a column another name, also where projections mention it; no segment is written."""
    table = open_table(location)
    table.rename_column(old, new)
    _print_outcome(location, table, output)


def drop_column(
    location: Location,
    name: _Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Take a column out of a table; compaction removes its values from the files."""
    from projseg.table_columns import dropping
    from projseg.table_layer.column_changes import with_changes

    table = open_table(location)
    if is_preview(yes=yes, dry_run=dry_run):
        with_changes(table.properties, dropping(table.properties, [name]))
        print_fields(
            {"would_drop": name, "location": location, "to_do_it": "repeat with --yes"}, output
        )
        return
    table.drop_column(name)
    _print_outcome(location, table, output)


def widen_column(
    location: Location,
    name: _Name,
    type: Annotated[str, typer.Argument(help="A type that holds every value: int to bigint.")],
    output: Output = None,
) -> None:
    """Give a column a wider type; segments that are there are read in it."""
    table = open_table(location)
    table.widen_column(name, type)
    _print_outcome(location, table, output)


def _print_outcome(location: str, table: projseg.Table, output: Output) -> None:
    columns = {field.name: type_name(field.type) for field in table.schema}
    print_fields({"location": location, "version": table.version, "columns": columns}, output)
