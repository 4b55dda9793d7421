"""Verbs that keep a table well: compact, verify, restore, tag, drop-tag, tags and vacuum."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from projseg.cli.output import (
    Ended,
    Found,
    listed,
    previewed,
    segments_shown,
    shown_progress,
)
from projseg.cli.shared_arguments import At, IsPreview, Location, SegmentInterval, open_table
from projseg.errors import InvalidInputError
from projseg.maintenance.findings import later_manifests
from projseg.maintenance.verify import kept_version_numbers

EXIT_VERIFICATION_FAILED: Final = 3

_Tag = Annotated[str, "The tag."]


def compact(
    location: Location,
    *,
    interval: SegmentInterval = None,
    target_segment_rows: Annotated[
        int | None, "Most rows of a new segment; default: the table's."
    ] = None,
    dry_run: Annotated[bool, "Only list the segments that would be merged."] = False,
    purge: Annotated[bool, "Only write segments anew that store removed values."] = False,
) -> Found:
    """Merge small segments of a time chunk into larger ones; rows and answers stay."""
    table = open_table(location)
    if dry_run:
        would = table.compact(interval, target_segment_rows, dry_run=True, purge=purge)
        return listed(would, f"{location} has no segments to merge; compact would write nothing")
    with segments_shown() as show:
        made = table.compact(interval, target_segment_rows, purge=purge, on_progress=show)
    fields = {"location": location, "version": made.version, "segments": made.segments}
    return {**fields, "rows": made.rows}


def verify(
    location: Location,
    *,
    deep: Annotated[bool, "Also compare rows with what the table says of them."] = False,
    all_versions: Annotated[bool, "Check every version that retention or a tag keeps."] = False,
    at: At,
) -> Found | Ended:
    """Check every file and all that the table says of it; exit with 3 if something is wrong."""
    is_newest = not any(part is not None for part in at.values())
    if all_versions and not is_newest:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            "--all-versions checks every version; leave --version, --timestamp and --tag out",
        )
    table = open_table(location, **at)
    snapshot = table.snapshot
    with shown_progress() as progress:
        task = progress.add_task(
            "verifying", total=None if all_versions else len(snapshot.segments)
        )
        findings = table.verify(
            deep, all_versions=all_versions, on_segment=lambda _: progress.advance(task)
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
        return Ended(rows, EXIT_VERIFICATION_FAILED)
    return {
        "location": location,
        "version": snapshot.version,
        **({"versions": len(kept_version_numbers(snapshot))} if all_versions else {}),
        "segments": len(snapshot.segments),
        "rows": snapshot.row_count,
        "problems": 0,
    }


def restore(
    location: Location,
    *,
    version: Annotated[int | None, "The version."] = None,
    timestamp: Annotated[str | None, "The newest version committed at or before this time."] = None,
    tag: Annotated[str | None, "The version of this tag."] = None,
    is_preview: IsPreview,
) -> Found:
    """Restore a table to an earlier version; the versions since then are kept."""
    table = open_table(location)
    if is_preview and (version, timestamp, tag) != (None, None, None):
        old = open_table(location, version, timestamp, tag)
        would = {"would_restore": old.version, "rows": old.snapshot.row_count}
        return previewed(would, location)
    made = table.restore(version, timestamp=timestamp, tag=tag)
    restored = {"restored_segments": made.segments, "restored_rows": made.rows}
    return {"location": location, "version": made.version, **restored}


def tag(
    location: Location,
    name: _Tag,
    *,
    version: Annotated[int | None, "The version to name; default: the newest."] = None,
) -> Found:
    """Give a version a name, which keeps its files from vacuum."""
    open_table(location).tag(name, version)
    return tags(location)


def drop_tag(location: Location, name: _Tag, *, is_preview: IsPreview) -> Found:
    """Drop a tag, so that vacuum may remove its version."""
    if is_preview:
        old = open_table(location, tag=name)
        return previewed({"would_drop": name, "version": old.version}, location)
    open_table(location).drop_tag(name)
    return tags(location)


def tags(location: Location) -> Found:
    """List a table's tags and their versions."""
    return listed(open_table(location).tags(), f"{location} has no tags")


def vacuum(
    location: Location,
    *,
    retention_hours: Annotated[float, "Keep what was current or written since then."] = 168,
    force: Annotated[bool, "Accept less than 24 hours: nothing else may run."] = False,
    files: Annotated[bool, "List the files."] = False,
    is_preview: IsPreview,
) -> Found:
    """Remove versions that were replaced long ago, and files that no version needs."""
    done = open_table(location).vacuum(retention_hours, is_preview, force=force)
    if files:
        return done.files
    left = {"still_stored": done.still_stored.to_pylist()}
    counts = {"versions": done.versions, "files": done.file_count, "bytes": done.bytes}
    if done.is_dry_run:
        would = {f"would_remove_{what}": count for what, count in counts.items()}
        return previewed({**would, **left}, location)
    removed = {f"removed_{what}": count for what, count in counts.items()}
    return {"location": location, "version": done.version, **removed, **left}
