"""Integers less a reference: constant, in whole bytes, in bits, and in bits with exceptions."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.integer_codes import (
    PageStatistics,
    pack_bits,
    unpack_bits,
    word_bits,
    word_count,
)
from projseg.segment_format.byte_reader import ByteReader, padded, padding
from projseg.segment_format.encodings.encoding_protocols import (
    STORED_DTYPES,
    Int64s,
    Offer,
    add_in_place,
    byte_width,
    offsets_from,
    wrapped,
)
from projseg.segment_format.format_limits import PAGE_ROWS_MAX

_CONSTANT_LAYOUT: Final = struct.Struct("<q")  # value


class Constant:
    """A page of one value."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if values differ."""
        if facts.minimum != facts.maximum:
            return None
        return Offer(_CONSTANT_LAYOUT.size, lambda: _CONSTANT_LAYOUT.pack(facts.minimum))

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        (value,) = reader.unpack(_CONSTANT_LAYOUT)
        unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
        unsigned.fill((value - base) % 2 ** (8 * out.dtype.itemsize))


# Frame of reference: value less the page's minimum in whole bytes. SPEC.md section 6.2.
#
# Decoding is one copy. Eight bytes a value hold any page of integers, so every page has an
# encoding.

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


# Bit-packed: value less the page's minimum in as few bits as the page needs. SPEC.md section 6.3.
#
# The layout (see `kernels.pages.integer_codes`) unpacks about as fast as memory can be written.


class BitPacked:
    """Values of whole bits."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None for a page of one value, which takes no bits."""
        width = (facts.maximum - facts.minimum).bit_length()
        if width == 0:
            return None

        def make() -> bytes:
            words = pack_bits(offsets_from(values, facts.minimum), width)
            return _LAYOUT.pack(facts.minimum, width, 0) + padded(words.tobytes())

        return Offer(_LAYOUT.size + packed_bytes(len(values), width), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, width, reserved = reader.unpack(_LAYOUT)
        reader.require(1 <= width <= 64 and reserved == 0, f"values of {width} bits")
        unpack_into(reader, width, reference - base, out)


def packed_bytes(value_count: int, width: int) -> int:
    """Return the bytes of packed words with their padding."""
    size = word_count(value_count, width) * word_bits(width) // 8
    return size + padding(size)


def unpack_into(reader: ByteReader, width: int, addend: int, out: NDArray[Any]) -> None:
    """Take the words of n values and fill `out`, integer[n], with value + addend."""
    words = reader.array(f"<u{word_bits(width) // 8}", word_count(len(out), width))
    if word_bits(width) == 64 and out.dtype != np.int64:
        wide = np.empty(len(out), np.int64)
        unpack_bits(words, width, wrapped(addend), wide)
        np.copyto(out, wide, casting="unsafe")
    else:
        unpack_bits(words, width, wrapped(addend), out)


# Patched: bit-packed for most rows, with the few large values listed apart. SPEC.md section 6.4.
#
# For skewed measures, where one outlier would widen every row of a page. Decoding unpacks, then
# writes the exceptions over it.

_PATCHED_LAYOUT: Final = struct.Struct(
    "<qIHBB"
)  # reference, exception_count, bit_width, value_bytes, 0
_SAMPLE: Final = 1024  # values that tell whether, and at which width, patching may pay
_WIDTH_MIN: Final = 4  # narrower pages have little to gain


class Patched:
    """Narrow values, and exceptions to them."""

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if patching does not pay. Exceptions are packed as zero."""
        width = _best_width(values, facts)
        if width is None:
            return None
        value_bytes = _value_bytes(facts)
        offsets = offsets_from(values, facts.minimum)
        positions = np.flatnonzero(offsets >> np.uint64(width))

        def make() -> bytes:
            fitting = offsets.copy()
            fitting[positions] = 0
            return _PATCHED_LAYOUT.pack(
                facts.minimum, len(positions), width, value_bytes, 0
            ) + padded(
                pack_bits(fitting, width).tobytes(),
                positions.astype("<u2").tobytes(),
                offsets[positions].astype(STORED_DTYPES[value_bytes]).tobytes(),
            )

        return Offer(_size(len(values), width, len(positions), value_bytes), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, count, width, value_bytes, reserved = reader.unpack(_PATCHED_LAYOUT)
        reader.require(1 <= width <= 64 and reserved == 0, f"values of {width} bits")
        reader.require(value_bytes in STORED_DTYPES, f"exceptions of {value_bytes} bytes")
        reader.require(count <= len(out) <= PAGE_ROWS_MAX, f"{count} exceptions")
        unpack_into(reader, width, reference - base, out)
        positions = reader.array("<u2", count).astype(np.int64)
        exceptions = reader.array(STORED_DTYPES[value_bytes], count)
        in_order = bool((positions[1:] > positions[:-1]).all())
        reader.require(
            in_order and (count == 0 or int(positions[-1]) < len(out)),
            "exceptions are not rows in ascending order",
        )
        values = exceptions.astype(np.uint64).view(np.int64) + np.int64(wrapped(reference - base))
        out[positions] = values.astype(out.dtype)


def _value_bytes(facts: PageStatistics) -> int:
    return byte_width(facts.maximum - facts.minimum)


def _size(value_count: int, width: int, exception_count: int, value_bytes: int) -> int:
    positions, exceptions = 2 * exception_count, value_bytes * exception_count
    patches = positions + padding(positions) + exceptions + padding(exceptions)
    return _PATCHED_LAYOUT.size + packed_bytes(value_count, width) + patches


def _best_width(values: Int64s, facts: PageStatistics) -> int | None:
    """Return the width at which a sample of the page is smallest, or None if that is no gain."""
    full = (facts.maximum - facts.minimum).bit_length()
    if full <= _WIDTH_MIN or not _SAMPLE // 8 <= len(values) <= PAGE_ROWS_MAX:
        return None
    sample = np.sort(offsets_from(values[:: max(1, len(values) // _SAMPLE)], facts.minimum))
    value_bytes = _value_bytes(facts)
    limits = np.uint64(1) << np.arange(full, dtype=np.uint64)
    fitting = np.searchsorted(sample, limits, side="left")  # by width: sample values it holds
    row_bits = np.arange(full) + 8 * (2 + value_bytes) * (len(sample) - fitting) / len(sample)
    row_bits[0] = full
    width = int(np.argmin(row_bits))
    return width if row_bits[width] < 0.9 * full else None
