"""Follow parts through the versions of their table since the last refresh, and subtract rows.

Where a version kept its rows and wrote segments anew, a part comes to stand for the new segments.
Where rows were deleted, the part stands for the segments as they are listed now, once these rows
are subtracted from its groups: only these rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from projseg.aggregation.partial import merge_partials
from projseg.aggregation.subtract_deleted import without
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.planning.partial_match import is_reversible
from projseg.errors import CorruptTableError
from projseg.reader.run_plan import partial_of_rows
from projseg.table_layer.change_feed import effect_of
from projseg.table_layer.metadata.deleted_rows import deleted_rows, live_row_ids
from projseg.table_layer.metadata.manifest import ManifestReference, time_range
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.storage.storage_contract import Storage
from projseg.views.cover_test import listed_segments
from projseg.views.part_files import Folder, NewPart
from projseg.views.view_records import ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion

VERSIONS_FOLLOWED_MAX: Final = 1_024
"""Versions since the last refresh; beyond them stale parts are folded anew."""


class DeletedRows(msgspec.Struct, frozen=True):
    """Rows that a version deleted of one segment, as it was listed before and as it is now.

    `after` is None if it is listed no more.
    """

    before: SegmentEntry
    after: SegmentEntry | None

    @property
    def row_count(self) -> int:
        """How many rows."""
        left = 0 if self.after is None else self.after.live_row_count
        return self.before.live_row_count - left


class FollowedParts(msgspec.Struct, frozen=True):
    """Parts whose rows are in some listed segments; several, if one segment has rows of several.

    `deleted` has what is to be subtracted from the parts' groups.
    """

    parts: tuple[ViewPart, ...]
    names: frozenset[str]
    deleted: tuple[DeletedRows, ...]

    @property
    def deleted_row_count(self) -> int:
        """How many rows have to be subtracted."""
        return sum(one.row_count for one in self.deleted)


def followed_parts(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry, parts: Sequence[ViewPart]
) -> tuple[FollowedParts, ...]:
    """Return those of some stale parts whose rows can be followed to the segments of a version."""
    refreshed = view.refreshed.get(snapshot.properties.table_id)
    if not parts or refreshed is None or snapshot.properties.source is not UNSET:
        return ()  # rows of a file that a source no longer lists can be read no more
    before = read_version(snapshot.storage, refreshed.version)
    if before is None or before.file.write_id != refreshed.write_id:
        return ()
    if not 0 < snapshot.version - before.version <= VERSIONS_FOLLOWED_MAX:
        return ()
    walk = _Walk(store, parts, listed_segments(before))
    for version in range(before.version + 1, snapshot.version + 1):
        is_last = version == snapshot.version
        after = snapshot if is_last else read_version(snapshot.storage, version)
        if after is None:
            return ()
        if after.file.change not in ("append", "set_properties"):
            walk.step(before, after)
        before = after
    listed = listed_segments(snapshot)
    return tuple(one for one in walk.sets() if listed.issuperset(one.names))


@dataclass(slots=True)
class _Set:
    """Parts that are followed together; the fields are those of `FollowedParts`."""

    parts: list[ViewPart]
    names: set[str]
    deleted: list[DeletedRows] = field(default_factory=list)


class _Walk:
    """Sets of parts, and the segments that hold their rows, from version to version."""

    def __init__(
        self, store: StoreVersion, parts: Iterable[ViewPart], listed: Iterable[str]
    ) -> None:
        known = frozenset(listed)
        self._owner: dict[str, _Set] = {}
        for part in parts:
            names = set(store.cover(part))
            if known.issuperset(names):
                self._owner.update(dict.fromkeys(names, _Set([part], names)))

    def sets(self) -> Iterator[FollowedParts]:
        """Yield the sets that are left and have rows."""
        for one in {id(one): one for one in self._owner.values()}.values():
            yield FollowedParts(tuple(one.parts), frozenset(one.names), tuple(one.deleted))

    def step(self, before: Snapshot, after: Snapshot) -> None:
        """Follow the parts from one version to the next."""
        gone = _listed_only_by(before, after)
        if self._owner.keys().isdisjoint(gone):
            return
        new = _listed_only_by(after, before)
        effect = effect_of(after)
        if effect is not None and effect.effect == "none":
            for removed, added in connected(gone.values(), new.values()):
                self._replace(removed, added)
        else:
            self._delete(gone, {entry.file: entry for entry in new.values()})

    def _replace(self, removed: Sequence[SegmentEntry], added: Sequence[SegmentEntry]) -> None:
        """Let the parts of some segments stand for others with the same rows."""
        names = {entry.listed_as for entry in removed}
        found = {id(one): one for name in names if (one := self._owner.get(name)) is not None}
        if not found:
            return
        joined, *others = found.values()
        for other in others:
            joined.parts += other.parts
            joined.names |= other.names
            joined.deleted += other.deleted
        row_counts = {sum(entry.live_row_count for entry in some) for some in (removed, added)}
        # Of segments that no part stands for, nobody can tell where their rows are now.
        is_known = joined.names >= names and len(row_counts) == 1
        for name in joined.names:
            del self._owner[name]
        if is_known:
            joined.names -= names
            joined.names.update(entry.listed_as for entry in added)
            self._owner.update(dict.fromkeys(joined.names, joined))

    def _delete(self, gone: Mapping[str, SegmentEntry], new: Mapping[str, SegmentEntry]) -> None:
        """Note the rows of segments that are gone, or that have more deleted rows."""
        for name, entry in gone.items():
            found = self._owner.pop(name, None)
            if found is None:
                continue
            found.names.remove(name)
            after = new.get(entry.file)
            # Rows that were deleted may be there again: then the segment is as good as new.
            if after is not None and after.live_row_count >= entry.live_row_count:
                after = None
            if after is not None:
                found.names.add(after.listed_as)
                self._owner[after.listed_as] = found
            found.deleted.append(DeletedRows(entry, after))


def _listed_only_by(snapshot: Snapshot, other: Snapshot) -> dict[str, SegmentEntry]:
    """Return the segments that one version lists and another does not, as they are listed."""
    shared = frozenset(snapshot.file.manifests).intersection(other.file.manifests)
    there = {name for name, _, _ in _unshared(other, shared)}
    return {
        name: snapshot.load(reference).entry(place)
        for name, reference, place in _unshared(snapshot, shared)
        if name not in there
    }


def _unshared(
    snapshot: Snapshot, shared: frozenset[ManifestReference]
) -> Iterator[tuple[str, ManifestReference, int]]:
    for reference in snapshot.file.manifests:
        if reference not in shared:
            for place, name in enumerate(snapshot.load(reference).listed()):
                yield name, reference, place


def connected(
    removed: Iterable[SegmentEntry], added: Iterable[SegmentEntry]
) -> Iterator[tuple[list[SegmentEntry], list[SegmentEntry]]]:
    """Yield removed and added segments by stretches of time that no segment reaches across.

    A row keeps its time, so it stays in its stretch.
    """
    both = [(time_range(entry), False, entry) for entry in removed]
    both += [(time_range(entry), True, entry) for entry in added]
    if any(entry.min_time_us is None for _, _, entry in both):  # rows without a time stay anywhere
        yield [e for _, new, e in both if not new], [e for _, new, e in both if new]
        return
    both.sort(key=lambda one: one[0])
    stretch: tuple[list[SegmentEntry], list[SegmentEntry]] = ([], [])
    end: int | None = None
    for (low, high), is_added, entry in both:
        if end is not None and low > end:
            yield stretch
            stretch = ([], [])
            end = None
        stretch[is_added].append(entry)
        end = high if end is None else max(end, high)
    if end is not None:
        yield stretch


def may_subtract(primitives: Sequence[Primitive]) -> bool:
    """Whether all states of a view are such that those of some rows can be subtracted exactly."""
    known = set(primitives)
    return all(
        is_reversible(one) and (count is None or count in known)
        for one in primitives
        for count in [one.value_count]
    )


def rewritten_part(
    folder: Folder, followed: FollowedParts, entries: Sequence[SegmentEntry]
) -> NewPart:
    """Return the groups of several parts, without those of their rows that were deleted."""
    primitives = folder.query.primitives
    pieces = [NewPart((), (part,), None) for part in followed.parts]
    groups = merge_partials([folder.groups_of(piece) for piece in pieces], primitives)
    if followed.deleted:
        storage = folder.snapshot.storage
        gone = [
            partial_of_rows(
                storage, folder.query, folder.schema, one.before, _row_ids(storage, one)
            )
            for one in followed.deleted
        ]
        folder.rows_read += followed.deleted_row_count
        counts = [primitive.value_count for primitive in primitives]
        groups = without(
            groups,
            merge_partials(gone, primitives),
            primitives,
            row_count=primitives.index(Primitive("count", ())) if folder.query.keys else None,
            value_counts=[None if one is None else primitives.index(one) for one in counts],
            path=f"{storage.location}/{followed.parts[0].segment.file}",
        )
    return NewPart(tuple(entries), (), groups)


def _row_ids(storage: Storage, rows: DeletedRows) -> NDArray[np.uint32]:
    """Return the rows of the segment that are deleted now, and were not."""
    if rows.after is None:
        return live_row_ids(storage, rows.before)
    before, after = deleted_rows(storage, rows.before), deleted_rows(storage, rows.after)
    found = np.setdiff1d(after, before, assume_unique=True)
    if len(found) != len(after) - len(before):
        raise CorruptTableError(
            "PROJSEG_SEGMENT_DIFFERS", f"{rows.before.file}: deleted rows are there again"
        )
    return found.astype(np.uint32)
