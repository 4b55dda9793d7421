"""Integers of a pattern: as differences, as runs, and as multiples of a factor."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.integer_codes import (
    PageStatistics,
    accumulate,
    common_factor,
    expand_runs,
    pack_bits,
    run_ends,
)
from projseg.segment_format.byte_reader import ByteReader, padded
from projseg.segment_format.encodings.encoding import IntegerEncodings
from projseg.segment_format.encodings.encoding_protocols import (
    Int64s,
    Offer,
    add_in_place,
    composed,
    multiply_in_place,
    offsets_from,
    wrapped,
)
from projseg.segment_format.encodings.packed_integers import packed_bytes, unpack_into

# Delta: differences of neighbours, bit-packed less the smallest. SPEC.md section 6.5.
#
# For timestamps and other columns that climb slowly. Decoding adds up, so it must save a good deal.

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


# Run length: how long each run of equal values is, and its value. SPEC.md section 6.7.
#
# For sorted columns. Lengths and values are integer pages of their own.

_RUNS_LAYOUT: Final = struct.Struct("<IHH")  # run_count, lengths_encoding, values_encoding
_ROWS_PER_RUN_MIN: Final = 4  # shorter runs are read slower than rows one by one


class RunLength:
    """Lengths and values of runs, each a page of integers."""

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if runs are short."""
        if _ROWS_PER_RUN_MIN * facts.run_count > len(values):
            return None
        lengths, run_values = (self._parts.choose(part) for part in _runs(values))
        header = _RUNS_LAYOUT.pack(facts.run_count, lengths.number, run_values.number)
        return composed(header, lengths.offer, run_values.offer)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        run_count, lengths_encoding, values_encoding = reader.unpack(_RUNS_LAYOUT)
        reader.require(1 <= run_count <= len(out), f"{run_count} runs for {len(out)} rows")
        lengths, values = np.empty((2, run_count), np.int64)
        self._parts.decode_into(reader, lengths_encoding, lengths, 0)
        self._parts.decode_into(reader, values_encoding, values, wrapped(base))
        low, high = int(lengths.min()), int(lengths.max())
        reader.require(low >= 1 and high <= len(out), f"runs of {low} to {high} rows")
        ends = np.cumsum(lengths)
        reader.require(int(ends[-1]) == len(out), f"runs of {ends[-1]} rows in all")
        expand_runs(ends, values, out)


def _runs(values: Int64s) -> tuple[Int64s, Int64s]:
    """Return the length and the value of each run."""
    ends = run_ends(values)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return ends - starts, values[starts]


# Scaled: values that are all a minimum plus a multiple of one factor. SPEC.md section 6.6.
#
# Timestamps kept to the second or floored to the hour end in many zeros: dividing them out leaves
# small integers, which take a flat encoding.

_SCALED_LAYOUT: Final = struct.Struct("<qQII")  # reference, factor, encoding, reserved
_SPAN_MIN: Final = 2**10
_FACTOR_MIN: Final = 8  # a smaller factor saves fewer than three bits a row


class Scaled:
    """A factor, and a page of quotients."""

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if no factor is worth dividing by."""
        found = _quotients(values, facts)
        if found is None:
            return None
        quotients, quotient_facts, factor = found
        chosen = self._parts.choose(quotients, quotient_facts)
        return composed(_SCALED_LAYOUT.pack(facts.minimum, factor, chosen.number, 0), chosen.offer)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, factor, encoding, reserved = reader.unpack(_SCALED_LAYOUT)
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
