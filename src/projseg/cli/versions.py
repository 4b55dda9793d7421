"""Verbs that work on a table's versions: restore, tag, drop-tag, tags, vacuum."""

from __future__ import annotations

from typing import Annotated

import typer

from projseg.cli.arguments import DryRun, Location, Output, Yes, is_preview
from projseg.cli.output import print_fields, print_rows
from projseg.cli.stores import open_table

_Name = Annotated[str, typer.Argument(help="The tag.")]


def restore(
    location: Location,
    version: Annotated[int | None, typer.Option("--version", help="The version.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", help="The newest version committed at or before this time."),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The version of this tag.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Make a table what it was at an earlier version; the versions since then are kept."""
    table = open_table(location)
    if is_preview(yes=yes, dry_run=dry_run) and (version, timestamp, tag) != (None, None, None):
        old = open_table(location, version, timestamp, tag)
        would = {"would_restore": old.version, "rows": old.snapshot.row_count}
        print_fields({**would, "location": location, "to_do_it": "repeat with --yes"}, output)
        return
    made = table.restore(version, timestamp=timestamp, tag=tag)
    print_fields(
        {
            "location": location,
            "version": made.version,
            "restored_segments": made.segments,
            "restored_rows": made.rows,
        },
        output,
    )


def tag(
    location: Location,
    name: _Name,
    version: Annotated[
        int | None, typer.Option("--version", help="The version to name; default: the newest.")
    ] = None,
    output: Output = None,
) -> None:
    """Give a version a name, which keeps its files from vacuum."""
    open_table(location).tag(name, version)
    tags(location, output)


def drop_tag(
    location: Location,
    name: _Name,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Take a version's name away, so that vacuum may remove the version."""
    if is_preview(yes=yes, dry_run=dry_run):
        old = open_table(location, tag=name)
        would = {"would_drop": name, "version": old.version}
        print_fields({**would, "location": location, "to_do_it": "repeat with --yes"}, output)
        return
    open_table(location).drop_tag(name)
    tags(location, output)


def tags(location: Location, output: Output = None) -> None:
    """List a table's tags and their versions."""
    print_rows(open_table(location).tags(), output)


def vacuum(
    location: Location,
    retention_hours: Annotated[
        float,
        typer.Option("--retention-hours", help="Keep what was current or written since then."),
    ] = 168,
    force: Annotated[
        bool, typer.Option("--force", help="Accept less than 24 hours: nothing else may run.")
    ] = False,
    files: Annotated[bool, typer.Option("--files", help="List the files.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = None,
) -> None:
    """Remove versions that were replaced long ago, and files that no version needs."""
    preview = is_preview(yes=yes, dry_run=dry_run)
    done = open_table(location).vacuum(retention_hours, preview, force=force)
    if files:
        print_rows(done.files, output)
        return
    left = {"still_stored": done.still_stored.to_pylist()}
    told = {"versions": done.versions, "files": done.file_count, "bytes": done.bytes}
    if done.is_dry_run:
        would = {f"would_remove_{what}": count for what, count in told.items()}
        print_fields(
            {**would, **left, "location": location, "to_do_it": "repeat with --yes"}, output
        )
        return
    removed = {f"removed_{what}": count for what, count in told.items()}
    print_fields({"location": location, "version": done.version, **removed, **left}, output)
