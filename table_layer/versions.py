"""Find the versions of a table.

The snapshot files' names are the log. The first look of a process lists them, which also finds a
gap; later looks probe forward from the newest version seen, so they cost two calls however long
the table's history is. No pointer file is kept: it could disagree with the log.
"""

from __future__ import annotations

import os
from typing import Final

from projseg.errors import CorruptTableError, InvalidInputError
from projseg.memory.cache import KEPT
from projseg.table_layer.paths import (
    MANIFEST_PREFIX,
    METADATA_PREFIX,
    SNAPSHOT_PREFIX,
    is_probe_name,
    parse_snapshot_name,
    snapshot_name,
)
from projseg.table_layer.storage import open_storage
from projseg.table_layer.storage_contract import Storage

_PROBES_MAX: Final = 64
_HINT_BYTES: Final = 256


def latest_version(storage: Storage) -> int:
    """Return the newest table version.

    Raises
    ------
    InvalidInputError
        PROJSEG_NOT_A_TABLE if the location certainly holds no table.
    CorruptTableError
        If the versions have a gap, or manifests exist and no snapshot does.
    OSError
        If the storage cannot be listed.
    """
    # The newest version this process has seen is a hint, which is always checked.
    key = ("newest version", storage)
    version: int | None = KEPT.get(key)
    if version is not None and _exists(storage, version):
        version, is_newest = _probe_forward(storage, version)
        if is_newest:
            KEPT.replace(key, version, _HINT_BYTES)
            return version
    versions = list_versions(storage)
    if not versions:
        raise _no_versions(storage)
    # A listing may miss what is published while it runs.
    version, _ = _probe_forward(storage, versions[-1])
    KEPT.replace(key, version, _HINT_BYTES)
    return version


def list_versions(storage: Storage) -> list[int]:
    """Return all kept versions in order; empty if there is no table.

    Raises
    ------
    CorruptTableError
        If one is missing between two others.
    """
    parsed = (parse_snapshot_name(file.name) for file in storage.list_names(SNAPSHOT_PREFIX))
    versions = sorted(version for version in parsed if version is not None)
    if not versions or versions[-1] - versions[0] + 1 == len(versions):
        return versions
    known = set(versions)
    for version in range(versions[0], versions[-1]):
        # One published during the listing may be missed while a later one is met: look again.
        if version not in known and not _exists(storage, version):
            raise CorruptTableError(
                "PROJSEG_CORRUPT_TABLE",
                f"{storage.location}/{snapshot_name(version)} is missing while version "
                f"{versions[-1]} exists; restore it from a copy",
            )
    return list(range(versions[0], versions[-1] + 1))


def holds_table(location: str | os.PathLike[str]) -> bool:
    """Whether a location holds a table.

    Raises
    ------
    CorruptTableError
        If it holds remains of one.
    OSError
        If that cannot be found out, for want of permission, say.
    """
    storage = open_storage(location)
    try:
        latest_version(storage)
    except InvalidInputError as error:
        if error.code == "PROJSEG_NOT_A_TABLE":
            return False
        raise
    return True


def _probe_forward(storage: Storage, version: int) -> tuple[int, bool]:
    """Return (the last of the next versions that exist, whether there is none after it)."""
    for _ in range(_PROBES_MAX):
        if not _exists(storage, version + 1):
            return version, True
        version += 1
    return version, False


def _exists(storage: Storage, version: int) -> bool:
    try:
        storage.size(snapshot_name(version))
    except FileNotFoundError:
        return False
    return True


def _no_versions(storage: Storage) -> CorruptTableError | InvalidInputError:
    manifests = list(storage.list_names(MANIFEST_PREFIX))
    # A creation holds its probe until its snapshot is there.
    is_creation = any(is_probe_name(file.name) for file in storage.list_names(METADATA_PREFIX))
    if manifests and not is_creation:
        return CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"{storage.location} has manifests and no snapshot: its log was lost; restore "
            "_projseg/ from a copy",
        )
    return InvalidInputError(
        "PROJSEG_NOT_A_TABLE",
        f"{storage.location} is not a projseg table: it has no _projseg/ log; create one there "
        "or give the location of one",
    )
