"""Delta: differences of neighbours, bit-packed less the smallest. SPEC.md section 6.5.

For timestamps and other columns that climb slowly. Decoding adds up, so it must save a good deal.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.integer_codes import accumulate, pack_bits
from projseg.kernels.pages.page_statistics import PageStatistics
from projseg.segment_format.encodings.bit_packed import packed_bytes, unpack_into
from projseg.segment_format.encodings.encoding_protocols import Offer
from projseg.segment_format.encodings.int64_offsets import Int64s, add_in_place, offsets_from
from projseg.segment_format.layout.byte_reader import ByteReader, padded

_LAYOUT: Final = struct.Struct("<qqII")  # first, reference, bit_width, reserved
_INT64_MAX: Final = 2**63 - 1


class Delta:
    """Differences of neighbours."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if there is no difference or one passes int64.

        The first row's difference is stored as the smallest.
        """
        if len(values) < 2 or facts.maximum - facts.minimum > _INT64_MAX:
            return None
        width = (facts.delta_maximum - facts.delta_minimum).bit_length()

        def make() -> bytes:
            header = _LAYOUT.pack(int(values[0]), facts.delta_minimum, width, 0)
            if width == 0:
                return header
            offsets = np.zeros(len(values), np.uint64)
            offsets[1:] = offsets_from(np.diff(values), facts.delta_minimum)
            return header + padded(pack_bits(offsets, width).tobytes())

        return Offer(_LAYOUT.size + packed_bytes(len(values), width), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        first, reference, width, reserved = reader.unpack(_LAYOUT)
        reader.require(0 <= width <= 64 and reserved == 0, f"differences of {width} bits")
        if width == 0:
            out.fill(0)
            add_in_place(out, reference)
        else:
            unpack_into(reader, width, reference, out)
        out[:1] = 0
        add_in_place(out[:1], first - base)
        accumulate(out)
