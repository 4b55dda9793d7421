"""Check one listed segment: the table's claims against the file, and the file against its rows.

What a reader trusts, and where it is verified:

| fact | by |
|---|---|
| size, footer checksum | `listed_ending` |
| parts, padding, page zones, nulls, ids, dictionaries, hashes, bitmaps | `SegmentFile.verify` |
| rows, columns, types, projections and what was not built | `footer_mismatches` |
| sizes by which plans are costed, the time chunk | `size_mismatches`, `chunk_mismatches` |
| zones, smallest and largest time, null counts, NaN (deep) | `column_mismatches` |
| deleted rows | `read_deleted_rows` |
| order of rows (deep) | `order_mismatches` |
| projections: definition, columns, groups, states (deep) | `verify_projection` |
"""

from __future__ import annotations

from collections.abc import Iterator

from projseg.maintenance.verification.findings import Finding, findings
from projseg.maintenance.verification.verify_columns import column_mismatches, order_mismatches
from projseg.maintenance.verification.verify_projections import verify_projection
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.file.verify_file import verify_segment
from projseg.segment_format.indexes.bitmap_index import BitmapIndex
from projseg.segment_format.layout.byte_reader import padding
from projseg.segment_format.layout.footer import BASE_TABLE, ColumnEntry, TableEntry
from projseg.table_layer.commits.verify_entries import listed_ending
from projseg.table_layer.metadata.deleted_rows import read_deleted_rows
from projseg.table_layer.metadata.footer_match import Mismatch, footer_mismatches
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import in_stored_names, stored_schema


def verify_listed_segment(
    snapshot: Snapshot, entry: SegmentEntry, *, deep: bool
) -> Iterator[Finding]:
    """Yield what is wrong with one segment; its file is opened anew and read past every cache."""
    opened: list[SegmentFile] = []

    def against_listing() -> Iterator[Mismatch]:
        listed_ending(snapshot.storage, entry)
        segment = _opened(snapshot, entry)
        opened.append(segment)
        yield from footer_mismatches(entry, segment, stored_schema(snapshot.properties))
        yield from chunk_mismatches(entry, snapshot.properties)
        yield from size_mismatches(entry, segment)

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
    for table in segment.tables[1:]:
        yield from findings(entry.file, verify_projection(segment, table, schema))


def chunk_mismatches(entry: SegmentEntry, properties: TableProperties) -> Iterator[Mismatch]:
    """Yield a time chunk of a table without time; that it holds the rows is checked of each entry.

    Segments differ in granularity: a table adopts another one, and a write may choose its own.
    """
    if properties.time_column is None and entry.interval is not None:
        yield Mismatch("interval of a segment without time", None, entry.interval)


def size_mismatches(entry: SegmentEntry, segment: SegmentFile) -> Iterator[Mismatch]:
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
