"""Apply a change to the newest snapshot, or report its conflict. SPEC.md "Table", commits.

Manifests are read here; nothing is written, which is left to `commit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields

from msgspec import UNSET
from msgspec.structs import replace

from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import check_new_name
from projseg.table_layer.column_changes import NewColumns
from projseg.table_layer.commits.rebase_declarations import (
    check_entries,
    check_reads,
    conflict,
    rebased_columns,
    redeclared,
    with_layout,
    without_forgetting,
)
from projseg.table_layer.indexed_columns import indexed_column
from projseg.table_layer.metadata.change import (
    Append,
    Change,
    ChangeColumns,
    ChangeKind,
    Expire,
    ListBloomFiles,
    Overwrite,
    Replace,
    Restore,
    SetProperties,
    SetTags,
    Sync,
    added_entries,
    masked_entries,
)
from projseg.table_layer.metadata.index_declaration import DeclaredIndex, find_index
from projseg.table_layer.metadata.known_properties import check_set
from projseg.table_layer.metadata.manifest import ManifestReference
from projseg.table_layer.metadata.segment_entry import BloomReference, SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import (
    ProjectionDeclaration,
    TableProperties,
    check_projection_count,
    check_properties,
)
from projseg.table_layer.metadata.table_schema import named_schema
from projseg.table_layer.metadata.text_bounds import check_all_sizes
from projseg.table_layer.metadata.versions_and_tags import changed_tags


@dataclass(frozen=True, slots=True)
class Draft:
    """The next version, before its manifests are written.

    Manifests in `kept` stay as they are, entries go to new ones; an overwrite replaced `interval`.
    `definitions`, by hash, need not be in the base or the current version. Tags, the oldest version
    in the log (`kept_from`) and listed Bloom files without those of `entries` stay as they are if
    None.
    """

    kind: ChangeKind
    properties: TableProperties
    kept: Sequence[ManifestReference]
    entries: Sequence[SegmentEntry]
    interval: tuple[int, int] | None = None
    definitions: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, int] | None = None
    kept_from: int | None = None
    bloom_files: Sequence[BloomReference] | None = None


def rebase(change: Change, base: Snapshot, since: Sequence[Snapshot]) -> Draft:
    """Return the draft of the version after the newest, given all versions since the base."""
    current = since[-1] if since else base
    _check_table(change, base, current)
    match change:
        case Append():
            properties = rebased_columns(change.columns, base.properties, current.properties)
            draft = Draft("append", properties, current.file.manifests, change.entries)
        case Overwrite():
            draft = _overwritten(change, base, since, current)
        case ChangeColumns():
            properties = rebased_columns(change.columns, base.properties, current.properties)
            draft = replace_fields(_unchanged(current), properties=properties)
        case Replace():
            draft = _replaced(change, base, since, current)
        case Sync():
            draft = _synchronised(change, base, since, current)
        case Restore():
            draft = _restored(change, current)
        case SetTags() | Expire() | ListBloomFiles():
            draft = _retained(change, base, current)
        case SetProperties():
            check_set(change.properties)
            properties = _changed_properties(change, base.properties, current.properties)
            draft = Draft("set_properties", properties, current.file.manifests, ())
    if isinstance(change, Append | Overwrite | ChangeColumns) and change.layout is not None:
        adopted = with_layout(draft.properties, change.layout)
        draft = replace_fields(draft, properties=adopted)
    check_properties(draft.properties)
    check_all_sizes(
        f"properties of {current.storage.location}",
        current.properties.properties,
        draft.properties.properties,
    )
    declared = change.declared if isinstance(change, Overwrite | Sync) else None
    check_entries(added_entries(change), base, since, draft.properties, declared)
    return draft


def _overwritten(
    change: Overwrite, base: Snapshot, since: Sequence[Snapshot], current: Snapshot
) -> Draft:
    for snapshot in since:
        other = snapshot.file.change_interval
        if snapshot.file.change == "overwrite" and _intersect(change.interval, other):
            conflict(f"version {snapshot.version} overwrote the same time")
        replaces_all = change.declared is not None or isinstance(change.columns, NewColumns)
        if replaces_all and snapshot.file.change != "set_properties":
            conflict(f"version {snapshot.version} changed the rows of the table to be replaced")
    if change.interval is None:
        removed, kept_whole = _everything_of(base, current)
        kept, survivors = _without(current, removed, kept_whole)
    else:
        removed = _inside(base, change.interval, has_cut=change.cut is not None)
        removed |= frozenset[str]() if change.cut is None else change.cut.removed
        kept, survivors = _without(current, removed)
    if change.declared is None:
        properties = rebased_columns(change.columns, base.properties, current.properties)
    else:
        properties = redeclared(change.declared, base.properties, current.properties)
    entries = (*survivors, *added_entries(change), *masked_entries(change))
    bloom_files = None
    if change.interval is None:
        gone = {one.name for one in base.bloom_files}
        bloom_files = tuple(one for one in current.bloom_files if one.name not in gone)
    return Draft("overwrite", properties, kept, entries, change.interval, bloom_files=bloom_files)


def _relisted(change: ListBloomFiles, current: Snapshot) -> tuple[BloomReference, ...]:
    listed = {one.name: one for one in current.bloom_files}
    if not change.removed <= listed.keys():
        conflict("Bloom files to be gathered were gathered or dropped by another commit")
    kept = (one for name, one in listed.items() if name not in change.removed)
    return (*kept, *change.added)


def _retained(
    change: SetTags | Expire | ListBloomFiles, base: Snapshot, current: Snapshot
) -> Draft:
    if isinstance(change, Expire):
        kept_from = max(change.kept_from, current.kept_from)
        return replace_fields(_unchanged(current), kept_from=kept_from)
    if isinstance(change, ListBloomFiles):
        return replace_fields(_unchanged(current), bloom_files=_relisted(change, current))
    for version in change.add.values():
        _require_kept(current, version)
    tags = changed_tags(base.tags, current.tags, change.add, change.drop, current.storage.location)
    return replace_fields(_unchanged(current), tags=tags)


def _unchanged(current: Snapshot) -> Draft:
    return Draft("set_properties", current.properties, current.file.manifests, ())


def _replaced(
    change: Replace, base: Snapshot, since: Sequence[Snapshot], current: Snapshot
) -> Draft:
    for snapshot in since:
        if change.depends_on_all and snapshot.file.change != "set_properties":
            conflict(f"version {snapshot.version} changed which rows there are")
    kept, survivors = _without(current, change.removed)
    entries = (*survivors, *change.entries, *change.masked)
    properties = rebased_columns(change.columns, base.properties, current.properties)
    return Draft("replace", properties, kept, entries)


def _synchronised(
    change: Sync, base: Snapshot, since: Sequence[Snapshot], current: Snapshot
) -> Draft:
    for snapshot in since:
        if snapshot.file.change != "set_properties":
            conflict(f"version {snapshot.version} changed which files of the source are listed")
    if current.properties != base.properties:
        conflict("another commit changed what the table declares")
    if change.retaken and current.kept_from > base.kept_from:
        conflict("a vacuum may have removed segments that are to be listed again")
    kept, survivors = _without(current, change.removed)
    listed = (*survivors, *change.retaken, *change.entries)
    return Draft("overwrite", change.declared, kept, listed)


def _check_table(change: Change, base: Snapshot, current: Snapshot) -> None:
    """Refuse a change that was made for another table, or for one with rows of its own."""
    if current.properties.table_id != base.properties.table_id:
        conflict("the table was dropped and created anew")
    is_new = current.version < 0
    if isinstance(change, Append | Overwrite | ChangeColumns | Replace) and not is_new:
        refuse_foreign(current.properties, current.storage.location)


def refuse_foreign(properties: TableProperties, location: str) -> None:
    """Refuse to change rows or columns of a foreign table: PROJSEG_FOREIGN_ROWS."""
    if properties.source is not UNSET:
        raise InvalidInputError(
            "PROJSEG_FOREIGN_ROWS",
            f"the rows of {location} are those of {properties.source.location}, which is never "
            "written: change them there, and call sync(); after rows were erased there, sync() and "
            "vacuum() take their values out of the companions",
        )


def _require_kept(current: Snapshot, version: int) -> None:
    if not current.keeps(version):
        conflict(f"version {version} is no longer kept: a vacuum removes its files")


def _restored(change: Restore, current: Snapshot) -> Draft:
    _require_kept(current, change.version)
    # Whatever was committed meanwhile is replaced, as by an overwrite of the whole table.
    properties = without_forgetting(change.properties, current.properties)
    return Draft(
        "overwrite",
        properties,
        change.manifests,
        (),
        definitions=change.definitions,
        bloom_files=change.bloom_files,
    )


def _intersect(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    if one is None or other is None:
        return True
    return one[0] < other[1] and other[0] < one[1]


def _everything_of(
    base: Snapshot, current: Snapshot
) -> tuple[frozenset[str], tuple[ManifestReference, ...]]:
    """Return (segments of base manifests rewritten since, current manifests made since)."""
    before = {reference.name for reference in base.file.manifests}
    now = {reference.name for reference in current.file.manifests}
    rewritten = (reference for reference in base.file.manifests if reference.name not in now)
    removed = frozenset(name for reference in rewritten for name in base.load(reference).listed())
    newer = tuple(r for r in current.file.manifests if r.name not in before)
    return removed, newer


def _inside(base: Snapshot, interval: tuple[int, int], *, has_cut: bool) -> frozenset[str]:
    """Return the segments whose rows all lie in an interval; refuse others unless they are cut."""
    if base.properties.time_column is None:
        raise InvalidInputError(
            "PROJSEG_NO_TIME_COLUMN",
            f"table {base.storage.location} has no timeColumn, so no interval of it can be "
            "overwritten; overwrite the whole table",
        )
    found = base.segments_between(*interval)
    inside = [entry for entry in found if lies_inside(entry, interval, base.properties)]
    if len(inside) < len(found) and not has_cut:
        entry = next(entry for entry in found if entry not in inside)
        raise InvalidInputError(
            "PROJSEG_INTERVAL_NOT_ALIGNED",
            f"segment {entry.file} also holds rows outside the interval; choose one that "
            f"covers whole chunks of {base.properties.segment_granularity}, or delete first",
        )
    return frozenset(entry.listed_as for entry in inside)


def lies_inside(
    entry: SegmentEntry, interval: tuple[int, int], properties: TableProperties
) -> bool:
    """Whether each row of a segment has a time in `[start, end)`, microseconds UTC."""
    zone = named_schema(properties).zones(entry).get(properties.time_column or "")
    first, last = entry.min_time_us, entry.max_time_us
    if first is None or last is None or (zone is not None and zone.null_count > 0):
        return False
    return interval[0] <= first and last < interval[1]


def _without(
    current: Snapshot,
    removed: frozenset[str],
    references: Sequence[ManifestReference] | None = None,
) -> tuple[list[ManifestReference], list[SegmentEntry]]:
    """Return (manifests without a removed segment, what is left of the others)."""
    kept: list[ManifestReference] = []
    survivors: list[SegmentEntry] = []
    missing = set(removed)
    for reference in current.file.manifests if references is None else references:
        manifest = current.load(reference) if missing else None
        listed = () if manifest is None else manifest.listed()
        if manifest is None or missing.isdisjoint(listed):
            kept.append(reference)
            continue
        survivors += [manifest.entry(i) for i in range(len(listed)) if listed[i] not in removed]
        missing.difference_update(listed)
    if missing:
        conflict(f"segment {min(missing)} was replaced or removed by another commit")
    return kept, survivors


def _changed_properties(
    change: SetProperties, base: TableProperties, current: TableProperties
) -> TableProperties:
    declared = {projection.name: projection for projection in current.projections}
    for name in change.drop_projections:
        _check_droppable(name, base, current)
        del declared[name]
    for projection in change.add_projections:
        check_new_name("projection", projection.name)
        _check_addable(projection, base, declared)
        check_reads(projection, current)
        declared[projection.name] = projection
    indexes = _changed_indexes(change, base, current)
    for key in (*change.properties, *change.drop_properties):
        if current.properties.get(key) != base.properties.get(key):
            conflict(f"property '{key}' was changed by another commit")
    stay = {k: v for k, v in current.properties.items() if k not in change.drop_properties}
    changed = replace(
        current,
        projections=tuple(declared.values()),
        properties={**stay, **change.properties},
        indexes=indexes or UNSET,
    )
    if change.add_projections:
        check_projection_count(changed)
    return changed


def _changed_indexes(
    change: SetProperties, base: TableProperties, current: TableProperties
) -> tuple[DeclaredIndex, ...]:
    declared = {index.name.casefold(): index for index in current.declared_indexes}
    before = {index.name.casefold(): index for index in base.declared_indexes}
    for name in change.drop_indexes:
        known = find_index(base.declared_indexes, name)
        if declared.pop(known.name.casefold(), None) != known:
            conflict(f"index '{known.name}' was dropped or declared otherwise by another commit")
    for index in change.add_indexes:
        key = index.name.casefold()
        if key in before and key in declared:
            raise InvalidInputError(
                "PROJSEG_INDEX_EXISTS",
                f"index '{before[key].name}' is declared already; drop it first or choose another "
                "name",
            )
        if declared.setdefault(key, index) != index:
            conflict(f"index '{index.name}' was declared otherwise by another commit")
        for definition in index.columns:
            if indexed_column(definition, current) is None:
                conflict(f"column {definition.column} of index '{index.name}' was dropped")
    return tuple(declared.values())


def _check_droppable(name: str, base: TableProperties, current: TableProperties) -> None:
    before = next((p for p in base.projections if p.name == name), None)
    now = next((p for p in current.projections if p.name == name), None)
    if before is None:
        names = [p.name for p in base.projections]
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"projection '{name}' is not declared{did_you_mean(name, names)}; the table's "
            f"projections are {', '.join(names) or 'none'}",
        )
    if now != before:
        conflict(f"projection '{name}' was dropped or redefined by another commit")


def _check_addable(
    projection: ProjectionDeclaration,
    base: TableProperties,
    declared: dict[str, ProjectionDeclaration],
) -> None:
    other = declared.get(projection.name, projection)
    if other.definition_hash == projection.definition_hash:
        return
    if any(p.name == projection.name for p in base.projections):
        raise InvalidInputError(
            "PROJSEG_PROJECTION_EXISTS",
            f"projection '{projection.name}' is declared otherwise; drop it first or choose "
            "another name",
        )
    conflict(f"projection '{projection.name}' was declared otherwise by another commit")
