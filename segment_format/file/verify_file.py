"""Read all of a segment and prove every claim it makes, down to the padding.

Queries prove what keeps them safe (checksums, bounds, ids, order). This proves the rest: that the
head belongs to the footer, that parts cover the file without gap or overlap, that zone maps, hashes
and bitmap indexes say what the values say. SPEC.md section 10.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.roaring_check import BitmapCheck
from projseg.segment_format.arrow_arrays import WIDE
from projseg.segment_format.byte_reader import corrupt, padding
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import dictionary_hashes
from projseg.segment_format.file.postings import OF_IDS, StoredPostings, postings_directory
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import (
    HEAD_LAYOUT,
    POSTINGS,
    ColumnEntry,
    PartEntry,
    PostingsEntry,
    TableEntry,
    check_head,
)
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_decoder import decode_ids, decode_numbers
from projseg.segment_format.page_directory import HAS_BOUNDS, HAS_NAN, PageDirectory, float_bounds
from projseg.segment_format.vectors import Ids, Numbers


class PartPlace(NamedTuple):
    """The place of a part in the file, and the column or dictionary that it belongs to."""

    file_offset: int
    byte_count: int
    owner: str


def verify_segment(segment: SegmentFile) -> int:
    """Prove everything a segment says; return how many parts it has."""
    head = segment.read(0, HEAD_LAYOUT.size)
    check_head(head, segment.footer.file_id, segment.tail.format_version, segment.path)
    parts = part_places(segment)
    _verify_coverage(segment, parts)
    for extra in segment.footer.extra_sections:
        segment.part(extra.section, f"extra part '{extra.kind}'")
    for entry in segment.footer.dictionaries:
        _verify_dictionary(segment, entry.name)
        directory, owner = segment.dictionary_directory(entry), f"dictionary '{entry.name}'"
        if entry.type not in ("string", "binary", "void"):
            _verify_zones(segment, directory, parse_type_name(entry.type), owner)
    for table in segment.tables:
        for column in table.columns:
            _verify_column(segment, table, column)
    is_announced = bool(segment.tail.optional_features & POSTINGS)
    if is_announced != bool(segment.footer.postings):
        raise corrupt(segment.path, "postings", "are not what the tail's features say")
    for one in segment.footer.postings:
        _verify_postings(segment, one)
    return len(parts)


def part_places(segment: SegmentFile) -> list[PartPlace]:
    """Return every part the footer lists, in file order."""
    found = [_place(extra.section, extra.kind) for extra in segment.footer.extra_sections]
    for entry in segment.footer.dictionaries:
        owner = f"dictionary '{entry.name}'"
        found += _places(segment.dictionary_directory(entry).records, owner)
        found += [] if entry.hashes is None else [_place(entry.hashes, f"hashes of {owner}")]
    for table in segment.tables:
        for column in table.columns:
            key = (table.name, column.role, column.name)
            found += _places(segment.directory(*key).records, "/".join(key))
            if (index := segment.bitmap_index(*key)) is not None:
                found += _places(index.records, f"bitmap index of {'/'.join(key)}")
    for one in segment.footer.postings:
        for column in one.table.columns:
            owner = f"postings {one.definition_hash}/{column.name}"
            found += _places(postings_directory(segment, one, column).records, owner)
    return sorted(found)


def _verify_postings(segment: SegmentFile, entry: PostingsEntry) -> None:
    """Prove that postings ascend, that keys and places are there, and their zone maps."""
    if entry.of != OF_IDS:
        return
    postings, owner = StoredPostings(segment, entry), f"postings {entry.definition_hash}"
    key, place = (postings_directory(segment, entry, column) for column in entry.table.columns)
    for page, (keys, places) in enumerate(postings.pages()):
        _compare(segment, key, page, (HAS_BOUNDS, int(keys.min()), int(keys.max()), 0), owner)
        _compare(segment, place, page, (HAS_BOUNDS, int(places.min()), int(places.max()), 0), owner)


def _place(entry: PartEntry, owner: str) -> PartPlace:
    return PartPlace(entry.file_offset, entry.byte_count, owner)


def _places(records: NDArray[Any], owner: str) -> list[PartPlace]:
    pairs = zip(records["file_offset"].tolist(), records["stored_bytes"].tolist(), strict=True)
    return [PartPlace(offset, size, owner) for offset, size in pairs]


def _verify_coverage(segment: SegmentFile, parts: list[PartPlace]) -> None:
    """Prove that the parts follow each other from head to footer, with zero bytes between."""
    end = HEAD_LAYOUT.size
    for part in [*parts, PartPlace(segment.tail.footer_offset, 0, "footer")]:
        gap = padding(end)
        if part.file_offset != end + gap:
            problem = f"starts at byte {part.file_offset}, the part before it ends at {end}"
            raise corrupt(segment.path, part.owner, problem)
        if gap and any(segment.read(end, gap)):
            raise corrupt(segment.path, part.owner, f"padding at byte {end} is not zero")
        end = part.file_offset + part.byte_count


def _verify_dictionary(segment: SegmentFile, name: str) -> None:
    """Decode all values, which proves their order, and compare their hashes."""
    dictionary = segment.dictionary(name)
    values = dictionary.values
    if dictionary.stored_hashes is None:
        return
    computed = dictionary_hashes(Dictionary(values))
    if not np.array_equal(dictionary.stored_hashes, computed):
        raise corrupt(segment.path, f"hashes of dictionary '{name}'", "are not its values'")


def _verify_column(segment: SegmentFile, table: TableEntry, column: ColumnEntry) -> None:
    key = (table.name, column.role, column.name)
    owner = "/".join(key)
    directory = segment.directory(*key)
    if column.kind == "ids":
        assert column.dictionary is not None, "proved when the file was opened"
        dictionary = segment.dictionary(segment.footer.dictionaries[column.dictionary].name)
        _verify_ids(segment, directory, dictionary, owner)
    else:
        for page in range(len(directory)):
            _verify_values(segment, segment.column(*key, page, page + 1), owner)
    if column.kind == "numbers":
        _verify_zones(segment, directory, parse_type_name(column.type), owner)
    if column.index_blocks:
        _verify_index(segment, key, owner)


def _verify_ids(
    segment: SegmentFile, directory: PageDirectory, dictionary: Dictionary, owner: str
) -> None:
    """Prove bounds and null count of each page of ids."""
    for page in range(len(directory)):
        run = segment.pages(directory, page, page + 1, owner)
        ids = decode_ids(run, len(dictionary), np.dtype(np.int64))
        nulls = int(np.count_nonzero(ids == 0)) if dictionary.has_null else 0
        _compare(segment, directory, page, (HAS_BOUNDS, ids.min(), ids.max(), nulls), owner)


def _verify_values(segment: SegmentFile, vector: Any, owner: str) -> None:
    """Prove that the values are of their logical type."""
    try:
        vector.to_arrow().validate(full=True)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise corrupt(segment.path, owner, f"a value is not {vector.type}: {error}") from error


def _verify_zones(
    segment: SegmentFile, directory: PageDirectory, arrow_type: pa.DataType, owner: str
) -> None:
    """Prove the zone map of each page of numbers; decoding proved its null count."""
    for page in range(len(directory)):
        run = segment.pages(directory, page, page + 1, owner)
        numbers = decode_numbers(run, arrow_type, is_narrow=False)
        nulls = int(directory.records["null_count"][page])
        _compare(segment, directory, page, (*_bounds(numbers), nulls), owner)


def _bounds(numbers: Numbers) -> tuple[int, int, int]:
    """Return (flags, minimum, maximum) of the values that are not null."""
    known = numbers.values if numbers.validity is None else numbers.values[numbers.validity]
    if len(known) == 0 or known.dtype == WIDE:
        return 0, 0, 0
    if known.dtype.kind != "f":
        return HAS_BOUNDS, int(known.min()), int(known.max())
    bounds = float_bounds(known)
    if bounds is None:
        return HAS_NAN, 0, 0
    minimum, maximum, has_nan = bounds
    return HAS_BOUNDS | (HAS_NAN if has_nan else 0), minimum, maximum


def _compare(
    segment: SegmentFile, directory: PageDirectory, page: int, found: tuple[int, ...], owner: str
) -> None:
    record = directory.records[page]
    claimed = tuple(int(record[f]) for f in ("flags", "minimum", "maximum", "null_count"))
    if found != claimed:
        problem = f"zone map of page {page} says {claimed}, its values say {found}"
        raise corrupt(segment.path, owner, problem)


def _verify_index(segment: SegmentFile, key: tuple[str, Any, str], owner: str) -> None:
    """Prove that the index is the one its ids have; its form is canonical, so byte for byte."""
    index, directory = segment.bitmap_index(*key), segment.directory(*key)
    assert index is not None, "the caller saw its blocks"
    check = BitmapCheck(*index.contents(), int(directory.row_starts[-1]))
    malformed = check.malformed_id()
    if malformed is not None:
        raise corrupt(segment.path, owner, f"the bitmap of id {malformed} is malformed")
    for page in range(len(directory)):
        vector = segment.column(*key, page, page + 1)
        assert isinstance(vector, Ids), "only ids are indexed, proved when the file was opened"
        if not check.agrees(page, vector.ids):
            problem = f"the bitmap index is not the one of the ids of page {page}"
            raise corrupt(segment.path, owner, problem)
