"""Integers packed to bits, as runs and as differences, and expanded again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.array_types import Integers, are_few
from projseg.kernels.runtime.kernel import kernel
from projseg.memory.memory_pool import empty

# Pack integers into `width` bits each, laid out so that unpacking is straight SIMD code.
#
# The values of a page form a matrix of W rows, W = the bits of a word, row by row: `lanes = ceil(n
# / W)` columns. Each column is one bit stream: row r starts at bit `r * width`. Words are stored
# row by row too, so all lanes of a row share one word row and one shift, and the inner loop runs
# over neighbouring words and neighbouring outputs. SPEC.md section 6.3.

NARROW_WIDTH_MAX = 32  # beyond it words are 64 bits wide


def word_bits(width: int) -> int:
    """Return the size of the words that hold values of `width` bits: 32 or 64."""
    return 32 if width <= NARROW_WIDTH_MAX else 64


def word_count(value_count: int, width: int) -> int:
    """Return how many words `value_count` values of `width` bits take."""
    return -(-value_count // word_bits(width)) * width


def pack_bits(offsets: NDArray[Any], width: int) -> NDArray[Any]:
    """Return the words that hold `offsets`.

    Parameters
    ----------
    offsets : unsigned[n]
        Every one below 2**width.
    width : int
        1 to 64.

    Returns
    -------
    uint32[m] or uint64[m]
        m = `word_count(n, width)`; unused bits are zero.
    """
    if not 1 <= width <= 64 or (len(offsets) and int(offsets.max()) >> width):
        raise InvalidInputError("PROJSEG_INTERNAL", f"values do not fit {width} bits")
    bits = word_bits(width)
    dtype = np.uint32 if bits == 32 else np.uint64
    words = np.zeros(word_count(len(offsets), width), dtype)
    _pack(offsets.astype(dtype, copy=False), width, bits, words)
    return words


def unpack_bits(words: NDArray[Any], width: int, addend: int, out: NDArray[Any]) -> None:
    """Fill `out` with the packed values plus `addend`, modulo the size of its dtype.

    Parameters
    ----------
    words : uint32[m] or uint64[m], read-only
        As `pack_bits` made them for `len(out)` values; uint64 only if width > 32.
    width : int
        1 to 64.
    addend : int
        Fits int64.
    out : uint8[n], uint16[n], uint32[n] or int64[n]
        Contiguous; int64 if width > 32.

    Raises
    ------
    InvalidInputError
        If lengths or types do not fit each other: the kernel would read outside the words.
    """
    expected = np.uint32 if word_bits(width) == 32 else np.uint64
    fits = (
        1 <= width <= 64 and words.dtype == expected and len(words) == word_count(len(out), width)
    )
    if not fits or (expected is np.uint64 and out.dtype != np.int64):
        raise InvalidInputError("PROJSEG_INTERNAL", f"words do not hold {len(out)} x {width} bits")
    if are_few(len(out)) and out.dtype != np.int64:
        wide = empty(len(out), np.int64)
        _unpack_32(words, width, addend, wide)
        np.copyto(out, wide, casting="unsafe")
    elif word_bits(width) == 32:
        _unpack_32(words, width, addend, out)
    else:
        _unpack_64(words, width, addend, out)


@kernel
def _pack(
    offsets: NDArray[np.uint32] | NDArray[np.uint64],
    width: int,
    bits: int,
    words: NDArray[np.uint32] | NDArray[np.uint64],
) -> None:
    """Put the offsets into words, a lane for each.

    Shapes: offsets [n]; words [m].
    Oracle: tests/oracle/page_encodings.py::pack_bits.
    """
    count = len(offsets)
    lanes = (count + bits - 1) // bits
    for row in range(bits):
        start = row * lanes
        end = min(start + lanes, count)
        first = (row * width) // bits
        shift = (row * width) % bits
        low = first * lanes - start
        for i in range(start, end):
            words[low + i] |= offsets[i] << shift
        if shift + width > bits:
            high = low + lanes
            for i in range(start, end):
                words[high + i] |= offsets[i] >> (bits - shift)


@kernel(interpretable=True)
def _unpack_32(words: NDArray[np.uint32], width: int, addend: int, out: Integers) -> None:
    """Read packed words of 32 bits.

    Shapes: words [m]; out [n].
    Oracle: tests/oracle/page_encodings.py::unpack_bits.
    """
    count = len(out)
    lanes = (count + 31) // 32
    mask = np.uint32((1 << width) - 1)
    for row in range(32):
        start = row * lanes
        length = min(lanes, count - start)
        if length <= 0:
            break
        first = (row * width) // 32 * lanes
        shift = np.uint32((row * width) % 32)
        target = out[start : start + length]
        low = words[first : first + length]
        if shift + width <= 32:
            for i in range(length):
                target[i] = np.int64((low[i] >> shift) & mask) + addend
        else:
            high = words[first + lanes : first + lanes + length]
            left = np.uint32(32 - shift)
            for i in range(length):
                value = np.uint32(low[i] >> shift) | np.uint32(high[i] << left)
                target[i] = np.int64(value & mask) + addend


@kernel(interpretable=True)
def _unpack_64(words: NDArray[np.uint64], width: int, addend: int, out: NDArray[np.int64]) -> None:
    """Read packed words of 64 bits.

    Shapes: words [m]; out [n].
    Oracle: tests/oracle/page_encodings.py::unpack_bits.
    """
    count = len(out)
    lanes = (count + 63) // 64
    mask = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - width)
    for row in range(64):
        start = row * lanes
        length = min(lanes, count - start)
        if length <= 0:
            break
        first = (row * width) // 64 * lanes
        shift = np.uint64((row * width) % 64)
        target = out[start : start + length]
        low = words[first : first + length]
        if np.int64(shift) + width <= 64:
            for i in range(length):
                target[i] = np.int64((low[i] >> shift) & mask) + addend
        else:
            high = words[first + lanes : first + lanes + length]
            left = np.uint64(64) - shift
            for i in range(length):
                target[i] = np.int64(((low[i] >> shift) | (high[i] << left)) & mask) + addend


def run_ends(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each run of equal neighbours ends (exclusive), ascending; the last is n."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.append(changes, len(values)).astype(np.int64)


def expand_runs(ends: NDArray[np.int64], values: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Fill `out` with values[r] up to ends[r], for each run r in turn.

    Parameters
    ----------
    ends : int64[r]
        Strictly ascending from above 0 to `len(out)`.
    values : int64[r]
        One for each run; stored modulo the size of `out`'s dtype.
    out : uint8[n], uint16[n], uint32[n] or int64[n]
        Contiguous.

    Raises
    ------
    InvalidInputError
        If the ends are not as above: the kernel would write outside `out`.
    """
    ascends = len(ends) == len(values) and bool((np.diff(ends, prepend=0) > 0).all())
    if not ascends or int(ends[-1] if len(ends) else 0) != len(out):
        raise InvalidInputError("PROJSEG_INTERNAL", f"runs do not cover {len(out)} rows")
    _expand_runs(ends, values, out)


@kernel(interpretable=True)
def _expand_runs(ends: NDArray[np.int64], values: NDArray[np.int64], out: Integers) -> None:
    """Write each value as often as its run is long.

    Shapes: ends, values [r]; out [n].
    Oracle: tests/oracle/page_encodings.py::expand_runs.
    """
    start = 0
    for run in range(len(ends)):
        value = values[run]
        for i in range(start, ends[run]):
            out[i] = value
        start = ends[run]


def accumulate(values: NDArray[Any]) -> None:
    """Replace each value by the sum of all values up to it, modulo the range of the dtype.

    Parameters
    ----------
    values : uint8[n], uint16[n], uint32[n] or int64[n]
        Contiguous; changed in place.
    """
    _accumulate(values)


@kernel(interpretable=True)
def _accumulate(values: Integers) -> None:
    """Add up in place.

    Shapes: values [n].
    Oracle: tests/oracle/page_encodings.py::accumulate.
    """
    for i in range(1, len(values)):
        values[i] += values[i - 1]
