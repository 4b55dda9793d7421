"""Scaled: values that are all a minimum plus a multiple of one factor. SPEC.md section 6.6.

Timestamps kept to the second or floored to the hour end in many zeros: dividing them out
leaves small integers, which take a flat encoding.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.common_factor import common_factor
from projseg.kernels.page_statistics import PageStatistics
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.flat import FLAT_ENCODINGS
from projseg.segment_format.encodings.protocol import (
    Int64s,
    add_in_place,
    multiply_in_place,
    offsets_from,
)
from projseg.segment_format.encodings.table import EncodingTable

_LAYOUT: Final = struct.Struct("<qQII")  # reference, factor, encoding, reserved
_SPAN_MIN: Final = 2**10
_FACTOR_MIN: Final = 8  # a smaller factor saves fewer than three bits a row


class Scaled:
    """The `IntegerEncoding` with id 6."""

    encoding_id: Final = 6

    def encoded_bytes(self, values: Int64s, facts: PageStatistics) -> int | None:
        """Return the exact size, or None if there is no factor worth taking out."""
        quotients = _quotients(values, facts)
        if quotients is None:
            return None
        encoding, _ = FLAT_ENCODINGS.choose(*quotients[:2])
        size = encoding.encoded_bytes(*quotients[:2])
        return None if size is None else _LAYOUT.size + size

    def encode(self, values: Int64s, facts: PageStatistics) -> bytes:
        """Return the bytes of the page."""
        quotients = _quotients(values, facts)
        assert quotients is not None, "encoded_bytes returned None for this page"
        encoding, part = FLAT_ENCODINGS.encode(*quotients[:2])
        return _LAYOUT.pack(facts.minimum, quotients[2], encoding, 0) + part

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, factor, encoding, reserved = reader.unpack(_LAYOUT)
        reader.require(reserved == 0, "a reserved field is not zero")
        FLAT_ENCODINGS.decode_into(reader, encoding, out, 0)
        multiply_in_place(out, factor)
        add_in_place(out, reference - base)


def _quotients(values: Int64s, facts: PageStatistics) -> tuple[Int64s, PageStatistics, int] | None:
    """Return ((value - minimum) / factor, their facts, the factor), or None."""
    span = facts.maximum - facts.minimum
    if not _SPAN_MIN <= span < 2**63:
        return None
    offsets = offsets_from(values, facts.minimum)
    factor = common_factor(offsets, _FACTOR_MIN)
    if factor < _FACTOR_MIN:
        return None
    scaled = PageStatistics(
        0,
        span // factor,
        facts.run_count,
        facts.delta_minimum // factor,
        facts.delta_maximum // factor,
    )
    return (offsets // np.uint64(factor)).view(np.int64), scaled, factor


SCALED_ENCODINGS: Final = EncodingTable([*FLAT_ENCODINGS.weighted, (Scaled(), 1.15)])
