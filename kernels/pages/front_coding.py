"""Front coding of sorted texts: how many bytes each shares with the one before, and its rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.texts import checked_texts, read_only

PREFIX_BYTES_MAX = 255


def shared_prefixes(offsets: NDArray[np.int64], content: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many leading bytes each text shares with the one before it.

    Parameters
    ----------
    offsets : int64[n + 1]
        Text i is content[offsets[i] : offsets[i + 1]]; not descending.
    content : uint8[m]

    Returns
    -------
    int64[n]
        At most PREFIX_BYTES_MAX; 0 for the first text.
    """
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
    left = np.empty(int(lengths.sum()), np.uint8)
    _gather(starts, lengths, content, left)
    return left


def expand_prefixes(
    prefixes: NDArray[np.int64], lengths: NDArray[np.int64], content: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return (offsets int64[n + 1], bytes) of the whole texts.

    Parameters
    ----------
    prefixes : int64[n]
        Bytes shared with the text before; no more than it has, 0 for the first.
    lengths : int64[n]
        Bytes of each suffix; they add up to `len(content)`.
    content : uint8[m]
        The suffixes.

    Raises
    ------
    InvalidInputError
        If the parts do not fit each other: the kernel would read outside them.
    """
    offsets = np.zeros(len(prefixes) + 1, np.int64)
    np.cumsum(prefixes + lengths, out=offsets[1:])
    sizes = np.diff(offsets, prepend=0)[:-1] if len(prefixes) else offsets[:0]
    fits = len(prefixes) == len(lengths) and int(lengths.sum()) == len(content)
    if not fits or (lengths < 0).any() or (prefixes < 0).any() or (prefixes > sizes).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "front-coded parts do not fit each other")
    texts = np.empty(int(offsets[-1]), np.uint8)
    _expand_prefixes(prefixes, offsets, read_only(content), texts)
    return offsets, texts


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
def _expand_prefixes(
    prefixes: NDArray[np.int64],
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    texts: NDArray[np.uint8],
) -> None:
    """Write whole texts.

    Shapes: prefixes [n]; offsets [n + 1]; content [bytes]; texts [text bytes].
    Oracle: tests/oracle/page_encodings.py::expand_prefixes.
    """
    taken = 0
    before = 0
    for i in range(len(prefixes)):
        start, shared = offsets[i], prefixes[i]
        for k in range(shared):
            texts[start + k] = texts[before + k]
        for k in range(offsets[i + 1] - start - shared):
            texts[start + shared + k] = content[taken + k]
        taken += offsets[i + 1] - start - shared
        before = start
