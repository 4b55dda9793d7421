"""Plain: fixed-width values as they are, bit for bit. SPEC.md section 6.8.

For floats no other encoding holds in less, and for integers that pass 64 bits (16 bytes, two's
complement).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import LimitExceededError
from projseg.segment_format.encodings.encoding_protocols import Offer
from projseg.segment_format.layout.byte_reader import ByteReader, padded, padding
from projseg.segment_format.vectors.wide_integers import WIDE

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
        """Return the offer.

        Raises
        ------
        LimitExceededError
            If an integer does not fit.
        """
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
