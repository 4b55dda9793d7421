"""Run length: how long each run of equal values is, and its value. SPEC.md section 6.7.

For sorted columns. Lengths and values are integer pages of their own.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.pages.integer_codes import expand_runs, run_ends
from projseg.kernels.pages.page_statistics import PageStatistics
from projseg.segment_format.encodings.encoding_protocols import Offer, composed
from projseg.segment_format.encodings.int64_offsets import Int64s, wrapped
from projseg.segment_format.encodings.integer_pages import IntegerEncodings
from projseg.segment_format.layout.byte_reader import ByteReader

_LAYOUT: Final = struct.Struct("<IHH")  # run_count, lengths_encoding, values_encoding
_ROWS_PER_RUN_MIN: Final = 4  # shorter runs are read slower than rows one by one


class RunLength:
    """Lengths and values of runs, each a page of integers.

    Parameters
    ----------
    parts : IntegerEncodings
        Encodings that lengths and values may use.
    """

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, values: Int64s, facts: PageStatistics) -> Offer | None:
        """Return the offer, or None if runs are short."""
        if _ROWS_PER_RUN_MIN * facts.run_count > len(values):
            return None
        lengths, run_values = (self._parts.choose(part) for part in _runs(values))
        header = _LAYOUT.pack(facts.run_count, lengths.number, run_values.number)
        return composed(header, lengths.offer, run_values.offer)

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        run_count, lengths_encoding, values_encoding = reader.unpack(_LAYOUT)
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
