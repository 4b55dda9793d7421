"""Verbs that keep a table well: compact, verify, restore, tag, drop-tag, tags and vacuum."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from projseg.cli.output import (
    print_fields,
    print_preview,
    print_rows,
    segments_shown,
    shown_progress,
)
from projseg.cli.shared_arguments import (
    At,
    IsPreview,
    Location,
    Output,
    SegmentInterval,
    open_table,
)
from projseg.errors import InvalidInputError
from projseg.maintenance.verification.findings import later_manifests
from projseg.maintenance.verification.verify import (
    kept_version_numbers,
    verify_kept_versions,
    verify_table,
)

EXIT_VERIFICATION_FAILED: Final = 3

_Tag = Annotated[str, typer.Argument(help="The tag.")]


def compact(
    location: Location,
    interval: SegmentInterval = None,
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


def verify(
    location: Location,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compare rows with what the table says of them.")
    ] = False,
    all_versions: Annotated[
        bool,
        typer.Option("--all-versions", help="Check every version that retention or a tag keeps."),
    ] = False,
    *,
    at: At,
    output: Output = None,
) -> None:
    """Check every file and all that the table says of it; exit with 3 if something is wrong."""
    is_newest = not any(part is not None for part in at.values())
    if all_versions and not is_newest:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            "--all-versions checks every version; leave --version, --timestamp and --tag out",
        )
    snapshot = open_table(location, **at).snapshot
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


def restore(
    location: Location,
    version: Annotated[int | None, typer.Option("--version", help="The version.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", help="The newest version committed at or before this time."),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The version of this tag.")] = None,
    *,
    is_preview: IsPreview,
    output: Output = None,
) -> None:
    """Make a table what it was at an earlier version; the versions since then are kept."""
    table = open_table(location)
    if is_preview and (version, timestamp, tag) != (None, None, None):
        old = open_table(location, version, timestamp, tag)
        would = {"would_restore": old.version, "rows": old.snapshot.row_count}
        print_preview(would, location, output)
        return
    made = table.restore(version, timestamp=timestamp, tag=tag)
    restored = {"restored_segments": made.segments, "restored_rows": made.rows}
    print_fields({"location": location, "version": made.version, **restored}, output)


def tag(
    location: Location,
    name: _Tag,
    version: Annotated[
        int | None, typer.Option("--version", help="The version to name; default: the newest.")
    ] = None,
    output: Output = None,
) -> None:
    """Give a version a name, which keeps its files from vacuum."""
    open_table(location).tag(name, version)
    tags(location, output)


def drop_tag(
    location: Location, name: _Tag, *, is_preview: IsPreview, output: Output = None
) -> None:
    """Take a version's name away, so that vacuum may remove the version."""
    if is_preview:
        old = open_table(location, tag=name)
        print_preview({"would_drop": name, "version": old.version}, location, output)
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
    *,
    is_preview: IsPreview,
    output: Output = None,
) -> None:
    """Remove versions that were replaced long ago, and files that no version needs."""
    done = open_table(location).vacuum(retention_hours, is_preview, force=force)
    if files:
        print_rows(done.files, output)
        return
    left = {"still_stored": done.still_stored.to_pylist()}
    counts = {"versions": done.versions, "files": done.file_count, "bytes": done.bytes}
    if done.is_dry_run:
        would = {f"would_remove_{what}": count for what, count in counts.items()}
        print_preview({**would, **left}, location, output)
        return
    removed = {f"removed_{what}": count for what, count in counts.items()}
    print_fields({"location": location, "version": done.version, **removed, **left}, output)
