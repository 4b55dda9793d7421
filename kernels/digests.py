"""Digests of byte strings: MD5, SHA-1 and SHA-2.

After: RFC 1321, MD5; FIPS 180-4, Secure Hash Standard.
"""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.memory.memory_pool import empty

Algorithm: TypeAlias = Literal["md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
"""As hashlib names them."""

_U = np.uint64
_32_BITS: Final = _U(0xFFFFFFFF)
_64_BITS: Final = _U(0xFFFFFFFFFFFFFFFF)
_BLOCK_WORDS: Final = 16
_SHA1_ROUNDS: Final = 80
_ALL_ROUNDS: Final = 80  # the most of any


def digests(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], algorithm: Algorithm
) -> NDArray[np.uint8]:
    """Return the digest of each byte string, uint8[n, bytes of a digest]."""
    offsets, content = checked_texts(offsets, content)
    width = _DIGEST_BYTES[algorithm]
    found = empty((len(offsets) - 1) * width, np.dtype(np.uint8)).reshape(-1, width)
    words, states = np.zeros(_ALL_ROUNDS, _U), np.zeros(8, _U)
    if algorithm == "md5":
        _md5(offsets, content, _MD5_CONSTANTS, _MD5_TURNS, words, found)
    elif algorithm == "sha1":
        _sha1(offsets, content, words, found)
    else:
        begins, constants, turns = _SHA2[algorithm]
        _sha2(offsets, content, begins, constants, turns, words, states, found)
    return found


def digest_bytes(algorithm: Algorithm) -> int:
    """Return how many bytes a digest has."""
    return _DIGEST_BYTES[algorithm]


_DIGEST_BYTES: Final[dict[Algorithm, int]] = {
    "md5": 16,
    "sha1": 20,
    "sha224": 28,
    "sha256": 32,
    "sha384": 48,
    "sha512": 64,
}


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % one for one in found):
            found.append(number)
        number += 1
    return found


def _cube_root(number: int) -> int:
    """Return the whole part of a cube root."""
    root = 1 << -(-number.bit_length() // 3)
    while root**3 > number:
        root = (2 * root + number // root**2) // 3
    return root


def _fractions(roots: list[int]) -> NDArray[np.uint64]:
    """Return the 64 bits after the point of numbers that have 64 such bits."""
    return read_only(np.array([root & (2**64 - 1) for root in roots], _U))


_PRIMES: Final = _primes(_ALL_ROUNDS)
_ROOTS: Final = _fractions([math.isqrt(prime << 128) for prime in _PRIMES[:16]])
_LONG_CONSTANTS: Final = _fractions([_cube_root(prime << 192) for prime in _PRIMES])
_CONSTANTS: Final = read_only(_LONG_CONSTANTS >> _U(32))
_LONG_TURNS: Final = read_only(np.array([1, 8, 7, 19, 61, 6, 14, 18, 41, 28, 34, 39], np.int64))
_TURNS: Final = read_only(np.array([7, 18, 3, 17, 19, 10, 6, 11, 25, 2, 13, 22], np.int64))
_SHA2: Final = {
    "sha224": (read_only(_ROOTS[8:] & _32_BITS), _CONSTANTS, _TURNS),
    "sha256": (read_only(_ROOTS[:8] >> _U(32)), _CONSTANTS, _TURNS),
    "sha384": (read_only(_ROOTS[8:].copy()), _LONG_CONSTANTS, _LONG_TURNS),
    "sha512": (read_only(_ROOTS[:8].copy()), _LONG_CONSTANTS, _LONG_TURNS),
}
"""What the states begin with, the constant of each round, and by how many bits words turn."""
_MD5_CONSTANTS: Final = read_only(
    np.array([int(abs(math.sin(step + 1)) * 2**32) for step in range(64)], _U)
)
_MD5_TURNS: Final = read_only(
    np.array([[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], np.int64)
)


@inlined_kernel
def _block_count(size: np.int64, width: int) -> np.int64:
    """Count the blocks of a byte string with its end and its size, which take two words and a byte.

    Part of: `_sha2`.
    """
    return (size + 1 + 2 * width + _BLOCK_WORDS * width - 1) // (_BLOCK_WORDS * width)


@inlined_kernel
def _word_at(
    content: NDArray[np.uint8], start: np.int64, size: np.int64, at: np.int64, width: int
) -> np.uint64:
    """Read a word, highest byte first, of a byte string that a bit and zeros follow.

    Shapes: content [bytes].
    Part of: `_sha2`.
    """
    word = _U(0)
    if at + width <= size:
        for place in range(start + at, start + at + width):
            word = word << _U(8) | _U(content[place])
        return word
    for place in range(at, at + width):
        word <<= _U(8)
        if place < size:
            word |= _U(content[start + place])
        elif place == size:
            word |= _U(0x80)
    return word


@inlined_kernel
def _swapped(word: np.uint64) -> np.uint64:
    """Turn the four bytes of a word around.

    Part of: `_md5`.
    """
    word = (word & _U(0x00FF00FF)) << _U(8) | (word >> _U(8)) & _U(0x00FF00FF)
    return (word << _U(16) | word >> _U(16)) & _32_BITS


@inlined_kernel
def _turned_left(word: np.uint64, count: np.int64) -> np.uint64:
    """Rotate 32 bits to the left.

    Part of: `_md5`.
    """
    return (word << _U(count) | word >> _U(32 - count)) & _32_BITS


@inlined_kernel
def _turned_right(word: np.uint64, count: np.int64, bits: int) -> np.uint64:
    """Rotate a word of some bits to the right; what lies above them is left to be cut off.

    Part of: `_sha2`.
    """
    return word >> _U(count) | word << _U(bits - count)


@kernel
def _md5(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    constants: NDArray[np.uint64],
    turns: NDArray[np.int64],
    words: NDArray[np.uint64],
    found: NDArray[np.uint8],
) -> None:
    """Digest row by row.

    Shapes: offsets [n + 1]; content [bytes]; constants [64]; turns [4, 4]; words [80];
    found [n, 16].
    Oracle: hashlib.md5.
    """
    for row in range(len(found)):
        start, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        e, f, g, h = _U(0x67452301), _U(0xEFCDAB89), _U(0x98BADCFE), _U(0x10325476)
        blocks = _block_count(size, 4)
        for block in range(blocks):
            for place in range(16):
                words[place] = _swapped(_word_at(content, start, size, 64 * block + 4 * place, 4))
            if block == blocks - 1:
                words[14] = _U(8 * size) & _32_BITS
                words[15] = _U(8 * size) >> _U(32)
            a, b, c, d = e, f, g, h
            for step in range(64):
                part = step // 16
                if part == 0:
                    mixed, place = b & c | ~b & d, step
                elif part == 1:
                    mixed, place = d & b | ~d & c, (5 * step + 1) % 16
                elif part == 2:
                    mixed, place = b ^ c ^ d, (3 * step + 5) % 16
                else:
                    mixed, place = c ^ (b | ~d & _32_BITS), 7 * step % 16
                mixed = mixed + a + constants[step] + words[place] & _32_BITS
                a, d, c = d, c, b
                b = b + _turned_left(mixed, turns[part, step % 4]) & _32_BITS
            e, f = e + a & _32_BITS, f + b & _32_BITS
            g, h = g + c & _32_BITS, h + d & _32_BITS
        for place in range(4):
            count = _U(8 * place)
            found[row, place] = e >> count & _U(255)
            found[row, 4 + place] = f >> count & _U(255)
            found[row, 8 + place] = g >> count & _U(255)
            found[row, 12 + place] = h >> count & _U(255)


@inlined_kernel
def _sha1_mixed(step: int, b: np.uint64, c: np.uint64, d: np.uint64) -> np.uint64:
    """Mix three words as a step does.

    Part of: `_sha1`.
    """
    if step < 20:
        return (b & c | ~b & d) + _U(0x5A827999)
    if step < 40:
        return (b ^ c ^ d) + _U(0x6ED9EBA1)
    if step < 60:
        return (b & c | b & d | c & d) + _U(0x8F1BBCDC)
    return (b ^ c ^ d) + _U(0xCA62C1D6)


@kernel
def _sha1(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    words: NDArray[np.uint64],
    found: NDArray[np.uint8],
) -> None:
    """Digest row by row.

    Shapes: offsets [n + 1]; content [bytes]; words [80]; found [n, 20].
    Oracle: hashlib.sha1.
    """
    for row in range(len(found)):
        start, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        u, v, w, x = _U(0x67452301), _U(0xEFCDAB89), _U(0x98BADCFE), _U(0x10325476)
        y = _U(0xC3D2E1F0)
        blocks = _block_count(size, 4)
        for block in range(blocks):
            for place in range(16):
                words[place] = _word_at(content, start, size, 64 * block + 4 * place, 4)
            if block == blocks - 1:
                words[14] = _U(8 * size) >> _U(32)
                words[15] = _U(8 * size) & _32_BITS
            for place in range(16, _SHA1_ROUNDS):
                mixed = words[place - 3] ^ words[place - 8] ^ words[place - 14] ^ words[place - 16]
                words[place] = _turned_left(mixed, 1)
            a, b, c, d, e = u, v, w, x, y
            for step in range(_SHA1_ROUNDS):
                mixed = _sha1_mixed(step, b, c, d) + _turned_left(a, 5) + e + words[step] & _32_BITS
                e, d, c, b, a = d, c, _turned_left(b, 30), a, mixed
            u, v, w = u + a & _32_BITS, v + b & _32_BITS, w + c & _32_BITS
            x, y = x + d & _32_BITS, y + e & _32_BITS
        for place in range(4):
            count = _U(24 - 8 * place)
            found[row, place] = u >> count & _U(255)
            found[row, 4 + place] = v >> count & _U(255)
            found[row, 8 + place] = w >> count & _U(255)
            found[row, 12 + place] = x >> count & _U(255)
            found[row, 16 + place] = y >> count & _U(255)


@kernel
def _sha2(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    begins: NDArray[np.uint64],
    constants: NDArray[np.uint64],
    turns: NDArray[np.int64],
    words: NDArray[np.uint64],
    states: NDArray[np.uint64],
    found: NDArray[np.uint8],
) -> None:
    """Digest row by row, in words of 32 or 64 bits.

    Shapes: offsets [n + 1]; content [bytes]; begins, states [8]; constants, words [80]; turns [12];
    found [n, bytes of a digest].
    Oracle: hashlib.sha256.
    """
    # The last rotation takes 22 bits of 32, or 39 of 64.
    width = 4 if turns[11] == 22 else 8
    bits, rounds = 8 * width, 64 if width == 4 else 80
    mask = _32_BITS if width == 4 else _64_BITS
    for row in range(len(found)):
        start, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        for place in range(8):
            states[place] = begins[place]
        blocks = _block_count(size, width)
        for block in range(blocks):
            first = _BLOCK_WORDS * width * block
            for place in range(16):
                words[place] = _word_at(content, start, size, first + width * place, width)
            if block == blocks - 1:
                words[14] = _U(8 * size) >> _U(32) if width == 4 else _U(0)
                words[15] = _U(8 * size) & mask
            for place in range(16, rounds):
                low, high = words[place - 15], words[place - 2]
                mixed = _turned_right(low, turns[0], bits) ^ _turned_right(low, turns[1], bits)
                mixed = (mixed ^ low >> _U(turns[2])) & mask
                other = _turned_right(high, turns[3], bits) ^ _turned_right(high, turns[4], bits)
                other = (other ^ high >> _U(turns[5])) & mask
                words[place] = words[place - 16] + mixed + words[place - 7] + other & mask
            a, b, c, d = states[0], states[1], states[2], states[3]
            e, f, g, h = states[4], states[5], states[6], states[7]
            for step in range(rounds):
                turned = _turned_right(e, turns[6], bits) ^ _turned_right(e, turns[7], bits)
                turned = (turned ^ _turned_right(e, turns[8], bits)) & mask
                mixed = h + turned + (e & f ^ ~e & g) + constants[step] + words[step]
                turned = _turned_right(a, turns[9], bits) ^ _turned_right(a, turns[10], bits)
                turned = (turned ^ _turned_right(a, turns[11], bits)) & mask
                other = turned + (a & b ^ a & c ^ b & c)
                h, g, f, e = g, f, e, d + mixed & mask
                d, c, b, a = c, b, a, mixed + other & mask
            states[0], states[1] = states[0] + a & mask, states[1] + b & mask
            states[2], states[3] = states[2] + c & mask, states[3] + d & mask
            states[4], states[5] = states[4] + e & mask, states[5] + f & mask
            states[6], states[7] = states[6] + g & mask, states[7] + h & mask
        for place in range(found.shape[1]):
            count = _U(bits - 8 - 8 * (place % width))
            found[row, place] = states[place // width] >> count & _U(255)
