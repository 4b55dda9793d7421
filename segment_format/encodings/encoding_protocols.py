"""The protocols of encodings, one for each kind of values; integers less a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.integer_codes import PageStatistics
from projseg.segment_format.byte_reader import ByteReader

Int64s = NDArray[np.int64]

STORED_DTYPES: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}  # by bytes of a value


def offsets_from(values: Int64s, reference: int) -> NDArray[np.uint64]:
    """Return value - reference, uint64[n]: exact if `reference` is the smallest of int64[n]."""
    return values.view(np.uint64) - np.uint64(reference % 2**64)


def byte_width(span: int) -> int:
    """Return the least of 1, 2, 4, 8 bytes that holds `span`."""
    bits = span.bit_length()
    return 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


def wrapped(addend: int) -> int:
    """Return `addend` modulo 2**64 as a signed 64-bit integer."""
    return (addend + 2**63) % 2**64 - 2**63


def multiply_in_place(out: NDArray[Any], factor: int) -> None:
    """Multiply every item of integer[n], modulo the size of the dtype."""
    bits = 8 * out.dtype.itemsize
    unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
    unsigned *= unsigned.dtype.type(factor % 2**bits)


def add_in_place(out: NDArray[Any], addend: int) -> None:
    """Add to every item of integer[n], modulo the size of the dtype."""
    if addend:
        bits = 8 * out.dtype.itemsize
        unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
        unsigned += unsigned.dtype.type(addend % 2**bits)


class Offer(NamedTuple):
    """The exact size of a page in one encoding, and the function that makes its bytes."""

    byte_count: int
    make: Callable[[], bytes]


def composed(header: bytes, *parts: Offer) -> Offer:
    """Return the offer of a header followed by parts."""
    size = len(header) + sum(part.byte_count for part in parts)
    return Offer(size, lambda: b"".join([header, *(part.make() for part in parts)]))


class IntegerEncoding(Protocol):
    """An encoding of integers: int64 when written, as narrow as the caller's array when read."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer for int64[n], n >= 1, or None if the encoding does not hold the page.

        Equal pages make equal bytes.
        """

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base, modulo the size of its dtype.

        `out` is uint8[n], uint16[n], uint32[n] or int64[n], contiguous and not empty.
        """


class WideIntegerEncoding(Protocol):
    """An encoding of integers of which some exceed 64 bits."""

    def offer(self, values: NDArray[Any]) -> Offer:
        """Return the offer for object[n] of Python integers, n >= 1."""

    def decode(self, reader: ByteReader, value_count: int) -> NDArray[Any]:
        """Return WIDE[n], or raise CorruptSegmentError."""


class FloatEncoding(Protocol):
    """An encoding of floats or doubles, bit for bit."""

    def offer(self, values: NDArray[Any]) -> Offer | None:
        """Return the offer for float32[n] or float64[n], n >= 1, or None if it holds not all."""

    def decode_into(self, reader: ByteReader, out: NDArray[Any]) -> None:
        """Fill float32[n] or float64[n], or raise CorruptSegmentError."""


class TextEncoding(Protocol):
    """An encoding of strings and binary values."""

    def offer(self, array: pa.Array, *, is_sorted: bool) -> Offer | None:
        """Return the offer for a string or binary array of at least one row, or None.

        If it is sorted, the texts ascend strictly; a null comes first.
        """

    def decode(self, reader: ByteReader, row_count: int) -> tuple[NDArray[Any], Any]:
        """Return (offsets int32[n + 1], bytes) of n >= 1 values, or raise CorruptSegmentError."""


class NestedEncoding(Protocol):
    """An encoding of lists, maps and structs."""

    def offer(self, array: pa.Array) -> Offer:
        """Return the offer for the values of at least one row; not for the array's own nulls."""

    def decode(
        self,
        reader: ByteReader,
        arrow_type: pa.DataType,
        row_count: int,
        validity: NDArray[Any] | None,
    ) -> pa.Array:
        """Return the array of n >= 1 values, which the caller validates."""
