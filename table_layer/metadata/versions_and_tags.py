"""Find the versions of a table; the tags that name versions.

The snapshot files' names are the log. The first look of a process lists them, which also finds a
gap; later looks begin at the newest version seen, so they cost two calls in a folder and one in an
object store, however long the table's history is. No pointer file is kept: it could disagree with
the log.

Tags are kept in the newest version: what they may be, and how they change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from projseg.errors import CommitConflictError, CorruptTableError, InvalidInputError, did_you_mean
from projseg.memory.cache import KEPT
from projseg.table_layer.metadata.metadata_limits import TAG_BYTES_MAX, TAGS_MAX
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import (
    MANIFEST_PREFIX,
    METADATA_PREFIX,
    SNAPSHOT_PREFIX,
    is_probe_name,
    parse_snapshot_name,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import StorageOptionsLike

_PROBES_MAX: Final = 64
_LISTED_AT_ONCE: Final = 1000
"""Names that stores tell in one answer."""
_HINT_BYTES: Final = 256

_TAG: Final = re.compile(rf"(?=.*[^0-9])[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{TAG_BYTES_MAX - 1}}}")


def latest_version(storage: Storage) -> int:
    """Return the newest table version.

    Raises InvalidInputError (PROJSEG_NOT_A_TABLE) if the location certainly holds no table,
    CorruptTableError if the versions have a gap, or manifests exist and no snapshot does, and
    OSError if the storage cannot be listed.
    """
    # The newest version this process has seen is a hint, which is always checked.
    key = ("newest version", storage)
    hint: int | None = KEPT.get(key)
    newest = _newest_listed(storage, hint) if storage.is_remote else _newest_probed(storage, hint)
    KEPT.replace(key, newest, _HINT_BYTES)
    return newest


def list_versions(storage: Storage, first: int = 0) -> list[int]:
    """Return the kept versions from `first` on in order; empty if there is no table."""
    return _without_gaps(storage, _named(storage, first))


def holds_table(
    location: str | os.PathLike[str],
    storage_options: StorageOptionsLike | None = None,
) -> bool:
    """Whether a location holds a table; parameters are those of `open_storage`.

    Raises CorruptTableError if it holds remains of one, and OSError if that is unknown, for want of
    permission, say.
    """
    storage = open_storage(location, storage_options)
    try:
        latest_version(storage)
    except InvalidInputError as error:
        if error.code == "PROJSEG_NOT_A_TABLE":
            return False
        raise
    return True


def _newest_probed(storage: Storage, hint: int | None) -> int:
    """Probe cheaply for the newest version: at the hint and after it."""
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
    return versions or _listed_again(storage)


def _listed_again(storage: Storage) -> list[int]:
    """Return the versions published since a listing that had none, or raise what that means."""
    manifests = _manifest_names(storage)
    # A creation holds its probe until its snapshot is there, or else its manifests are gone.
    is_creation = any(is_probe_name(file.name) for file in storage.list_names(METADATA_PREFIX))
    if manifests and not is_creation:
        versions = list_versions(storage)
        if versions:
            return versions
        if manifests & _manifest_names(storage):
            raise CorruptTableError(
                "PROJSEG_CORRUPT_TABLE",
                f"{storage.location} has manifests and no snapshot: its log was lost; restore "
                "_projseg/ from a copy",
            )
    raise InvalidInputError(
        "PROJSEG_NOT_A_TABLE",
        f"{storage.location} is not a projseg table: it has no _projseg/ log; create one there "
        "or give the location of one",
    )


def _manifest_names(storage: Storage) -> set[str]:
    return {file.name for file in storage.list_names(MANIFEST_PREFIX)}


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


def _tag_problem(name: str) -> str | None:
    """Return why a text cannot be a tag, or None if it can."""
    if not isinstance(name, str) or _TAG.fullmatch(name) is None:
        return (
            f"has to be 1 to {TAG_BYTES_MAX} letters, digits, '_', '-' or '.', not only digits, "
            "which would be a version, and neither '-' nor '.' first"
        )
    return None


def check_tag(name: str) -> str:
    """Return `name`, or raise InvalidInputError (PROJSEG_BAD_NAME) if it cannot be a tag."""
    problem = _tag_problem(name)
    if problem is not None:
        raise InvalidInputError("PROJSEG_BAD_NAME", f"tag '{str(name)[:200]}' {problem}")
    return name


def tags_problem(tags: Mapping[str, int], version: int) -> str | None:
    """Return why a version cannot hold these tags, or None if it can."""
    if len(tags) > TAGS_MAX:
        return f"it has {len(tags)} tags; a table has at most {TAGS_MAX}"
    if list(tags) != sorted(tags):
        return "its tags are not in order"
    for name, tagged in tags.items():
        problem = _tag_problem(name)
        if problem is not None or tagged >= version:
            return f"its tag '{name[:200]}' {problem or f'names version {tagged}'}"
    return None


def tagged_version(tags: Mapping[str, int], name: str, location: str) -> int:
    """Return the version that a tag names."""
    if not isinstance(name, str) or name not in tags:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_TAG",
            f"'{name}' is not a tag of table {location}{did_you_mean(str(name), tags)}; its tags "
            f"are {', '.join(list(tags)[:20]) or 'none'}",
        )
    return tags[name]


def changed_tags(
    base: Mapping[str, int],
    current: Mapping[str, int],
    added: Mapping[str, int],
    dropped: Iterable[str],
    location: str,
) -> dict[str, int]:
    """Return the tags after a change that was made for `base`, in the order of their names."""
    tags = dict(current)
    for name in (*added, *dropped):
        if current.get(name) != base.get(name):
            raise CommitConflictError(
                "PROJSEG_COMMIT_CONFLICT",
                f"nothing was committed: tag '{name}' was set or dropped by another commit; open "
                "the table and try again",
            )
    for name in dropped:
        tagged_version(tags, name, location)
        del tags[name]
    for name, version in added.items():
        if tags.setdefault(check_tag(name), version) != version:
            raise InvalidInputError(
                "PROJSEG_TAG_EXISTS",
                f"tag '{name}' names version {tags[name]}; drop it first or choose another name",
            )
    if len(tags) > TAGS_MAX:
        raise InvalidInputError(
            "PROJSEG_TOO_MANY_NAMES",
            f"the table has {len(current)} tags and may have {TAGS_MAX}; drop some first",
        )
    return dict(sorted(tags.items()))
