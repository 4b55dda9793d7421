"""Texts as kernels take them: bytes one after the other, where each begins, and their order."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import inlined_kernel, kernel

Offset = TypeVar("Offset", np.int32, np.int64)

_U = np.uint64
_FACTOR: Final = _U(0x9E3779B97F4A7C15)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that kernels are compiled for one kind of array."""
    view = array.view()
    view.setflags(write=False)
    return view


def checked_texts(
    offsets: NDArray[Offset], content: NDArray[np.uint8]
) -> tuple[NDArray[Offset], NDArray[np.uint8]]:
    """Return read-only views of texts that lie inside their content.

    Parameters
    ----------
    offsets : int32[n + 1] or int64[n + 1]
        Text i is content[offsets[i] : offsets[i + 1]].
    content : uint8[m]

    Raises
    ------
    InvalidInputError
        PROJSEG_INTERNAL, if an offset lies outside the content or below the one before it.
    """
    in_bounds = len(offsets) > 0 and int(offsets[0]) >= 0 and int(offsets[-1]) <= len(content)
    if not in_bounds or (offsets[1:] < offsets[:-1]).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "text offsets lie outside their content")
    return read_only(offsets), read_only(content)


@inlined_kernel
def word_at(content: NDArray[np.uint8], start: np.uint64) -> np.uint64:
    """Read eight bytes, little-endian, which is compiled to one load.

    Shapes: content [bytes].
    Part of: `text_hash`.
    """
    return (
        _U(content[start])
        | _U(content[start + _U(1)]) << _U(8)
        | _U(content[start + _U(2)]) << _U(16)
        | _U(content[start + _U(3)]) << _U(24)
        | _U(content[start + _U(4)]) << _U(32)
        | _U(content[start + _U(5)]) << _U(40)
        | _U(content[start + _U(6)]) << _U(48)
        | _U(content[start + _U(7)]) << _U(56)
    )


@inlined_kernel
def _mixed(word: np.uint64) -> np.uint64:
    """Let every bit of a word reach every other.

    Part of: `text_hash`.
    """
    word *= _FACTOR
    word ^= word >> _U(32)
    word *= _FACTOR
    return word ^ (word >> _U(29))


@inlined_kernel
def text_hash(content: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> Any:
    """Hash a text. One of eight bytes or more ends with its last eight, some of them read twice.

    Shapes: content [bytes].
    Oracle: tests/oracle/selecting.py::text_hash.
    """
    mixed = _mixed(end - start + _U(1))
    if end - start < _U(8):
        tail = _U(0)
        while start < end:
            tail = tail << _U(8) | _U(content[start])
            start += _U(1)
        return _mixed(mixed ^ tail)
    while end - start > _U(8):
        mixed = (mixed ^ word_at(content, start)) * _FACTOR
        mixed ^= mixed >> _U(32)
        start += _U(8)
    return _mixed(mixed ^ word_at(content, end - _U(8)))


def first_disorder(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> int:
    """Return the first i whose text is not below text i + 1, or -1 if all ascend strictly.

    Parameters
    ----------
    offsets : int64[n + 1]
        Text i is content[offsets[i] : offsets[i + 1]]; not descending.
    content : uint8[m]

    Raises
    ------
    InvalidInputError
        If an offset lies outside the content.
    """
    return int(_first_disorder(*checked_texts(offsets, content)))


@kernel(interpretable=True)
def _first_disorder(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> int:
    """Return the first text that does not come after the one before it.

    Shapes: offsets [n + 1]; content [bytes].
    Oracle: tests/oracle/page_encodings.py::first_disorder.
    """
    for i in range(len(offsets) - 2):
        left, right = offsets[i], offsets[i + 1]
        left_bytes, right_bytes = right - left, offsets[i + 2] - right
        shared = min(left_bytes, right_bytes)
        k = 0
        while k < shared and content[left + k] == content[right + k]:
            k += 1
        if k == shared:
            if left_bytes >= right_bytes:
                return i
        elif content[left + k] > content[right + k]:
            return i
    return -1
