"""Texts: lengths, then all bytes; and for dictionaries less what each shares with the last one."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.texts.text_bytes import PREFIX_BYTES_MAX, join_texts, shared_prefixes, suffixes
from projseg.segment_format.arrow_arrays import scalar_of
from projseg.segment_format.byte_reader import ByteReader, padded, padding
from projseg.segment_format.encodings.encoding import IntegerEncodings
from projseg.segment_format.encodings.encoding_protocols import Offer, composed
from projseg.segment_format.format_limits import PAGE_RAW_BYTES_MAX, VALUE_BYTES_MAX, require_limit

_LAYOUT: Final = struct.Struct("<II")  # lengths_encoding, reserved


def text_parts(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return (offsets int64[n + 1] from 0, bytes uint8[m]) of a string or binary array.

    Null rows are empty.
    """
    if array.null_count:
        array = array.fill_null(scalar_of(b"", array.type))
    _, offset_buffer, byte_buffer = array.buffers()
    raw = np.frombuffer(offset_buffer, np.int32) if offset_buffer else np.zeros(1, np.int32)
    offsets = raw[array.offset : array.offset + len(array) + 1].astype(np.int64)
    content = np.frombuffer(byte_buffer, np.uint8) if byte_buffer else np.empty(0, np.uint8)
    return offsets - offsets[0], content[offsets[0] : offsets[-1]]


class Text:
    """A page of lengths, and all bytes; holds any page."""

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, array: pa.Array, *, is_sorted: bool) -> Offer:
        """Return the offer, sorted or not."""
        del is_sorted
        offsets, content = text_parts(array)
        lengths = np.diff(offsets)
        require_limit("size of a value in bytes", int(lengths.max()), VALUE_BYTES_MAX)
        chosen = self._parts.choose(lengths)
        size = len(content) + padding(len(content))
        bodies = Offer(size, lambda: padded(content.tobytes()))
        return composed(_LAYOUT.pack(chosen.number, 0), chosen.offer, bodies)

    def decode(self, reader: ByteReader, row_count: int) -> tuple[NDArray[np.int32], memoryview]:
        """Return (offsets int32[n + 1], bytes) of `row_count` >= 1 values."""
        number, reserved = reader.unpack(_LAYOUT)
        reader.require(reserved == 0, "a reserved field is not zero")
        lengths = np.empty(row_count, np.int64)
        self._parts.decode_into(reader, number, lengths, 0)
        low, high = int(lengths.min()), int(lengths.max())
        reader.require(low >= 0 and high <= VALUE_BYTES_MAX, f"values of {low} to {high} bytes")
        offsets = np.zeros(row_count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        reader.require(int(offsets[-1]) <= reader.bytes_left, "values pass the end of the page")
        content = reader.take(int(offsets[-1]))
        reader.skip_padding(len(content))
        return offsets.astype(np.int32), content


# Front-coded: each text less what it shares with the one before it. For dictionaries only.
#
# SPEC.md section 6.11. A page is one chain: dictionaries are loaded whole. A chain of equal texts
# would grow without bound from few bytes, so a page is proved to ascend as it is decoded.


class FrontCoded:
    """A page of prefixes, one of the lengths of the rests, and the rests."""

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, array: pa.Array, *, is_sorted: bool) -> Offer | None:
        """Return the offer, or None if the texts are not sorted.

        A null, if there is one, comes first and counts as an empty text that need not ascend.
        """
        if not is_sorted:
            return None
        offsets, content = text_parts(array)
        sizes = np.diff(offsets)
        require_limit("size of a value in bytes", int(sizes.max()), VALUE_BYTES_MAX)
        shared = shared_prefixes(offsets, content)
        prefixes, lengths = self._parts.choose(shared), self._parts.choose(sizes - shared)
        size = int((sizes - shared).sum())
        left = Offer(
            size + padding(size), lambda: padded(suffixes(offsets, content, shared).tobytes())
        )
        header = _LAYOUT.pack(prefixes.number, lengths.number)
        return composed(header, prefixes.offer, lengths.offer, left)

    def decode(
        self, reader: ByteReader, row_count: int
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return (offsets int32[n + 1], bytes uint8[m]) of `row_count` >= 1 values."""
        prefixes_encoding, lengths_encoding = reader.unpack(_LAYOUT)
        prefixes, lengths = np.empty((2, row_count), np.int64)
        self._parts.decode_into(reader, prefixes_encoding, prefixes, 0)
        self._parts.decode_into(reader, lengths_encoding, lengths, 0)
        reader.require(
            int(prefixes.min()) >= 0 and int(prefixes.max()) <= PREFIX_BYTES_MAX,
            f"shared prefixes of {prefixes.min()} to {prefixes.max()} bytes",
        )
        low, high = int(lengths.min()), int(lengths.max())
        reader.require(low >= 0 and high <= VALUE_BYTES_MAX, f"suffixes of {low} to {high} bytes")
        reader.require(int(lengths.sum()) <= reader.bytes_left, "suffixes pass the end of the page")
        sizes = prefixes + lengths
        reader.require(
            int(prefixes[0]) == 0 and bool((prefixes[1:] <= sizes[:-1]).all()),
            "a shared prefix is longer than the text before it",
        )
        # A writer cuts pages by the bytes of their texts, so no page has more than a page of them.
        require_limit("size of a page's texts in bytes", int(sizes.sum()), PAGE_RAW_BYTES_MAX)
        left = reader.array("u1", int(lengths.sum()))
        rows = np.array([0, row_count])
        # Row 0 may be the null, which is stored as an empty text.
        found = join_texts(left, rows[:1], rows, prefixes, lengths, np.ones(1, np.bool_))
        reader.require(found is not None, "texts are not ascending")
        assert found is not None
        return found[0].astype(np.int32), found[1]
