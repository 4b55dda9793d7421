"""Compare a segment's entry in a manifest with the segment's own footer.

Planning trusts the manifest and opens no file. A reader that opens the file compares the two first:
a row or column that only one of them knows would make a wrong answer. SPEC.md "Table", manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.errors import CorruptTableError
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import Footer, Role, TableEntry
from projseg.segment_format.footer_checks import ENDING_BYTES
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.commits.verify_entries import listed_ending, read_listed
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.paths import VIEWS
from projseg.table_layer.storage.storage_contract import Storage


class Mismatch(NamedTuple):
    """One thing on which the table and a segment's file disagree."""

    what: str
    expected: object
    found: object

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


def footer_mismatches(
    entry: SegmentEntry, segment: SegmentFile, schema: TableSchema
) -> Iterator[Mismatch]:
    """Yield where an entry, or the table's schema, contradicts the footer of the entry's file.

    The schema may have columns that were added after the segment was written.
    """
    counts = [table.row_count for table in segment.tables]
    yield from listing_mismatches(entry, segment.footer, counts)
    yield from type_mismatches(segment.footer, schema)


def listing_mismatches(
    entry: SegmentEntry, footer: Footer, row_counts: Sequence[int]
) -> Iterator[Mismatch]:
    """Yield where an entry contradicts a file's footer; `row_counts` are the rows of its tables."""
    projections = footer.tables[1:]
    fields = footer.field_names
    is_part = entry.file.startswith(VIEWS)  # whose rows and columns are those of other segments
    if is_part and (fields or not projections):
        yield Mismatch("tables", "one of groups", [table.name for table in footer.tables])
    if not is_part and entry.row_count != row_counts[0]:
        yield Mismatch("rows", entry.row_count, row_counts[0])
    if entry.foreign is not None and fields:
        yield Mismatch("columns", "none, as the rows are in another file", sorted(fields))
    if not is_part and entry.foreign is None and entry.columns.keys() != fields:
        yield Mismatch("columns", sorted(entry.columns), sorted(fields))
    listed = [(p.name, p.definition_hash, p.row_count) for p in entry.projections]
    counted = zip(projections, row_counts[1:], strict=True)
    stored = [(table.name, table.definition_hash, count) for table, count in counted]
    if listed != stored:
        yield Mismatch("projections (name, definition hash, rows)", listed, stored)
    not_built = tuple((n.name, n.definition_hash, n.reason) for n in footer.not_built)
    if entry.not_built != not_built:
        yield Mismatch("projections not built", entry.not_built, not_built)


def type_mismatches(footer: Footer, schema: TableSchema) -> Iterator[Mismatch]:
    """Yield which columns of a footer have another type than the table wrote."""
    for field in footer.fields:
        wanted = schema.stored_types.get(field.name, field.type)
        if field.type != wanted:
            yield Mismatch(f"type of column '{field.name}'", wanted, field.type)


def projection_mismatches(spec: ProjectionSpec, table: TableEntry) -> Iterator[Mismatch]:
    """Yield where a stored projection differs from a definition in hash, columns or types."""
    if table.definition_hash != spec.definition_hash:
        yield Mismatch("definition hash", spec.definition_hash, table.definition_hash)
    expected = stored_types(spec)
    found = {(column.role, column.name): column.type for column in table.columns}
    if found != expected:
        yield Mismatch("columns", _types_text(expected), _types_text(found))
    if spec.holds_rows and table.sort_order != spec.stored_order:
        yield Mismatch("order of rows", spec.stored_order, table.sort_order)


def stored_types(spec: ProjectionSpec) -> dict[tuple[Role, str], str]:
    """Return the type of each column that a projection stores, by role and name."""
    columns = [stored_column(named.expression) for named in spec.grouping]
    types: dict[tuple[Role, str], str] = {
        ("grouping", column.name): type_name(column.type) for column in columns
    }
    for name, arrow_type in spec.state_columns:
        types["state", name] = type_name(arrow_type)
    return types


def require_match(mismatches: Iterator[Mismatch], path: str) -> None:
    """Refuse a segment that is not what the table lists."""
    for mismatch in mismatches:
        raise CorruptTableError(
            "PROJSEG_SEGMENT_DIFFERS",
            f"{path} is not what the table lists: {mismatch}; restore the file, or the table's "
            "metadata, from a copy",
        )


def _types_text(types: Mapping[tuple[Role, str], str]) -> list[str]:
    return sorted(f"{role} {name} {type_text}" for (role, name), type_text in types.items())


def open_uncached(storage: Storage, entry: SegmentEntry, ending: bytes = b"") -> SegmentFile:
    """Return a listed segment, its footer read anew, or taken from the file's ending."""

    def read_range(offset: int, size: int) -> bytes:
        return read_listed(storage, entry, offset, size)

    path = f"{storage.location}/{entry.file}"
    return SegmentFile.open(read_range, entry.byte_count, path=path, ending=ending)


def open_checked(storage: Storage, entry: SegmentEntry, schema: TableSchema) -> SegmentFile:
    """Return a listed segment, once its file is known to be what the table lists."""
    segment = open_uncached(storage, entry, listed_ending(storage, entry, ENDING_BYTES))
    require_match(footer_mismatches(entry, segment, schema), segment.path)
    return segment
