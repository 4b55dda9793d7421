"""Look whether the files of a version are there, just before it is published and after it.

A vacuum whose clocks are wrong may take the files of a write that runs. And a manifest that is gone
makes a table unreadable: rows that follow it could not be read, so they are not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from projseg.errors import CommitError, CorruptTableError
from projseg.memory.forks import side_by_side
from projseg.table_layer.metadata.change import Change, Restore, Sync, added_entries, masked_entries
from projseg.table_layer.metadata.segment_entry import written_files
from projseg.table_layer.metadata.snapshot import Snapshot, SnapshotFile
from projseg.table_layer.storage.storage_contract import Storage

_MANIFESTS_ASKED_MAX: Final = 8
"""So many of the newest manifests are asked for; each is a call, and of a store a request."""


def require_manifests(storage: Storage, file: SnapshotFile) -> None:
    """Refuse to publish a version if one of its manifests is gone."""
    newest = [reference.name for reference in file.manifests[-_MANIFESTS_ASKED_MAX:]]
    for name in _missing(storage, newest):
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"{storage.location}/{name} is missing, so the table's newest version cannot be read "
            "and nothing was committed; restore the file from a copy, or an earlier version of the "
            "table by restore",
        )


def require_written(storage: Storage, change: Change, versions: Sequence[Snapshot]) -> None:
    """Refuse to publish, or undo, a change whose files are gone.

    Of a store, nothing is read unless a vacuum is among the versions since the change was begun: it
    commits before it removes a file.
    """
    if storage.is_remote and all(one.operation != "vacuum" for one in versions):
        return
    files = written_files(added_entries(change))
    files += [name for entry in masked_entries(change) for name in entry.files]
    files += [entry.file for entry in change.retaken] if isinstance(change, Sync) else []
    for name in _missing(storage, files):
        raise CommitError(
            "PROJSEG_SEGMENT_MISSING",
            f"{storage.location}/{name} was written for this commit and is gone: a vacuum took it "
            "whose clock is wrong, or that kept too little; nothing was committed: write it again",
        )


def restoring(version: Snapshot) -> Restore:
    """Return the change that restores a version, undoing the later ones."""
    return Restore(
        version.version,
        version.properties,
        version.definitions,
        version.file.manifests,
        version.bloom_files,
    )


def _missing(storage: Storage, names: Iterable[str]) -> Iterator[str]:
    wanted = list(dict.fromkeys(names))
    is_there = partial(_is_there, storage)
    each = side_by_side if storage.is_remote and len(wanted) > 1 else map
    return (name for name, found in zip(wanted, each(is_there, wanted), strict=True) if not found)


def _is_there(storage: Storage, name: str) -> bool:
    try:
        storage.size(name)
    except FileNotFoundError:
        return False
    return True
