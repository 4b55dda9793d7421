"""Hashes of byte strings: Murmur3 and xxHash as Spark has them, CRC-32; numbers as bytes, digits.

After: Austin Appleby, MurmurHash3; Yann Collet, xxHash.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only, word_at
from projseg.memory.memory_pool import empty

_U = np.uint64
_NUMBER_BYTES: Final = 16
_32_BITS: Final = _U(0xFFFFFFFF)
_P1, _P2, _P3 = _U(0x9E3779B185EBCA87), _U(0xC2B2AE3D27D4EB4F), _U(0x165667B19E3779F9)
_P4, _P5 = _U(0x85EBCA77C2B2AE63), _U(0x27D4EB2F165667C5)
_DIGITS: Final = read_only(np.frombuffer(b"0123456789ABCDEF", np.uint8))


def murmur3(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], seeds: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the 32-bit hash of each byte string as uint64[n], with its row's seed, below 2^32.

    Four bytes make a word; each byte left over is a word of its own, with a sign, as Spark has it.
    """
    offsets, content, hashes = _checked(offsets, content, seeds)
    _murmur3(offsets, content, read_only(seeds), hashes)
    return hashes


def xxhash64(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], seeds: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the 64-bit hash of each byte string, with the seed of its row; else as `murmur3`."""
    offsets, content, hashes = _checked(offsets, content, seeds)
    _xxhash64(offsets, content, read_only(seeds), hashes)
    return hashes


def crc32(offsets: NDArray[np.int32], content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the CRC-32 of each byte string; else as `murmur3`."""
    offsets, content, sums = _checked(offsets, content, np.zeros(max(len(offsets) - 1, 0), _U))
    _crc32(offsets, content, _CRC_OF_BYTE, sums)
    return sums


def java_bytes(values: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return (offsets int32[n + 1], bytes) of numbers as Java's `BigInteger.toByteArray` has them.

    A number comes as its lower and upper half; its bytes are the fewest that leave the sign,
    highest first.
    """
    if values.shape[1:] != (2,):
        raise InvalidInputError("PROJSEG_INTERNAL", f"{values.shape} are no halves of numbers")
    offsets = np.zeros(len(values) + 1, np.int32)
    content = empty(_NUMBER_BYTES * len(values), np.dtype(np.uint8))
    _java_bytes(read_only(np.ascontiguousarray(values).view(_U)), offsets, content)
    return offsets, content[: offsets[-1]]


def digit_counts(values: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """Return how many digits each number has, one at least: int64[n]."""
    counts = np.ones(len(values), np.int64)
    for count in range(1, 64 // bits):
        counts += values >= _U(1 << bits * count)
    return counts


def number_digits(
    values: NDArray[np.uint64], bits: int, offsets: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Return numbers in digits of 1 or 4 bits, one after the other, as uint8[m].

    `offsets`, by `digit_counts`, has where each begins; a number of no digits is left out.
    """
    if len(offsets) != len(values) + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "offsets do not fit the numbers")
    content = empty(int(offsets[-1]), np.dtype(np.uint8))
    _number_digits(read_only(values), bits, _DIGITS, offsets, content)
    return content


def _checked(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], seeds: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint64]]:
    offsets, content = checked_texts(offsets, content)
    if len(seeds) != len(offsets) - 1:
        raise InvalidInputError("PROJSEG_INTERNAL", "there is not a seed for each byte string")
    return offsets, content, np.zeros(len(seeds), _U)


def _crc_of_bytes() -> NDArray[np.uint64]:
    sums = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        sums = np.where(sums & _U(1), sums >> _U(1) ^ _U(0xEDB88320), sums >> _U(1))
    return read_only(sums)


_CRC_OF_BYTE: Final = _crc_of_bytes()


@inlined_kernel
def _turned(word: np.uint64, count: int) -> np.uint64:
    """Rotate to the left.

    Part of: `_xxhash64`.
    """
    return word << _U(count) | word >> _U(64 - count)


@inlined_kernel
def _half_at(content: NDArray[np.uint8], at: np.uint64) -> np.uint64:
    """Read four bytes, little-endian.

    Shapes: content [bytes].
    Part of: `_murmur3`.
    """
    return (
        _U(content[at])
        | _U(content[at + _U(1)]) << _U(8)
        | _U(content[at + _U(2)]) << _U(16)
        | _U(content[at + _U(3)]) << _U(24)
    )


@inlined_kernel
def _murmur_step(value: np.uint64, word: np.uint64) -> np.uint64:
    """Mix a word of 32 bits into a hash of 32 bits.

    Part of: `_murmur3`.
    """
    word = word * _U(0xCC9E2D51) & _32_BITS
    word = (word << _U(15) | word >> _U(17)) * _U(0x1B873593) & _32_BITS
    value ^= word
    value = (value << _U(13) | value >> _U(19)) & _32_BITS
    return value * _U(5) + _U(0xE6546B64) & _32_BITS


@kernel
def _murmur3(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    seeds: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
) -> None:
    """Hash row by row.

    Shapes: offsets [n + 1]; content [bytes]; seeds, hashes [n].
    Oracle: tests/oracle/byte_hashes.py::murmur3.
    """
    for row in range(len(hashes)):
        at, end = _U(offsets[row]), _U(offsets[row + 1])
        size = end - at
        value = seeds[row]
        while end - at >= _U(4):
            value = _murmur_step(value, _half_at(content, at))
            at += _U(4)
        while at < end:
            byte = _U(content[at])
            value = _murmur_step(value, byte if byte < _U(128) else byte | _U(0xFFFFFF00))
            at += _U(1)
        value ^= size
        value = (value ^ value >> _U(16)) * _U(0x85EBCA6B) & _32_BITS
        value = (value ^ value >> _U(13)) * _U(0xC2B2AE35) & _32_BITS
        hashes[row] = value ^ value >> _U(16)


@inlined_kernel
def _lane(value: np.uint64, word: np.uint64) -> Any:
    """Mix a word into one of four lanes.

    Part of: `_xxhash64`.
    """
    return _turned(value + word * _P2, 31) * _P1


@inlined_kernel
def _with_lane(value: np.uint64, lane: np.uint64) -> Any:
    """Mix a lane into the hash.

    Part of: `_xxhash64`.
    """
    return (value ^ _lane(_U(0), lane)) * _P1 + _P4


@kernel
def _xxhash64(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    seeds: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
) -> None:
    """Hash row by row.

    Shapes: offsets [n + 1]; content [bytes]; seeds, hashes [n].
    Oracle: tests/oracle/byte_hashes.py::xxhash64.
    """
    for row in range(len(hashes)):
        at, end, seed = _U(offsets[row]), _U(offsets[row + 1]), seeds[row]
        size = end - at
        value = seed + _P5
        if size >= _U(32):
            a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
            while end - at >= _U(32):
                a = _lane(a, word_at(content, at))
                b = _lane(b, word_at(content, at + _U(8)))
                c = _lane(c, word_at(content, at + _U(16)))
                d = _lane(d, word_at(content, at + _U(24)))
                at += _U(32)
            value = _turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)
            value = _with_lane(_with_lane(_with_lane(_with_lane(value, a), b), c), d)
        value += size
        while end - at >= _U(8):
            value = _turned(value ^ _lane(_U(0), word_at(content, at)), 27) * _P1 + _P4
            at += _U(8)
        if end - at >= _U(4):
            value = _turned(value ^ _half_at(content, at) * _P1, 23) * _P2 + _P3
            at += _U(4)
        while at < end:
            value = _turned(value ^ _U(content[at]) * _P5, 11) * _P1
            at += _U(1)
        value = (value ^ value >> _U(33)) * _P2
        value = (value ^ value >> _U(29)) * _P3
        hashes[row] = value ^ value >> _U(32)


@kernel
def _crc32(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    of_byte: NDArray[np.uint64],
    sums: NDArray[np.uint64],
) -> None:
    """Sum row by row.

    Shapes: offsets [n + 1]; content [bytes]; of_byte [256]; sums [n].
    Oracle: zlib.crc32.
    """
    for row in range(len(sums)):
        value = _32_BITS
        for at in range(np.int64(offsets[row]), np.int64(offsets[row + 1])):
            value = of_byte[(value ^ _U(content[at])) & _U(255)] ^ value >> _U(8)
        sums[row] = value ^ _32_BITS


@kernel
def _java_bytes(
    values: NDArray[np.uint64], offsets: NDArray[np.int32], content: NDArray[np.uint8]
) -> None:
    """Write number by number.

    Shapes: values [n, 2]; offsets [n + 1]; content [bytes].
    Oracle: tests/oracle/byte_hashes.py::java_bytes.
    """
    end: Any = np.int64(0)
    for row in range(len(values)):
        low, high = values[row, 0], values[row, 1]
        sign = _U(0) - (high >> _U(63))  # all ones if it is negative
        count = 1
        while count < 16:
            bits = 8 * count - 1
            left = (high ^ sign) >> _U(max(bits - 64, 0))
            if bits < 64:
                left |= (low ^ sign) >> _U(bits)
            if left == 0:
                break
            count += 1
        for place in range(count - 1, -1, -1):
            word = high >> _U(8 * (place - 8)) if place >= 8 else low >> _U(8 * place)
            content[end] = word & _U(255)
            end += 1
        offsets[row + 1] = end


@kernel
def _number_digits(
    values: NDArray[np.uint64],
    bits: int,
    digits: NDArray[np.uint8],
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
) -> None:
    """Write each number from its last digit to its first.

    Shapes: values [n]; digits [16]; offsets [n + 1]; content [bytes].
    Oracle: tests/oracle/byte_hashes.py::digits.
    """
    last = _U((1 << bits) - 1)
    for row in range(len(values)):
        value = values[row]
        for at in range(np.int64(offsets[row + 1]) - 1, np.int64(offsets[row]) - 1, -1):
            content[at] = digits[value & last]
            value >>= _U(bits)
