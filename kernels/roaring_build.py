"""Build the Roaring bitmaps of all ids of a column, in the portable serialised format.

One pass sorts row ids by dictionary id (a counting sort, so row ids ascend within an id); a second
measures each bitmap; a third writes them back to back. A container is an array, a bitmap or runs,
whichever is smallest, as CRoaring's `runOptimize` leaves it. SPEC.md section 8.
After: Lemire et al., "Roaring bitmaps: implementation of an optimized software library", 2018.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel

COOKIE = 12347  # a bitmap with run containers; the container count - 1 is in the upper half
COOKIE_NO_RUNS = 12346
ARRAY_VALUES_MAX = 4096
BITMAP_BYTES = 8192
CONTAINER_ROWS = 65_536
OFFSETS_FROM = 4  # containers from which a bitmap with runs carries offsets


class Postings(NamedTuple):
    """Row ids by dictionary id: those of id i are row_ids[starts[i] : starts[i + 1]], ascending."""

    starts: NDArray[np.int64]
    row_ids: NDArray[np.uint32]


def postings(ids: NDArray[Any], cardinality: int) -> Postings:
    """Return the row ids of each dictionary id; ids, fewer than 2^32, are below `cardinality`."""
    if len(ids) and int(ids.max()) >= cardinality:
        raise InvalidInputError("PROJSEG_INTERNAL", f"id {ids.max()} is not below {cardinality}")
    narrow = np.ascontiguousarray(ids, dtype=np.uint32)
    starts = np.zeros(cardinality + 1, np.int64)
    _count_ids(narrow, starts[1:])
    np.cumsum(starts, out=starts)
    row_ids = np.empty(len(ids), np.uint32)
    _fill_postings(narrow, starts[:-1].copy(), row_ids)
    return Postings(starts, row_ids)


def bitmap_sizes(rows: Postings) -> NDArray[np.int64]:
    """Return the serialised bytes of each id's bitmap: int64[cardinality]."""
    sizes = np.empty(len(rows.starts) - 1, np.int64)
    _bitmap_sizes(rows.starts, rows.row_ids, sizes)
    return sizes


def write_bitmaps(rows: Postings, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return all bitmaps back to back: uint8[sizes.sum()]."""
    ends = np.cumsum(sizes)
    content = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    _write_bitmaps(rows.starts, rows.row_ids, ends - sizes, content)
    return content


@kernel
def _count_ids(ids: NDArray[np.uint32], counts: NDArray[np.int64]) -> None:
    """Count rows of each id, in place.

    Shapes: ids [n]; counts [d].
    Oracle: tests/oracle/roaring.py::postings.
    """
    for row in range(len(ids)):
        counts[ids[row]] += 1


@kernel
def _fill_postings(
    ids: NDArray[np.uint32], cursors: NDArray[np.int64], row_ids: NDArray[np.uint32]
) -> None:
    """Write row ids sorted by id, then by row.

    Shapes: ids, row_ids [n]; cursors [d].
    Oracle: tests/oracle/roaring.py::postings.
    """
    for row in range(len(ids)):
        cursor = cursors[ids[row]]
        row_ids[cursor] = row
        cursors[ids[row]] = cursor + 1


@kernel
def _next_container(row_ids: NDArray[np.uint32], start: int, end: int) -> tuple[int, int]:
    """Return (end of the container that starts at `start`, how many runs it has).

    Shapes: row_ids [n].
    Part of: `_write_bitmaps`.
    """
    key = row_ids[start] >> 16
    runs = 1
    i = start + 1
    while i < end and row_ids[i] >> 16 == key:
        runs += row_ids[i] != row_ids[i - 1] + 1
        i += 1
    return i, runs


@kernel
def _container_bytes(cardinality: int, runs: int) -> tuple[int, bool]:
    """Return (bytes of the smallest form, whether that is runs).

    Part of: `_bitmap_sizes`.
    """
    plain = 2 * cardinality if cardinality <= ARRAY_VALUES_MAX else BITMAP_BYTES
    as_runs = 2 + 4 * runs
    if as_runs < plain:
        return as_runs, True
    return plain, False


@kernel
def _header_bytes(containers: int, run_containers: int) -> int:
    """Return the bytes before the containers.

    Part of: `_bitmap_sizes`.
    """
    if run_containers == 0:
        return 8 + 8 * containers
    offsets = 4 * containers if containers >= OFFSETS_FROM else 0
    return 4 + (containers + 7) // 8 + 4 * containers + offsets


@kernel
def _bitmap_sizes(
    starts: NDArray[np.int64], row_ids: NDArray[np.uint32], sizes: NDArray[np.int64]
) -> None:
    """Write the bytes of each bitmap.

    Shapes: starts [d + 1]; row_ids [n]; sizes [d].
    Oracle: tests/oracle/roaring.py::bitmap.
    """
    for bitmap in range(len(sizes)):
        position, end = starts[bitmap], starts[bitmap + 1]
        containers, run_containers, content_bytes = 0, 0, 0
        while position < end:
            container_end, runs = _next_container(row_ids, position, end)
            size, is_runs = _container_bytes(container_end - position, runs)
            containers += 1
            run_containers += is_runs
            content_bytes += size
            position = container_end
        sizes[bitmap] = _header_bytes(containers, run_containers) + content_bytes


@kernel
def _put(content: NDArray[np.uint8], offset: int, value: int, byte_count: int) -> None:
    """Write the low bytes of an integer, little-endian.

    Shapes: content [bytes].
    Part of: `_write_bitmaps`.
    """
    for i in range(byte_count):
        content[offset + i] = (value >> (8 * i)) & 0xFF


@kernel
def _put_container(
    content: NDArray[np.uint8], offset: int, row_ids: NDArray[np.uint32], runs: int, is_runs: bool
) -> None:
    """Write the container of these row ids; `content` is zero there.

    Shapes: content [bytes]; row_ids [n].
    Part of: `_write_bitmaps`.
    """
    if is_runs:
        _put(content, offset, runs, 2)
        offset += 2
        first = 0
        for i in range(1, len(row_ids) + 1):
            if i == len(row_ids) or row_ids[i] != row_ids[i - 1] + 1:
                _put(content, offset, row_ids[first] & 0xFFFF, 2)
                _put(content, offset + 2, i - 1 - first, 2)
                offset += 4
                first = i
    elif len(row_ids) <= ARRAY_VALUES_MAX:
        for i in range(len(row_ids)):
            _put(content, offset + 2 * i, row_ids[i] & 0xFFFF, 2)
    else:
        for row_id in row_ids:
            low = row_id & 0xFFFF
            content[offset + (low >> 3)] |= np.uint8(1 << (low & 7))


@kernel
def _write_bitmaps(
    starts: NDArray[np.int64],
    row_ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
) -> None:
    """Write all bitmaps.

    Shapes: starts [d + 1]; row_ids [n]; offsets [d]; content [bytes].
    Oracle: tests/oracle/roaring.py::bitmap.
    """
    for bitmap in range(len(offsets)):
        first, end = starts[bitmap], starts[bitmap + 1]
        containers, run_containers = 0, 0
        position = first
        while position < end:
            container_end, runs = _next_container(row_ids, position, end)
            run_containers += _container_bytes(container_end - position, runs)[1]
            containers += 1
            position = container_end
        start = offsets[bitmap]
        keys = start + 8
        has_offsets = True
        if run_containers:
            _put(content, start, COOKIE | ((containers - 1) << 16), 4)
            keys = start + 4 + (containers + 7) // 8
            has_offsets = containers >= OFFSETS_FROM
        else:
            _put(content, start, COOKIE_NO_RUNS, 4)
            _put(content, start + 4, containers, 4)
        place = start + _header_bytes(containers, run_containers)
        position = first
        for container in range(containers):
            container_end, runs = _next_container(row_ids, position, end)
            size, is_runs = _container_bytes(container_end - position, runs)
            if is_runs:
                content[start + 4 + (container >> 3)] |= np.uint8(1 << (container & 7))
            _put(content, keys + 4 * container, row_ids[position] >> 16, 2)
            _put(content, keys + 4 * container + 2, container_end - position - 1, 2)
            if has_offsets:
                _put(content, keys + 4 * containers + 4 * container, place - start, 4)
            _put_container(content, place, row_ids[position:container_end], runs, is_runs)
            place += size
            position = container_end
