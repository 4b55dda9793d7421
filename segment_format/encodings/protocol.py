"""What an encoding of integer pages offers, and helpers that several share.

Integers are int64 on the way in. On the way out they are written straight into the caller's array,
less a base the caller chose, so that narrow values are never widened on the way.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics
from projseg.segment_format.byte_reader import ByteReader

Int64s = NDArray[np.int64]

STORED_DTYPES: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}  # by bytes of a value


class IntegerEncoding(Protocol):
    """A pure pair of functions and the exact size of what they make."""

    @property
    def encoding_id(self) -> int:
        """The number SPEC.md section 6 gives this encoding; never reused."""

    def encoded_bytes(self, values: Int64s, facts: PageStatistics) -> int | None:
        """Return the exact encoded size, or None if this encoding cannot hold the page."""

    def encode(self, values: Int64s, facts: PageStatistics) -> bytes:
        """Return the bytes of a page that `encoded_bytes` accepted; deterministic."""

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base, modulo the size of its dtype, or raise CorruptSegmentError.

        `out` is uint8, uint16, uint32 or int64, contiguous and not empty.
        """


def offsets_from(values: Int64s, reference: int) -> NDArray[np.uint64]:
    """Return value - reference as uint64; exact, for the smallest value as reference."""
    return values.view(np.uint64) - np.uint64(reference % 2**64)


def byte_width(span: int) -> int:
    """Return the least of 1, 2, 4, 8 bytes that holds `span`."""
    return next(width for width in STORED_DTYPES if span < 1 << (8 * width))


def wrapped(addend: int) -> int:
    """Return `addend` modulo 2**64 as a signed 64-bit integer."""
    return (addend + 2**63) % 2**64 - 2**63


def multiply_in_place(out: NDArray[Any], factor: int) -> None:
    """Multiply every item, modulo the size of the dtype."""
    bits = 8 * out.dtype.itemsize
    unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
    unsigned *= unsigned.dtype.type(factor % 2**bits)


def add_in_place(out: NDArray[Any], addend: int) -> None:
    """Add to every item, modulo the size of the dtype."""
    if addend:
        bits = 8 * out.dtype.itemsize
        unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
        unsigned += unsigned.dtype.type(addend % 2**bits)
