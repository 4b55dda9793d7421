"""Companions of kept versions that stand for files which a source lists again, as after a rollback.

They are found by the files' identities; nothing of a file is read but its footer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import UNSET

from projseg.maintenance.source_columns import ReadFile
from projseg.table_layer.foreign.source_state import present_columns
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.stored_columns import Forms
from projseg.table_layer.metadata.table_properties import TableProperties

_VERSIONS_MAX: Final = 32
"""Versions that are looked at, the newest first."""

_Identity = tuple[str, int, str]


def retaken_companions(
    snapshot: Snapshot, read: Sequence[ReadFile], properties: TableProperties
) -> dict[_Identity, tuple[SegmentEntry, ...]]:
    """Return companions of kept versions that are what new ones would be, by their files.

    Bloom filters of former versions are listed no more, so a table with indexes has new ones made.
    `properties` is what the table is to declare.
    """
    found: dict[_Identity, tuple[SegmentEntry, ...]] = {}
    wanted = {file.identity: (file, footer) for file, footer in read}
    if properties.declared_indexes:
        return found
    for entries in _entries_of_versions(snapshot, wanted):
        for identity, several in entries.items():
            if identity not in found and _stand_for(several, wanted[identity], properties):
                is_there = all(_has_file(snapshot, entry) for entry in several)
                found |= {identity: tuple(several)} if is_there else {}
        if len(found) == len(wanted):
            break
    return found


def _entries_of_versions(
    snapshot: Snapshot, wanted: Mapping[_Identity, ReadFile]
) -> Iterator[dict[_Identity, list[SegmentEntry]]]:
    """Yield the companions of wanted files in each former version that is kept."""
    oldest = max(snapshot.kept_from, snapshot.version - _VERSIONS_MAX)
    known = {reference.name for reference in snapshot.file.manifests}
    for version in range(snapshot.version - 1, oldest - 1, -1):
        former = read_version(snapshot.storage, version)
        if former is None or former.properties.table_id != snapshot.properties.table_id:
            return
        entries: dict[_Identity, list[SegmentEntry]] = defaultdict(list)
        for reference in former.file.manifests:
            if reference.name in known:
                continue
            manifest = former.load(reference)
            for place, foreign in enumerate(manifest.foreign_files()):
                if foreign.identity in wanted:
                    entries[foreign.identity].append(manifest.entry(place))
        yield entries


def _stand_for(
    entries: Sequence[SegmentEntry], wanted: ReadFile, properties: TableProperties
) -> bool:
    """Whether companions are of all rows of a file, and have all columns and projections of it."""
    file, footer = wanted
    runs = sorted(entry.foreign.row_groups for entry in entries if entry.foreign is not None)
    starts, ends = [start for start, _ in runs], [end for _, end in runs]
    if [*starts, len(footer.row_counts)] != [0, *ends]:
        return False
    stored = properties.stored_columns
    forms = [(c,) for c in properties.columns] if stored is UNSET else stored.columns
    present = present_columns(properties, file, footer)
    columns = [names for names in forms if names[-1].name in present]
    hashes = {declared.definition_hash for declared in properties.projections}
    names = None if file.names is None else dict(file.names)
    return all(
        entry.has_file
        and entry.foreign is not None
        and entry.foreign.footer_digest == footer.digest
        and entry.definition_hashes == hashes
        and _has_columns(entry, columns)
        and _is_named_so(entry.foreign.names, names)
        for entry in entries
    )


def _has_columns(entry: SegmentEntry, columns: Sequence[Forms]) -> bool:
    return all(any(form.name in entry.columns for form in forms) for forms in columns)


def _is_named_so(before: Mapping[str, str] | None, now: Mapping[str, str] | None) -> bool:
    if before is None or now is None:
        return before is now
    return all(before.get(stored, name) == name for stored, name in now.items())


def _has_file(snapshot: Snapshot, entry: SegmentEntry) -> bool:
    with suppress(FileNotFoundError):
        return snapshot.storage.size(entry.file) == entry.byte_count
    return False
