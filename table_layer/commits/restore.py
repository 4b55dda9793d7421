"""Bring back an old version's content, as a new version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from projseg.errors import CommitError, CorruptionError, CorruptTableError
from projseg.memory.forks import side_by_side
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.files_there import restoring
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.deleted_rows import read_deleted_rows
from projseg.table_layer.metadata.manifest import ManifestReference
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import Storage

_NAMED_MAX: Final = 5


class Restored(NamedTuple):
    """The version that a restore made, and the segments that the version before it had not."""

    snapshot: Snapshot
    entries: list[SegmentEntry]


def restore(current: Snapshot, old: Snapshot, note: CommitNote) -> Restored:
    """Publish a version that declares and lists what `old` does; raise the errors of `commit`.

    Also raises CommitError (PROJSEG_SEGMENT_MISSING), naming files of the old version that are
    gone, and CorruptTableError (PROJSEG_SEGMENT_DIFFERS), naming files whose footers or deleted
    rows are damaged.
    """
    shared = set(current.file.manifests).intersection(old.file.manifests)
    listed = _listed(current, shared)
    restored = [entry for entry in old.segments if entry.listed_as not in listed]
    _require_sound(old, restored)
    segment_count, before = len(old.segments), len(current.segments)
    metrics = {
        "restored_segments": len(restored),
        "restored_rows": sum(entry.live_row_count for entry in restored),
        "removed_segments": before - (segment_count - len(restored)),
        "segments": segment_count,
        "rows": old.row_count,
    }
    snapshot = commit(
        current.storage,
        current,
        restoring(old),
        write_id=new_write_id(),
        operation="restore",
        metrics=metrics,
        note=note,
    )
    return Restored(snapshot, restored)


def _listed(current: Snapshot, shared: set[ManifestReference]) -> set[str]:
    """Return the entries of a version, as far as they can be read: a restore may mend it."""
    found: set[str] = set()
    for reference in current.file.manifests:
        try:
            found.update(current.load(reference).listed())
        except CorruptionError:
            if reference in shared:
                raise
    return found


def _require_sound(old: Snapshot, entries: Sequence[SegmentEntry]) -> None:
    """Refuse a version whose files are gone, or whose footers differ from its entries."""
    storage, schema = old.storage, stored_schema(old.properties)

    def problem(entry: SegmentEntry) -> CorruptionError | None:
        try:
            open_checked(storage, entry, schema)
            read_deleted_rows(storage, entry)
        except CorruptionError as error:
            return error
        return None

    checked = side_by_side(problem, entries) if storage.is_remote else map(problem, entries)
    found = [(e, error) for e, error in zip(entries, checked, strict=True) if error is not None]
    where = f"version {old.version} of {storage.location} cannot be restored"
    advice = "nothing was committed: copy them back, or restore another version"
    missing = [file for e, _ in found for file in e.files if not _is_present(storage, file)]
    if missing:
        raise CommitError(
            "PROJSEG_SEGMENT_MISSING",
            f"{where}: its files {_names_text(missing)} are gone; {advice}",
        )
    if found:
        names = _names_text([entry.file for entry, _ in found])
        raise CorruptTableError(
            "PROJSEG_SEGMENT_DIFFERS",
            f"{where}: its files {names} are damaged ({found[0][1].message}); {advice}",
        )


def _names_text(files: Sequence[str]) -> str:
    more = f" and {len(files) - _NAMED_MAX} more" if len(files) > _NAMED_MAX else ""
    return ", ".join(files[:_NAMED_MAX]) + more


def _is_present(storage: Storage, file: str) -> bool:
    try:
        storage.size(file)
    except FileNotFoundError:
        return False
    return True
