"""Slow, obvious twins of the theta sketch kernels, over Python sets of hashes."""

from __future__ import annotations

import struct

from oracle.value_hash import murmur3

THETA_MAX = 2**63 - 1


def theta_hash(content: bytes) -> int:
    """Return the upper 63 bits of h1."""
    return murmur3(content)[0] >> 1


def smallest(hashes: set[int], size_max: int) -> tuple[list[int], int]:
    """Return (kept hashes ascending, theta)."""
    ordered = sorted(hashes)
    if len(ordered) <= size_max:
        return ordered, THETA_MAX
    return ordered[:size_max], ordered[size_max]


def sketch(hashes: set[int], size_max: int) -> bytes:
    """Return the compressed compact sketch of a set of hashes."""
    kept, theta = smallest(hashes, size_max)
    if not kept:
        return bytes([1, 3, 3, 0, 0, 0x1E, 0, 0])
    if len(kept) == 1 and theta == THETA_MAX:
        return bytes([1, 3, 3, 0, 0, 0x3A, 0xCC, 0x93]) + struct.pack("<Q", kept[0])
    differences = [after - before for before, after in zip([0, *kept], kept, strict=False)]
    bits = max(difference.bit_length() for difference in differences)
    text = "".join(f"{difference:0{bits}b}" for difference in differences)
    text += "0" * (-len(text) % 8)
    packed = bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))
    count_bytes = (len(kept).bit_length() + 7) // 8
    longs = 1 if theta == THETA_MAX else 2
    header = bytes([longs, 4, 3, bits, count_bytes, 0x1A, 0xCC, 0x93])
    if longs == 2:
        header += struct.pack("<Q", theta)
    return header + len(kept).to_bytes(count_bytes, "little") + packed
