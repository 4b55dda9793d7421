"""Bring back an old version's content, as a new version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from projseg.errors import CommitError
from projseg.table_layer.change import Restore
from projseg.table_layer.commit import commit
from projseg.table_layer.commit_info import CommitNote
from projseg.table_layer.paths import new_write_id
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.snapshot import Snapshot
from projseg.table_layer.storage_contract import Storage

_NAMED_MAX: Final = 5


class Restored(NamedTuple):
    """The version that a restore made, and the segments that the version before it had not."""

    snapshot: Snapshot
    entries: list[SegmentEntry]


def restore(current: Snapshot, old: Snapshot, note: CommitNote) -> Restored:
    """Publish a version that declares and lists what `old` does.

    Parameters
    ----------
    current : Snapshot
        The newest version known.
    old : Snapshot
        An earlier version of the same table.
    note : CommitNote
        For the history.

    Raises
    ------
    CommitError
        PROJSEG_SEGMENT_MISSING, naming files of the old version that are gone.
    CommitConflictError, CommitStateUnknownError
        As of `commit`.
    """
    listed = {entry.listed_as for entry in current.segments}
    restored = [entry for entry in old.segments if entry.listed_as not in listed]
    _require_present(current.storage, old.version, restored)
    segment_count = len(old.segments)
    metrics = {
        "restored_segments": len(restored),
        "restored_rows": sum(entry.live_row_count for entry in restored),
        "removed_segments": len(listed) - (segment_count - len(restored)),
        "segments": segment_count,
        "rows": old.row_count,
    }
    change = Restore(old.version, old.properties, old.definitions, old.file.manifests)
    snapshot = commit(
        current.storage,
        current,
        change,
        write_id=new_write_id(),
        operation="restore",
        metrics=metrics,
        note=note,
    )
    return Restored(snapshot, restored)


def _require_present(storage: Storage, version: int, entries: Iterable[SegmentEntry]) -> None:
    files = (file for entry in entries for file in entry.files)
    missing = [file for file in files if not _is_present(storage, file)]
    if missing:
        more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        raise CommitError(
            "PROJSEG_SEGMENT_MISSING",
            f"version {version} of {storage.location} cannot be restored: its files "
            f"{', '.join(missing[:_NAMED_MAX])}{more} are gone; nothing was committed: copy them "
            "back, or restore another version",
        )


def _is_present(storage: Storage, file: str) -> bool:
    try:
        storage.size(file)
    except FileNotFoundError:
        return False
    return True
