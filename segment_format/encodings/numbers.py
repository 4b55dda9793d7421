"""Fixed-width values: which encoding a page of integers, wide integers or floats takes, and back.

Floats are encoded as the integers their bits are where values repeat, as decimals where they are
decimals in disguise, and plain otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics, page_statistics
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.decimal_double import (
    DECIMAL_ID,
    decode_decimals_into,
    encode_decimals,
)
from projseg.segment_format.encodings.integers import INTEGER_ENCODINGS
from projseg.segment_format.encodings.plain import (
    PLAIN_ID,
    decode_floats_into,
    decode_wide,
    encode_floats,
    encode_wide,
)

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def encode_wide_best(values: NDArray[Any]) -> tuple[int, bytes, PageStatistics | None]:
    """Return (encoding, part, facts) of object[n]; facts only if every value fits int64."""
    if int(values.max()) > _INT64_MAX or int(values.min()) < _INT64_MIN:
        return PLAIN_ID, encode_wide(values), None
    narrow = values.astype(np.int64)
    facts = page_statistics(narrow)
    encoding, part = INTEGER_ENCODINGS.encode(narrow, facts)
    return encoding, part, facts


def encode_floats_best(values: NDArray[Any]) -> tuple[int, bytes]:
    """Return (encoding, part) of float32[n] or float64[n], bit exact."""
    bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64).view(np.int64)
    encoding, part = INTEGER_ENCODINGS.encode(bits)
    candidates = [(encoding, part), (PLAIN_ID, encode_floats(values))]
    if values.dtype == np.float64 and (decimals := encode_decimals(values)) is not None:
        candidates.append((DECIMAL_ID, decimals))
    return min(candidates, key=lambda candidate: len(candidate[1]))


def decode_floats_best_into(reader: ByteReader, encoding: int, out: NDArray[Any]) -> None:
    """Fill float32[n] or float64[n] from whichever encoding the page has."""
    if encoding == PLAIN_ID:
        decode_floats_into(reader, out)
    elif encoding == DECIMAL_ID and out.dtype == np.float64:
        decode_decimals_into(reader, out)
    else:
        bits = out.view(np.int64 if out.dtype == np.float64 else np.uint32)
        INTEGER_ENCODINGS.decode_into(reader, encoding, bits, 0)


def decode_wide_best(reader: ByteReader, encoding: int, value_count: int) -> NDArray[Any]:
    """Return object[n] of Python integers, or int64[n] if the page holds no wider one."""
    if encoding == PLAIN_ID:
        return decode_wide(reader, value_count)
    narrow = np.empty(value_count, np.int64)
    INTEGER_ENCODINGS.decode_into(reader, encoding, narrow, 0)
    return narrow
