"""Hashes of values: 64 bits for HyperLogLog and files, 63 bits for theta sketches.

A value hash lacks the upper bits of the first half of MurmurHash3_x64_128, by which a theta sketch
chooses what it keeps, so theta sketches hash values afresh, once for each dictionary value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import checked_texts

# The 64-bit hash of a value, from which an HLL sketch is updated without the value itself.
#
# With (h1, h2) = MurmurHash3_x64_128(bytes, seed 9001), as Apache DataSketches hashes:
#
#     coupon     = (min(leading zeros of h2, 62) + 1) << 26 | (h1 & (2**26 - 1))
#     value hash = coupon << 32 | ((h1 >> 26) & (2**32 - 1))
#
# The upper half is what an HLL sketch stores; the whole tells values apart. SPEC.md section 7.
# After: Austin Appleby, MurmurHash3.

_SEED = 9001


def hash_bytes(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the value hash of each text, uint64[n]."""
    offsets, content = checked_texts(offsets, content)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    _hash_bytes(offsets, content, hashes)
    return hashes


def hash_int64(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the value hash of the eight little-endian bytes of each value: uint64[n]."""
    hashes = np.empty(len(values), np.uint64)
    _hash_int64(np.ascontiguousarray(values).view(np.uint64), hashes)
    return hashes


_U = np.uint64
_C1, _C2 = _U(0x87C37B91114253D5), _U(0x4CF5AD432745937F)
_F1, _F2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_N1, _N2, _FIVE = _U(0x52DCE729), _U(0x38495AB5), _U(5)


@inlined_kernel
def _rotated(value: np.uint64, bits: int) -> np.uint64:
    """Rotate to the left.

    Part of: `_hashed`.
    """
    return (value << _U(bits)) | (value >> _U(64 - bits))


@inlined_kernel
def _value_hash(h1: np.uint64, h2: np.uint64) -> np.uint64:
    """Fold the two halves of a hash into a value hash.

    Part of: `_hash_bytes`.
    """
    coupon = (_U(min(_leading_zeros(h2), 62) + 1) << _U(26)) | (h1 & _U(0x3FFFFFF))
    return (coupon << _U(32)) | ((h1 >> _U(26)) & _U(0xFFFFFFFF))


@inlined_kernel
def _finished(h1: np.uint64, h2: np.uint64, byte_count: int) -> Any:
    """Mix the two halves: return (h1, h2).

    Part of: `_hashed`.
    """
    h1 ^= _U(byte_count)
    h2 ^= _U(byte_count)
    h1 += h2
    h2 += h1
    h1 = _mixed(h1)
    h2 = _mixed(h2)
    h1 += h2
    return h1, h2 + h1


@inlined_kernel
def _leading_zeros(value: np.uint64) -> Any:
    """Halve the search five times, each step without a branch.

    Part of: `_value_hash`.
    """
    zeros = np.int64(64)
    for bits in (32, 16, 8, 4, 2):
        high = value >> _U(bits)
        is_high = high != _U(0)
        zeros -= bits if is_high else 0
        value = high if is_high else value
    return zeros - np.int64(value if value < _U(2) else _U(2))


@inlined_kernel
def _mixed(value: np.uint64) -> np.uint64:
    """Mix a half's bits.

    Part of: `_finished`.
    """
    value ^= value >> _U(33)
    value *= _F1
    value ^= value >> _U(33)
    value *= _F2
    value ^= value >> _U(33)
    return value


@inlined_kernel
def _little_endian(content: NDArray[np.uint8], start: int, byte_count: int) -> np.uint64:
    """Read a word of up to eight bytes.

    Shapes: content [bytes].
    Part of: `_hashed`.
    """
    word = _U(0)
    for i in range(byte_count):
        word |= _U(content[start + i]) << _U(8 * i)
    return word


@inlined_kernel
def _hashed(content: NDArray[np.uint8], start: int, end: int) -> Any:
    """Hash content[start : end]: return (h1, h2).

    Shapes: content [bytes].
    Part of: `_hash_bytes`.
    """
    byte_count = end - start
    h1 = _U(_SEED)
    h2 = _U(_SEED)
    while end - start >= 16:
        k1 = _little_endian(content, start, 8)
        k2 = _little_endian(content, start + 8, 8)
        h1 ^= _rotated(k1 * _C1, 31) * _C2
        h1 = (_rotated(h1, 27) + h2) * _FIVE + _N1
        h2 ^= _rotated(k2 * _C2, 33) * _C1
        h2 = (_rotated(h2, 31) + h1) * _FIVE + _N2
        start += 16
    left = end - start
    if left > 8:
        k2 = _little_endian(content, start + 8, left - 8)
        h2 ^= _rotated(k2 * _C2, 33) * _C1
    if left > 0:
        k1 = _little_endian(content, start, min(left, 8))
        h1 ^= _rotated(k1 * _C1, 31) * _C2
    return _finished(h1, h2, byte_count)


@kernel
def _hash_int64(values: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> None:
    """Hash each integer.

    Shapes: values, hashes [n].
    Oracle: tests/oracle/value_hash.py::value_hash.
    """
    for i in range(len(values)):
        k1 = _rotated(values[i] * _C1, 31) * _C2
        h1, h2 = _finished(_U(_SEED) ^ k1, _U(_SEED), 8)
        hashes[i] = _value_hash(h1, h2)


@kernel
def _hash_bytes(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], hashes: NDArray[np.uint64]
) -> None:
    """Hash each text.

    Shapes: offsets [n + 1]; content [bytes]; hashes [n].
    Oracle: tests/oracle/value_hash.py::value_hash.
    """
    for i in range(len(hashes)):
        h1, h2 = _hashed(content, offsets[i], offsets[i + 1])
        hashes[i] = _value_hash(h1, h2)


# The 63-bit hash that theta sketches keep: h1 of MurmurHash3_x64_128, halved.
#
# A value hash (`value_hash`) lacks the upper bits of h1, by which a theta sketch chooses what it
# keeps, so values are hashed afresh, once for each dictionary value.


def theta_hash_bytes(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the theta hash of each text: content[offsets[i] : offsets[i + 1]]."""
    offsets, content = checked_texts(offsets, content)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    _theta_hash_bytes(offsets, content, hashes)
    return hashes


def theta_hash_int64(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the theta hash of the eight little-endian bytes of each value."""
    content = np.ascontiguousarray(values).view(np.uint8)
    return theta_hash_bytes(np.arange(len(values) + 1, dtype=np.int64) * 8, content)


@kernel
def _theta_hash_bytes(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], hashes: NDArray[np.uint64]
) -> None:
    """Hash each text.

    Shapes: offsets [n + 1]; content [bytes]; hashes [n].
    Oracle: tests/oracle/theta.py::theta_hash.
    """
    for i in range(len(hashes)):
        h1, _ = _hashed(content, offsets[i], offsets[i + 1])
        hashes[i] = h1 >> _U(1)
