"""Integers less a reference, and back: in as few bytes, and modulo the size of their dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

STORED_DTYPES: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}  # by bytes of a value


def offsets_from(values: Int64s, reference: int) -> NDArray[np.uint64]:
    """Return value - reference, uint64[n]: exact if `reference` is the smallest of int64[n]."""
    return values.view(np.uint64) - np.uint64(reference % 2**64)


def byte_width(span: int) -> int:
    """Return the least of 1, 2, 4, 8 bytes that holds `span`."""
    return next(width for width in STORED_DTYPES if span < 1 << (8 * width))


def wrapped(addend: int) -> int:
    """Return `addend` modulo 2**64 as a signed 64-bit integer."""
    return (addend + 2**63) % 2**64 - 2**63


def multiply_in_place(out: NDArray[Any], factor: int) -> None:
    """Multiply every item of integer[n], modulo the size of the dtype."""
    bits = 8 * out.dtype.itemsize
    unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
    unsigned *= unsigned.dtype.type(factor % 2**bits)


def add_in_place(out: NDArray[Any], addend: int) -> None:
    """Add to every item of integer[n], modulo the size of the dtype."""
    if addend:
        bits = 8 * out.dtype.itemsize
        unsigned = out.view(np.dtype(f"u{out.dtype.itemsize}"))
        unsigned += unsigned.dtype.type(addend % 2**bits)
