"""The verb `verify`: check stored bytes, and what the table says of its rows."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from projseg.cli.arguments import Location, Output, Tag, Timestamp, Version
from projseg.cli.output import print_fields, print_rows
from projseg.cli.progress import shown_progress
from projseg.cli.stores import open_table
from projseg.errors import InvalidInputError
from projseg.maintenance.later_files import later_manifests
from projseg.maintenance.verify import (
    kept_version_numbers,
    verify_kept_versions,
    verify_table,
)

EXIT_VERIFICATION_FAILED = 3


def verify(
    location: Location,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compare rows with what the table says of them.")
    ] = False,
    all_versions: Annotated[
        bool,
        typer.Option("--all-versions", help="Check every version that retention or a tag keeps."),
    ] = False,
    version: Version = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    output: Output = None,
) -> None:
    """Check every file and all that the table says of it; exit with 3 if something is wrong."""
    is_newest = (version, timestamp, tag) == (None, None, None)
    if all_versions and not is_newest:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            "--all-versions checks every version; leave --version, --timestamp and --tag out",
        )
    snapshot = open_table(location, version, timestamp, tag).snapshot
    with shown_progress() as progress:
        task = progress.add_task(
            "verifying", total=None if all_versions else len(snapshot.segments)
        )
        verify = verify_kept_versions if all_versions else verify_table
        findings = verify(
            snapshot.storage, snapshot, deep=deep, on_segment=lambda _: progress.advance(task)
        )
    later = later_manifests(snapshot) if is_newest else []
    if later:
        sys.stderr.write(
            f"note: {len(later)} manifests are later than version {snapshot.version} and in no "
            f"version, the first {later[0]}: a commit is under way, was killed, or its snapshot "
            "was deleted\n"
        )
    if findings:
        rows = [{"segment": finding.file, "problem": finding.problem} for finding in findings]
        print_rows(rows, output)
        raise typer.Exit(EXIT_VERIFICATION_FAILED)
    checked = {
        "location": location,
        "version": snapshot.version,
        **({"versions": len(kept_version_numbers(snapshot))} if all_versions else {}),
        "segments": len(snapshot.segments),
        "rows": snapshot.row_count,
        "problems": 0,
    }
    print_fields(checked, output)
