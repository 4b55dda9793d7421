"""Run length: where each run of equal values ends, and its value. SPEC.md section 6.2.

For sorted columns. Run values are stored less the page's minimum, in whole bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics
from projseg.kernels.run_length import expand_runs, run_ends
from projseg.segment_format.byte_reader import ByteReader, padded, padding
from projseg.segment_format.encodings.protocol import (
    STORED_DTYPES,
    Int64s,
    byte_width,
    offsets_from,
    wrapped,
)

_LAYOUT: Final = struct.Struct("<qII")  # reference, run_count, value_bytes


class RunLength:
    """The `IntegerEncoding` with id 2."""

    encoding_id: Final = 2

    def encoded_bytes(self, values: Int64s, facts: PageStatistics) -> int | None:
        """Return the exact size."""
        width = byte_width(facts.maximum - facts.minimum)
        ends, offsets = 4 * facts.run_count, width * facts.run_count
        return _LAYOUT.size + ends + padding(ends) + offsets + padding(offsets)

    def encode(self, values: Int64s, facts: PageStatistics) -> bytes:
        """Return the bytes of the page."""
        ends = run_ends(values)
        width = byte_width(facts.maximum - facts.minimum)
        offsets = offsets_from(values[ends - 1], facts.minimum).astype(STORED_DTYPES[width])
        header = _LAYOUT.pack(facts.minimum, len(ends), width)
        return header + padded(ends.astype("<u4").tobytes(), offsets.tobytes())

    def decode_into(self, reader: ByteReader, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base."""
        reference, run_count, width = reader.unpack(_LAYOUT)
        reader.require(1 <= run_count <= len(out), f"{run_count} runs for {len(out)} rows")
        reader.require(width in STORED_DTYPES, f"run values of {width} bytes")
        ends = reader.array("<u4", run_count).astype(np.int64)
        offsets = reader.array(STORED_DTYPES[width], run_count)
        reader.require(
            bool((np.diff(ends, prepend=0) > 0).all()) and int(ends[-1]) == len(out),
            "run ends do not ascend to the row count",
        )
        values = offsets.astype(np.uint64).view(np.int64) + np.int64(wrapped(reference - base))
        expand_runs(ends, values, out)
