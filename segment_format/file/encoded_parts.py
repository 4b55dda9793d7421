"""The parts of a new segment file: encoded columns, parts copied from another, its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.indexes.bitmap_writer import IndexBlock, index_blocks
from projseg.segment_format.layout.footer import PartEntry, Role
from projseg.segment_format.layout.page_directory import PAGE_DTYPE
from projseg.segment_format.pages.column_writer import (
    PackedPage,
    PartSink,
    WrittenPages,
    packed_pages,
    vector_pages,
)
from projseg.segment_format.vectors.vectors import Ids, Vector

if TYPE_CHECKING:
    from projseg.segment_format.file.segment_file import SegmentFile


class EncodedColumn(NamedTuple):
    """The pages of a column, and the blocks of its bitmap index if it has one."""

    pages: Sequence[PackedPage]
    index_blocks: Sequence[IndexBlock]


def encode_column(vector: Vector, role: Role) -> EncodedColumn:
    """Encode and compress a column of a table.

    Raises
    ------
    LimitExceededError
        If a value or a page is too large.
    """
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


def copy_index(sink: PartSink, source: SegmentFile, table: str, role: Role, name: str) -> bytes:
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
