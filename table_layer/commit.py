"""Publish a new table version, or nothing. SPEC.md "Table", commits.

The version is taken by creating its snapshot file, which storage lets one writer do. A loser
applies its change to the winner's version and tries the next one. When storage does not say
whether the file was created, its write id is read back; when even that fails, the caller gets
CommitStateUnknownError and every file stays. Nothing here deletes a published file.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from projseg.errors import (
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    InvalidInputError,
    ProjsegError,
)
from projseg.table_layer.change import Append, Change, added_entries, kind_of
from projseg.table_layer.limits import COMMIT_TRIES_MAX
from projseg.table_layer.manifest import SegmentEntry
from projseg.table_layer.next_version import CommitLabel, NewManifests, next_file, now_us
from projseg.table_layer.paths import new_probe_name, new_write_id, snapshot_name
from projseg.table_layer.rebase import rebase
from projseg.table_layer.snapshot import (
    Snapshot,
    SnapshotFile,
    encode_snapshot,
    latest_version,
    read_version,
)
from projseg.table_layer.storage_contract import (
    PutNotDurableError,
    PutOutcomeUnknownError,
    Storage,
)
from projseg.table_layer.table_properties import TableProperties, check_properties
from projseg.table_layer.verify_entries import verify_entries

_RANDOM: Final = random.SystemRandom()
_FIRST_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 1.0


def create_table(
    storage: Storage,
    properties: TableProperties,
    *,
    write_id: str | None = None,
    operation: str = "create",
) -> Snapshot:
    """Publish version 0 of a new, empty table.

    Raises
    ------
    InvalidInputError
        PROJSEG_TABLE_EXISTS, or if the properties cannot be a table's.
    CorruptTableError
        If the location holds remains of a table.
    CommitError
        If the storage refuses, or cannot create a file atomically.
    CommitStateUnknownError
        If the table may or may not have been created.
    """
    check_properties(properties)
    label = CommitLabel(write_id or new_write_id(), operation)
    file = SnapshotFile(
        kind="snapshot",
        version=0,
        timestamp_us=now_us(),
        write_id=label.write_id,
        change="create",
        operation=operation,
        properties=properties,
        definitions={p.definition_hash: p.definition for p in properties.projections},
    )
    try:
        _refuse_existing(storage)
        _probe(storage)
        created = _publish(storage, file)
        winner = read_version(storage, 0) if created is None else None
    except OSError as error:
        raise _failed(storage, error) from error
    if created is not None:
        return created
    if winner is not None and winner.file.write_id == label.write_id:
        return winner
    raise _exists(storage)


def commit(
    storage: Storage,
    base: Snapshot,
    change: Change,
    *,
    write_id: str,
    operation: str,
    metrics: Mapping[str, int] | None = None,
    txn: tuple[str, int] | None = None,
) -> Snapshot:
    """Publish `change` as the version after the newest, and return that version.

    Parameters
    ----------
    storage : Storage
        The table.
    base : Snapshot
        The version that the change was made for.
    change : Append, Overwrite, SetProperties or Replace
        What to do.
    write_id : str
        Names this commit, and every file it adds.
    operation : str
        What the history is to say.
    metrics : mapping of str to int, optional
        What the history is to count.
    txn : (str, int), optional
        Application id and its version. If the table has that version already, nothing is done and
        the version that it made is returned.

    Raises
    ------
    CommitConflictError
        If another commit changed what this one depends on, or others won every try.
    CommitStateUnknownError
        If the commit may or may not have happened.
    CommitError
        If it did not happen, for any other reason.
    InvalidInputError
        If the change contradicts the table.
    """
    label = CommitLabel(write_id, operation, metrics or {}, txn)
    try:
        return _commit(storage, base, change, label)
    except OSError as error:
        raise _failed(storage, error) from error


def append(
    storage: Storage, base: Snapshot, entries: Sequence[SegmentEntry], *, write_id: str
) -> Snapshot:
    """Publish new segments: `commit` of a plain `Append`."""
    rows = sum(entry.row_count for entry in entries)
    metrics = {"added_segments": len(entries), "added_rows": rows}
    change = Append(tuple(entries))
    return commit(storage, base, change, write_id=write_id, operation="append", metrics=metrics)


def _commit(storage: Storage, base: Snapshot, change: Change, label: CommitLabel) -> Snapshot:
    manifests = NewManifests()
    since: list[Snapshot] = []
    verified = False
    for failed_tries in range(COMMIT_TRIES_MAX):
        _pause(failed_tries)
        _catch_up(storage, base, since)
        landed = _find_landed(base, since, change, label)
        if landed is not None:
            return landed
        if not verified:
            verify_entries(storage, added_entries(change), label.write_id)
            verified = True
        current = since[-1] if since else base
        draft = rebase(change, base, since)
        published = _publish(storage, next_file(draft, base, current, label, manifests))
        if published is not None:
            return published
    raise CommitConflictError(
        "PROJSEG_COMMIT_CONFLICT",
        f"nothing was committed to {storage.location}: other writers took {COMMIT_TRIES_MAX} "
        "versions in a row; try again",
    )


def _catch_up(storage: Storage, base: Snapshot, since: list[Snapshot]) -> None:
    """Append to `since` every version published after its last, or after `base`."""
    version = since[-1].version if since else base.version
    newest = latest_version(storage)
    while version < newest:
        version += 1
        snapshot = read_version(storage, version)
        if snapshot is None:
            raise CommitConflictError(
                "PROJSEG_COMMIT_CONFLICT",
                f"nothing was committed: version {version} of {storage.location} is no longer "
                "kept, so it cannot be compared; open the table and try again",
            )
        since.append(snapshot)
    if version > newest:
        raise CommitConflictError(
            "PROJSEG_COMMIT_CONFLICT",
            f"nothing was committed: {storage.location} was at version {version} and is now at "
            f"{newest}; it was created anew or restored: open it and try again",
        )


def _find_landed(
    base: Snapshot, since: Sequence[Snapshot], change: Change, label: CommitLabel
) -> Snapshot | None:
    """Return the version that this very commit has made already, if it has."""
    kind = kind_of(change)
    for snapshot in (base, *since):
        if snapshot.file.write_id == label.write_id and snapshot.file.change == kind:
            _check_same(snapshot, change, label)
            return snapshot
    current = since[-1] if since else base
    if label.txn is None:
        return None
    known = current.file.transactions.get(label.txn[0])
    if known is None or known.version < label.txn[1]:
        return None
    return read_version(current.storage, known.table_version) or current


def _check_same(landed: Snapshot, change: Change, label: CommitLabel) -> None:
    """Refuse a second commit under a used write id: it would be taken for the first and lost."""
    missing = {entry.file for entry in added_entries(change)}
    for reference in reversed(landed.file.manifests):
        if not missing:
            return
        missing.difference_update(landed.load(reference).files())
    if missing:
        raise InvalidInputError(
            "PROJSEG_WRITE_ID_REUSED",
            f"write id {label.write_id} made version {landed.version} of "
            f"{landed.storage.location}, which does not list {min(missing)}; use a new write id "
            "for each commit",
        )


def _publish(storage: Storage, file: SnapshotFile) -> Snapshot | None:
    """Create the version's file; return it, or None if another commit has this version.

    Raises
    ------
    CommitStateUnknownError
        If the file may be there and cannot be recognised as ours.
    OSError
        If it was certainly not created.
    """
    name = snapshot_name(file.version)
    payload = encode_snapshot(file)
    try:
        storage.put_if_absent(name, payload)
    except FileExistsError:
        return None
    except PutNotDurableError as error:
        raise _unknown(storage, file, error) from error
    except PutOutcomeUnknownError as error:
        try:
            found = read_version(storage, file.version)
        except (OSError, ProjsegError) as unreadable:
            raise _unknown(storage, file, unreadable) from error
        if found is None:
            raise _unknown(storage, file, error) from error
        return found if found.file.write_id == file.write_id else None
    return Snapshot(storage, file)


def _pause(failed_tries: int) -> None:
    if failed_tries:
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**failed_tries)
        time.sleep(_RANDOM.uniform(0, longest))


def _refuse_existing(storage: Storage) -> None:
    try:
        latest_version(storage)
    except InvalidInputError as error:
        if error.code == "PROJSEG_NOT_A_TABLE":
            return
        raise
    raise _exists(storage)


def _probe(storage: Storage) -> None:
    """Refuse storage on which two creations of one name can both succeed."""
    name = new_probe_name()
    storage.put_if_absent(name, b"first")
    refused = False
    try:
        storage.put_if_absent(name, b"second")
    except FileExistsError:
        refused = True
    kept = storage.read_range(name, 0, storage.size(name))
    with suppress(OSError):  # one small file too many harms nobody
        storage.delete(name)
    if not refused or kept != b"first":
        raise CommitError(
            "PROJSEG_STORAGE_NOT_ATOMIC",
            f"{storage.location} lets a second writer replace a file that it was told to create "
            "only if absent; tables there would lose commits: use another storage",
        )


def _exists(storage: Storage) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_TABLE_EXISTS",
        f"{storage.location} is a projseg table already; append to it, overwrite it, or choose "
        "another location",
    )


def _failed(storage: Storage, error: OSError) -> CommitError:
    return CommitError(
        "PROJSEG_COMMIT_FAILED",
        f"nothing was committed to {storage.location}: {error}; what was committed before is "
        "unharmed: try again when the storage works",
    )


def _unknown(storage: Storage, file: SnapshotFile, error: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        "PROJSEG_COMMIT_STATE_UNKNOWN",
        f"version {file.version} of {storage.location} may have been committed with write id "
        f"{file.write_id}: {error}; look for that write id in the table's history before retrying",
    )
