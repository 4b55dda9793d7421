"""Patched: bit-packed for most rows, with the few large values listed apart. SPEC.md section 6.4.

For skewed measures, where one outlier would widen every row of a page. Decoding unpacks, then
writes the exceptions over it.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.integer_codes import pack_bits
from projseg.kernels.pages.page_statistics import PageStatistics
from projseg.segment_format.encodings.bit_packed import packed_bytes, unpack_into
from projseg.segment_format.encodings.encoding_protocols import Offer
from projseg.segment_format.encodings.int64_offsets import (
    STORED_DTYPES,
    Int64s,
    byte_width,
    offsets_from,
    wrapped,
)
from projseg.segment_format.layout.byte_reader import ByteReader, padded, padding
from projseg.segment_format.layout.format_limits import PAGE_ROWS_MAX

_LAYOUT: Final = struct.Struct("<qIHBB")  # reference, exception_count, bit_width, value_bytes, 0
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
            return _LAYOUT.pack(facts.minimum, len(positions), width, value_bytes, 0) + padded(
                pack_bits(fitting, width).tobytes(),
                positions.astype("<u2").tobytes(),
                offsets[positions].astype(STORED_DTYPES[value_bytes]).tobytes(),
            )

        return Offer(_size(len(values), width, len(positions), value_bytes), make)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, count, width, value_bytes, reserved = reader.unpack(_LAYOUT)
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
    return _LAYOUT.size + packed_bytes(value_count, width) + patches


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
