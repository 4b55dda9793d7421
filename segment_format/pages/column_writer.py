"""Cut a vector into pages, compress them, and put them on the sink, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.segment_format.encodings.encoding_table import numbers_of
from projseg.segment_format.encodings.nested_encoding import item_count
from projseg.segment_format.layout.byte_reader import padding
from projseg.segment_format.layout.footer import PartEntry
from projseg.segment_format.layout.format_limits import (
    PAGE_RAW_BYTES_MAX,
    PAGE_ROWS_MAX,
    PARTS_MAX,
    SEGMENT_BYTES_MAX,
    require_limit,
)
from projseg.segment_format.layout.logical_types import is_text, number_limits, type_name
from projseg.segment_format.layout.page_directory import PAGE_DTYPE
from projseg.segment_format.layout.part_checksum import file_seed, part_checksum
from projseg.segment_format.pages.compression import (
    NUMBERS_SHARE_MAX,
    TEXT_SHARE_MAX,
    compress_page,
)
from projseg.segment_format.pages.page_encoder import (
    EncodedPage,
    encode_ids_page,
    encode_numbers_page,
    encode_opaque_page,
)
from projseg.segment_format.vectors.vectors import Ids, Numbers, Opaque, Vector

_TEXT_ENCODINGS = numbers_of("text", "nested")
_OPAQUE_PAGE_BYTES = 2**20  # pages of text are cut here, so that a few rows cost one small read


class PackedPage(NamedTuple):
    """A page as it is stored, and what the directory will say of it."""

    stored: bytes
    compression: int
    raw_byte_count: int
    facts: EncodedPage  # without its bytes


class WrittenPages(NamedTuple):
    """The directory of pages just written, and what they take on disk."""

    directory: bytes
    stored_bytes: int


class PartSink:
    """The output, which knows its offset and keeps parts aligned.

    Parameters
    ----------
    write : callable
        Takes the file's bytes in order.
    file_id : bytes[16]
        Seeds the checksums.
    """

    def __init__(self, write: Callable[[bytes], object], file_id: bytes) -> None:
        self._write, self._seed = write, file_seed(file_id)
        self.offset, self.part_count = 0, 0
        self.recent: list[PartEntry] = []  # parts since somebody last cleared it

    def put(self, content: bytes) -> None:
        """Write bytes that carry their own checksum, or none.

        Raises
        ------
        LimitExceededError
            If the file becomes larger than SEGMENT_BYTES_MAX.
        """
        self.offset += len(content)
        require_limit("segment's size in bytes", self.offset, SEGMENT_BYTES_MAX)
        self._write(content)

    def part(self, content: bytes) -> PartEntry:
        """Write a checksummed part and its padding; return where it lies.

        Raises
        ------
        LimitExceededError
            If the file has too many parts or bytes.
        """
        self.part_count += 1
        require_limit("number of parts of a segment", self.part_count, PARTS_MAX)
        entry = PartEntry(
            self.offset, len(content), part_checksum(content, self._seed, self.offset)
        )
        self.put(content)
        if gap := padding(len(content)):
            self.put(bytes(gap))
        self.recent.append(entry)
        return entry


def packed_pages(pages: Iterator[EncodedPage]) -> Iterator[PackedPage]:
    """Yield pages compressed, where that pays.

    Raises
    ------
    LimitExceededError
        If a page is too large.
    """
    for page in pages:
        require_limit("size of a page in bytes", len(page.raw), PAGE_RAW_BYTES_MAX)
        is_text = page.encoding in _TEXT_ENCODINGS
        share_max = TEXT_SHARE_MAX if is_text else NUMBERS_SHARE_MAX
        compression, stored = compress_page(page.raw, share_max)
        yield PackedPage(stored, compression, len(page.raw), replace(page, raw=b""))


def write_pages(sink: PartSink, pages: Iterable[PackedPage]) -> WrittenPages:
    """Write pages; return their directory.

    Raises
    ------
    LimitExceededError
        If a page, or the file, becomes too large.
    """
    records, stored_bytes = [], 0
    for page in pages:
        entry = sink.part(page.stored)
        stored_bytes += len(page.stored)
        records.append(_record(page, entry))
    return WrittenPages(np.array(records, PAGE_DTYPE).tobytes(), stored_bytes)


def _record(page: PackedPage, entry: PartEntry) -> tuple[int, ...]:
    facts = page.facts
    return (
        entry.file_offset,
        entry.byte_count,
        page.raw_byte_count,
        facts.row_count,
        facts.null_count,
        facts.encoding,
        page.compression,
        facts.validity,
        facts.flags,
        0,
        facts.minimum,
        facts.maximum,
        entry.checksum,
    )


def vector_pages(vector: Vector, *, is_sorted: bool = False) -> Iterator[EncodedPage]:
    """Yield the pages of a vector, each encoded when asked for; see `encode_opaque_page`."""
    if isinstance(vector, Opaque):
        for piece in _opaque_pieces(vector.array):
            yield encode_opaque_page(piece, is_sorted=is_sorted)
        return
    for start in range(0, len(vector), PAGE_ROWS_MAX):
        piece = vector.slice(start, min(start + PAGE_ROWS_MAX, len(vector)))
        if isinstance(piece, Ids):
            yield encode_ids_page(piece.ids, has_null=piece.dictionary.has_null)
        elif isinstance(piece, Numbers):
            values = np.ascontiguousarray(piece.wide())
            _require_type_limits(values, piece.type)
            yield encode_numbers_page(values, piece.validity)


def _require_type_limits(values: NDArray[Any], arrow_type: pa.DataType) -> None:
    """Refuse integers that their type does not hold: no reader would accept the page."""
    if values.dtype.kind == "f":
        return
    least, greatest = number_limits(arrow_type)
    low, high = int(values.min()), int(values.max())
    if low < least or high > greatest:
        raise InvalidInputError(
            "PROJSEG_INTERNAL", f"values from {low} to {high} are not all {type_name(arrow_type)}"
        )


def _opaque_pieces(array: pa.Array) -> Iterator[pa.Array]:
    """Yield slices of at most PAGE_ROWS_MAX rows and, where rows are small, _OPAQUE_PAGE_BYTES."""
    for start in range(0, len(array), PAGE_ROWS_MAX):
        yield from _halves(array.slice(start, PAGE_ROWS_MAX))


def _halves(array: pa.Array) -> Iterator[pa.Array]:
    if len(array) <= 1 or _page_cost(array) <= _OPAQUE_PAGE_BYTES:
        yield array
        return
    middle = len(array) // 2
    yield from _halves(array.slice(0, middle))
    yield from _halves(array.slice(middle))


def _page_cost(array: pa.Array) -> int:
    """Return the bytes of the values, or of nested ones the number of items where that is more."""
    if is_text(array.type) and array.buffers()[1] is not None:
        offsets = np.frombuffer(array.buffers()[1], np.int32)
        return int(offsets[array.offset + len(array)] - offsets[array.offset])
    return max(int(array.nbytes), item_count(array))
