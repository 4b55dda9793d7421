"""Constant: one value for the whole page. SPEC.md section 6.1."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.page_statistics import PageStatistics
from projseg.segment_format.encodings.encoding_protocols import Offer
from projseg.segment_format.encodings.int64_offsets import Int64s
from projseg.segment_format.layout.byte_reader import ByteReader

_LAYOUT: Final = struct.Struct("<q")  # value


class Constant:
    """A page of one value."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if values differ."""
        if facts.minimum != facts.maximum:
            return None
        return Offer(_LAYOUT.size, lambda: _LAYOUT.pack(facts.minimum))

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        (value,) = reader.unpack(_LAYOUT)
        unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
        unsigned.fill((value - base) % 2 ** (8 * out.dtype.itemsize))
