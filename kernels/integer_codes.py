"""Integers packed to bits, as runs and as differences; the statistics that choose an encoding.

Packing is laid out so that unpacking is straight SIMD code. The values of a page form a matrix of W
rows, W = the bits of a word, row by row: `lanes = ceil(n / W)` columns. Each column is one bit
stream: row r starts at bit `r * width`. Words are stored row by row too, so all lanes of a row
share one word row and one shift, and the inner loop runs over neighbouring words and neighbouring
outputs. SPEC.md section 6.3.

The statistics are their range and runs, their common factor, and the decimal zeros at their end.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import Integers, are_few, kernel
from projseg.memory.memory_pool import empty

ZEROS_MAX: Final = 18
_NARROW_WIDTH_MAX: Final = 32  # beyond it words are 64 bits wide
_DIGITS_A_STEP: Final = 9  # of a divisor of 32 bits


def word_bits(width: int) -> int:
    """Return the size of the words that hold values of `width` bits: 32 or 64."""
    return 32 if width <= _NARROW_WIDTH_MAX else 64


def word_count(value_count: int, width: int) -> int:
    """Return how many words `value_count` values of `width` bits take."""
    return -(-value_count // word_bits(width)) * width


def pack_bits(offsets: NDArray[Any], width: int) -> NDArray[Any]:
    """Return the words of `word_count(n, width)` that hold `offsets`, each below 2^width.

    Words are uint64 if the width, 1 to 64, is above 32, else uint32; unused bits are zero.
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

    Words are as `pack_bits` made them; `out` is contiguous, and int64 if the width is above 32.
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
    """Fill contiguous `out` with values[r] up to ends[r], for each run r in turn.

    Ends ascend strictly from above 0 to `len(out)`; values are stored modulo the size of its dtype.
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
    """Replace each value by the sum of all up to it, modulo the range of the dtype, in place."""
    _accumulate(values)


@kernel(interpretable=True)
def _accumulate(values: Integers) -> None:
    """Add up in place.

    Shapes: values [n].
    Oracle: tests/oracle/page_encodings.py::accumulate.
    """
    for i in range(1, len(values)):
        values[i] += values[i - 1]


class PageStatistics(NamedTuple):
    """Facts of a page of at least one value.

    `delta_minimum` and `delta_maximum` are of neighbouring values' differences modulo 2**64; they
    are true differences where `maximum - minimum` fits int64.
    """

    minimum: int
    maximum: int
    run_count: int
    delta_minimum: int
    delta_maximum: int


def page_statistics(values: NDArray[np.int64]) -> PageStatistics:
    """Return the facts of int64[n], n >= 1."""
    return PageStatistics(*(int(fact) for fact in _page_statistics(values)))


@kernel
def _page_statistics(values: NDArray[np.int64]) -> tuple[Any, ...]:
    """Return the statistics by which an encoding is chosen.

    Shapes: values [n].
    Oracle: tests/oracle/page_encodings.py::page_statistics.
    """
    minimum = maximum = values[0]
    run_count = 1
    delta_minimum = np.int64(0x7FFFFFFFFFFFFFFF)
    delta_maximum = np.int64(-0x8000000000000000)
    for i in range(1, len(values)):
        value = values[i]
        delta = value - values[i - 1]
        minimum = min(minimum, value)
        maximum = max(maximum, value)
        run_count += delta != 0
        delta_minimum = min(delta_minimum, delta)
        delta_maximum = max(delta_maximum, delta)
    return minimum, maximum, run_count, delta_minimum, delta_maximum


def common_factor(values: NDArray[np.uint64], least: int) -> int:
    """Return the greatest common divisor of uint64[n], or any lower number below `least`.

    The search ends as soon as the divisor falls below `least`, so most columns cost nothing. All
    zero gives 0.
    """
    return int(_common_factor(values, np.uint64(least)))


@kernel
def _common_factor(values: NDArray[np.uint64], least: np.uint64) -> Any:
    """Return the greatest common divisor, or one below `least` once there is one.

    A value is tested against the divisor found so far without dividing: d = odd * 2**shift divides
    v if the low `shift` bits of v are zero and (v >> shift) * (1 / odd modulo 2**64) is no larger
    than (2**64 - 1) / odd. After: Granlund and Montgomery, "Division by invariant integers", 1994.

    Shapes: values [n].
    Oracle: math.gcd.
    """
    factor = np.uint64(0)
    shift, low_bits = np.uint64(0), np.uint64(0)
    inverse, limit = np.uint64(0), np.uint64(0)
    for value in values:
        if value == np.uint64(0):
            continue
        if factor and not value & low_bits and (value >> shift) * inverse <= limit:
            continue
        rest = value
        while rest:
            factor, rest = rest, factor % rest
        if factor < least:
            break
        shift = np.uint64(0)
        odd = factor
        while not odd & np.uint64(1):
            odd >>= np.uint64(1)
            shift += np.uint64(1)
        low_bits = (np.uint64(1) << shift) - np.uint64(1)
        limit = np.uint64(0xFFFFFFFFFFFFFFFF) // odd
        inverse = odd
        for _ in range(5):
            inverse *= np.uint64(2) - odd * inverse
    return factor


def common_zeros(halves: NDArray[np.int64]) -> int:
    """Return how many zeros, up to ZEROS_MAX, all integers int64[n, 2] end with."""
    if halves.shape[1:] != (2,):
        raise InvalidInputError("PROJSEG_INTERNAL", f"{halves.shape} are no halves")
    return int(_common_zeros(halves, ZEROS_MAX))


@kernel(interpretable=True)
def _common_zeros(halves: NDArray[np.int64], zeros: int) -> Any:
    """Return how many zeros, at most `zeros`, all integers end with.

    Shapes: halves [n, 2].
    Oracle: tests/oracle/decimal_zeros.py::zeros_of.
    """
    shift, digit = np.uint64(32), np.uint64(0xFFFFFFFF)
    for row in range(len(halves)):
        while zeros > 0:
            lower, upper = np.uint64(halves[row, 0]), np.uint64(halves[row, 1])
            if halves[row, 1] < 0:  # as a size without sign
                upper = ~upper + np.uint64(lower == np.uint64(0))
                lower = ~lower + np.uint64(1)
            left, rest = zeros, np.uint64(0)
            while left > 0 and rest == np.uint64(0):
                digits = min(left, _DIGITS_A_STEP)
                by = np.uint64(10**digits)
                above = upper // by
                rest = ((upper - above * by) << shift) | (lower >> shift)
                first = rest // by
                rest = ((rest - first * by) << shift) | (lower & digit)
                second = rest // by
                rest -= second * by
                lower, upper = (first << shift) | second, above
                left -= digits
            if rest == np.uint64(0):
                break
            zeros -= 1
        if zeros == 0:
            break
    return zeros
