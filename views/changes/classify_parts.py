"""Sort a view's parts by what becomes of each at new versions of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from projseg.reader.dimensions import TableDimension
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.changes.dimension_changes import DimensionChanges
from projseg.views.changes.followed_parts import FollowedParts, followed_parts
from projseg.views.changes.subtracted_parts import may_subtract
from projseg.views.cover_test import Coverage, coverage, others
from projseg.views.part_files import Folder, forms_of, standing_for
from projseg.views.view_dimensions import is_built_with
from projseg.views.view_options import CoveredSegments
from projseg.views.view_records import ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion


@dataclass(frozen=True, slots=True)
class RewrittenParts:
    """Parts whose groups are to be written anew, without folding their segments.

    Parameters
    ----------
    followed : FollowedParts
        The parts, and the rows to subtract.
    entries : tuple of SegmentEntry
        The segments that hold the rows which are left.
    """

    followed: FollowedParts
    entries: tuple[SegmentEntry, ...]

    @property
    def rows_to_read(self) -> int:
        """Groups and deleted rows that are read for it."""
        groups = sum(part.group_count for part in self.followed.parts)
        return groups + self.followed.deleted_row_count


@dataclass(slots=True)
class PartFates:
    """What becomes of a view's parts.

    Parameters
    ----------
    kept : list of ViewPart
        Parts that stay as files, as they are listed now.
    relabelled : mapping of str to ViewPart
        By file, those of the kept parts that are to be listed in another way.
    covers : mapping of str to tuple of str
        By file, the segments of those that stand for others than before.
    rewritten : list of RewrittenParts
        Parts whose groups are known without their segments.
    stale : list of ViewPart
        The others.
    uncovered : tuple of SegmentEntry
        Segments that no kept part stands for; those of rewritten parts are among them.
    """

    kept: list[ViewPart] = field(default_factory=list)
    relabelled: dict[str, ViewPart] = field(default_factory=dict)
    covers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rewritten: list[RewrittenParts] = field(default_factory=list)
    stale: list[ViewPart] = field(default_factory=list)
    uncovered: tuple[SegmentEntry, ...] = ()

    def cover(self, store: StoreVersion, part: ViewPart) -> tuple[str, ...]:
        """Return the segments that a part is to stand for."""
        return self.covers.get(part.segment.file) or store.cover(part)


def fates_of_parts(
    snapshot: Snapshot,
    store: StoreVersion,
    view: ViewEntry,
    folder: Folder,
    dimensions: Mapping[str, TableDimension],
) -> PartFates:
    """Sort the parts of a view.

    Parameters
    ----------
    snapshot : Snapshot
        The fact at the version that the view is brought up to.
    store : StoreVersion
        The store.
    view : ViewEntry
        The view.
    folder : Folder
        Of the view, with its dimensions at their new versions.
    dimensions : mapping of str to TableDimension
        These, by table id.
    """
    found = coverage(snapshot, store, view)
    fates = PartFates(uncovered=found.uncovered)
    followed = followed_parts(snapshot, store, view, found.stale)
    if followed:
        _sort_followed(fates, found, followed, view, folder, dimensions)
    known = {part.segment.file for one in fates.rewritten for part in one.followed.parts}
    known |= fates.relabelled.keys()
    fates.stale += [part for part in found.stale if part.segment.file not in known]
    fates.kept += [*found.valid, *(p for p in found.stale if p.segment.file in fates.relabelled)]
    if view.dimensions:
        _sort_by_dimensions(fates, snapshot, store, folder, dimensions)
    if len(fates.kept) != len(found.valid) or fates.covers:
        covered = {name for part in fates.kept for name in fates.cover(store, part)}
        fates.uncovered = others(snapshot, covered)
    return fates


def _sort_followed(
    fates: PartFates,
    found: Coverage,
    followed: Sequence[FollowedParts],
    view: ViewEntry,
    folder: Folder,
    dimensions: Mapping[str, TableDimension],
) -> None:
    """Note the parts that are listed in another way, and those that are rewritten."""
    kept_for = CoveredSegments.of(view)
    by_name = {entry.listed_as: entry for entry in found.uncovered}
    can_subtract = may_subtract(folder.query.primitives)
    for one in followed:
        if not by_name.keys() >= one.names:  # a part that was valid all the time stands for one
            continue
        entries = tuple(by_name[name] for name in sorted(one.names))
        forms = {forms_of(entry, folder.schema) for entry in entries}
        forms |= {forms_of(part.segment, folder.schema) for part in one.parts}
        live = sum(entry.live_row_count for entry in entries)
        covered = sum(part.cover.live_row_count for part in one.parts)
        is_wanted = all(kept_for.holds(entry) for entry in entries)
        if len(forms) > 1 or not is_wanted or covered - one.deleted_row_count != live:
            continue
        if len(one.parts) == 1 and not one.deleted:
            (part,) = one.parts
            fates.relabelled[part.segment.file] = standing_for(part, entries)
            fates.covers[part.segment.file] = tuple(sorted(one.names))
            continue
        is_small = one.deleted_row_count <= live
        is_same = all(is_built_with(part, dimensions) for part in one.parts)
        if is_same and is_small and (can_subtract or not one.deleted):
            fates.rewritten.append(RewrittenParts(one, entries))


def _sort_by_dimensions(
    fates: PartFates,
    snapshot: Snapshot,
    store: StoreVersion,
    folder: Folder,
    dimensions: Mapping[str, TableDimension],
) -> None:
    """Move kept parts to the stale ones that have rows of keys which mean other rows now."""
    changes = DimensionChanges(snapshot, folder.spec, dimensions)
    kept: list[ViewPart] = []
    for part in fates.kept:
        file = part.segment.file
        listed = fates.relabelled.get(file, part)
        fate = changes.fate_of(listed, fates.cover(store, part))
        if fate is None:
            fates.stale.append(part)
            fates.relabelled.pop(file, None)
            fates.covers.pop(file, None)
            continue
        kept.append(part)
        if fate != part:
            fates.relabelled[file] = fate
    fates.kept = kept
