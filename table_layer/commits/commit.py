"""Publish a new table version, or nothing. SPEC.md "Table", commits.

The version is taken by creating its snapshot file, which storage lets one writer do. A loser
applies its change to the winner's version and tries the next one. When storage does not say
whether the file was created, its write id is read back; when even that fails, the caller gets
CommitStateUnknownError and every file stays. Only a commit that certainly did not happen removes
files, the manifests that it wrote itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Generic, NoReturn

from msgspec import UNSET, structs

from projseg.errors import (
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    InvalidInputError,
    StorageError,
)
from projseg.memory.metrics import count_retry, counted_commit
from projseg.table_layer.commits.files_there import require_manifests, require_written, restoring
from projseg.table_layer.commits.publish import (
    CommitLabel,
    NewManifests,
    Version,
    next_file,
    probe,
    publish,
    remove,
    removed_on_failure,
)
from projseg.table_layer.commits.rebase import rebase
from projseg.table_layer.commits.verify_entries import verify_entries, verify_masked
from projseg.table_layer.metadata.change import (
    NO_NOTE,
    Append,
    Change,
    CommitNote,
    added_entries,
    kind_of,
    masked_entries,
    now_us,
)
from projseg.table_layer.metadata.index_declaration import stored_indexes
from projseg.table_layer.metadata.metadata_limits import COMMIT_TRIES_MAX, REMOTE_COMMIT_TRIES_MAX
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, SnapshotFile, read_version
from projseg.table_layer.metadata.table_properties import TableProperties, check_properties
from projseg.table_layer.metadata.versions_and_tags import latest_version
from projseg.table_layer.storage.local_files import storage_error
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import Storage

_RANDOM: Final = random.SystemRandom()
_FIRST_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 1.0
# A store gives nobody a turn: who waits longer than a commit takes is overtaken again and again.
_REMOTE_PAUSE_SECONDS: Final = 0.2


def create_table(
    storage: Storage,
    properties: TableProperties,
    *,
    entries: Sequence[SegmentEntry] = (),
    write_id: str | None = None,
    operation: str = "create",
    metrics: Mapping[str, int] | None = None,
    txn: tuple[str, int] | None = None,
    note: CommitNote = NO_NOTE,
) -> Snapshot:
    """Publish version 0 of a new table: empty, or with its first segments.

    A write id is made if there are no entries. Raises InvalidInputError (PROJSEG_TABLE_EXISTS, or
    for properties or entries that cannot be a table's), CorruptTableError if the location holds
    remains of a table, CommitError if the storage refuses or cannot create a file atomically, and
    CommitStateUnknownError if the table may have been created.
    """
    check_properties(properties)
    label = CommitLabel(write_id or new_write_id(), operation, metrics or {}, txn, note)
    with (
        counted_commit(operation, storage.location),
        removed_on_failure(storage, label.write_id, None) as files,
    ):
        try:
            refuse_existing(storage)
            verify_entries(storage, entries, label.write_id)
            probe_file = probe(storage, files)
            created = _publish_first(storage, properties, entries, label, files)
        except OSError as error:
            raise not_committed(storage, error) from error
        if created is None:
            raise _exists(storage)
    remove(storage, [probe_file])
    return created


def _publish_first(
    storage: Storage,
    properties: TableProperties,
    entries: Sequence[SegmentEntry],
    label: CommitLabel,
    files: list[str],
) -> Snapshot | None:
    """Publish the version that follows nothing; None if another commit made the table."""
    nothing = Snapshot(
        storage,
        SnapshotFile(
            kind="snapshot",
            version=-1,
            timestamp_us=now_us(),
            write_id=label.write_id,
            change="create",
            operation=label.operation,
            properties=structs.replace(properties, indexes=UNSET),
            indexes=stored_indexes(properties.declared_indexes, ()),
        ),
    )
    draft = replace(rebase(Append(tuple(entries)), nothing, ()), kind="create")
    created = publish(storage, next_file(draft, nothing, nothing, label, NewManifests(files)))
    winner = created or read_version(storage, 0)
    is_ours = winner is not None and winner.file.write_id == label.write_id
    return winner if is_ours else None


def commit(
    storage: Storage,
    base: Snapshot,
    change: Change,
    *,
    write_id: str,
    operation: str,
    metrics: Mapping[str, int] | None = None,
    txn: tuple[str, int] | None = None,
    note: CommitNote = NO_NOTE,
) -> Snapshot:
    """Publish `change` as the version after the newest, and return that version.

    If the table has the version of the application in `txn` already, nothing is done and the
    version that it made is returned. Raises CommitConflictError if another commit changed what this
    one depends on or others won every try, CommitStateUnknownError if the commit may have happened,
    CommitError if it did not for any other reason, and InvalidInputError if the change contradicts
    the table.
    """
    label = CommitLabel(write_id, operation, metrics or {}, txn, note)
    with (
        counted_commit(operation, storage.location),
        removed_on_failure(storage, write_id, base.version) as files,
    ):
        try:
            made = _TableCommit(storage, base.stored, change, label, NewManifests(files)).run()
            return base.followed_by(made)
        except OSError as error:
            raise not_committed(storage, error) from error


def append(
    storage: Storage, base: Snapshot, entries: Sequence[SegmentEntry], *, write_id: str
) -> Snapshot:
    """Publish new segments: `commit` of a plain `Append`."""
    rows = sum(entry.row_count for entry in entries)
    metrics = {"added_segments": len(entries), "added_rows": rows}
    change = Append(tuple(entries))
    return commit(storage, base, change, write_id=write_id, operation="append", metrics=metrics)


@dataclass(slots=True)
class PendingCommit(Generic[Version]):
    """A commit to a log that is being tried; a kind of log says how a version is read and made.

    `since` has the versions after the base that were read so far.
    """

    storage: Storage
    base: Version
    since: list[Version] = field(default_factory=list, kw_only=True)

    @property
    def current(self) -> Version:
        """The newest version known."""
        return self.since[-1] if self.since else self.base

    def read(self, version: int) -> Version | None:
        """Return a version of the log; None if it has none of that number."""
        raise NotImplementedError

    def publish_next(self) -> Version | None:
        """Publish the version after the newest known; None if another commit was faster."""
        raise NotImplementedError

    def find_landed(self) -> Version | None:
        """Return the version that this very commit has made already, if it has."""
        raise NotImplementedError

    def run(self) -> Version:
        """Try until the change is in some version."""
        is_remote = self.storage.is_remote
        tries_max = REMOTE_COMMIT_TRIES_MAX if is_remote else COMMIT_TRIES_MAX
        for failed_tries in range(tries_max):
            if failed_tries:
                count_retry()
            _pause(failed_tries, _REMOTE_PAUSE_SECONDS if is_remote else _LONGEST_PAUSE_SECONDS)
            landed: Version | None = None
            try:
                with self.storage.turn():
                    landed = self.try_once()
            except Exception:
                if landed is None:
                    raise  # else only the end of the turn failed
            if landed is not None:
                return landed
        raise CommitConflictError(
            "PROJSEG_COMMIT_CONFLICT",
            f"nothing was committed to {self.storage.location}: other writers took "
            f"{tries_max} versions in a row; try again",
        )

    def try_once(self) -> Version | None:
        """Return the version that holds the change, or None if another commit was faster."""
        self.catch_up()
        landed = self.find_landed()
        return self.publish_next() if landed is None else landed

    def catch_up(self) -> None:
        """Read every version published since the newest known."""
        version = self.current.version
        newest = latest_version(self.storage)
        while version < newest:
            version += 1
            snapshot = self.read(version)
            if snapshot is None:
                raise CommitConflictError(
                    "PROJSEG_COMMIT_CONFLICT",
                    f"nothing was committed: version {version} of {self.storage.location} is no "
                    "longer kept, so it cannot be compared; open the table and try again",
                )
            self.since.append(snapshot)
        if version > newest:
            raise CommitConflictError(
                "PROJSEG_COMMIT_CONFLICT",
                f"nothing was committed: {self.storage.location} was at version {version} and is "
                f"now at {newest}; it was created anew or restored: open it and try again",
            )


@dataclass(slots=True)
class _TableCommit(PendingCommit[Snapshot]):
    """A commit to a table that is being tried, and the manifests that earlier tries wrote."""

    change: Change
    label: CommitLabel
    manifests: NewManifests

    def run(self) -> Snapshot:
        """Check the added files, and retry until a version contains the change."""
        self.catch_up()
        landed = self.find_landed()
        if landed is not None:
            return landed
        verify_entries(self.storage, added_entries(self.change), self.label.write_id)
        verify_masked(self.storage, masked_entries(self.change), self.label.write_id)
        return PendingCommit.run(self)

    def read(self, version: int) -> Snapshot | None:
        """Return a version of the table; None if it is not kept."""
        return read_version(self.storage, version)

    def publish_next(self) -> Snapshot | None:
        """Apply the change to the newest version known, and publish that."""
        draft = rebase(self.change, self.base, self.since)
        file = next_file(draft, self.base, self.current, self.label, self.manifests)
        versions = (self.base, *self.since)
        require_manifests(self.storage, file)
        require_written(self.storage, self.change, versions)
        made = publish(self.storage, file)
        if made is None or made.file.write_id != self.label.write_id:
            return made
        lost: CommitError | None = None
        # Only a file that is certainly gone undoes a version; a question without answer does not.
        with suppress(OSError):
            try:
                require_written(self.storage, self.change, versions)
            except CommitError as error:
                lost = error
        if lost is not None:
            self._undo(made, lost)
        return made

    def _undo(self, made: Snapshot, lost: CommitError) -> NoReturn:
        """Publish what was before a version whose files are gone, and raise why."""
        draft = rebase(restoring(self.current), made, ())
        label = replace(self.label, write_id=new_write_id(), operation="restore", txn=None)
        undone: Snapshot | None = None
        with suppress(OSError):
            undone = publish(self.storage, next_file(draft, made, made, label, NewManifests([])))
        if undone is not None:
            raise lost
        raise CommitStateUnknownError(
            "PROJSEG_COMMIT_STATE_UNKNOWN",
            f"version {made.version} of {self.storage.location} was committed with write id "
            f"{self.label.write_id}, files of it are gone, and it could not be undone: another "
            "commit followed, which may have replaced its rows, or the storage failed; look for "
            "the rows in the table before retrying",
        ) from lost

    def find_landed(self) -> Snapshot | None:
        """Return the version that this very commit has made already, if it has."""
        kind = kind_of(self.change)
        for snapshot in (self.base, *self.since):
            if snapshot.file.write_id == self.label.write_id and snapshot.file.change == kind:
                _check_same(snapshot, self.change, self.label)
                return snapshot
        if self.label.txn is None:
            return None
        known = self.current.file.transactions.get(self.label.txn[0])
        if known is None or known.version < self.label.txn[1]:
            return None
        return read_version(self.storage, known.table_version) or self.current


def _check_same(landed: Snapshot, change: Change, label: CommitLabel) -> None:
    """Refuse a second commit under a used write id: it would be taken for the first and lost."""
    listed = (*added_entries(change), *masked_entries(change))
    missing = {entry.listed_as for entry in listed}
    for reference in reversed(landed.file.manifests):
        if not missing:
            return
        missing.difference_update(landed.load(reference).listed())
    if missing:
        raise InvalidInputError(
            "PROJSEG_WRITE_ID_REUSED",
            f"write id {label.write_id} made version {landed.version} of "
            f"{landed.storage.location}, which does not list {min(missing)}; use a new write id "
            "for each commit",
        )


def _pause(failed_tries: int, most: float) -> None:
    if failed_tries:
        longest = min(most, _FIRST_PAUSE_SECONDS * 2**failed_tries)
        time.sleep(_RANDOM.uniform(0, longest))


def refuse_existing(storage: Storage) -> None:
    """Raise InvalidInputError if the location holds a table, before anything is written to it."""
    try:
        latest_version(storage)
    except InvalidInputError as error:
        if error.code == "PROJSEG_NOT_A_TABLE":
            return
        raise
    raise _exists(storage)


def _exists(storage: Storage) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_TABLE_EXISTS",
        f"{storage.location} is a projseg table already; append to it, overwrite it, or choose "
        "another location",
    )


def not_committed(storage: Storage, error: OSError) -> CommitError:
    """Return the CommitError for a storage failure that prevented a commit."""
    if not isinstance(error, StorageError):
        error = storage_error(error, "write", str(error.filename or storage.location))
    return CommitError(error.code, f"nothing was committed to {storage.location}: {error.message}")
