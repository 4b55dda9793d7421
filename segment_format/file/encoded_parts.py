"""The parts of a new segment file: encoded columns, parts copied from another, its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.segment_format.column_writer import (
    PackedPage,
    PartSink,
    WrittenPages,
    packed_pages,
    vector_pages,
    write_pages,
)
from projseg.segment_format.file.postings import KEY, OF_IDS, PLACE, BuiltPostings
from projseg.segment_format.footer import (
    FOREIGN_ROWS,
    GROUPS_ONLY,
    ROW_PROJECTIONS,
    ZONE_RULES,
    ColumnEntry,
    ColumnKind,
    PartEntry,
    PostingsEntry,
    Role,
    TableEntry,
    has_zone_rules,
)
from projseg.segment_format.format_limits import name_problem
from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE, IndexBlock, index_blocks
from projseg.segment_format.logical_types import type_name
from projseg.segment_format.page_directory import PAGE_DTYPE
from projseg.segment_format.vectors import Ids, Numbers, Vector

if TYPE_CHECKING:
    from projseg.segment_format.file.segment_file import SegmentFile


class EncodedColumn(NamedTuple):
    """The pages of a column, and the blocks of its bitmap index if it has one."""

    pages: Sequence[PackedPage]
    index_blocks: Sequence[IndexBlock]


def encode_column(vector: Vector, role: Role) -> EncodedColumn:
    """Encode and compress a column of a table."""
    pages = [*packed_pages(vector_pages(vector))]
    if not isinstance(vector, Ids) or role == "state":
        return EncodedColumn(pages, ())
    bytes_max = max(sum(len(page.stored) for page in pages), len(vector) // 8)
    return EncodedColumn(pages, index_blocks(vector.ids, len(vector.dictionary), bytes_max))


# Copy parts of one segment file into another as they are: no page is decoded or encoded again.
#
# A checksum says where its part belongs, so each part is proved in the old place and gets a
# checksum for the new one. So a file can be rebuilt with a projection more or less at the cost of a
# copy.


def copy_pages(
    sink: PartSink, source: SegmentFile, records: NDArray[Any], owner: str
) -> WrittenPages:
    """Copy the pages of a proved directory, PAGE_DTYPE[k]; return the directory of the copies."""
    directory = _copy(sink, source, records, owner)
    return WrittenPages(directory.astype(PAGE_DTYPE).tobytes(), int(records["stored_bytes"].sum()))


def copy_column(
    sink: PartSink, source: SegmentFile, table: str, column: ColumnEntry, dictionary: int | None
) -> tuple[ColumnEntry, int]:
    """Copy a column with its bitmap index; return the entry of the copy, and its pages' bytes."""
    key = (table, column.role, column.name)
    pages = copy_pages(sink, source, source.directory(*key).records, "/".join(key))
    blocks = _copy_index(sink, source, *key)
    copied = replace(column, dictionary=dictionary, pages=pages.directory, index_blocks=blocks)
    return copied, pages.stored_bytes


def _copy_index(sink: PartSink, source: SegmentFile, table: str, role: Role, name: str) -> bytes:
    """Copy the bitmap index of a column; return its directory, empty if there is none."""
    index = source.bitmap_index(table, role, name)
    if index is None:
        return b""
    copied = _copy(sink, source, index.records, f"bitmap index of {table}/{role}/{name}")
    return copied.astype(INDEX_BLOCK_DTYPE).tobytes()


def copy_part(
    sink: PartSink, source: SegmentFile, entry: PartEntry | None, owner: str
) -> PartEntry | None:
    """Copy one part; return where the copy lies."""
    return None if entry is None else sink.part(source.part(entry, owner))


def _copy(sink: PartSink, source: SegmentFile, records: NDArray[Any], owner: str) -> NDArray[Any]:
    """Copy the part of each record; return the records of the copies."""
    copies = np.array(records)
    for record, copy in zip(records, copies, strict=True):
        old = PartEntry(
            int(record["file_offset"]), int(record["stored_bytes"]), int(record["checksum"])
        )
        new = sink.part(source.part(old, owner))
        copy["file_offset"], copy["checksum"] = new.file_offset, new.checksum
    return copies


def write_postings(
    sink: PartSink, postings: BuiltPostings, key_dictionary: int
) -> tuple[PostingsEntry, int]:
    """Write the columns of postings; return their entry, and the bytes of their pages."""
    columns, byte_count = [], 0
    for name, vector in postings.columns.items():
        pages = write_pages(sink, encode_column(vector, "state").pages)
        byte_count += pages.stored_bytes
        type_, position = type_name(vector.type), key_dictionary if name == KEY else None
        columns.append(
            ColumnEntry("grouping", name, type_, kind_of(vector), position, pages.directory, b"")
        )
    digest, text = postings.definition.definition_hash, postings.definition.text
    table = TableEntry(digest, len(postings.places), "", "", (KEY, PLACE), tuple(columns))
    return PostingsEntry(text, digest, OF_IDS, postings.count, table), byte_count


def copy_postings(
    sink: PartSink, source: SegmentFile, entry: PostingsEntry, key_dictionary: int
) -> PostingsEntry:
    """Copy the pages of postings of another segment, and return the entry of the copy."""
    columns = []
    for column in entry.table.columns:
        records = np.frombuffer(column.pages, PAGE_DTYPE)
        pages = copy_pages(sink, source, records, f"postings {entry.definition_hash}")
        position = None if column.dictionary is None else key_dictionary
        columns.append(replace(column, dictionary=position, pages=pages.directory))
    return replace(entry, table=replace(entry.table, columns=tuple(columns)))


def kind_of(vector: Vector) -> ColumnKind:
    """Return the kind in which a column is stored."""
    if isinstance(vector, Ids):
        return "ids"
    return "numbers" if isinstance(vector, Numbers) else "opaque"


@dataclass
class OpenTable:
    """A table whose columns are being written."""

    name: str
    row_count: int
    definition: str
    definition_hash: str
    sort_order: tuple[str, ...]
    byte_count: int = 0
    columns: list[ColumnEntry] = field(default_factory=list)
    column_bytes: dict[tuple[Role, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableSummary:
    """Sizes of a table of a finished segment: pages and bitmap indexes, without dictionaries.

    `column_bytes` are the bytes of each column's pages, by (role, name).
    """

    name: str
    row_count: int
    byte_count: int
    column_bytes: dict[tuple[Role, str], int]


@dataclass(frozen=True)
class SegmentSummary:
    """What a manifest entry needs of a finished segment. `footer_checksum` is the tail's."""

    byte_count: int
    footer_checksum: int
    tables: tuple[TableSummary, ...]

    def table(self, name: str) -> TableSummary:
        """Return the summary of the table of that name."""
        return next(table for table in self.tables if table.name == name)


def required_features(
    tables: Sequence[TableEntry], *, has_fields: bool, has_foreign_rows: bool = False
) -> int:
    """Return the features that a reader of these tables must have. SPEC.md section 2.2."""
    features = ROW_PROJECTIONS if any(table.holds_rows for table in tables) else 0
    if any(has_zone_rules(table.definition) for table in tables):
        features |= ZONE_RULES
    if has_foreign_rows:
        return features | FOREIGN_ROWS
    return features if has_fields or len(tables) <= 1 else features | GROUPS_ONLY


def require_name(what: str, name: str, taken: object) -> None:
    """Refuse a name that is none, or is there already."""
    problem = name_problem(name)
    require(problem is None, f"{what} name '{name}' {problem}")
    require(name not in taken, f"{what} '{name}' is there already")  # type: ignore[operator]


def require(condition: bool, problem: str) -> None:
    """Refuse a call that would make a file no reader accepts."""
    if not condition:
        raise InvalidInputError("PROJSEG_INTERNAL", f"segment encoder: {problem}")
