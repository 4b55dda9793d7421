"""Texts as kernels take them: bytes, where each begins, their order, hashes and front coding.

Front coding of sorted texts: how many bytes each shares with the one before, and its rest.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.memory.memory_pool import empty

PREFIX_BYTES_MAX: Final = 255
_U = np.uint64
_FACTOR: Final = _U(0x9E3779B97F4A7C15)

_Offset = TypeVar("_Offset", np.int32, np.int64)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that kernels are compiled for one kind of array."""
    view = array.view()
    view.setflags(write=False)
    return view


def checked_texts(
    offsets: NDArray[_Offset], content: NDArray[np.uint8]
) -> tuple[NDArray[_Offset], NDArray[np.uint8]]:
    """Return read-only views of texts; raise InvalidInputError unless they lie in their content."""
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
    """Return the first i whose text is not below text i + 1, or -1 if all ascend strictly."""
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


def shared_prefixes(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many first bytes, up to PREFIX_BYTES_MAX, each text shares with the one before."""
    offsets, content = checked_texts(offsets, content)
    prefixes = np.zeros(len(offsets) - 1, np.int64)
    _shared_prefixes(offsets, content, prefixes)
    return prefixes


def suffixes(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], prefixes: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the rest of each text after its shared bytes, one after the other, as uint8[m]."""
    offsets, content = checked_texts(offsets, content)
    starts, lengths = offsets[:-1] + prefixes, np.diff(offsets) - prefixes
    if (lengths < 0).any() or (prefixes < 0).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "a shared prefix is longer than its text")
    return gathered(starts, lengths, content)


def gathered(
    starts: NDArray[np.int64], sizes: NDArray[np.int64], content: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Return slices of bytes one after the other, uint8[m]; they lie within the content."""
    left = empty(int(sizes.sum()), np.uint8)
    _gather(starts, sizes, read_only(content), left)
    return left


def join_texts(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    row_starts: NDArray[np.int64],
    prefixes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    nulls: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.uint8]] | None:
    """Return (offsets int64[rows + 1], bytes) of ascending texts; None if a page's do not ascend.

    A page's texts stand one after the other from its entry of `starts` on, each less the prefix it
    shares with the text before it. `nulls` has whether the first row of a page is null, and comes
    before every text.
    """
    fits = len(prefixes) == len(lengths) == int(row_starts[-1]) and len(starts) == len(nulls)
    fits = fits and len(row_starts) == len(starts) + 1 and bool((np.diff(row_starts) > 0).all())
    if not fits or int(row_starts[0]) != 0 or (prefixes < 0).any() or (lengths < 0).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "front-coded parts do not fit each other")
    sizes, firsts = prefixes + lengths, row_starts[:-1]
    stops = starts + np.add.reduceat(lengths, firsts)
    is_inside = (starts >= 0).all() and (stops <= len(content)).all()
    if not is_inside or (prefixes[1:] > sizes[:-1]).any() or prefixes[firsts].any():
        raise InvalidInputError("PROJSEG_INTERNAL", "texts lie outside their content")
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    texts = np.empty(int(offsets[-1]), np.uint8)
    found = _join_texts(
        read_only(content), starts, row_starts, prefixes, nulls.view(np.uint8), offsets, texts
    )
    return (offsets, texts) if found else None


@kernel
def _shared_prefixes(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], prefixes: NDArray[np.int64]
) -> None:
    """Write how many bytes each text shares with the one before.

    Shapes: offsets [n + 1]; content [bytes]; prefixes [n].
    Oracle: tests/oracle/page_encodings.py::shared_prefixes.
    """
    for i in range(1, len(prefixes)):
        before, start = offsets[i - 1], offsets[i]
        most = min(start - before, offsets[i + 1] - start, PREFIX_BYTES_MAX)
        shared = 0
        while shared < most and content[before + shared] == content[start + shared]:
            shared += 1
        prefixes[i] = shared


@kernel
def _gather(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    content: NDArray[np.uint8],
    gathered: NDArray[np.uint8],
) -> None:
    """Copy slices, one after the other.

    Shapes: starts, lengths [n]; content [bytes]; gathered [gathered bytes].
    Oracle: tests/oracle/page_encodings.py::suffixes.
    """
    filled = 0
    for i in range(len(starts)):
        for k in range(lengths[i]):
            gathered[filled + k] = content[starts[i] + k]
        filled += lengths[i]


@kernel(interpretable=True)
def _join_texts(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    row_starts: NDArray[np.int64],
    prefixes: NDArray[np.int64],
    nulls: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    texts: NDArray[np.uint8],
) -> bool:
    """Write whole texts, and return whether those of each page ascend.

    Shapes: content [bytes]; starts, nulls [n]; row_starts [n + 1]; prefixes [rows];
    offsets [rows + 1]; texts [text bytes].
    Oracle: tests/oracle/page_encodings.py::expand_prefixes.
    """
    for page in range(len(starts)):
        taken = starts[page]
        for row in range(row_starts[page], row_starts[page + 1]):
            start, end, shared = offsets[row], offsets[row + 1], prefixes[row]
            before = offsets[row - 1] if row else start
            for place in range(shared):
                texts[start + place] = texts[before + place]
            for place in range(start + shared, end):
                texts[place] = content[taken]
                taken += 1
            if row == row_starts[page] or (row == row_starts[page] + 1 and nulls[page]):
                continue
            place = shared
            while start + place < end and before + place < start:
                if texts[before + place] != texts[start + place]:
                    break
                place += 1
            if start + place == end:
                return False
            if before + place < start and texts[before + place] > texts[start + place]:
                return False
    return True
