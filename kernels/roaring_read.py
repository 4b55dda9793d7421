"""Read Roaring bitmaps in the portable serialised format, trusting nothing.

A bitmap is first proved to be the one form that a set of row ids has: sizes and offsets fit, keys
and values ascend, each container is in its smallest form, and no row id reaches the row count. Only
then row ids are written. SPEC.md section 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.roaring_build import (
    ARRAY_VALUES_MAX,
    BITMAP_BYTES,
    COOKIE,
    COOKIE_NO_RUNS,
    OFFSETS_FROM,
)
from projseg.kernels.runtime.kernel import kernel

MALFORMED = -1
CONTAINERS_MAX = 65_536  # one for each value of a 16-bit key
_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.int64)  # set bits of a byte


def bitmap_count(content: NDArray[np.uint8], row_count: int) -> int:
    """Return how many row ids below `row_count` a bitmap of just these bytes has, or MALFORMED."""
    return int(check_bitmap(content, row_count))


def read_bitmap(content: NDArray[np.uint8], row_count: int) -> NDArray[np.uint32] | None:
    """Return the ascending row ids of a bitmap, uint32[k], or None if it is malformed."""
    count = bitmap_count(content, row_count)
    if count == MALFORMED:
        return None
    row_ids = np.empty(count, np.uint32)
    _decode_bitmap(content, row_ids)
    return row_ids


@kernel
def get_integer(content: NDArray[np.uint8], offset: int, byte_count: int) -> Any:
    """Return the little-endian integer of `byte_count` bytes, which exist.

    Shapes: content [bytes].
    Part of: `check_bitmap`.
    """
    value = np.int64(0)
    for i in range(byte_count):
        value |= np.int64(content[offset + i]) << (8 * i)
    return value


@kernel
def bitmap_layout(content: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """Return (containers or -1, offsets of run flags, keys, container offsets; 0 for none).

    Shapes: content [bytes].
    Part of: `check_bitmap`.
    """
    size = len(content)
    if size < 4:
        return -1, 0, 0, 0
    cookie = get_integer(content, 0, 4)
    if cookie == COOKIE_NO_RUNS:
        if size < 8:
            return -1, 0, 0, 0
        containers = get_integer(content, 4, 4)
        keys, flags, has_offsets = 8, 0, True
    elif cookie & 0xFFFF == COOKIE:
        containers = (cookie >> 16) + 1
        keys, flags, has_offsets = 4 + (containers + 7) // 8, 4, containers >= OFFSETS_FROM
    else:
        return -1, 0, 0, 0
    end = keys + (8 if has_offsets else 4) * containers
    if containers > CONTAINERS_MAX or end > size:
        return -1, 0, 0, 0
    return containers, flags, keys, keys + 4 * containers if has_offsets else 0


@kernel
def _check_values(content: NDArray[np.uint8], place: int, cardinality: int) -> int:
    """Return the last value of an array container, or -1 if malformed or better as runs.

    Shapes: content [bytes].
    Part of: `_check_container`.
    """
    last, runs = -1, 0
    for i in range(cardinality):
        value = get_integer(content, place + 2 * i, 2)
        if value <= last:
            return -1
        runs += value != last + 1 or i == 0
        last = value
    return -1 if 2 + 4 * runs < 2 * cardinality else last


@kernel
def _check_bits(content: NDArray[np.uint8], place: int, cardinality: int) -> int:
    """Return the last value of a bitmap container, or -1 if miscounted or better as runs.

    Shapes: content [bytes].
    Part of: `_check_container`.
    """
    count, runs, last_byte, carried = 0, 0, 0, np.int64(0)
    for i in range(BITMAP_BYTES):
        byte = np.int64(content[place + i])
        count += _ONES[byte]
        runs += _ONES[byte & ~((byte << 1) | carried)]
        carried = byte >> 7
        if byte:
            last_byte = i
    if count != cardinality or 2 + 4 * runs < BITMAP_BYTES:
        return -1
    last = 8 * last_byte + 7
    while not content[place + last_byte] >> (last & 7):
        last -= 1
    return last


@kernel
def _check_runs(content: NDArray[np.uint8], place: int, runs: int, cardinality: int) -> int:
    """Return the last value of a run container, or -1 if runs touch, descend or are miscounted.

    Shapes: content [bytes].
    Part of: `_check_container`.
    """
    end, count = -1, 0
    for i in range(runs):
        start = get_integer(content, place + 2 + 4 * i, 2)
        length = get_integer(content, place + 4 + 4 * i, 2) + 1
        if start <= end and i > 0:
            return -1
        end = start + length
        count += length
    if end > 65536 or count != cardinality:
        return -1
    return end - 1


@kernel
def _check_container(
    content: NDArray[np.uint8], place: int, cardinality: int, is_runs: bool
) -> tuple[int, int]:
    """Return (offset of the container's end, its last value); (-1, -1) if malformed.

    Shapes: content [bytes].
    Part of: `check_bitmap`.
    """
    size = len(content)
    plain = 2 * cardinality if cardinality <= ARRAY_VALUES_MAX else BITMAP_BYTES
    if is_runs:
        if place + 2 > size:
            return -1, -1
        runs = get_integer(content, place, 2)
        end = place + 2 + 4 * runs
        if runs == 0 or end > size or 2 + 4 * runs >= plain:
            return -1, -1
        last = _check_runs(content, place, runs, cardinality)
    else:
        end = place + plain
        if end > size:
            return -1, -1
        if cardinality <= ARRAY_VALUES_MAX:
            last = _check_values(content, place, cardinality)
        else:
            last = _check_bits(content, place, cardinality)
    return (end, last) if last >= 0 else (-1, -1)


@kernel
def check_bitmap(content: NDArray[np.uint8], row_count: int) -> int:
    """Return how many row ids a bitmap holds, or MALFORMED.

    Shapes: content [bytes].
    Oracle: tests/oracle/roaring.py::row_ids.
    """
    containers, flags, keys, offsets = bitmap_layout(content)
    if containers < 0:
        return MALFORMED
    place = (offsets if offsets else keys) + 4 * containers
    total, last_key, run_containers = 0, -1, 0
    for container in range(containers):
        key = get_integer(content, keys + 4 * container, 2)
        cardinality = get_integer(content, keys + 4 * container + 2, 2) + 1
        is_runs = flags > 0 and (content[flags + (container >> 3)] >> (container & 7)) & 1 == 1
        if key <= last_key or (
            offsets and get_integer(content, offsets + 4 * container, 4) != place
        ):
            return MALFORMED
        place, last = _check_container(content, place, cardinality, is_runs)
        if place < 0 or (key << 16) + last >= row_count:
            return MALFORMED
        last_key = key
        run_containers += is_runs
        total += cardinality
    if flags:
        spare = containers & 7
        if run_containers == 0 or (spare and content[keys - 1] >> spare):
            return MALFORMED
    return total if place == len(content) else MALFORMED


@kernel
def _decode_bitmap(content: NDArray[np.uint8], row_ids: NDArray[np.uint32]) -> None:
    """Write the row ids of a checked bitmap.

    Shapes: content [bytes]; row_ids [n].
    Oracle: tests/oracle/roaring.py::row_ids.
    """
    containers, flags, keys, offsets = bitmap_layout(content)
    place = (offsets if offsets else keys) + 4 * containers
    filled = 0
    for container in range(containers):
        high = get_integer(content, keys + 4 * container, 2) << 16
        cardinality = get_integer(content, keys + 4 * container + 2, 2) + 1
        if flags > 0 and (content[flags + (container >> 3)] >> (container & 7)) & 1 == 1:
            runs = get_integer(content, place, 2)
            for i in range(runs):
                start = high + get_integer(content, place + 2 + 4 * i, 2)
                for k in range(get_integer(content, place + 4 + 4 * i, 2) + 1):
                    row_ids[filled] = start + k
                    filled += 1
            place += 2 + 4 * runs
        elif cardinality <= ARRAY_VALUES_MAX:
            for i in range(cardinality):
                row_ids[filled + i] = high + get_integer(content, place + 2 * i, 2)
            filled += cardinality
            place += 2 * cardinality
        else:
            for i in range(BITMAP_BYTES):
                byte = np.int64(content[place + i])
                while byte:
                    row_ids[filled] = high + 8 * i + _ONES[(byte & -byte) - 1]
                    filled += 1
                    byte &= byte - 1
            place += BITMAP_BYTES
