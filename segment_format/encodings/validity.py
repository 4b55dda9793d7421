"""Encode which rows of a page hold a value, in front of the values. SPEC.md section 5.3."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.segment_format.layout.byte_reader import ByteReader, padded

ALL_VALID: Final = 0
ALL_NULL: Final = 1
BITMAP: Final = 2  # one bit a row, least significant first, 1 = valid
RUNS: Final = 3  # run ends: runs of valid and null rows in turn, the first one valid


def encode_validity(validity: NDArray[np.bool_] | None) -> tuple[int, bytes]:
    """Return the kind and the bytes of the smallest form.

    Parameters
    ----------
    validity : bool[n] or None
        True where there is a value; None means everywhere.
    """
    if validity is None or validity.all():
        return ALL_VALID, b""
    if not validity.any():
        return ALL_NULL, b""
    ends = np.flatnonzero(np.diff(validity, append=~validity[-1])) + 1
    if not validity[0]:
        ends = np.concatenate([[0], ends])
    if 8 + 4 * len(ends) < len(validity) // 8:
        count = np.array([len(ends)], "<u8")
        return RUNS, count.tobytes() + padded(ends.astype("<u4").tobytes())
    return BITMAP, padded(np.packbits(validity, bitorder="little").tobytes())


def decode_validity(
    reader: ByteReader, kind: int, row_count: int, null_count: int
) -> NDArray[np.bool_] | None:
    """Return validity[row_count], or None where no row is null.

    Raises
    ------
    CorruptSegmentError
        If the bytes are not in canonical form, or hold another number of nulls.
    """
    reader.require(ALL_VALID <= kind <= RUNS, f"unknown kind of validity {kind}")
    if kind in (ALL_VALID, ALL_NULL):
        expected = 0 if kind == ALL_VALID else row_count
        reader.require(null_count == expected, f"{null_count} nulls counted, not {expected}")
        return None if kind == ALL_VALID else np.zeros(row_count, np.bool_)
    validity = (_bitmap if kind == BITMAP else _runs)(reader, row_count)
    found = row_count - int(np.count_nonzero(validity))
    reader.require(found == null_count, f"{found} nulls found, {null_count} counted")
    return validity


def _bitmap(reader: ByteReader, row_count: int) -> NDArray[np.bool_]:
    packed = reader.array("u1", -(-row_count // 8))
    bits = np.unpackbits(packed, bitorder="little")
    reader.require(not bits[row_count:].any(), "a bit beyond the last row is set")
    return bits[:row_count].view(np.bool_)


def _runs(reader: ByteReader, row_count: int) -> NDArray[np.bool_]:
    count = int(reader.array("<u8", 1)[0])
    reader.require(2 <= count <= row_count + 1, f"{count} runs for {row_count} rows")
    ends = reader.array("<u4", count).astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    reader.require(
        bool((lengths[1:] > 0).all()) and int(ends[-1]) == row_count,
        "run ends do not ascend to the row count",
    )
    return np.repeat(np.arange(count) % 2 == 0, lengths)
