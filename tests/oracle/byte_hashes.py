"""Slow, obvious twins of hashes of byte strings, and of digits of base 2 and 16."""

from __future__ import annotations

import xxhash


def murmur3(content, seed):
    """Return Spark's 32-bit Murmur3 of bytes."""
    whole = len(content) // 4 * 4
    words = [int.from_bytes(content[at : at + 4], "little") for at in range(0, whole, 4)]
    words += [byte - 256 if byte > 127 else byte for byte in content[whole:]]
    value = seed
    for word in words:
        mixed = word * 0xCC9E2D51 & 0xFFFFFFFF
        value ^= _turned(mixed, 15) * 0x1B873593 & 0xFFFFFFFF
        value = _turned(value, 13) * 5 + 0xE6546B64 & 0xFFFFFFFF
    value ^= len(content)
    value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


def _turned(word, count):
    return (word << count | word >> 32 - count) & 0xFFFFFFFF


def xxhash64(content, seed):
    """Return the 64-bit xxHash of bytes."""
    return xxhash.xxh64_intdigest(content, seed)


def java_bytes(value):
    """Return the bytes of a number as Java's `BigInteger.toByteArray` does: the fewest."""
    size = value if value >= 0 else ~value
    return value.to_bytes(size.bit_length() // 8 + 1, "big", signed=True)


def digits(value, bits):
    """Return a number of 64 bits in digits that stand for so many bits each."""
    return format(value, "b" if bits == 1 else "X")
