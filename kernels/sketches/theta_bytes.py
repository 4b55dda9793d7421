"""Theta sketches as bytes: the compressed compact form of Apache DataSketches, as Spark writes it.

    0   longs before the entries: 1 exact, 2 with theta
    1   4: compressed; 3 for empty and single-entry sketches
    2   3: compact theta sketch        5  flags
    3   bits of an entry               6  hash of the seed, two bytes
    4   bytes of the entry count
    8   theta, if there is one; the entry count; the differences of the ascending entries, bit by
        bit, most significant first

Empty sketches are the first eight bytes alone; a single exact entry follows plainly, in eight.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.sketches.sketch_bytes import (
    check_offsets,
    read_word,
    require_sound,
    room_for,
    write_word,
)
from projseg.kernels.sketches.sketch_rows import THETA_MAX, Hashes

_FLAGS: Final = 0x1A  # read-only, compact, ordered
_EMPTY_FLAG: Final = 0x04
_SINGLE_FLAG: Final = 0x20
_SEED_HASH_LOW: Final = 0xCC
_SEED_HASH_HIGH: Final = 0x93
_PROBLEMS: Final = {
    1: "is shorter than its header",
    2: "does not start as a compact DataSketches theta sketch",
    3: "has a length that does not fit its header",
    4: "holds entries out of order or beyond theta",
}


def theta_bytes(
    starts: NDArray[np.int64], hashes: Hashes, thetas: Hashes
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the sketches of all groups: (offsets, content), the buffers of an Arrow binary array.

    Group i has hashes[starts[i] : starts[i + 1]], strictly ascending from 1 and below its theta,
    which is THETA_MAX if the sketch is exact. Raises LimitExceededError if the sketches together
    pass 2 GiB.
    """
    counts = np.diff(starts)
    is_bad = len(counts) != len(thetas) or int(starts[0]) != 0 or int(starts[-1]) > len(hashes)
    if is_bad or (counts < 0).any():
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "theta parts do not fit their groups")
    sizes = np.zeros(len(thetas), np.int64)
    _sizes(starts, hashes, thetas, sizes)
    offsets, content = room_for(sizes, "theta sketches", "lgK")
    _build(starts, hashes, thetas, offsets, content)
    return offsets, content


def parse_thetas(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], size_max: int
) -> tuple[NDArray[np.int64], Hashes, Hashes]:
    """Check every sketch and return (starts, the `size_max` smallest hashes of each, thetas).

    An empty sketch stands for null. Raises CorruptSegmentError, naming the first bad sketch.
    """
    check_offsets(offsets, content)
    counts = np.zeros(len(offsets) - 1, np.int64)
    row, problem = _count_entries(offsets, content, counts)
    require_sound("theta", row, problem, _PROBLEMS)
    starts = np.zeros(len(offsets), np.int64)
    np.cumsum(np.minimum(counts, size_max), out=starts[1:])
    hashes = np.empty(int(starts[-1]), np.uint64)
    thetas = np.full(len(counts), THETA_MAX, np.uint64)
    row, problem = _read_entries(offsets, content, counts, starts, hashes, thetas)
    require_sound("theta", row, problem, _PROBLEMS)
    return starts, hashes, thetas


@kernel
def _bit_length(word: np.uint64) -> Any:
    """Return the position of the highest set bit, from 1.

    Oracle: int.bit_length.
    """
    length = 0
    while word != np.uint64(0):
        word >>= np.uint64(1)
        length += 1
    return length


@kernel
def _entry_bits(hashes: NDArray[np.uint64], start: int, end: int) -> Any:
    """Return the bits that hold every difference.

    Shapes: hashes [n].
    Oracle: tests/oracle/theta.py::sketch.
    """
    united = np.uint64(0)
    previous = np.uint64(0)
    for i in range(start, end):
        united |= hashes[i] - previous
        previous = hashes[i]
    return _bit_length(united)


@kernel
def _sizes(
    starts: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    thetas: NDArray[np.uint64],
    sizes: NDArray[np.int64],
) -> None:
    """Write the size of each sketch.

    Shapes: starts [g + 1]; hashes [n]; thetas, sizes [g].
    Oracle: tests/oracle/theta.py::sketch.
    """
    for group in range(len(thetas)):
        count = starts[group + 1] - starts[group]
        is_exact = thetas[group] == np.uint64(THETA_MAX)
        if is_exact and count < 2:
            sizes[group] = 8 + 8 * count
            continue
        bits = count * _entry_bits(hashes, starts[group], starts[group + 1])
        header = 8 if is_exact else 16
        sizes[group] = header + (_bit_length(np.uint64(count)) + 7) // 8 + (bits + 7) // 8


@kernel
def _build(
    starts: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    thetas: NDArray[np.uint64],
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
) -> None:
    """Write all sketches.

    Shapes: starts, offsets [g + 1]; hashes [n]; thetas [g]; content [bytes].
    Oracle: tests/oracle/theta.py::sketch.
    """
    for group in range(len(thetas)):
        at = np.int64(offsets[group])
        start, end = starts[group], starts[group + 1]
        count = end - start
        is_exact = thetas[group] == np.uint64(THETA_MAX)
        is_plain = is_exact and count < 2
        content[at] = 1 if is_exact else 2
        content[at + 1] = 3 if is_plain else 4
        content[at + 2] = 3
        content[at + 5] = _FLAGS
        if count == 0 and is_exact:
            content[at + 5] |= _EMPTY_FLAG
            continue
        content[at + 6] = _SEED_HASH_LOW
        content[at + 7] = _SEED_HASH_HIGH
        if is_plain:
            content[at + 5] |= _SINGLE_FLAG
            write_word(content, at + 8, hashes[start], 8)
            continue
        entry_bits = _entry_bits(hashes, start, end)
        count_bytes = (_bit_length(np.uint64(count)) + 7) // 8
        content[at + 3] = entry_bits
        content[at + 4] = count_bytes
        at += 8
        if not is_exact:
            write_word(content, at, thetas[group], 8)
            at += 8
        write_word(content, at, np.uint64(count), count_bytes)
        _write_entries(hashes[start:end], entry_bits, content[at + count_bytes :])


@kernel
def _write_entries(hashes: NDArray[np.uint64], entry_bits: int, content: NDArray[np.uint8]) -> None:
    """Write differences, most significant bit first.

    Shapes: hashes [n]; content [bytes].
    Oracle: tests/oracle/theta.py::sketch.
    """
    position = np.int64(0)
    previous = np.uint64(0)
    for i in range(len(hashes)):
        difference = hashes[i] - previous
        previous = hashes[i]
        left = entry_bits
        while left > 0:
            room = 8 - (position & 7)
            taken: Any = min(room, left)
            part = (difference >> np.uint64(left - taken)) & np.uint64((1 << taken) - 1)
            content[position >> 3] |= np.uint8(part << np.uint64(room - taken))
            position += taken
            left -= taken


@kernel
def _count_entries(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], counts: NDArray[np.int64]
) -> Any:
    """Count the entries of each sketch; return (row, problem).

    Shapes: offsets [g + 1]; content [bytes]; counts [g].
    Oracle: tests/oracle/theta.py::sketch.
    """
    for row in range(len(counts)):
        at = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - at
        if size == 0:
            continue
        if size < 8:
            return row, 1
        longs, version, flags = content[at], content[at + 1], content[at + 5]
        if content[at + 2] != 3 or (flags & 0x18) != 0x18 or longs < 1 or longs > 2:
            return row, 2
        if version == 3 and longs == 1:
            is_single = (flags & _SINGLE_FLAG) != 0
            if is_single == ((flags & _EMPTY_FLAG) != 0) or size != 8 + 8 * is_single:
                return row, 3
            counts[row] = is_single
            continue
        count_bytes, entry_bits = np.int64(content[at + 4]), np.int64(content[at + 3])
        header = 8 * np.int64(longs) + count_bytes
        if version != 4 or entry_bits > 63 or count_bytes > 4 or size < header:
            return row, 2
        count = np.int64(read_word(content, at + 8 * longs, count_bytes))
        # Entries ascend from 1, so each takes a bit at least.
        if (count > 0 and entry_bits == 0) or size != header + (count * entry_bits + 7) // 8:
            return row, 3
        counts[row] = count
    return 0, 0


@kernel
def _read_entries(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    thetas: NDArray[np.uint64],
) -> Any:
    """Read the smallest of counted entries, check all; return (row, problem).

    Shapes: offsets, starts [g + 1]; content [bytes]; counts, thetas [g]; hashes [n].
    Oracle: tests/oracle/theta.py::sketch.
    """
    for row in range(len(thetas)):
        at = np.int64(offsets[row])
        if offsets[row + 1] == at:
            continue
        target = hashes[starts[row] : starts[row + 1]]
        longs, entry_bits = np.int64(content[at]), np.int64(content[at + 3])
        if content[at + 1] == 3:
            if counts[row] == 1:
                value = read_word(content, at + 8, 8)
                if value == 0 or value >= thetas[row]:
                    return row, 4
                if len(target):
                    target[0] = value
            continue
        if longs == 2:
            thetas[row] = read_word(content, at + 8, 8)
        if thetas[row] > np.uint64(THETA_MAX):
            return row, 4
        start = at + 8 * longs + np.int64(content[at + 4])
        if not _unpack_entries(content[start:], entry_bits, counts[row], thetas[row], target):
            return row, 4
    return 0, 0


@kernel
def _unpack_entries(
    content: NDArray[np.uint8],
    entry_bits: int,
    count: int,
    theta: np.uint64,
    target: NDArray[np.uint64],
) -> Any:
    """Read differences and add them up; return whether the sums ascend from 1 to below theta.

    Shapes: content [bytes]; target [n].
    Oracle: tests/oracle/theta.py::sketch.
    """
    position = np.int64(0)
    value = np.uint64(0)
    for i in range(count):
        difference = np.uint64(0)
        left = entry_bits
        while left > 0:
            room = 8 - (position & 7)
            taken: Any = min(room, left)
            part = np.uint64(content[position >> 3]) >> np.uint64(room - taken)
            part &= np.uint64((1 << taken) - 1)
            difference = (difference << np.uint64(taken)) | part
            position += taken
            left -= taken
        value += difference
        if difference == np.uint64(0) or value >= theta:
            return False
        if i < len(target):
            target[i] = value
    return True
