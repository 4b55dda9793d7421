"""What one version of a table did to its rows, as far as a reader of new rows must know.

The snapshots of a version and of the one before it say it: manifests that both list are not read.
Entries are compared and not only their files, so that rows taken out of a segment that stays are
seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from projseg.table_layer.metadata.manifest import ManifestReference, time_range
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version

Effect = Literal["none", "append", "delete", "rewrite"]

# Operations that write segments anew with the same rows, and those that only take rows away.
_KEEPING: Final = frozenset({"compact", "materialize projection", "materialize index"})
_TAKING: Final = frozenset({"delete", "truncate"})
_RESTORE: Final = "restore"


class VersionEffect(msgspec.Struct, frozen=True):
    """What a version did.

    Parameters
    ----------
    effect : str
        `none`: the rows stayed as they were; `append`: rows were added and none taken away;
        `delete`: rows were only taken away; `rewrite`: rows were replaced, or taken away and added.
    entries : tuple of SegmentEntry
        The segments that it added, in an order that never changes. With `append` all their rows are
        new, with `rewrite` some may be rows of the version before. None with `delete`, whose new
        segments hold only rows that stayed.
    """

    effect: Effect
    entries: tuple[SegmentEntry, ...] = ()


NOTHING: Final = VersionEffect("none")


def effect_of(snapshot: Snapshot) -> VersionEffect | None:
    """Return what a version did, or None if the version before it is needed and no longer kept.

    Raises
    ------
    CorruptTableError, UnsupportedFeatureError, StorageError
        If metadata cannot be read.
    """
    file = snapshot.file
    if file.change == "set_properties" or (file.change == "replace" and file.operation in _KEEPING):
        return NOTHING
    before = read_version(snapshot.storage, snapshot.version - 1)
    if file.change in ("create", "append"):
        entries = (e for e in _unshared(snapshot, before) if e.write_id == file.write_id)
        return _appended(entries)
    return None if before is None else _difference(before, snapshot)


def _difference(before: Snapshot, snapshot: Snapshot) -> VersionEffect:
    old = {entry.file: entry for entry in _unshared(before, snapshot)}
    new = {entry.file: entry for entry in _unshared(snapshot, before)}
    operation = snapshot.file.operation
    is_restore = operation == _RESTORE
    # Rows that were taken out of a segment that stays come back by a restore, and only by that.
    added = _appended(
        entry
        for file, entry in new.items()
        if file not in old or (is_restore and old[file] != entry)
    )
    is_taken = any(new.get(file) != entry for file, entry in old.items())
    if is_taken and (operation in _TAKING or not added.entries):
        return VersionEffect("delete")
    if is_restore and _is_same_again(snapshot):
        return NOTHING
    is_replaced = is_taken or is_restore
    return VersionEffect("rewrite", added.entries) if is_replaced and added.entries else added


def _is_same_again(restored: Snapshot) -> bool:
    """Whether no version since the one that was restored changed the rows."""
    info = restored.commit_info
    text = "" if info is None else info.parameters.get("version", "")
    if not text.isdecimal():
        return False
    return all(map(_is_plainly_nothing, _versions(restored, int(text) + 1)))


def _is_plainly_nothing(snapshot: Snapshot | None) -> bool:
    # Another restore counts as a change: following them all might take time without end.
    if snapshot is None or snapshot.file.operation == _RESTORE:
        return False
    effect = effect_of(snapshot)
    return effect is not None and effect.effect == "none"


def _versions(end: Snapshot, first: int) -> Iterable[Snapshot | None]:
    return (read_version(end.storage, version) for version in range(first, end.version))


def _appended(entries: Iterable[SegmentEntry]) -> VersionEffect:
    ordered = tuple(sorted(entries, key=lambda entry: (*time_range(entry), entry.file)))
    return VersionEffect("append", ordered) if ordered else NOTHING


def _unshared(snapshot: Snapshot, other: Snapshot | None) -> Iterable[SegmentEntry]:
    """Yield the segments of the manifests that only one of two versions lists."""
    shared: frozenset[ManifestReference] = frozenset()
    if other is not None:
        shared = frozenset(other.file.manifests)
    for reference in snapshot.file.manifests:
        if reference not in shared:
            manifest = snapshot.load(reference)
            yield from map(manifest.entry, range(len(manifest)))
