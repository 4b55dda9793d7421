"""Copy parts of one segment file into another as they are: no page is decoded or encoded again.

A checksum says where its part belongs, so each part is proved in the old place and gets a checksum
for the new one. So a file can be rebuilt with a projection more or less at the cost of a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from projseg.segment_format.indexes.bitmap_index import INDEX_BLOCK_DTYPE
from projseg.segment_format.layout.footer import PartEntry, Role
from projseg.segment_format.layout.page_directory import PAGE_DTYPE
from projseg.segment_format.pages.column_writer import PartSink, WrittenPages

if TYPE_CHECKING:
    from projseg.segment_format.file.segment_file import SegmentFile


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
