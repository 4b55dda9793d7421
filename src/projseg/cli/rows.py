"""Verbs that change rows which are in a table: delete, truncate, update, merge."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import pyarrow as pa
import typer

from projseg.algebra.expressions.argument_texts import arguments_of_texts
from projseg.cli import input_files
from projseg.cli.arguments import Args, DryRun, Location, Output, Yes, is_preview
from projseg.cli.output import print_fields
from projseg.cli.stores import open_table
from projseg.errors import InvalidInputError

WhenMatched = Literal["update", "delete", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]

if TYPE_CHECKING:
    from projseg.maintenance.row_changes import Corrected

_Filter = Annotated[
    str | None, typer.Option("--filter", help="Rows for which this Spark SQL is true.")
]
_Interval = Annotated[
    str | None, typer.Option("--interval", help="Rows of this range of the time column.")
]
_Timezone = Annotated[str, typer.Option("--timezone", help="Of times without a zone.")]


def delete(
    location: Location,
    filter: _Filter = None,
    interval: _Interval = None,
    args: Args = None,
    timezone: _Timezone = "UTC",
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Remove rows; without --yes, only count them."""
    if filter is None and interval is None:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"nothing says which rows of {location} to delete; give --filter or --interval, or "
            "use truncate",
        )
    preview = is_preview(yes=yes, dry_run=dry_run)
    done = open_table(location).delete(
        filter,
        interval,
        args=arguments_of_texts(args or (), timezone),
        timezone=timezone,
        dry_run=preview,
    )
    _print_done(location, done, "delete", output, is_preview=preview)


def truncate(
    location: Location, yes: Yes = False, dry_run: DryRun = False, output: Output = None
) -> None:
    """Remove all rows; earlier versions keep them."""
    preview = is_preview(yes=yes, dry_run=dry_run)
    done = open_table(location).truncate(dry_run=preview)
    _print_done(location, done, "delete", output, is_preview=preview)


def update(
    location: Location,
    values: Annotated[
        list[str], typer.Option("--set", help="COLUMN=EXPRESSION in Spark SQL; repeatable.")
    ],
    filter: _Filter = None,
    interval: _Interval = None,
    args: Args = None,
    timezone: _Timezone = "UTC",
    yes: Yes = False,
    dry_run: DryRun = False,
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
    preview = is_preview(yes=yes, dry_run=dry_run)
    done = open_table(location).update(
        assigned,
        filter,
        interval,
        args=arguments_of_texts(args or (), timezone),
        timezone=timezone,
        dry_run=preview,
    )
    _print_done(location, done, "update", output, is_preview=preview)


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
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Update or delete rows by the keys of a file, and insert its other rows."""
    table = open_table(location)
    # A reader that is open when Python ends may abort the process: it reads ahead in a thread.
    with input_files.open_file(file, lambda _: None) as reader:
        given = pa.schema([field for field in table.schema if field.name in reader.schema.names])
        rows = pa.Table.from_batches(input_files.cast_batches(file, reader, given), given)
    preview = is_preview(yes=yes, dry_run=dry_run)
    done = table.merge(rows, on, when_matched, when_not_matched, dry_run=preview)
    _print_done(location, done, "merge", output, is_preview=preview)


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
    print_fields({**would, "location": location, "to_do_it": "repeat with --yes"}, output)
