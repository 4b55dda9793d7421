"""Create one version's snapshot file, and know afterwards whether it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from projseg.errors import CommitError, CommitStateUnknownError, ProjsegError
from projseg.table_layer.metadata.snapshot import (
    Snapshot,
    SnapshotFile,
    encode_snapshot,
    read_version,
)
from projseg.table_layer.storage.local_files import create_unique
from projseg.table_layer.storage.paths import METADATA_PREFIX, new_probe_name, snapshot_name
from projseg.table_layer.storage.storage_contract import (
    PutNotDurableError,
    PutOutcomeUnknownError,
    Storage,
)

_PROBE_BYTES: Final = 16


class VersionFile(Protocol):
    """The file of a version of a log."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def write_id(self) -> str:
        """The commit that made it."""


class LogVersion(Protocol):
    """A version of a log, as its file says."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def file(self) -> VersionFile:
        """Its file."""


Version = TypeVar("Version", bound=LogVersion)


def publish(storage: Storage, file: SnapshotFile) -> Snapshot | None:
    """Create the version's file; return it, or None if another commit has this version.

    Raises
    ------
    CommitStateUnknownError
        If the file may be there and cannot be recognised as ours.
    OSError
        If it was certainly not created.
    """
    return published(
        storage,
        file,
        encode_snapshot(file),
        lambda: read_version(storage, file.version),
        Snapshot(storage, file),
    )


def published(
    storage: Storage,
    file: VersionFile,
    payload: bytes,
    read: Callable[[], Version | None],
    made: Version,
) -> Version | None:
    """Create the file of a version of any log; return it, or None if another commit has it.

    Parameters
    ----------
    storage : Storage
        Where the log is.
    file : VersionFile
        The version's number and write id.
    payload : bytes
        The file.
    read : callable
        Returns the version as the storage has it; None: there is none.
    made : Version
        The version that `file` makes.
    """
    try:
        storage.put_if_absent(snapshot_name(file.version), payload)
    except FileExistsError:
        return None
    except PutNotDurableError as error:
        raise _unknown(storage, file, error) from error
    except PutOutcomeUnknownError as error:
        try:
            found = read()
        except (OSError, ProjsegError) as unreadable:
            raise _unknown(storage, file, unreadable) from error
        if found is None:
            raise _unknown(storage, file, error) from error
        return found if found.file.write_id == file.write_id else None
    return made


def probe(storage: Storage, files: list[str]) -> str:
    """Refuse storage on which two creations of one name can both succeed, or that lists late.

    Returns
    -------
    str
        The probe file's name, also added to `files`. Remove it only after the first snapshot
        exists, or after every other file is removed: it distinguishes an interrupted creation,
        which leaves manifests and no snapshot, from a table that has lost its log.

    Raises
    ------
    CommitError
        If both succeeded, or the file is not listed.
    StorageError
        If the storage refuses to create a file at all.
    """
    name = new_probe_name()
    files.append(name)
    create_unique(storage, name, b"first")
    refused = False
    try:
        storage.put_if_absent(name, b"second")
    except (FileExistsError, PutOutcomeUnknownError):
        refused = True
    if not refused or storage.read_sized(name, 0, _PROBE_BYTES).content != b"first":
        raise CommitError(
            "PROJSEG_STORAGE_NOT_ATOMIC",
            f"{storage.location} lets a second writer replace a file that it was told to create "
            "only if absent; tables there would lose commits: use another storage",
        )
    if all(file.name != name for file in storage.list_names(METADATA_PREFIX)):
        raise CommitError(
            "PROJSEG_STORAGE_LISTS_LATE",
            f"{storage.location} does not list a file that was just written there; readers would "
            "take old versions of a table for the newest: use another storage",
        )
    return name


def _unknown(storage: Storage, file: VersionFile, error: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        "PROJSEG_COMMIT_STATE_UNKNOWN",
        f"version {file.version} of {storage.location} may have been committed with write id "
        f"{file.write_id}: {error}; look for that write id in the table's history before retrying",
    )
