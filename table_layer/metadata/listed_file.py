"""Open the files of listed segments past every cache, and prove that they are what is listed."""

from __future__ import annotations

from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.layout.footer_checks import ENDING_BYTES
from projseg.table_layer.commits.verify_entries import listed_ending, read_listed
from projseg.table_layer.metadata.footer_match import footer_mismatches, require_match
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.locate_storage import Storage


def open_uncached(storage: Storage, entry: SegmentEntry, ending: bytes = b"") -> SegmentFile:
    """Return a listed segment, its footer read anew, or taken from the file's ending."""

    def read_range(offset: int, size: int) -> bytes:
        return read_listed(storage, entry, offset, size)

    path = f"{storage.location}/{entry.file}"
    return SegmentFile.open(read_range, entry.byte_count, path=path, ending=ending)


def open_checked(storage: Storage, entry: SegmentEntry, schema: TableSchema) -> SegmentFile:
    """Return a listed segment, once its file is known to be what the table lists.

    Raises
    ------
    CorruptionError
        If the file is missing, damaged, or another one.
    """
    segment = open_uncached(storage, entry, listed_ending(storage, entry, ENDING_BYTES))
    require_match(footer_mismatches(entry, segment, schema), segment.path)
    return segment
