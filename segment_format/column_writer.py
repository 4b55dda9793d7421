"""Cut a vector into pages with zone maps, encode and compress them, and put them on the sink.

The bytes of a page: SPEC.md section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.integer_codes import PageStatistics, page_statistics
from projseg.segment_format.arrow_arrays import valid_values
from projseg.segment_format.byte_reader import padding
from projseg.segment_format.checksum_and_compression import (
    NUMBERS_SHARE_MAX,
    TEXT_SHARE_MAX,
    compress_page,
    file_seed,
    part_checksum,
)
from projseg.segment_format.encodings.encoding_table import (
    INTEGER_ENCODINGS,
    NESTED,
    NUMBER_ENCODINGS,
    TEXT_ENCODINGS,
    numbers_of,
)
from projseg.segment_format.encodings.nested_encoding import (
    encode_validity,
    item_count,
    value_count,
)
from projseg.segment_format.footer import PartEntry
from projseg.segment_format.format_limits import (
    NESTED_VALUES_MAX,
    PAGE_RAW_BYTES_MAX,
    PAGE_ROWS_MAX,
    PARTS_MAX,
    SEGMENT_BYTES_MAX,
    require_limit,
)
from projseg.segment_format.logical_types import is_nested, is_text, number_limits, type_name
from projseg.segment_format.page_directory import HAS_BOUNDS, HAS_NAN, PAGE_DTYPE, float_bounds
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

_TEXT_ENCODINGS: Final = numbers_of("text", "nested")
_OPAQUE_PAGE_BYTES: Final = (
    2**20
)  # pages of text are cut here, so that a few rows cost one small read


class EncodedPage(msgspec.Struct, frozen=True, gc=False):
    """A page before compression, and what the directory will say of it."""

    raw: bytes
    row_count: int
    encoding: int
    validity: int = 0
    null_count: int = 0
    flags: int = 0
    minimum: int = 0
    maximum: int = 0


class PackedPage(NamedTuple):
    """A page as it is stored, and what the directory will say of it."""

    stored: bytes
    compression: int
    raw_byte_count: int
    facts: EncodedPage  # without its bytes


class WrittenPages(NamedTuple):
    """The directory of pages just written, and their bytes on disk."""

    directory: bytes
    stored_bytes: int


class PartSink:
    """The output, which gets bytes in order, knows its offset and keeps parts aligned.

    The file's id seeds the checksums.
    """

    def __init__(self, write: Callable[[bytes], object], file_id: bytes) -> None:
        self._write, self._seed = write, file_seed(file_id)
        self.offset, self.part_count = 0, 0
        self.recent: list[PartEntry] = []  # parts since somebody last cleared it

    def put(self, content: bytes) -> None:
        """Write bytes that carry their own checksum, or none."""
        self.offset += len(content)
        require_limit("segment's size in bytes", self.offset, SEGMENT_BYTES_MAX)
        self._write(content)

    def part(self, content: bytes) -> PartEntry:
        """Write a checksummed part and its padding; return where it lies."""
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


def vector_pages(vector: Vector, *, is_sorted: bool = False) -> Iterator[EncodedPage]:
    """Yield the pages of a vector, each encoded when asked for; see `_encode_opaque_page`."""
    if isinstance(vector, Opaque):
        for piece in _opaque_pieces(vector.array):
            yield _encode_opaque_page(piece, is_sorted=is_sorted)
        return
    for start in range(0, len(vector), PAGE_ROWS_MAX):
        piece = vector.slice(start, min(start + PAGE_ROWS_MAX, len(vector)))
        if isinstance(piece, Ids):
            yield _encode_ids_page(piece.ids, has_null=piece.dictionary.has_null)
        elif isinstance(piece, Numbers):
            values = np.ascontiguousarray(piece.wide())
            _require_type_limits(values, piece.type)
            yield _encode_numbers_page(values, piece.validity)


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


def _encode_ids_page(ids: NDArray[Any], *, has_null: bool) -> EncodedPage:
    """Encode dictionary ids, unsigned[n]; id 0 counts as null where the dictionary has one."""
    values = ids.astype(np.int64)
    facts = page_statistics(values)
    encoding, raw = INTEGER_ENCODINGS.choose(values, facts).encode()
    return EncodedPage(
        raw,
        len(ids),
        encoding,
        null_count=len(ids) - int(np.count_nonzero(ids)) if has_null else 0,
        flags=HAS_BOUNDS,
        minimum=facts.minimum,
        maximum=facts.maximum,
    )


def _encode_numbers_page(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> EncodedPage:
    """Encode fixed-width values."""
    kind, validity_part = encode_validity(validity)
    null_count = 0 if validity is None else len(validity) - int(np.count_nonzero(validity))
    known = values if validity is None or null_count == 0 else values[validity]
    filled = values
    if null_count:
        fill = known.min() if len(known) else values.dtype.type(0)
        filled = np.where(validity, values, fill) if validity is not None else values
    chosen, facts = NUMBER_ENCODINGS.choose(filled)
    encoding, values_part = chosen.encode()
    flags, minimum, maximum = _bounds(known, facts)
    raw = validity_part + values_part
    return EncodedPage(
        raw, len(values), encoding, kind, null_count, flags, minimum=minimum, maximum=maximum
    )


def _encode_opaque_page(array: pa.Array, *, is_sorted: bool = False) -> EncodedPage:
    """Encode an Arrow array of text or nested values, of at least one row.

    `is_sorted` says that the texts are a dictionary's, worth front coding.
    """
    kind, validity_part = 0, b""
    if array.null_count:
        kind, validity_part = encode_validity(valid_values(array))
    if array.null_count == len(array):
        encoding, values_part = NESTED.number, b""
    elif is_nested(array.type):
        require_limit("number of values of a nested page", value_count(array), NESTED_VALUES_MAX)
        encoding, values_part = NESTED.number, NESTED.codec.offer(array).make()
    else:
        encoding, values_part = TEXT_ENCODINGS.choose(array, is_sorted=is_sorted).encode()
    return EncodedPage(validity_part + values_part, len(array), encoding, kind, array.null_count)


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


def _bounds(known: NDArray[Any], facts: PageStatistics | None) -> tuple[int, int, int]:
    """Return (flags, minimum, maximum) of the values that are not null."""
    if known.dtype.kind == "f":
        if len(known) == 0:
            return 0, 0, 0
        found = float_bounds(known)
        if found is None:
            return HAS_NAN, 0, 0
        minimum, maximum, has_nan = found
        return HAS_BOUNDS | (HAS_NAN if has_nan else 0), minimum, maximum
    if len(known) == 0 or facts is None:
        return 0, 0, 0
    return HAS_BOUNDS, facts.minimum, facts.maximum


def packed_pages(pages: Iterator[EncodedPage]) -> Iterator[PackedPage]:
    """Yield pages compressed, where that pays."""
    for page in pages:
        require_limit("size of a page in bytes", len(page.raw), PAGE_RAW_BYTES_MAX)
        is_text = page.encoding in _TEXT_ENCODINGS
        share_max = TEXT_SHARE_MAX if is_text else NUMBERS_SHARE_MAX
        compression, stored = compress_page(page.raw, share_max)
        yield PackedPage(stored, compression, len(page.raw), replace(page, raw=b""))


def write_pages(sink: PartSink, pages: Iterable[PackedPage]) -> WrittenPages:
    """Write pages; return their directory."""
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
