"""Check table versions, past every cache: everything a reader trusts, file by file.

Snapshot, manifests and segments are read from the storage again. Memory is that of one manifest, a
batch of rows of one segment, its dictionaries, and the groups of one projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import xxhash
from msgspec.structs import replace

from projseg.errors import StorageError, require_callable
from projseg.maintenance.findings import (
    Finding,
    definition_mismatches,
    findings,
    read_manifest,
    reference_mismatches,
)
from projseg.maintenance.verify_base_table import (
    bloom_mismatches,
    column_mismatches,
    order_mismatches,
    postings_mismatches,
)
from projseg.maintenance.verify_projections import verify_projection
from projseg.segment_format.byte_reader import padding
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.footer import BASE_TABLE, ColumnEntry, TableEntry
from projseg.segment_format.indexes.bitmap_index import BitmapIndex
from projseg.table_layer.commits.footer_match import Mismatch, footer_mismatches
from projseg.table_layer.commits.verify_entries import listed_ending
from projseg.table_layer.foreign.foreign_segment import ForeignSegment, open_foreign
from projseg.table_layer.metadata.deleted_rows import read_deleted_rows
from projseg.table_layer.metadata.manifest import ManifestReference
from projseg.table_layer.metadata.segment_entry import BloomReference, SegmentEntry, encode_entry
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import in_stored_names, stored_schema
from projseg.table_layer.storage.paths import kept_name, snapshot_name
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.column_vectors import column_zone

# Check one listed segment: the table's claims against the file, and the file against its rows.
#
# What a reader trusts, and where it is verified:
#
# | fact | by | |---|---| | size, footer checksum | `listed_ending` | | parts, padding, page zones,
# nulls, ids, dictionaries, hashes, bitmaps | `SegmentFile.verify` | | rows, columns, types,
# projections and what was not built | `footer_mismatches` | | sizes by which plans are costed, the
# time chunk | `_size_mismatches`, `_chunk_mismatches` | | zones, smallest and largest time, null
# counts, NaN (deep) | `column_mismatches` | | deleted rows | `read_deleted_rows` | | order of rows
# (deep) | `order_mismatches` | | projections: definition, columns, groups, states (deep) |
# `verify_projection` |


def _verify_listed_segment(
    snapshot: Snapshot, entry: SegmentEntry, *, deep: bool
) -> Iterator[Finding]:
    """Yield the mismatches of one segment; its file is opened anew and read past every cache."""
    opened: list[SegmentFile] = []

    def against_listing() -> Iterator[Mismatch]:
        listed_ending(snapshot.storage, entry)
        segment = _opened(snapshot, entry)
        opened.append(segment)
        yield from footer_mismatches(entry, segment, stored_schema(snapshot.properties))
        yield from _chunk_mismatches(entry, snapshot.properties)
        yield from _size_mismatches(entry, segment)

    yield from findings(entry.file, against_listing())
    if entry.deletion_vector is not None:
        yield from findings(entry.deletion_vector.file, _deleted_rows(snapshot, entry))
    if not opened:
        return
    (segment,) = opened
    problems = list(findings(entry.file, _structure(segment)))
    yield from problems
    if deep and not problems:
        yield from _against_rows(snapshot, entry, segment)


def _deleted_rows(snapshot: Snapshot, entry: SegmentEntry) -> Iterator[Mismatch]:
    read_deleted_rows(snapshot.storage, entry)
    yield from ()


def _opened(snapshot: Snapshot, entry: SegmentEntry) -> SegmentFile:
    storage = snapshot.storage

    def read_range(offset: int, size: int) -> bytes:
        return storage.read_range(entry.file, offset, size)

    path = f"{storage.location}/{entry.file}"
    return SegmentFile.open(read_range, entry.byte_count, path=path)


def _structure(segment: SegmentFile) -> Iterator[Mismatch]:
    verify_segment(segment)
    yield from ()


def _against_rows(
    snapshot: Snapshot, entry: SegmentEntry, segment: SegmentFile
) -> Iterator[Finding]:
    properties, schema = snapshot.properties, stored_schema(snapshot.properties)
    time_column = in_stored_names(properties).time_column
    yield from findings(entry.file, column_mismatches(entry, segment, time_column))
    yield from findings(entry.file, order_mismatches(segment))
    yield from findings(entry.file, postings_mismatches(segment))
    opened: list[ForeignSegment] = []
    if entry.foreign is not None:
        yield from findings(entry.foreign.path, _foreign_columns(snapshot, entry, opened))
        if not opened:
            return
    foreign = opened[0] if opened else None
    for table in segment.tables[1:]:
        yield from findings(entry.file, verify_projection(segment, table, schema, foreign))


def _foreign_columns(
    snapshot: Snapshot, entry: SegmentEntry, opened: list[ForeignSegment]
) -> Iterator[Mismatch]:
    """Yield where an entry's zones are not those of the rows in a foreign file.

    `opened` takes these rows once they can be read.
    """
    schema = stored_schema(snapshot.properties)
    try:
        foreign = open_foreign(snapshot.storage, entry, schema)
        for name, stated in entry.columns.items():
            found = column_zone(foreign.column(BASE_TABLE, "base", name), stated.bytes)
            if stated != found:
                yield Mismatch(f"zone of column '{name}'", stated, found)
    except StorageError as error:
        # The source may change its files at any time; nothing can be compared with them then.
        if error.code not in ("PROJSEG_SOURCE_GONE", "PROJSEG_SOURCE_CHANGED"):
            raise
    else:
        opened.append(foreign)


def _chunk_mismatches(entry: SegmentEntry, properties: TableProperties) -> Iterator[Mismatch]:
    """Yield a time chunk of a table without time; that it holds the rows is checked of each entry.

    Segments differ in granularity: a table adopts another one, and a write may choose its own.
    """
    if properties.time_column is None and entry.interval is not None:
        yield Mismatch("interval of a segment without time", None, entry.interval)


def _size_mismatches(entry: SegmentEntry, segment: SegmentFile) -> Iterator[Mismatch]:
    """Yield stored sizes that differ from those in the file's directories."""
    base, *projections = segment.tables
    for column in base.columns:
        zone = entry.columns.get(column.name)
        stored = segment.column_bytes(BASE_TABLE, column.role, column.name)
        if zone is not None and zone.bytes != stored:
            yield Mismatch(f"bytes of column '{column.name}'", zone.bytes, stored)
    listed = {projection.name: projection for projection in entry.projections}
    for table in projections:
        stated = listed.get(table.name)
        if stated is None:
            continue
        sizes = {c.name: segment.column_bytes(table.name, c.role, c.name) for c in table.columns}
        if stated.column_bytes != sizes:
            yield Mismatch(
                f"bytes of projection '{table.name}' by column", stated.column_bytes, sizes
            )
        total = sum(sizes.values()) + sum(_index_bytes(segment, table, c) for c in table.columns)
        if stated.byte_count != total:
            yield Mismatch(f"bytes of projection '{table.name}'", stated.byte_count, total)


def _index_bytes(segment: SegmentFile, table: TableEntry, column: ColumnEntry) -> int:
    index: BitmapIndex | None = segment.bitmap_index(table.name, column.role, column.name)
    if index is None:
        return 0
    return sum(size + padding(size) for size in index.records["stored_bytes"].tolist())


OnSegment = Callable[[SegmentEntry], object]


def verify_table(
    storage: Storage,
    snapshot: Snapshot,
    *,
    deep: bool = False,
    on_segment: OnSegment | None = None,
) -> list[Finding]:
    """Check everything that a version says; its file is read again.

    With `deep`, also compare zones and order with the rows, and each projection with its
    recomputation.
    """
    verification = _Verification(storage, deep, on_segment)
    verification.verify(snapshot.version, opened=snapshot)
    return verification.found


def verify_kept_versions(
    storage: Storage,
    newest: Snapshot,
    *,
    deep: bool = False,
    on_segment: OnSegment | None = None,
) -> list[Finding]:
    """Check what every version says that retention or a tag keeps; each file is read once."""
    verification = _Verification(storage, deep, on_segment, newest.kept_from)
    for version in kept_version_numbers(newest):
        verification.verify(version, opened=newest if version == newest.version else None)
    return verification.found


def kept_version_numbers(newest: Snapshot) -> list[int]:
    """Return the versions that can be read, as the newest one knows, itself first."""
    kept = {*range(newest.kept_from, newest.version + 1), *newest.tags.values()}
    return sorted(kept, reverse=True)


class _Verification:
    """Versions of one table; manifests and segments that they share are read once."""

    def __init__(
        self, storage: Storage, deep: bool, on_segment: OnSegment | None, kept_from: int = 0
    ) -> None:
        require_callable("on_segment", on_segment)
        self.found: list[Finding] = []
        self._storage, self._deep, self._on_segment = storage, deep, on_segment
        self._kept_from = kept_from
        self._references: set[ManifestReference] = set()
        self._entries: set[bytes] = set()
        self._bloom_files: set[BloomReference] = set()

    def verify(self, version: int, opened: Snapshot | None) -> None:
        """Check a version; its file is read again."""
        fresh = self._read_again(version, opened)
        if fresh is None:
            return
        listed: dict[str, SegmentEntry] = {}
        for reference in fresh.file.manifests:
            for entry in self._entries_of(fresh, reference):
                if entry.file in listed:
                    mismatch = Finding(entry.file, "times that the version lists it", "1", "2")
                    self.found.append(mismatch)
                listed[entry.file] = entry
                self._verify_segment(fresh, entry)
        for one in fresh.bloom_files:
            if one not in self._bloom_files:
                self._bloom_files.add(one)
                wrong = bloom_mismatches(fresh, one, listed if self._deep else None)
                self.found += findings(one.name, wrong)

    def _verify_segment(self, snapshot: Snapshot, entry: SegmentEntry) -> None:
        key = xxhash.xxh3_128_digest(encode_entry(entry))
        if key in self._entries:
            return
        self._entries.add(key)
        self.found += _verify_listed_segment(snapshot, entry, deep=self._deep)
        if self._on_segment is not None:
            self._on_segment(entry)

    def _read_again(self, version: int, opened: Snapshot | None) -> Snapshot | None:
        """Return the version as its file has it; add what is wrong with it to `found`."""
        read: list[Snapshot] = []

        def check() -> Iterator[Mismatch]:
            fresh = read_version(self._storage, version)
            if fresh is None:
                yield Mismatch("file", "there", "missing")
                return
            read.append(fresh)
            # A snapshot that this process committed does not hold the checksum of its own file.
            if opened is not None and fresh.file != replace(
                opened.file, checksum=fresh.file.checksum
            ):
                other = "something else: open the table again"
                yield Mismatch("content", "what was opened", other)
            yield from definition_mismatches(fresh)

        is_logged = opened is not None or version >= self._kept_from
        name = snapshot_name(version) if is_logged else kept_name(version)
        self.found += findings(name, check())
        return read[0] if read else None

    def _entries_of(
        self, snapshot: Snapshot, reference: ManifestReference
    ) -> Sequence[SegmentEntry]:
        """Return a manifest's entries; add what is wrong with it to `found`."""
        entries: list[SegmentEntry] = []

        def check() -> Iterator[Mismatch]:
            unknown = sorted(set(reference.definition_hashes) - snapshot.definitions.keys())
            if reference in self._references:
                if unknown:
                    yield Mismatch("definitions in the snapshot", unknown, "none of these")
                return
            self._references.add(reference)
            manifest = read_manifest(snapshot.storage, reference)
            entries.extend(manifest.entry(index) for index in range(len(manifest)))
            yield from reference_mismatches(snapshot, reference, entries)

        self.found += findings(reference.name, check())
        return entries
