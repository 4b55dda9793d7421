"""Run length: how long each run of equal values is, and its value. SPEC.md section 6.7.

For sorted columns. Lengths and values are integer pages of their own.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics, page_statistics
from projseg.kernels.run_length import expand_runs, run_ends
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.protocol import Int64s, wrapped
from projseg.segment_format.encodings.scaled import SCALED_ENCODINGS

_LAYOUT: Final = struct.Struct("<IHH")  # run_count, lengths_encoding, values_encoding
_ROWS_PER_RUN_MIN: Final = 4  # shorter runs are read slower than rows one by one


class RunLength:
    """The `IntegerEncoding` with id 7."""

    encoding_id: Final = 7

    def encoded_bytes(self, values: Int64s, facts: PageStatistics) -> int | None:
        """Return the exact size, or None if runs are short."""
        if _ROWS_PER_RUN_MIN * facts.run_count > len(values):
            return None
        return _LAYOUT.size + sum(_part_bytes(part) for part in _runs(values))

    def encode(self, values: Int64s, facts: PageStatistics) -> bytes:
        """Return the bytes of the page."""
        lengths, run_values = (SCALED_ENCODINGS.encode(part) for part in _runs(values))
        header = _LAYOUT.pack(facts.run_count, lengths[0], run_values[0])
        return header + lengths[1] + run_values[1]

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        run_count, lengths_encoding, values_encoding = reader.unpack(_LAYOUT)
        reader.require(1 <= run_count <= len(out), f"{run_count} runs for {len(out)} rows")
        lengths, values = np.empty((2, run_count), np.int64)
        SCALED_ENCODINGS.decode_into(reader, lengths_encoding, lengths, 0)
        SCALED_ENCODINGS.decode_into(reader, values_encoding, values, wrapped(base))
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


def _part_bytes(values: Int64s) -> int:
    facts = page_statistics(values)
    encoding, _ = SCALED_ENCODINGS.choose(values, facts)
    size = encoding.encoded_bytes(values, facts)
    assert size is not None, "it was just chosen"
    return size
