"""Find the versions of a table.

The snapshot files' names are the log. The first look of a process lists them, which also finds a
gap; later looks begin at the newest version seen, so they cost two calls in a folder and one in an
object store, however long the table's history is. No pointer file is kept: it could disagree with
the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from projseg.errors import CorruptTableError, InvalidInputError
from projseg.memory.cache import KEPT
from projseg.table_layer.storage.locate_storage import StorageOptionsLike, open_storage
from projseg.table_layer.storage.paths import (
    MANIFEST_PREFIX,
    METADATA_PREFIX,
    SNAPSHOT_PREFIX,
    is_probe_name,
    parse_snapshot_name,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import Storage

_PROBES_MAX: Final = 64
_LISTED_AT_ONCE: Final = 1000
"""Names that stores tell in one answer."""
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
    hint: int | None = KEPT.get(key)
    newest = _newest_listed(storage, hint) if storage.is_remote else _newest_probed(storage, hint)
    KEPT.replace(key, newest, _HINT_BYTES)
    return newest


def _newest_probed(storage: Storage, hint: int | None) -> int:
    """Look where a look costs little: at the hint and after it."""
    if hint is not None and _exists(storage, hint):
        version, is_newest = _probe_forward(storage, hint)
        if is_newest:
            return version
    # A listing may miss what is published while it runs.
    return _probe_forward(storage, _listed(storage)[-1])[0]


def _newest_listed(storage: Storage, hint: int | None) -> int:
    """List from the hint on, by one round trip; a store's listing misses nothing older than it."""
    if hint is not None:
        versions = list_versions(storage, hint)
        if versions and versions[0] == hint:
            return versions[-1]
    first = list(islice(_named(storage, 0), _LISTED_AT_ONCE))
    if len(first) < _LISTED_AT_ONCE:
        return _listed(storage, first)[-1]
    # A page of a listing has no more: jump ahead, and list from the last that is found.
    low, step = max(first), _LISTED_AT_ONCE
    while _exists(storage, low + step):
        low, step = low + step, 2 * step
    while (step := step // 2) >= _LISTED_AT_ONCE:
        if _exists(storage, low + step):
            low += step
    return list_versions(storage, low)[-1]


def _listed(storage: Storage, named: Iterable[int] | None = None) -> list[int]:
    versions = _without_gaps(storage, _named(storage, 0) if named is None else named)
    if not versions:
        raise _no_versions(storage)
    return versions


def list_versions(storage: Storage, first: int = 0) -> list[int]:
    """Return the kept versions from `first` on in order; empty if there is no table.

    Raises
    ------
    CorruptTableError
        If one is missing between two others.
    """
    return _without_gaps(storage, _named(storage, first))


def _named(storage: Storage, first: int) -> Iterator[int]:
    """Yield the versions from `first` on that a listing names."""
    after = snapshot_name(first - 1) if first else ""
    parsed = (parse_snapshot_name(f.name) for f in storage.list_names(SNAPSHOT_PREFIX, after))
    return (version for version in parsed if version is not None)


def _without_gaps(storage: Storage, named: Iterable[int]) -> list[int]:
    versions = sorted(named)
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


def holds_table(
    location: str | os.PathLike[str],
    storage_options: StorageOptionsLike | None = None,
) -> bool:
    """Whether a location holds a table; parameters are those of `open_storage`.

    Raises
    ------
    CorruptTableError
        If it holds remains of one.
    OSError
        If that cannot be found out, for want of permission, say.
    """
    storage = open_storage(location, storage_options)
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
