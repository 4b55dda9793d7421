"""Bloom files: filters of many segments, laid out so that a key is one range. SPEC.md section 15.

Filters of equal size form a band, whose row r is block r of each: a key has the same row in all of
them. Rows are gathered in pages with a checksum each, so a row's place is arithmetic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.kernels.bloom_blocks import BLOCK_BYTES, LANES
from projseg.segment_format.byte_reader import corrupt
from projseg.segment_format.checksum_and_compression import file_seed, part_checksum
from projseg.segment_format.footer import (
    FILE_ID_BYTES,
    HEAD_LAYOUT,
    TAIL_LAYOUT,
    Tail,
    check_features,
    check_head,
    pack_head,
    parse_tail,
)
from projseg.segment_format.footer_checks import ReadRange, read_exactly
from projseg.segment_format.format_limits import (
    BLOOM_BLOCKS_MAX,
    BLOOM_FILE_BYTES_MAX,
    BLOOM_FOOTER_BYTES_MAX,
    BLOOM_SEGMENTS_MAX,
    require_limit,
)

BLOOM_HEAD_MAGIC: Final = b"\x89PSEGBLM"
BLOOM_TAIL_MAGIC: Final = b"PBLMTAIL"
BUILT: Final = "built"
"""The status of a segment with a filter; others begin with `skipped: ` or `failed: `."""
STATUS_CHARACTERS_MAX: Final = 200

_PAGE_BYTES: Final = 32_768
_CHECKSUM: Final = struct.Struct("<Q")
_STRIPE_BYTES: Final = 64 << 20

Blocks = NDArray[np.uint32]


def page_bytes(segment_count: int) -> int:
    """Return the approximate bytes of a page of filters of `segment_count` segments."""
    return max(_PAGE_BYTES, segment_count * BLOCK_BYTES)


class Band(msgspec.Struct, frozen=True, array_like=True):
    """Filters of one size. SPEC.md section 15.3."""

    blocks: int
    segment_count: int
    file_offset: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: a block of each segment."""
        return self.segment_count * BLOCK_BYTES

    @property
    def page_rows(self) -> int:
        """Rows of a page, fewer in the last."""
        return max(1, _PAGE_BYTES // self.row_bytes)

    @property
    def byte_count(self) -> int:
        """Bytes of all pages, with their checksums."""
        pages = -(-self.blocks // self.page_rows)
        return self.blocks * self.row_bytes + pages * _CHECKSUM.size

    def page(self, number: int) -> tuple[int, int]:
        """Return (file offset, bytes with the checksum) of a page."""
        first = number * self.page_rows
        rows = min(self.page_rows, self.blocks - first)
        offset = self.file_offset + first * self.row_bytes + number * _CHECKSUM.size
        return offset, rows * self.row_bytes + _CHECKSUM.size


class SegmentSlot(msgspec.Struct, frozen=True, array_like=True):
    """One segment of a Bloom file. SPEC.md section 15.4."""

    file: str
    band: int | None
    slot: int | None
    key_count: int
    status: str
    postings: int | str | None = None


class BloomFooter(msgspec.Struct, frozen=True):
    """The directory of a Bloom file. SPEC.md section 15.2."""

    file_id: bytes
    definition_hash: str
    definition: str
    bands: tuple[Band, ...]
    segments: tuple[SegmentSlot, ...]


class BloomSummary(NamedTuple):
    """What a listing states of a finished file."""

    byte_count: int
    footer_offset: int
    checksum: int
    segment_count: int


class SegmentFilter(msgspec.Struct, frozen=True, eq=False):
    """A segment's filter in memory; `blocks`, uint32[b, 8], is None where there is none.

    `postings` are the bytes of the segment's postings, or why it has none, or None if unknown.
    """

    file: str
    key_count: int
    status: str
    blocks: Blocks | None
    postings: int | str | None = None


_FOOTER: Final = msgspec.msgpack.Decoder(BloomFooter)
_ENCODER: Final = msgspec.msgpack.Encoder()


class BloomWriter:
    """Writes a Bloom file, bands ascending by blocks, footer last; `file_id` is 16 random bytes."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        file_id: bytes,
        definition_hash: str,
        definition: str,
    ) -> None:
        self._write, self._file_id = write, file_id
        self._definition_hash, self._definition = definition_hash, definition
        self._seed = file_seed(file_id)
        self._offset = HEAD_LAYOUT.size
        self._bands: list[Band] = []
        self._segments: list[SegmentSlot] = []
        write(pack_head(file_id, BLOOM_HEAD_MAGIC))

    def add_band(
        self,
        block_count: int,
        segments: Sequence[tuple[str, int, int | str | None]],
        stripe: Callable[[int, int], Blocks],
    ) -> None:
        """Write the filters of one size, which is above that of the band before.

        A segment is (file, key count, postings), in the order of slots; `stripe` returns the
        filters of the rows [first, end) as uint32[end - first, segments, 8].
        """
        band = Band(block_count, len(segments), self._offset)
        at_once = max(1, _STRIPE_BYTES // (band.page_rows * band.row_bytes)) * band.page_rows
        for first in range(0, block_count, at_once):
            rows = np.ascontiguousarray(stripe(first, min(first + at_once, block_count)), "<u4")
            for start in range(0, len(rows), band.page_rows):
                page = rows[start : start + band.page_rows].tobytes()
                self._write(page + _CHECKSUM.pack(part_checksum(page, self._seed, self._offset)))
                self._offset += len(page) + _CHECKSUM.size
        number = len(self._bands)
        self._bands.append(band)
        self._segments += [
            SegmentSlot(file, number, slot, keys, BUILT, _short(postings))
            for slot, (file, keys, postings) in enumerate(segments)
        ]

    def finish(self, without: Iterable[SegmentFilter] = ()) -> BloomSummary:
        """Write the footer, with the segments that have no filter and why; return what to list."""
        self._segments += [
            SegmentSlot(
                one.file, None, None, one.key_count, str(_short(one.status)), _short(one.postings)
            )
            for one in without
        ]
        require_limit("segments of a Bloom file", len(self._segments), BLOOM_SEGMENTS_MAX)
        footer = _ENCODER.encode(
            {
                "file_id": self._file_id,
                "definition_hash": self._definition_hash,
                "definition": self._definition,
                "bands": self._bands,
                "segments": [_stored(slot) for slot in self._segments],
            }
        )
        require_limit("bytes of a Bloom file's footer", len(footer), BLOOM_FOOTER_BYTES_MAX)
        tail = Tail(self._offset, len(footer))
        self._write(footer + tail.pack(footer, BLOOM_TAIL_MAGIC))
        byte_count = self._offset + len(footer) + TAIL_LAYOUT.size
        require_limit("bytes of a Bloom file", byte_count, BLOOM_FILE_BYTES_MAX)
        return BloomSummary(byte_count, self._offset, tail.checksum(footer), len(self._segments))


def _stored(slot: SegmentSlot) -> tuple[object, ...]:
    fields = msgspec.structs.astuple(slot)
    return fields if slot.postings is not None else fields[:-1]


def _short(said: int | str | None) -> int | str | None:
    return said[:STATUS_CHARACTERS_MAX] if isinstance(said, str) else said


def write_filters(writer: BloomWriter, filters: Sequence[SegmentFilter]) -> BloomSummary:
    """Write filters that are in memory, and finish the file."""
    by_size: dict[int, list[SegmentFilter]] = {}
    for one in filters:
        if one.blocks is not None:
            by_size.setdefault(len(one.blocks), []).append(one)
    for block_count, band in sorted(by_size.items()):
        blocks = [one.blocks for one in band if one.blocks is not None]

        def stripe(first: int, end: int, blocks: list[Blocks] = blocks) -> Blocks:
            return np.stack([one[first:end] for one in blocks], axis=1)

        writer.add_band(
            block_count, [(one.file, one.key_count, one.postings) for one in band], stripe
        )
    return writer.finish(one for one in filters if one.blocks is None)


class BloomFile:
    """An open Bloom file: its proved directory, its tail's checksum, and how pages are read."""

    def __init__(self, footer: BloomFooter, checksum: int, path: str) -> None:
        self.footer, self.checksum, self.path = footer, checksum, path
        self._seed = file_seed(footer.file_id)

    @classmethod
    def open(cls, ending: bytes, byte_count: int, path: str) -> BloomFile:
        """Read the directory from the end of a file, which begins where the footer does."""
        require_limit(f"size in bytes of {path}", byte_count, BLOOM_FILE_BYTES_MAX)
        if not TAIL_LAYOUT.size < len(ending) <= BLOOM_FOOTER_BYTES_MAX + TAIL_LAYOUT.size:
            raise corrupt(path, "file", f"{len(ending)} bytes are no footer of a Bloom file")
        content, end = memoryview(ending), len(ending) - TAIL_LAYOUT.size
        tail, checksum = parse_tail(content[end:], byte_count, path, BLOOM_TAIL_MAGIC)
        if tail.footer_bytes != end or tail.checksum(content[:end]) != checksum:
            raise corrupt(path, "footer", "size or checksum differs from the tail's")
        check_features(tail, path)
        try:
            footer = _FOOTER.decode(content[:end])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise corrupt(path, "footer", f"not a valid directory: {error}") from error
        if (problem := _problem(footer, tail.footer_offset)) is not None:
            raise corrupt(path, "footer", problem)
        return cls(footer, checksum, path)

    def rows(self, band: Band, number: int, page: bytes) -> Blocks:
        """Return the rows of a page from its bytes: uint32[rows, segments, 8]."""
        offset, size = band.page(number)
        content, stated = memoryview(page)[: -_CHECKSUM.size], page[-_CHECKSUM.size :]
        found = part_checksum(content, self._seed, offset)
        if len(page) != size or _CHECKSUM.pack(found) != stated:
            where = f"band of {band.blocks} blocks, page {number}"
            raise corrupt(self.path, where, "checksum does not match its bytes")
        return np.frombuffer(content, "<u4").reshape(-1, band.segment_count, LANES)

    def stripe(self, band: Band, first: int, end: int, read_range: ReadRange) -> Blocks:
        """Return the rows [first, end) of a band: uint32[end - first, segments, 8]."""
        pages = range(first // band.page_rows, -(-end // band.page_rows))
        start, _ = band.page(pages[0])
        last_offset, last_size = band.page(pages[-1])
        size = last_offset + last_size - start
        content = memoryview(read_exactly(read_range, start, size, self.path))
        found = []
        for number in pages:
            offset, size = band.page(number)
            page = bytes(content[offset - start : offset - start + size])
            found.append(self.rows(band, number, page))
        skipped = pages[0] * band.page_rows
        return np.concatenate(found)[first - skipped : end - skipped]

    def verify(self, read_range: ReadRange) -> None:
        """Prove the head and every page."""
        head = read_exactly(read_range, 0, HEAD_LAYOUT.size, self.path)
        check_head(head, self.footer.file_id, 1, self.path, BLOOM_HEAD_MAGIC)
        for band in self.footer.bands:
            for first, end in stripes(band):
                self.stripe(band, first, end, read_range)


def stripes(band: Band) -> Iterable[tuple[int, int]]:
    """Yield rows [first, end) of a band that are read at once: whole pages, at most 64 MiB."""
    at_once = max(1, _STRIPE_BYTES // (band.page_rows * band.row_bytes)) * band.page_rows
    for first in range(0, band.blocks, at_once):
        yield first, min(first + at_once, band.blocks)


def _problem(footer: BloomFooter, footer_offset: int) -> str | None:
    """Return why a directory contradicts itself or the limits, or None."""
    if len(footer.file_id) != FILE_ID_BYTES:
        return f"a file id of {len(footer.file_id)} bytes"
    if not 1 <= len(footer.segments) <= BLOOM_SEGMENTS_MAX:
        return f"{len(footer.segments)} segments"
    return _problem_of_bands(footer, footer_offset) or _problem_of_segments(footer)


def _problem_of_bands(footer: BloomFooter, footer_offset: int) -> str | None:
    offset, before, slots_left = HEAD_LAYOUT.size, 0, len(footer.segments)
    for band in footer.bands:
        slots_left -= band.segment_count
        if not before < band.blocks <= BLOOM_BLOCKS_MAX:
            return f"a band of {band.blocks} blocks after one of {before}"
        if band.segment_count < 1 or slots_left < 0 or band.file_offset != offset:
            return f"a band of {band.segment_count} segments at byte {band.file_offset}"
        before, offset = band.blocks, offset + band.byte_count
    if offset == footer_offset:
        return None
    return f"bands end at byte {offset}, the footer starts at {footer_offset}"


def _problem_of_segments(footer: BloomFooter) -> str | None:
    if len({one.file for one in footer.segments}) != len(footer.segments):
        return "a segment twice"
    left = {
        (number, slot)
        for number, band in enumerate(footer.bands)
        for slot in range(band.segment_count)
    }
    for one in footer.segments:
        place = (one.band, one.slot)
        has_filter = one.status == BUILT
        if isinstance(one.postings, int) and one.postings < 0:
            return f"segment {one.file[:200]!r} with {one.postings} bytes of postings"
        if one.key_count < 0 or (place not in left if has_filter else place != (None, None)):
            return f"segment {one.file[:200]!r} of status {one.status[:80]!r} in place {place}"
        left.discard((one.band or 0, one.slot or 0) if has_filter else (-1, -1))
    return f"{len(left)} slots of no segment" if left else None
