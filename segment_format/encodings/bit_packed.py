"""Bit-packed: value less the page's minimum in as few bits as the page needs. SPEC.md section 6.3.

The layout (see `kernels.pages.integer_codes`) unpacks about as fast as memory can be written.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.integer_codes import pack_bits, unpack_bits, word_bits, word_count
from projseg.kernels.pages.page_statistics import PageStatistics
from projseg.segment_format.encodings.encoding_protocols import Offer
from projseg.segment_format.encodings.int64_offsets import Int64s, offsets_from, wrapped
from projseg.segment_format.layout.byte_reader import ByteReader, padded, padding

_LAYOUT: Final = struct.Struct("<qII")  # reference, bit_width, reserved


class BitPacked:
    """Values of whole bits."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None for a page of one value, which takes no bits."""
        width = (facts.maximum - facts.minimum).bit_length()
        if width == 0:
            return None

        def make() -> bytes:
            words = pack_bits(offsets_from(values, facts.minimum), width)
            return _LAYOUT.pack(facts.minimum, width, 0) + padded(words.tobytes())

        return Offer(_LAYOUT.size + packed_bytes(len(values), width), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, width, reserved = reader.unpack(_LAYOUT)
        reader.require(1 <= width <= 64 and reserved == 0, f"values of {width} bits")
        unpack_into(reader, width, reference - base, out)


def packed_bytes(value_count: int, width: int) -> int:
    """Return the bytes of packed words with their padding."""
    size = word_count(value_count, width) * word_bits(width) // 8
    return size + padding(size)


def unpack_into(reader: ByteReader, width: int, addend: int, out: NDArray[Any]) -> None:
    """Take the words of n values and fill `out`, integer[n], with value + addend."""
    words = reader.array(f"<u{word_bits(width) // 8}", word_count(len(out), width))
    if word_bits(width) == 64 and out.dtype != np.int64:
        wide = np.empty(len(out), np.int64)
        unpack_bits(words, width, wrapped(addend), wide)
        np.copyto(out, wide, casting="unsafe")
    else:
        unpack_bits(words, width, wrapped(addend), out)
