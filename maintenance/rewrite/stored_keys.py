"""The keys of a stored column, for filters of segments that are there already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.errors import CorruptionError, ProjsegError, StorageError
from projseg.kernels.sorting import distinct
from projseg.maintenance.rewrite.uncached_segment import UncachedColumns
from projseg.segment_format.dictionary_pages import NULL_HASH
from projseg.segment_format.file.postings import NO_DICTIONARY, postings_bytes
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE
from projseg.segment_format.indexes.bloom_file import SegmentFilter
from projseg.segment_format.indexes.index_kinds import KINDS, same_hashes
from projseg.segment_format.logical_types import parse_type_name
from projseg.table_layer.coverage import FAILED
from projseg.table_layer.indexed_columns import WantedFilter
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.writer.segment_filters import SegmentKeys, segment_filter, segment_keys


def stored_filter(
    entry: SegmentEntry, segment: SegmentFile, schema: TableSchema, wanted: WantedFilter
) -> SegmentFilter:
    """Return the filter of a segment that is stored already.

    Where values are keys, only the value hashes of a column of ids are read.

    Parameters
    ----------
    entry : SegmentEntry
        How the segment is listed, or is to be.
    segment : SegmentFile
        The open file.
    schema : TableSchema
        What segments may hold, under stored names.
    wanted : WantedFilter
        What is made.

    Raises
    ------
    CorruptionError, StorageError
        If the segment cannot be read.
    """
    postings = stored_postings_bytes(segment, wanted)
    try:
        keys = _stored_keys(segment, schema, wanted)
    except (CorruptionError, StorageError):
        raise
    except (ProjsegError, ArithmeticError, ValueError) as error:
        return SegmentFilter(entry.file, 0, f"{FAILED}{error}", None, postings)
    return segment_filter(entry, keys, wanted, postings)


def stored_postings_bytes(segment: SegmentFile, wanted: WantedFilter) -> int | str | None:
    """Return the bytes of a segment's postings, or why it has none; None if it might have some."""
    definition = wanted.definition
    if not definition.postings:
        return None
    digest = definition.definition_hash
    for entry in segment.footer.postings:
        if entry.definition_hash == digest:
            return postings_bytes(segment, entry)
    name = definition.column_name
    is_there = segment.has_column(BASE_TABLE, "base", name)
    if is_there and segment.column_entry(BASE_TABLE, "base", name).dictionary is not None:
        return None
    return NO_DICTIONARY


def column_keys(segment: SegmentFile, schema: TableSchema, wanted: WantedFilter) -> SegmentKeys:
    """Return the keys of a stored column with the postings that its segment is to hold.

    Raises
    ------
    CorruptionError, StorageError
        If the segment cannot be read.
    """
    base = UncachedColumns(segment, BASE_TABLE, schema)
    return segment_keys(wanted, base.read("base", wanted.column))


def _stored_keys(
    segment: SegmentFile, schema: TableSchema, wanted: WantedFilter
) -> NDArray[np.uint64]:
    forms = schema.forms.get(wanted.column)
    names = [wanted.column] if forms is None else [form.name for form in reversed(forms)]
    present = next((name for name in names if segment.has_column(BASE_TABLE, "base", name)), None)
    if present is None:
        return np.empty(0, np.uint64)
    entry, kind = segment.column_entry(BASE_TABLE, "base", present), KINDS[wanted.definition.kind]
    type_ = parse_type_name(wanted.definition.type)
    is_same = same_hashes(parse_type_name(entry.type), type_)
    if kind.are_values and is_same and entry.dictionary is not None:
        hashes = segment.stored_hashes(segment.footer.dictionaries[entry.dictionary])
        if hashes is not None:
            return distinct(hashes[hashes != NULL_HASH])  # which no value has: coupons are above 0
    base = UncachedColumns(segment, BASE_TABLE, schema)
    return kind.keys(base.read("base", wanted.column))
