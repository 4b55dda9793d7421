"""Read a table's rows as they come: those of one version, then those that each commit adds.

A position is a place in that order and says all that is needed to go on from there, so it can be
kept for years. The segments between two positions are always the same.

What a version did to the table's rows, as far as a reader of new rows must know, is said by its
snapshot and the one before it: manifests that both list are not read. Entries are compared and not
only their files, so that rows taken out of a segment that stays are seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NoReturn

import msgspec
from msgspec.structs import replace

from projseg.errors import InvalidInputError
from projseg.table_layer.commits.open_version import version_at
from projseg.table_layer.metadata.manifest import ManifestReference, time_range
from projseg.table_layer.metadata.segment_entry import Count, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.versions_and_tags import latest_version, list_versions
from projseg.table_layer.storage.storage_contract import Storage

Effect = Literal["none", "append", "delete", "rewrite"]

# Operations that write segments anew with the same rows, and those that only take rows away.
_KEEPING: Final = frozenset({"compact", "materialize projection", "materialize index"})
_TAKING: Final = frozenset({"delete", "truncate"})
_RESTORE: Final = "restore"

_ANEW: Final = "start a new stream, with a checkpoint of its own"


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place in the order of a table's rows; all before it has been read.

    `version` is read next, of which `index` segments have been read; with `whole`, all its rows are
    read and not only those that it added.
    """

    table: str
    version: Count
    index: Count = 0
    whole: bool = False

    def after(self) -> Position:
        """Return the position behind this version."""
        return Position(self.table, self.version + 1)


class RowStream:
    """The rows of a table in the order in which they were committed.

    A version that deleted or replaced rows is refused. With `passes_deletes`, one that only deleted
    rows is passed over; with `rereads_changes`, it is too, and of one that replaced rows all new
    segments are read, with rows that were read before.
    """

    def __init__(
        self, storage: Storage, *, passes_deletes: bool = False, rereads_changes: bool = False
    ) -> None:
        self._storage = storage
        self._passes_deletes = passes_deletes or rereads_changes
        self._rereads_changes = rereads_changes

    def newest(self) -> Position:
        """Return the position behind all that is committed."""
        snapshot = self._version(latest_version(self._storage))
        return Position(snapshot.properties.table_id, snapshot.version).after()

    def beginning(self) -> Position:
        """Return the position before all rows of the newest version."""
        snapshot = self._version(latest_version(self._storage))
        return Position(snapshot.properties.table_id, snapshot.version, whole=True)

    def at_version(self, version: int) -> Position:
        """Return the position before the rows that a version added.

        The version may be the next one.
        """
        newest = self.newest()
        if version > newest.version:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_VERSION",
                f"a stream was to start at version {version} of {self._storage.location}, whose "
                f"newest is {newest.version - 1}; start at most at the one after it",
            )
        if version < newest.version:
            self._version(version)
        return replace(newest, version=version)

    def since(self, instant: int) -> Position:
        """Return the position before the first version committed at or after an instant.

        The instant is in microseconds UTC; behind all versions, so is the position.
        """
        newest, oldest = self.newest(), min(list_versions(self._storage))
        if oldest == 0 and self._version(0).timestamp_us >= instant:
            return replace(newest, version=0)
        return replace(newest, version=version_at(self._storage, instant - 1).version + 1)

    def advance(
        self, start: Position, segments_max: int | None = None, end: Position | None = None
    ) -> Position:
        """Return how far a reader may go from a position, at most to `end` or `segments_max`.

        Versions that add no rows are passed. A version that is refused ends the way before it, and
        is an error only where it comes first.
        """
        behind = self._behind(start)
        if end is not None:
            behind = min(behind, end.version)
        position, left = start, segments_max
        while position.version < behind:
            try:
                found = len(self._segments_at(position)[1]) - position.index
            except InvalidInputError:
                if position == start:
                    raise
                return position
            if left is not None and found > left:
                return replace(position, index=position.index + left)
            left = None if left is None else left - found
            position = position.after()
        return position

    def between(
        self, start: Position, end: Position
    ) -> Iterator[tuple[Snapshot, Sequence[SegmentEntry]]]:
        """Yield the segments between two positions, with the version that lists them."""
        self._behind(start)
        self._behind(end)
        position = start
        while position.version < end.version:
            snapshot, entries = self._segments_at(position)
            yield snapshot, entries[position.index :]
            position = position.after()
        if position.version == end.version and position.index < end.index:
            snapshot, entries = self._segments_at(position)
            yield snapshot, entries[position.index : end.index]

    def _behind(self, position: Position) -> int:
        """Return the version after the newest, having checked that a position is of this table."""
        newest = self.newest()
        if position.table != newest.table:
            raise InvalidInputError(
                "PROJSEG_BAD_OFFSET",
                f"a stream was at version {position.version} of another table than the one that is "
                f"at {self._storage.location}, which was created anew; {_ANEW}",
            )
        if position.version > newest.version:
            raise InvalidInputError(
                "PROJSEG_BAD_OFFSET",
                f"a stream was at version {position.version} of {self._storage.location}, whose "
                f"newest is {newest.version - 1}: an older copy was put in its place; {_ANEW}",
            )
        return newest.version

    def _segments_at(self, position: Position) -> tuple[Snapshot, Sequence[SegmentEntry]]:
        snapshot = self._version(position.version)
        entries: Sequence[SegmentEntry] = snapshot.segments
        if not position.whole:
            effect = effect_of(snapshot)
            if effect is None:
                self._refuse_missing(position.version - 1)
            entries = self._entries_of(snapshot, effect)
        if position.index > len(entries):
            raise InvalidInputError(
                "PROJSEG_BAD_OFFSET",
                f"a stream was behind segment {position.index} of version {position.version} of "
                f"{self._storage.location}, which has {len(entries)} for it; restore the "
                f"checkpoint from a copy, or {_ANEW}",
            )
        return snapshot, entries

    def _entries_of(self, snapshot: Snapshot, effect: VersionEffect) -> Sequence[SegmentEntry]:
        if effect.effect == "delete" and not self._passes_deletes:
            self._refuse(
                snapshot,
                "took rows away that a stream may have read",
                "option ignoreDeletes to 'true' passes over it",
            )
        if effect.effect == "rewrite" and not self._rereads_changes:
            self._refuse(
                snapshot,
                "replaced rows that a stream may have read",
                "option ignoreChanges to 'true' reads all segments that it wrote, with rows that "
                "were read before",
            )
        return effect.entries

    def _refuse(self, snapshot: Snapshot, what: str, remedy: str) -> NoReturn:
        raise InvalidInputError(
            "PROJSEG_ROWS_CHANGED",
            f"version {snapshot.version} of {self._storage.location} ({snapshot.operation}) "
            f"{what}; {remedy}, or {_ANEW}",
        )

    def _version(self, version: int) -> Snapshot:
        snapshot = read_version(self._storage, version)
        return self._refuse_missing(version) if snapshot is None else snapshot

    def _refuse_missing(self, version: int) -> NoReturn:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VERSION",
            f"a stream needs version {version} of {self._storage.location}, which is no longer "
            f"kept: a vacuum removed it before it was read; {_ANEW}, or vacuum with a longer "
            "retention",
        )


class VersionEffect(msgspec.Struct, frozen=True):
    """The effect of a version on its table's rows, and the segments that it added, in order.

    `none`: the rows stayed as they were; `append`: rows were added and none deleted, so all rows of
    the segments are new; `delete`: rows were only deleted, and no segment is listed here;
    `rewrite`: rows were replaced, or some deleted and others added, so some rows of the segments
    may be old.
    """

    effect: Effect
    entries: tuple[SegmentEntry, ...] = ()


NOTHING: Final = VersionEffect("none")


def effect_of(snapshot: Snapshot) -> VersionEffect | None:
    """Return the effect of a version; None if the version before it is needed and not kept."""
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
    """Whether no version since the restored one changed the rows."""
    info = restored.commit_info
    text = "" if info is None else info.parameters.get("version", "")
    if not text.isdecimal():
        return False
    since = range(int(text) + 1, restored.version)
    return all(_is_plainly_nothing(read_version(restored.storage, version)) for version in since)


def _is_plainly_nothing(snapshot: Snapshot | None) -> bool:
    # Another restore counts as a change: following them all might take time without end.
    if snapshot is None or snapshot.file.operation == _RESTORE:
        return False
    effect = effect_of(snapshot)
    return effect is not None and effect.effect == "none"


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
