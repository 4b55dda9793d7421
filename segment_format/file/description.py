"""Describe a segment file: its tables, columns and dictionaries, and the bytes of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
import numpy as np

from projseg.errors import one_line
from projseg.segment_format.encodings.encoding_table import ENCODING_NAMES
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import (
    BASE_TABLE,
    HEAD_LAYOUT,
    TAIL_LAYOUT,
    ColumnEntry,
    DictionaryEntry,
    PostingsEntry,
    TableEntry,
)
from projseg.segment_format.indexes.index_kinds import read_definition
from projseg.segment_format.page_directory import PageDirectory, directory_bytes


@dataclass(frozen=True)
class PagesDescription:
    """The pages of a column or dictionary.

    `encodings` counts pages by encoding, with "+ zstd" where compressed.
    """

    page_count: int
    stored_bytes: int
    raw_bytes: int
    encodings: dict[str, int]


@dataclass(frozen=True)
class ColumnDescription:
    """A stored column; `bitmap_bytes` is 0 where no index is stored."""

    role: str
    name: str
    type: str
    kind: str
    dictionary: str | None
    null_count: int
    pages: PagesDescription
    bitmap_bytes: int


@dataclass(frozen=True)
class DictionaryDescription:
    """A dictionary; `used_by` names (table, column) pairs."""

    name: str
    type: str
    cardinality: int
    pages: PagesDescription
    hash_bytes: int
    used_by: tuple[tuple[str, str], ...]

    @property
    def byte_count(self) -> int:
        """Bytes of values and hashes on disk."""
        return self.pages.stored_bytes + self.hash_bytes

    @property
    def bytes_saved(self) -> int:
        """Bytes that copies would take if each table that uses the dictionary had its own."""
        tables = {table for table, _ in self.used_by}
        return self.byte_count * max(0, len(tables) - 1)


@dataclass(frozen=True)
class TableDescription:
    """The base table or a projection, its dictionaries not counted."""

    name: str
    row_count: int
    definition: str
    sort_order: tuple[str, ...]
    columns: tuple[ColumnDescription, ...]

    @property
    def byte_count(self) -> int:
        """Bytes of pages and bitmap indexes on disk."""
        return sum(column.pages.stored_bytes + column.bitmap_bytes for column in self.columns)


@dataclass(frozen=True)
class PostingsDescription:
    """Which values of a base column hold a key; `key_count` counts keys without rows too.

    `byte_count` are the bytes of the two columns; the keys are a dictionary of that name.
    """

    kind: str
    column: str
    key_count: int
    row_count: int
    byte_count: int
    dictionary: str


@dataclass(frozen=True)
class SegmentDescription:
    """A whole segment file; the first of `tables` is the base table."""

    path: str
    byte_count: int
    format_version: int
    writer: str
    file_id: str
    frame_bytes: int
    extra_bytes: int
    dictionaries: tuple[DictionaryDescription, ...]
    tables: tuple[TableDescription, ...]
    not_built: tuple[tuple[str, str], ...]
    postings: tuple[PostingsDescription, ...] = ()

    @property
    def projections(self) -> tuple[TableDescription, ...]:
        """The tables beside the base table."""
        return tuple(table for table in self.tables if table.name != BASE_TABLE)

    @property
    def bytes_saved_by_sharing(self) -> int:
        """Bytes saved by sharing dictionaries between tables."""
        return sum(dictionary.bytes_saved for dictionary in self.dictionaries)

    @property
    def bytes_by_purpose(self) -> dict[str, int]:
        """Bytes by purpose; together with padding they make up the file."""
        columns = [column for table in self.tables for column in table.columns]
        known = {
            "head, footer and tail": self.frame_bytes,
            "dictionary values": sum(d.pages.stored_bytes for d in self.dictionaries),
            "value hashes": sum(d.hash_bytes for d in self.dictionaries),
            "pages of the base table": sum(
                column.pages.stored_bytes for column in self.tables[0].columns
            ),
            "pages of projections": sum(
                column.pages.stored_bytes for table in self.projections for column in table.columns
            ),
            "bitmap indexes": sum(column.bitmap_bytes for column in columns),
            "other parts": self.extra_bytes,
        }
        if self.postings:
            known["pages of postings"] = sum(one.byte_count for one in self.postings)
        return known | {"padding": self.byte_count - sum(known.values())}


def describe(segment: SegmentFile) -> SegmentDescription:
    """Return the description of an open segment; reads nothing but its directory."""
    footer, tail = segment.footer, segment.tail
    return SegmentDescription(
        path=segment.path,
        byte_count=tail.footer_offset + tail.footer_bytes + TAIL_LAYOUT.size,
        format_version=tail.format_version,
        writer=one_line(footer.writer),
        file_id=footer.file_id.hex(),
        frame_bytes=HEAD_LAYOUT.size + tail.footer_bytes + TAIL_LAYOUT.size,
        extra_bytes=sum(extra.section.byte_count for extra in footer.extra_sections),
        dictionaries=tuple(_dictionary(segment, entry) for entry in footer.dictionaries),
        tables=tuple(_table(segment, table) for table in footer.tables),
        not_built=tuple((one_line(e.name), one_line(e.reason)) for e in footer.not_built),
        postings=tuple(_postings(segment, entry) for entry in footer.postings),
    )


def _postings(segment: SegmentFile, entry: PostingsEntry) -> PostingsDescription:
    """Return the claims of postings about themselves, which are not proved."""
    try:
        definition = read_definition(entry.definition)
        kind, column = definition.kind, definition.column_name
    except (ValueError, msgspec.MsgspecError):
        kind, column = "unknown", one_line(entry.definition[:80])
    positions = {one.dictionary for one in entry.table.columns}
    keys = [one for n, one in enumerate(segment.footer.dictionaries) if n in positions]
    return PostingsDescription(
        kind=kind,
        column=column,
        key_count=sum(one.cardinality for one in keys),
        row_count=entry.table.row_count,
        byte_count=sum(directory_bytes(one.pages) for one in entry.table.columns),
        dictionary=", ".join(one.name for one in keys),
    )


def _pages(directory: PageDirectory) -> PagesDescription:
    records = directory.records
    names = Counter(
        ENCODING_NAMES.get(encoding, f"unknown {encoding}") + (" + zstd" if compression else "")
        for encoding, compression in zip(
            records["encoding"].tolist(), records["compression"].tolist(), strict=True
        )
    )
    return PagesDescription(
        page_count=len(directory),
        stored_bytes=directory.stored_bytes,
        raw_bytes=int(records["raw_bytes"].sum(dtype=np.int64)),
        encodings=dict(names.most_common()),
    )


def _dictionary(segment: SegmentFile, entry: DictionaryEntry) -> DictionaryDescription:
    used_by = tuple(
        (table.name, column.name)
        for table in segment.tables
        for column in table.columns
        if column.dictionary is not None
        and segment.footer.dictionaries[column.dictionary].name == entry.name
    )
    return DictionaryDescription(
        name=entry.name,
        type=entry.type,
        cardinality=entry.cardinality,
        pages=_pages(segment.dictionary_directory(entry)),
        hash_bytes=0 if entry.hashes is None else entry.hashes.byte_count,
        used_by=used_by,
    )


def _table(segment: SegmentFile, table: TableEntry) -> TableDescription:
    return TableDescription(
        name=table.name,
        row_count=table.row_count,
        definition=table.definition,
        sort_order=table.sort_order,
        columns=tuple(_column(segment, table, column) for column in table.columns),
    )


def _column(segment: SegmentFile, table: TableEntry, column: ColumnEntry) -> ColumnDescription:
    directory = segment.directory(table.name, column.role, column.name)
    index = segment.bitmap_index(table.name, column.role, column.name)
    names = [entry.name for entry in segment.footer.dictionaries]
    return ColumnDescription(
        role=column.role,
        name=column.name,
        type=column.type,
        kind=column.kind,
        dictionary=None if column.dictionary is None else names[column.dictionary],
        null_count=int(directory.records["null_count"].sum(dtype=np.int64)),
        pages=_pages(directory),
        bitmap_bytes=0 if index is None else index.stored_bytes,
    )
