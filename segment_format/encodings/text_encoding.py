"""Text: lengths in an integer encoding, then all bytes. For strings and binary. SPEC.md 6.10."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.segment_format.encodings.encoding_protocols import Offer, composed
from projseg.segment_format.encodings.integer_pages import IntegerEncodings
from projseg.segment_format.layout.byte_reader import ByteReader, padded, padding
from projseg.segment_format.layout.format_limits import VALUE_BYTES_MAX, require_limit
from projseg.segment_format.vectors.arrow_arrays import scalar_of

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
    """A page of lengths, and all bytes; holds any page.

    Parameters
    ----------
    parts : IntegerEncodings
        Encodings that the lengths may use.
    """

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, array: pa.Array, *, is_sorted: bool) -> Offer:
        """Return the offer, sorted or not.

        Raises
        ------
        LimitExceededError
            If one value is too large.
        """
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
