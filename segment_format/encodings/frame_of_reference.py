"""Frame of reference: value less the page's minimum in whole bytes. SPEC.md section 6.2.

Decoding is one copy. Eight bytes a value hold any page of integers, so every page has an encoding.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.page_statistics import PageStatistics
from projseg.segment_format.encodings.encoding_protocols import Offer
from projseg.segment_format.encodings.int64_offsets import (
    STORED_DTYPES,
    Int64s,
    add_in_place,
    byte_width,
    offsets_from,
)
from projseg.segment_format.layout.byte_reader import ByteReader, padded, padding

_LAYOUT: Final = struct.Struct("<qII")  # reference, value_bytes, reserved


class FrameOfReference:
    """Whole bytes; holds any page."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer:
        """Return the offer."""
        width = byte_width(facts.maximum - facts.minimum)
        size = width * len(values)

        def make() -> bytes:
            offsets = offsets_from(values, facts.minimum).astype(STORED_DTYPES[width])
            return _LAYOUT.pack(facts.minimum, width, 0) + padded(offsets.tobytes())

        return Offer(_LAYOUT.size + size + padding(size), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, width, reserved = reader.unpack(_LAYOUT)
        reader.require(width in STORED_DTYPES and reserved == 0, f"values of {width} bytes")
        offsets = reader.array(STORED_DTYPES[width], len(out))
        np.copyto(out, offsets, casting="unsafe")
        add_in_place(out, reference - base)
