"""The 63-bit hash that theta sketches keep: h1 of MurmurHash3_x64_128, halved.

A value hash (`value_hash`) lacks the upper bits of h1, by which a theta sketch chooses what it
keeps, so values are hashed afresh, once for each dictionary value.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.sketches.value_hash import _C1, _C2, SEED, _little_endian, _mixed, _rotated
from projseg.kernels.texts.texts import checked_texts

_U = np.uint64
_N1, _N2 = _U(0x52DCE729), _U(0x38495AB5)


def theta_hash_bytes(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the theta hash of each text: content[offsets[i] : offsets[i + 1]].

    Raises
    ------
    InvalidInputError
        If an offset lies outside the content.
    """
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
        start, end = offsets[i], offsets[i + 1]
        byte_count = _U(end - start)
        h1 = _U(SEED)
        h2 = _U(SEED)
        while end - start >= 16:
            h1 ^= _rotated(_little_endian(content, start, 8) * _C1, 31) * _C2
            h1 = (_rotated(h1, 27) + h2) * _U(5) + _N1
            h2 ^= _rotated(_little_endian(content, start + 8, 8) * _C2, 33) * _C1
            h2 = (_rotated(h2, 31) + h1) * _U(5) + _N2
            start += 16
        left = end - start
        if left > 8:
            h2 ^= _rotated(_little_endian(content, start + 8, left - 8) * _C2, 33) * _C1
        if left > 0:
            h1 ^= _rotated(_little_endian(content, start, min(left, 8)) * _C1, 31) * _C2
        h1 ^= byte_count
        h2 ^= byte_count
        h1 += h2
        h2 += h1
        hashes[i] = (_mixed(h1) + _mixed(h2)) >> _U(1)
