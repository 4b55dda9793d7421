"""Remove the files that no version needs which is still kept. SPEC.md "Table", retention.

The commit that says which versions are gone comes before the first deletion, and a version's own
file goes before the files that it lists. So a vacuum that dies leaves versions that are whole,
versions that are gone, and files that the next vacuum finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from projseg.errors import CommitError, InvalidInputError, StorageError
from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import CommitNote, Expire, now_us
from projseg.table_layer.metadata.checksummed_json import read_sealed
from projseg.table_layer.metadata.manifest import load_manifest
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.versions_and_tags import list_versions
from projseg.table_layer.still_stored import (
    StillStored,
    as_table,
    in_earlier_versions,
    in_own_segments,
)
from projseg.table_layer.storage.local_files import create_unique, storage_error
from projseg.table_layer.storage.paths import (
    DATA_PREFIX,
    MANIFEST_PREFIX,
    METADATA_PREFIX,
    SNAPSHOT_PREFIX,
    kept_name,
    new_probe_name,
    new_write_id,
    parse_kept_name,
    parse_segment_name,
    parse_snapshot_name,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError, Storage, StoredFile

SAFE_RETENTION_HOURS: Final = 24
"""A day: longer than a write from its first file to its commit, and than a query, should take."""

_HOUR_US: Final = 3_600_000_000
_TICK_US: Final = 10_000
"""The longest tick of a file system's clock, which dates files by its last one."""
_SECOND_US: Final = 1_000_000
"""The tick of stores that tell no parts of a second."""
_NEVER_US: Final = 2**63 - 1
_FILES: Final = pa.schema([("file", pa.string()), ("bytes", pa.int64()), ("modified", TIMESTAMP)])


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum removed, or would remove.

    Parameters
    ----------
    is_dry_run : bool
        Whether nothing was removed.
    version : int or None
        The table version written; None if none was.
    versions : int
        How many versions are no longer kept.
    file_count, bytes : int
        How many files, and their size.
    files : pa.Table
        file, bytes, modified: one row for each.
    still_stored : pa.Table
        versions, tag, segments, rows, bytes, dropped_columns, dropped_projections, why: the deleted
        rows and dropped values that stay stored, and what keeps them. For the newest version, the
        dead bytes of its segments; for earlier ones and tags, the segments that only they list.
    """

    is_dry_run: bool
    version: int | None
    versions: int
    file_count: int
    bytes: int
    files: pa.Table = field(repr=False)
    still_stored: pa.Table = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Plan:
    kept_from: int
    versions: list[int]
    files: list[StoredFile]
    young: list[StoredFile]
    unlisted: list[StoredFile]


def vacuum(
    current: Snapshot,
    retention_hours: float,
    note: CommitNote,
    *,
    dry_run: bool,
    force: bool,
    is_alone: bool = False,
) -> tuple[Snapshot, Vacuumed]:
    """Stop keeping versions that were replaced long ago, and remove what no other version needs.

    A version that was current within the retention is kept, and so is a younger file, listed or
    not. With `dry_run`, nothing is removed; `force` allows less than `SAFE_RETENTION_HOURS`.
    """
    stored = current.stored
    retention = retention_us(retention_hours, force=force)
    cutoff = now_us() - retention if dry_run else cutoff_us(stored.storage, retention, is_alone)
    plan = _plan(stored, _expired(stored, cutoff), cutoff)
    why = f"versions of the last {retention_hours:g} hours are kept: vacuum later, or with less"
    if dry_run or not (plan.files or plan.versions):
        left = _still_stored(stored, plan, why)
        return current, _report(plan, None, left, is_dry_run=dry_run)
    metrics = {
        "removed_versions": len(plan.versions),
        "removed_files": len(plan.files),
        "removed_bytes": sum(file.size for file in plan.files),
    }
    note = note.asking(retention_hours=f"{retention_hours:g}")

    def expired() -> Snapshot:
        return commit(
            current.storage,
            current,
            Expire(plan.kept_from),
            write_id=new_write_id(),
            operation="vacuum",
            metrics=metrics,
            note=note,
        )

    try:
        done = expired()
    except CommitError as error:
        # What no kept version lists may go before the commit, which may then have room.
        unlisted = _plan(stored, stored.kept_from, cutoff).unlisted
        if error.code != "PROJSEG_STORAGE_FULL" or not unlisted:
            raise
        for file in unlisted:
            current.storage.delete(file.name)
        try:
            done = expired()
        except CommitError as again:
            raise CommitError(
                again.code,
                f"{len(unlisted)} files that no version lists were removed from "
                f"{current.storage.location}, and no version could be written: {again.message}",
            ) from again
    # What others restored, tagged or added before now is needed; versions that went stay gone.
    newest = open_snapshot(done.storage)
    plan = _plan(newest, done.kept_from, cutoff)
    _keep_tagged(newest)
    for file in plan.files:
        done.storage.delete(file.name)
    return done, _report(plan, done.version, _still_stored(done, plan, why), is_dry_run=False)


def _earlier_now_us(storage: Storage) -> int:
    """Return the earlier one of this machine's and the storage's time, microseconds UTC.

    A machine whose clock is ahead would take files of running writes for old ones. Where no file
    can be written, the storage's time is that of its newest file: it is no earlier.
    """
    name = new_probe_name()
    try:
        create_unique(storage, name, b"what time is it")
        found = [file for file in storage.list_names(METADATA_PREFIX) if file.name == name]
        storage.delete(name)
    except StorageError:
        found = list(storage.list_names(METADATA_PREFIX))
    # What was written within the same tick of its clock was written before.
    times = [
        one.modified_us + (_TICK_US if one.modified_us % _SECOND_US else _SECOND_US)
        for one in found
    ]
    return min(now_us(), max(times, default=now_us()))


def cutoff_us(storage: Storage, retention: int, is_alone: bool) -> int:
    """Return the time before which a file is old, microseconds UTC; `retention` is in microseconds.

    If nothing else reads or writes (`is_alone`) and without retention, files that a clock dated
    ahead of its time go as well.
    """
    return _NEVER_US if is_alone and not retention else _earlier_now_us(storage) - retention


def retention_us(hours: float, *, force: bool) -> int:
    """Return how long what was replaced is kept, in microseconds."""
    if not (type(hours) in (int, float) and hours >= 0 and math.isfinite(hours)):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"retention_hours is {hours!r}; give hours, 0 or more"
        )
    if hours < SAFE_RETENTION_HOURS and not force:
        raise InvalidInputError(
            "PROJSEG_RETENTION_TOO_SHORT",
            f"retention_hours is {hours:g}, and files of writes and queries that run may go with "
            f"less than {SAFE_RETENTION_HOURS}; give more, or force it while nothing else runs",
        )
    return int(hours * _HOUR_US)


def _expired(newest: Snapshot, cutoff: int) -> int:
    storage = newest.storage
    found = expired_before(
        storage, newest.version, cutoff, lambda v: open_snapshot(storage, v).timestamp_us
    )
    return newest.version if found is None else max(found, newest.kept_from)


def expired_before(
    storage: Storage, newest: int, cutoff: int, committed_us: Callable[[int], int]
) -> int | None:
    """Return the first version that was current at the cutoff, microseconds UTC, or later.

    None if only the newest was.
    """
    listed = {file.name: file.modified_us for file in storage.list_names(SNAPSHOT_PREFIX)}
    for version in list_versions(storage):
        if version >= newest:
            break
        # The later one of two clocks: the writer's, and the storage's.
        moment = listed.get(snapshot_name(version + 1), cutoff)
        if moment >= cutoff or committed_us(version + 1) >= cutoff:
            return version
    return None


def _plan(newest: Snapshot, kept_from: int, cutoff: int) -> _Plan:
    storage = newest.storage
    expired = [version for version in list_versions(storage) if version < kept_from]
    tagged = set(newest.tags.values())
    needed = _needed(newest, kept_from)
    logs: list[StoredFile] = []
    others: list[StoredFile] = []
    young: list[StoredFile] = []
    for file in _own_files(storage):
        version = parse_snapshot_name(file.name)
        if version is not None:
            if version < kept_from:
                logs.append(file)
        elif file.name not in needed and parse_kept_name(file.name) not in tagged:
            (others if file.modified_us < cutoff else young).append(file)
    # The log stays without gaps, and no manifest is left that lists what is gone.
    logs.sort(key=lambda file: file.name)
    others.sort(key=lambda file: not file.name.startswith(MANIFEST_PREFIX))
    gone = [version for version in expired if version not in tagged]
    return _Plan(kept_from, gone, logs + others, young, others)


def _still_stored(newest: Snapshot, plan: _Plan, why: str) -> pa.Table:
    found = [*in_own_segments(newest), *in_earlier_versions(newest, plan.kept_from, why)]
    segments = [file for file in plan.young if parse_segment_name(file.name) is not None]
    if segments:
        size = sum(file.size for file in segments)
        reason = "no version lists them, and a write that runs may: vacuum when they are older"
        found.append(StillStored("", None, len(segments), 0, size, (), (), reason))
    return as_table(found)


def _own_files(storage: Storage) -> Iterator[StoredFile]:
    yield from storage.list_names(METADATA_PREFIX)
    yield from storage.list_names(DATA_PREFIX)


def _needed(newest: Snapshot, kept_from: int) -> set[str]:
    """Return the files that any version lists which is kept or tagged."""
    storage = newest.storage
    references = {reference.name: reference for reference in newest.file.manifests}
    bloom_files = {one.name for one in newest.bloom_files}
    for version in {*range(kept_from, newest.version), *newest.tags.values()}:
        snapshot = open_snapshot(storage, version)
        references |= {reference.name: reference for reference in snapshot.file.manifests}
        bloom_files |= {one.name for one in snapshot.bloom_files}
    needed = set(references) | bloom_files
    for reference in references.values():
        needed.update(load_manifest(storage, reference).files())
    return needed


def _keep_tagged(newest: Snapshot) -> None:
    """Copy the tagged versions whose files are about to leave the log."""
    storage = newest.storage
    logged = set(list_versions(storage))
    for version in sorted(set(newest.tags.values())):
        if version < newest.kept_from and version in logged:
            copy = kept_name(version)
            try:
                storage.put_if_absent(copy, read_sealed(storage, snapshot_name(version)))
            except FileExistsError:
                continue
            except PutOutcomeUnknownError as error:
                # Nothing is removed yet, and nothing may be while the copy is in doubt.
                raise storage_error(error, "write", f"{storage.location}/{copy}") from error


def with_files(vacuumed: Vacuumed, files: Sequence[StoredFile]) -> Vacuumed:
    """Return the report of a vacuum with more files."""
    added = pa.Table.from_pylist(_file_rows(files), _FILES)
    return replace(
        vacuumed,
        file_count=vacuumed.file_count + len(files),
        bytes=vacuumed.bytes + sum(file.size for file in files),
        files=pa.concat_tables([vacuumed.files, added]),
    )


def _file_rows(files: Iterable[StoredFile]) -> list[dict[str, Any]]:
    """Return the report of a vacuum about files."""
    return [{"file": f.name, "bytes": f.size, "modified": f.modified_us} for f in files]


def _report(
    plan: _Plan, version: int | None, still_stored: pa.Table, *, is_dry_run: bool
) -> Vacuumed:
    rows = _file_rows(plan.files)
    return Vacuumed(
        is_dry_run=is_dry_run,
        version=version,
        versions=len(plan.versions),
        file_count=len(plan.files),
        bytes=sum(file.size for file in plan.files),
        files=pa.Table.from_pylist(rows, _FILES),
        still_stored=still_stored,
    )
