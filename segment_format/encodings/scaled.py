"""Scaled: values that are all a minimum plus a multiple of one factor. SPEC.md section 6.6.

Timestamps kept to the second or floored to the hour end in many zeros: dividing them out
leaves small integers, which take a flat encoding.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.page_statistics import PageStatistics, common_factor
from projseg.segment_format.encodings.encoding_protocols import Offer, composed
from projseg.segment_format.encodings.int64_offsets import (
    Int64s,
    add_in_place,
    multiply_in_place,
    offsets_from,
)
from projseg.segment_format.encodings.integer_pages import IntegerEncodings
from projseg.segment_format.layout.byte_reader import ByteReader

_LAYOUT: Final = struct.Struct("<qQII")  # reference, factor, encoding, reserved
_SPAN_MIN: Final = 2**10
_FACTOR_MIN: Final = 8  # a smaller factor saves fewer than three bits a row


class Scaled:
    """A factor, and a page of quotients.

    Parameters
    ----------
    parts : IntegerEncodings
        Encodings that the quotients may use.
    """

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if no factor is worth dividing by."""
        found = _quotients(values, facts)
        if found is None:
            return None
        quotients, quotient_facts, factor = found
        chosen = self._parts.choose(quotients, quotient_facts)
        return composed(_LAYOUT.pack(facts.minimum, factor, chosen.number, 0), chosen.offer)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, factor, encoding, reserved = reader.unpack(_LAYOUT)
        reader.require(reserved == 0, "a reserved field is not zero")
        self._parts.decode_into(reader, encoding, out, 0)
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
