"""One page of each of many files, decoded together. SPEC.md section 5.

What is malformed is not decoded: whoever decodes it alone (`page_decoder`) says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.page_integers import CONTENT_MARGIN, decode_integer_pages
from projseg.kernels.texts.text_bytes import PREFIX_BYTES_MAX, join_texts
from projseg.segment_format.arrow_arrays import text_array
from projseg.segment_format.byte_reader import ALIGNMENT, ByteReader
from projseg.segment_format.encodings.fixed_width import SCALE_MAX
from projseg.segment_format.encodings.nested_encoding import decode_validity
from projseg.segment_format.footer import HEAD_LAYOUT
from projseg.segment_format.format_limits import PAGE_RAW_BYTES_MAX, PAGE_ROWS_MAX, VALUE_BYTES_MAX
from projseg.segment_format.logical_types import is_fixed_width, is_text, number_limits
from projseg.segment_format.page_directory import FLAGS_KNOWN, HAS_BOUNDS
from projseg.segment_format.vectors import Numbers

_PLAIN, _DECIMAL, _TEXT, _FRONT_CODED = range(8, 12)  # encodings
_POWERS: Final = np.array([float(10**scale) for scale in range(SCALE_MAX + 1)])
_HEADER: Final = 8  # bytes of what precedes the integers of a decimal or text page
# What pages decoded together may take: small files may claim very much.
_BYTES_MAX: Final = 64 << 20
_ROWS_MAX: Final = 1 << 21
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

Int64s = NDArray[np.int64]
Flags = NDArray[np.bool_]


class NotTogetherError(Exception):
    """Some page has to be decoded alone, where it may be refused."""


def require(condition: Any) -> None:
    """Leave pages to who decodes them alone, unless a condition holds."""
    if not condition:
        raise NotTogetherError


def require_sound(records: NDArray[Any], row_counts: Int64s, pages_end: Int64s) -> None:
    """Require that each record is the whole directory of a column with its count of rows.

    No page of a file passes its entry of `pages_end`.
    """
    offset, stored, rows = (records[n] for n in ("file_offset", "stored_bytes", "row_count"))
    least, greatest = records["minimum"], records["maximum"]
    ends = pages_end.astype(np.uint64)
    is_sound = (offset >= HEAD_LAYOUT.size) & (offset % ALIGNMENT == 0) & (offset <= ends)
    is_sound &= stored <= ends - np.minimum(offset, ends)
    is_sound &= records["raw_bytes"] <= PAGE_RAW_BYTES_MAX
    is_sound &= (rows >= 1) & (rows <= PAGE_ROWS_MAX) & (rows == row_counts)
    is_sound &= (records["null_count"] <= rows) & (records["reserved"] == 0)
    is_sound &= (records["flags"] & ~np.uint8(FLAGS_KNOWN)) == 0
    has_bounds = (records["flags"] & HAS_BOUNDS) != 0
    is_sound &= (has_bounds | ((least == 0) & (greatest == 0))) & (least <= greatest)
    require(is_sound.all() and int(rows.sum()) <= _ROWS_MAX)
    require(int(records["raw_bytes"].sum()) <= _BYTES_MAX)


class PageBatch(msgspec.Struct, frozen=True):
    """Pages of different files, whose checksums are right, decompressed and one after the other.

    Page i is content[starts[i] : starts[i + 1]] and holds the rows [row_starts[i], row_starts[i +
    1]). Methods raise NotTogetherError, or the error of decoding one of the pages alone.
    """

    records: NDArray[Any]
    content: NDArray[np.uint8]
    starts: Int64s
    row_starts: Int64s

    @classmethod
    def of(cls, records: NDArray[Any], pages: Sequence[bytes | memoryview]) -> PageBatch:
        """Join pages."""
        content = np.frombuffer(b"".join([*pages, bytes(CONTENT_MARGIN)]), np.uint8)
        starts, row_starts = np.zeros((2, len(pages) + 1), np.int64)
        np.cumsum(records["raw_bytes"], out=starts[1:])
        np.cumsum(records["row_count"], out=row_starts[1:])
        return cls(records, content, starts, row_starts)

    def each_row(self, values: NDArray[Any]) -> NDArray[Any]:
        """Repeat a value of each page for its rows."""
        return np.repeat(values, self.records["row_count"])

    def ids(self, cardinalities: Int64s) -> Int64s:
        """Return ids, each proved to be below its page's cardinality."""
        records = self.records
        require((records["flags"] == HAS_BOUNDS).all() and not records["validity"].any())
        require((records["minimum"] >= 0).all() and (records["maximum"] < cardinalities).all())
        found, stops = self._integers(self.starts[:-1], records["encoding"])
        require(np.array_equal(stops, self.starts[1:]))
        require(((found >= 0) & (found < self.each_row(cardinalities))).all())
        return found

    def _integers(self, starts: Int64s, encodings: NDArray[Any]) -> tuple[Int64s, Int64s]:
        return decode_integer_pages(
            self.content, starts, self.starts[1:], encodings.astype(np.int64), self.row_starts
        )

    def numbers(self, arrow_type: pa.DataType) -> Numbers:
        """Return fixed-width values of at most 64 bits, and no floats of 32."""
        starts, validity = self._validity()
        values: NDArray[Any]
        if pa.types.is_floating(arrow_type):
            require(arrow_type == pa.float64())
            values = self._doubles(starts)
        else:
            values, stops = self._integers(starts, self.records["encoding"])
            require(np.array_equal(stops, self.starts[1:]))
            is_within = self._are_within(values, arrow_type)
            require((is_within if validity is None else is_within | ~validity).all())
        if validity is not None:
            values[~validity] = 0
        return Numbers(values, arrow_type, validity=validity)

    def _are_within(self, values: Int64s, arrow_type: pa.DataType) -> Flags:
        """Return which integers are of their type, and within the bounds of their page."""
        edges = number_limits(arrow_type)
        least, greatest = max(edges[0], _INT64_MIN), min(edges[1], _INT64_MAX)
        has_bounds = (self.records["flags"] & HAS_BOUNDS) != 0
        low = np.where(has_bounds, np.maximum(self.records["minimum"], least), least)
        high = np.where(has_bounds, np.minimum(self.records["maximum"], greatest), greatest)
        return (values >= self.each_row(low)) & (values <= self.each_row(high))

    def _validity(self) -> tuple[Int64s, Flags | None]:
        """Return where the values of each page begin, and which rows are valid; None means all."""
        starts, rows = self.starts[:-1].copy(), self.row_starts.tolist()
        kinds, nulls = self.records["validity"].tolist(), self.records["null_count"].tolist()
        if not any(kinds) and not any(nulls):
            return starts, None
        validity = np.ones(rows[-1], np.bool_)
        for page, (kind, null_count) in enumerate(zip(kinds, nulls, strict=True)):
            start, end = self.starts[page : page + 2].tolist()
            reader = ByteReader(self.content[start:end].data, path="", part_name="")
            first, last = rows[page : page + 2]
            valid = decode_validity(reader, kind, last - first, null_count)
            if valid is not None:
                validity[first:last] = valid
            starts[page] = end - reader.bytes_left
        return starts, validity

    def _doubles(self, starts: Int64s) -> NDArray[np.float64]:
        encodings, ends, rows = self.records["encoding"], self.starts[1:], self.row_starts
        is_decimal = encodings == _DECIMAL
        scales, inner = self._headers(starts, is_decimal)
        require((scales <= SCALE_MAX).all())
        found, stops = self._integers(
            starts + _HEADER * is_decimal, np.where(is_decimal, inner, encodings)
        )
        values = found.view(np.float64)
        for page in np.flatnonzero(encodings == _PLAIN).tolist():
            row, row_end = rows[page : page + 2].tolist()
            stops[page] = starts[page] + (row_end - row) * values.itemsize
            require(stops[page] == ends[page])
            values[row:row_end] = self.content[starts[page] : ends[page]].view(np.float64)
        require(np.array_equal(stops, ends))
        if is_decimal.any():
            of_decimals = self.each_row(is_decimal)
            powers = _POWERS[self.each_row(scales)[of_decimals]]
            values[of_decimals] = found[of_decimals] / powers
        return values

    def _headers(self, starts: Int64s, is_there: Flags) -> tuple[Int64s, Int64s]:
        """Return the two numbers of 32 bits that some pages begin with; 0 for the others."""
        require((starts[is_there] + _HEADER <= self.starts[1:][is_there]).all())
        headers = np.zeros((len(starts), 2), np.int64)
        headers[is_there] = self.content[starts[is_there, None] + np.arange(_HEADER)].view("<u4")
        return headers[:, 0], headers[:, 1]

    def values(self, arrow_type: pa.DataType) -> pa.Array:
        """Return the values of dictionaries, one for each page, each proved to be in order."""
        if is_text(arrow_type):
            return self._texts(arrow_type)
        require(is_fixed_width(arrow_type) and not pa.types.is_floating(arrow_type))
        found, first_rows = self.numbers(arrow_type), self.row_starts[:-1]
        self._require_first(found.validity)
        rises = np.ones(len(found), np.bool_)
        rises[1:] = found.values[1:] > found.values[:-1]
        rises[first_rows] = True
        if found.validity is not None:
            rises[1:] |= ~found.validity[:-1]
        require(rises.all())
        return found.to_arrow()

    def _require_first(self, validity: Flags | None) -> None:
        """Require that no row but the first of a page is null."""
        if validity is not None:
            nulls = np.flatnonzero(~validity)
            require(np.isin(nulls, self.row_starts[:-1]).all())

    def _texts(self, arrow_type: pa.DataType) -> pa.Array:
        encodings, counts = self.records["encoding"], self.records["row_count"]
        is_front = encodings == _FRONT_CODED
        require((is_front | (encodings == _TEXT)).all())
        require((self.records["null_count"] < counts).all())
        starts, validity = self._validity()
        self._require_first(validity)
        first, second = self._headers(starts, np.ones(len(starts), np.bool_))
        require(not second[~is_front].any())
        lengths, stops = self._integers(starts + _HEADER, first)
        prefixes = np.zeros_like(lengths)
        require((stops >= 0).all())
        if is_front.any():
            of_front = self.each_row(is_front)
            rests, rest_stops = self._integers(stops, np.where(is_front, second, 0))
            prefixes[of_front], lengths[of_front] = lengths[of_front], rests[of_front]
            stops = np.where(is_front, rest_stops, stops)
        offsets, texts = self._joined_texts(prefixes, lengths, stops)
        values = text_array(offsets.astype(np.int32), texts, arrow_type, validity)
        values.validate(full=True)
        return values

    def _joined_texts(
        self, prefixes: Int64s, lengths: Int64s, stops: Int64s
    ) -> tuple[Int64s, NDArray[np.uint8]]:
        rows, ends, sizes = self.row_starts, self.starts[1:], prefixes + lengths
        require((prefixes >= 0).all() and (prefixes <= PREFIX_BYTES_MAX).all())
        require((lengths >= 0).all() and (lengths <= VALUE_BYTES_MAX).all())
        require((prefixes[1:] <= sizes[:-1]).all() and not prefixes[rows[:-1]].any())
        left = np.add.reduceat(lengths, rows[:-1])
        padding = -left % ALIGNMENT
        require((stops >= 0).all() and (stops + left + padding == ends).all())
        for place in range(1, ALIGNMENT):
            require(not self.content[(ends - place)[padding >= place]].any())
        # A writer cuts pages by the bytes of their texts, so no page has more than a page of them.
        require(np.add.reduceat(sizes, rows[:-1]).max() <= PAGE_RAW_BYTES_MAX)
        require(int(sizes.sum()) <= _BYTES_MAX)
        nulls = self.records["null_count"] != 0
        found = join_texts(self.content, stops, rows, prefixes, lengths, nulls)
        require(found is not None)
        assert found is not None
        return found
