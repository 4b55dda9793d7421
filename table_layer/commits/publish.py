"""Write and publish the next version: its manifests, its snapshot file, and the clean-up.

A draft becomes the next version's snapshot file; small manifests are merged. The file is created
once, and it is known afterwards whether it is there.

Deleting after a failure is how tables lose rows: a commit may have landed though its answer was
lost. So the files of a failed write are removed only if the failure says that nothing was
committed, and the log agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import CommitError, CommitStateUnknownError, InvalidInputError, ProjsegError
from projseg.table_layer.commits.rebase import Draft
from projseg.table_layer.metadata.change import CommitNote, now_us
from projseg.table_layer.metadata.index_declaration import stored_indexes
from projseg.table_layer.metadata.manifest import ManifestReference, write_manifests
from projseg.table_layer.metadata.metadata_limits import (
    NAME_BYTES_MAX,
    SMALL_MANIFEST_SEGMENTS,
    SMALL_MANIFESTS_MAX,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry, bloom_files_of
from projseg.table_layer.metadata.snapshot import (
    Snapshot,
    SnapshotFile,
    Transaction,
    encode_snapshot,
    optional_members,
    read_version,
)
from projseg.table_layer.metadata.versions_and_tags import latest_version
from projseg.table_layer.storage.local_files import create_unique
from projseg.table_layer.storage.paths import (
    METADATA_PREFIX,
    check_write_id,
    is_probe_name,
    new_probe_name,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import (
    PutNotDurableError,
    PutOutcomeUnknownError,
    Storage,
)

_PROBE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class CommitLabel:
    """The facts that a commit states about itself, the same in every try.

    The write id is looked up in the log when an answer was lost; `txn`, application id and its
    version, tells a repeated commit.
    """

    write_id: str
    operation: str
    metrics: Mapping[str, int] = field(default_factory=dict)
    txn: tuple[str, int] | None = None
    note: CommitNote = field(default_factory=CommitNote)

    def __post_init__(self) -> None:
        check_write_id(self.write_id)
        if self.txn is not None and not 0 < len(self.txn[0].encode()) <= NAME_BYTES_MAX:
            raise InvalidInputError(
                "PROJSEG_BAD_NAME",
                f"txnAppId must have 1 to {NAME_BYTES_MAX} bytes of UTF-8, not "
                f"{len(self.txn[0].encode())}",
            )


class NewManifests:
    """Manifests of one commit's entries, written once however often the commit is tried.

    `files` gets the name of each manifest before it is written.
    """

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._written: dict[tuple[str, ...], list[ManifestReference]] = {}

    def write(self, snapshot: Snapshot, entries: Sequence[SegmentEntry]) -> list[ManifestReference]:
        """Return references to manifests of these entries in the snapshot's table."""
        key = tuple(sorted(entry.listed_as for entry in entries))
        if key not in self._written:
            self._written[key] = write_manifests(snapshot.storage, entries, self._files)
        return self._written[key]


def next_file(
    draft: Draft, base: Snapshot, current: Snapshot, label: CommitLabel, manifests: NewManifests
) -> SnapshotFile:
    """Return the snapshot after `current`, its manifests published.

    Raises InvalidInputError if an entry embeds a projection whose definition nobody has declared,
    and OSError if a manifest could not be written; nothing was committed then.
    """
    kept, entries = _merge_small(draft.kept, draft.entries, current)
    definitions = _definitions(draft, kept, entries, base, current)
    version = current.version + 1
    transactions = dict(current.file.transactions)
    if label.txn is not None:
        transactions[label.txn[0]] = Transaction(label.txn[1], version)
    tags = current.tags if draft.tags is None else dict(draft.tags)
    kept_from = current.kept_from if draft.kept_from is None else draft.kept_from
    listed = current.bloom_files if draft.bloom_files is None else draft.bloom_files
    indexes = stored_indexes(
        draft.properties.declared_indexes,
        (*listed, *bloom_files_of(draft.entries)) if kept or entries else (),
    )
    file = SnapshotFile(
        kind="snapshot",
        version=version,
        timestamp_us=max(now_us(), current.timestamp_us),
        write_id=label.write_id,
        change=draft.kind,
        change_interval=draft.interval,
        operation=label.operation,
        metrics=dict(label.metrics),
        properties=replace(draft.properties, indexes=UNSET),
        definitions=definitions,
        transactions=transactions,
        manifests=(*kept, *manifests.write(current, entries)),
        tags=tags or UNSET,
        kept_from=kept_from or UNSET,
        indexes=indexes,
        optional=optional_members(label.note.info(base.version)),
    )
    return replace(file, required_features=file.features)


def _merge_small(
    kept: Sequence[ManifestReference], entries: Sequence[SegmentEntry], current: Snapshot
) -> tuple[Sequence[ManifestReference], Sequence[SegmentEntry]]:
    """Move the entries of small manifests to the new ones if there are too many of them."""
    small = [r for r in kept if r.segment_count < SMALL_MANIFEST_SEGMENTS]
    if len(small) < SMALL_MANIFESTS_MAX or not entries:
        return kept, entries
    moved = list(entries)
    for reference in small:
        manifest = current.load(reference)
        moved += [manifest.entry(index) for index in range(len(manifest))]
    return [r for r in kept if r.segment_count >= SMALL_MANIFEST_SEGMENTS], moved


def _definitions(
    draft: Draft,
    kept: Iterable[ManifestReference],
    entries: Iterable[SegmentEntry],
    base: Snapshot,
    current: Snapshot,
) -> dict[str, str]:
    """Return the definitions that the declaration or a listed segment mentions, and no other."""
    known = {**base.definitions, **current.definitions, **draft.definitions}
    known |= {p.definition_hash: p.definition for p in draft.properties.projections}
    needed = {p.definition_hash for p in draft.properties.projections}
    needed.update(*(reference.definition_hashes for reference in kept))
    needed.update(*(entry.definition_hashes for entry in entries))
    unknown = needed - known.keys()
    if unknown:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_DEFINITION",
            f"a segment embeds a projection with definition hash {min(unknown)}, which the table "
            "never declared; declare it before writing",
        )
    return {definition_hash: known[definition_hash] for definition_hash in sorted(needed)}


class _VersionFile(Protocol):
    """The file of a version of a log."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def write_id(self) -> str:
        """The commit that made it."""


class _LogVersion(Protocol):
    """A version of a log, as its file says."""

    @property
    def version(self) -> int:
        """Its number."""

    @property
    def file(self) -> _VersionFile:
        """Its file."""


Version = TypeVar("Version", bound=_LogVersion)


def publish(storage: Storage, file: SnapshotFile) -> Snapshot | None:
    """Create the version's file; return it, or None if another commit has this version.

    Raises CommitStateUnknownError if the file may be there and cannot be recognised as ours, and
    OSError if it was certainly not created.
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
    file: _VersionFile,
    payload: bytes,
    read: Callable[[], Version | None],
    made: Version,
) -> Version | None:
    """Create the file of a version of any log; return it, or None if another commit has it.

    `read` returns the version as the storage has it, or None.
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

    Return the probe file's name, also added to `files`. Remove it only after the first snapshot
    exists, or after every other file is removed: it distinguishes an interrupted creation, which
    leaves manifests and no snapshot, from a table that has lost its log.
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


def _unknown(storage: Storage, file: _VersionFile, error: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        "PROJSEG_COMMIT_STATE_UNKNOWN",
        f"version {file.version} of {storage.location} may have been committed with write id "
        f"{file.write_id}: {error}; look for that write id in the table's history before retrying",
    )


@contextmanager
def removed_on_failure(
    storage: Storage,
    write_id: str,
    base_version: int | None,
    read: Callable[[Storage, int], _LogVersion | None] = read_version,
) -> Iterator[list[str]]:
    """Yield a list for the names of files written; they are removed if the commit is refused.

    They stay if the error leaves open whether the commit happened (`CommitStateUnknownError`, an
    interruption), if the log cannot be read, and if it holds this write id. No version up to
    `base_version` can list them; `read` returns a version of the log or None.
    """
    files: list[str] = []
    try:
        yield files
    except CommitStateUnknownError:
        raise
    except ProjsegError:
        if files and not _may_be_listed(storage, write_id, base_version, read):
            remove(storage, files)
        raise


def remove(storage: Storage, files: Sequence[str]) -> None:
    """Remove files that no table version can list, the last first.

    A file that cannot be removed stays; no version lists it. A probe stays with it: a manifest
    alone would be the remains of a table.
    """
    is_left = False
    for file in reversed(files):
        if is_left and is_probe_name(file):
            continue
        try:
            storage.delete(file)
        except Exception:  # noqa: BLE001 what it follows has happened, or has an error of its own
            is_left = True


def _may_be_listed(
    storage: Storage,
    write_id: str,
    base_version: int | None,
    read: Callable[[Storage, int], _LogVersion | None],
) -> bool:
    first = 0 if base_version is None else base_version + 1
    try:
        for version in range(first, latest_version(storage) + 1):
            snapshot = read(storage, version)
            if snapshot is None or snapshot.file.write_id == write_id:
                return True
    except InvalidInputError as error:
        return error.code != "PROJSEG_NOT_A_TABLE"
    except (ProjsegError, OSError):
        return True
    return False
