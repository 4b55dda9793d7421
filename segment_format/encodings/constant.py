"""Constant: one value for the whole page. SPEC.md section 6.1."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.protocol import Int64s

_LAYOUT: Final = struct.Struct("<q")  # value


class Constant:
    """The `IntegerEncoding` with id 1."""

    encoding_id: Final = 1

    def encoded_bytes(self, values: Int64s, facts: PageStatistics) -> int | None:
        """Return the exact size, or None if values differ."""
        return _LAYOUT.size if facts.minimum == facts.maximum else None

    def encode(self, values: Int64s, facts: PageStatistics) -> bytes:
        """Return the bytes of the page."""
        return _LAYOUT.pack(facts.minimum)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        (value,) = reader.unpack(_LAYOUT)
        unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
        unsigned.fill((value - base) % 2 ** (8 * out.dtype.itemsize))
