"""Decimal doubles: doubles that equal integer / 10**k exactly. SPEC.md section 6.9.

Prices and rates are typed as decimals and stored as doubles. Where every value of a page is
`integer / 10**scale`, rounded once, the integers are stored in an integer encoding, and division
gives the same bits back, because both operands are exact doubles.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.segment_format.encodings.encoding_protocols import Offer, composed
from projseg.segment_format.encodings.integer_pages import IntegerEncodings
from projseg.segment_format.layout.byte_reader import ByteReader

SCALE_MAX: Final = 15
_EXACT_MAX: Final = 2**53  # integers up to here are doubles
_SAMPLE: Final = 32
_LAYOUT: Final = struct.Struct("<II")  # scale, integers_encoding


class DecimalDoubles:
    """A scale, and a page of integers.

    Parameters
    ----------
    parts : IntegerEncodings
        Encodings that the integers may use.
    """

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, values: NDArray[Any]) -> Offer | None:
        """Return the offer, or None for floats and where some value is no such decimal."""
        if values.dtype != np.float64:
            return None
        for scale in range(SCALE_MAX + 1):
            if _integers(values[:_SAMPLE], scale) is None:
                continue
            if (integers := _integers(values, scale)) is not None:
                chosen = self._parts.choose(integers)
                return composed(_LAYOUT.pack(scale, chosen.number), chosen.offer)
        return None

    def decode_into(self, reader: ByteReader, out: NDArray[Any]) -> None:
        """Fill float64[n]."""
        reader.require(out.dtype == np.float64, "decimals are doubles, and these are floats")
        scale, number = reader.unpack(_LAYOUT)
        reader.require(scale <= SCALE_MAX, f"decimal scale {scale}")
        integers = out.view(np.int64)
        self._parts.decode_into(reader, number, integers, 0)
        np.divide(integers, float(10**scale), out=out)


def _integers(values: NDArray[Any], scale: int) -> NDArray[np.int64] | None:
    """Return values * 10**scale if they are integers that divide back to the same bits."""
    power = float(10**scale)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.rint(values * power)
    if not (np.abs(scaled) <= _EXACT_MAX).all():
        return None
    integers = scaled.astype(np.int64)
    same = (integers / power).view(np.int64) == values.view(np.int64)
    return integers if same.all() else None
