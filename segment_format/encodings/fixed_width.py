"""Fixed-width values as they are, and doubles that are decimals."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import LimitExceededError
from projseg.segment_format.arrow_arrays import WIDE
from projseg.segment_format.byte_reader import ByteReader, padded, padding
from projseg.segment_format.encodings.encoding import IntegerEncodings
from projseg.segment_format.encodings.encoding_protocols import Offer, composed

# Plain: fixed-width values as they are, bit for bit. SPEC.md section 6.8.
#
# For floats no other encoding holds in less, and for integers that pass 64 bits (16 bytes, two's
# complement).

WIDE_BITS: Final = 128  # of an integer stored wide
_LOW: Final = (1 << 64) - 1


class PlainFloats:
    """Floats in 4 bytes, doubles in 8; holds any page."""

    def offer(self, values: NDArray[Any]) -> Offer:
        """Return the offer."""

        def make() -> bytes:
            stored = values.astype(values.dtype.newbyteorder("<"), copy=False)
            return padded(stored.tobytes())

        return Offer(values.nbytes + padding(values.nbytes), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any]) -> None:
        """Fill float32[n] or float64[n], bit for bit."""
        bits = f"u{out.dtype.itemsize}"
        out.view(bits)[:] = reader.array(f"<{bits}", len(out))


class PlainIntegers:
    """Integers in 16 bytes, two's complement."""

    def offer(self, values: NDArray[Any]) -> Offer:
        """Return the offer."""
        edge = 1 << (WIDE_BITS - 1)
        if int(values.max()) >= edge or int(values.min()) < -edge:
            raise LimitExceededError(
                "PROJSEG_LIMIT_EXCEEDED", f"an integer passes {WIDE_BITS} bits and cannot be stored"
            )

        def make() -> bytes:
            halves = np.empty((len(values), 2), "<u8")
            halves[:, 0] = (values & _LOW).astype(np.uint64)
            halves[:, 1] = ((values >> 64) & _LOW).astype(np.uint64)
            return halves.tobytes()

        return Offer(WIDE_BITS // 8 * len(values), make)

    def decode(self, reader: ByteReader, value_count: int) -> NDArray[Any]:
        """Return WIDE[n]."""
        return reader.array("<i8", 2 * value_count).astype(np.int64, copy=False).view(WIDE)


# Decimal doubles: doubles that equal integer / 10**k exactly. SPEC.md section 6.9.
#
# Prices and rates are typed as decimals and stored as doubles. Where every value of a page is
# `integer / 10**scale`, rounded once, the integers are stored in an integer encoding, and division
# gives the same bits back, because both operands are exact doubles.

SCALE_MAX: Final = 15
_EXACT_MAX: Final = 2**53  # integers up to here are doubles
_SAMPLE: Final = 32
_DECIMAL_LAYOUT: Final = struct.Struct("<II")  # scale, integers_encoding


class DecimalDoubles:
    """A scale, and a page of integers."""

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
                return composed(_DECIMAL_LAYOUT.pack(scale, chosen.number), chosen.offer)
        return None

    def decode_into(self, reader: ByteReader, out: NDArray[Any]) -> None:
        """Fill float64[n]."""
        reader.require(out.dtype == np.float64, "decimals are doubles, and these are floats")
        scale, number = reader.unpack(_DECIMAL_LAYOUT)
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
