"""Compare the bitmaps of all ids of a column with its ids, a page at a time.

A page of ids has as many rows as a container, so each container is read once. No bitmap is turned
into row ids, since a few bytes may stand for billions of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.roaring_build import ARRAY_VALUES_MAX, BITMAP_BYTES
from projseg.kernels.roaring_read import MALFORMED, bitmap_layout, check_bitmap, get_integer
from projseg.kernels.runtime.kernel import kernel


class BitmapCheck:
    """The bitmaps of ids 0, 1, ..., of which the containers of earlier pages are done.

    They stand back to back in `content`; `starts`, int64[cardinality + 1], ascends within it.
    """

    def __init__(
        self, content: NDArray[np.uint8], starts: NDArray[np.int64], row_count: int
    ) -> None:
        if starts[0] != 0 or starts[-1] != len(content) or (starts[1:] < starts[:-1]).any():
            raise InvalidInputError("PROJSEG_INTERNAL", "bitmaps do not fill their bytes")
        self._content, self._starts, self._row_count = content, starts, row_count
        self._containers = np.zeros(len(starts) - 1, np.int64)
        self._places = np.zeros(len(starts) - 1, np.int64)

    def malformed_id(self) -> int | None:
        """Return the first id whose bitmap is not in canonical form or passes the row count."""
        found = int(_first_malformed(self._content, self._starts, self._row_count))
        return None if found < 0 else found

    def agrees(self, page: int, ids: NDArray[Any]) -> bool:
        """Whether well-formed bitmaps hold each row of a page under its id and no other.

        Pages come in order, from 0; all but the last have 65,536 rows.
        """
        narrow = np.ascontiguousarray(ids, dtype=np.uint32)
        return bool(
            _page_agrees(self._content, self._starts, self._containers, self._places, page, narrow)
        )


@kernel
def _first_malformed(content: NDArray[np.uint8], starts: NDArray[np.int64], row_count: int) -> int:
    """Return the first malformed bitmap, or -1.

    Shapes: content [bytes]; starts [d + 1].
    Oracle: tests/oracle/roaring.py::row_ids.
    """
    for i in range(len(starts) - 1):
        if check_bitmap(content[starts[i] : starts[i + 1]], row_count) == MALFORMED:
            return i
    return -1


@kernel
def _page_agrees(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    containers_done: NDArray[np.int64],
    places: NDArray[np.int64],
    page: int,
    ids: NDArray[np.uint32],
) -> bool:
    """Return whether bitmaps and a page of ids say the same.

    Shapes: content [bytes]; starts [d + 1]; containers_done, places [d]; ids [n].
    Oracle: tests/oracle/roaring.py::postings.
    """
    seen = 0
    for i in range(len(containers_done)):
        bitmap = content[starts[i] : starts[i + 1]]
        containers, flags, keys, offsets = bitmap_layout(bitmap)
        at = containers_done[i]
        if at >= containers or get_integer(bitmap, keys + 4 * at, 2) != page:
            continue
        place = places[i] if at else (offsets if offsets else keys) + 4 * containers
        cardinality = get_integer(bitmap, keys + 4 * at + 2, 2) + 1
        is_runs = flags > 0 and (bitmap[flags + (at >> 3)] >> (at & 7)) & 1 == 1
        end = _container_end(bitmap, place, cardinality, is_runs, ids, i)
        if end < 0:
            return False
        containers_done[i], places[i] = at + 1, end
        seen += cardinality
    return seen == len(ids)


@kernel
def _container_end(
    bitmap: NDArray[np.uint8],
    place: int,
    cardinality: int,
    is_runs: bool,
    ids: NDArray[np.uint32],
    wanted: int,
) -> int:
    """Return where a container ends, or -1 if it holds a row of another id.

    Shapes: bitmap [bytes]; ids [n].
    Part of: `_page_agrees`.
    """
    if is_runs:
        runs = get_integer(bitmap, place, 2)
        agrees, end = _runs_agree(bitmap, place + 2, runs, ids, wanted), place + 2 + 4 * runs
    elif cardinality <= ARRAY_VALUES_MAX:
        agrees, end = (
            _values_agree(bitmap, place, cardinality, ids, wanted),
            place + 2 * cardinality,
        )
    else:
        agrees, end = _bits_agree(bitmap, place, ids, wanted), place + BITMAP_BYTES
    return end if agrees else -1


@kernel
def _runs_agree(
    bitmap: NDArray[np.uint8], place: int, runs: int, ids: NDArray[np.uint32], wanted: int
) -> bool:
    """Return whether all rows of a run container have the id.

    Shapes: bitmap [bytes]; ids [n].
    Part of: `_container_end`.
    """
    for i in range(runs):
        start = get_integer(bitmap, place + 4 * i, 2)
        end = start + get_integer(bitmap, place + 4 * i + 2, 2) + 1
        if end > len(ids):
            return False
        for row in range(start, end):
            if ids[row] != wanted:
                return False
    return True


@kernel
def _values_agree(
    bitmap: NDArray[np.uint8], place: int, cardinality: int, ids: NDArray[np.uint32], wanted: int
) -> bool:
    """Return whether all rows of an array container have the id.

    Shapes: bitmap [bytes]; ids [n].
    Part of: `_container_end`.
    """
    for i in range(cardinality):
        row = get_integer(bitmap, place + 2 * i, 2)
        if row >= len(ids) or ids[row] != wanted:
            return False
    return True


@kernel
def _bits_agree(
    bitmap: NDArray[np.uint8], place: int, ids: NDArray[np.uint32], wanted: int
) -> bool:
    """Return whether all rows of a bitmap container have the id.

    Shapes: bitmap [bytes]; ids [n].
    Part of: `_container_end`.
    """
    for row in range(8 * BITMAP_BYTES):
        if bitmap[place + (row >> 3)] >> (row & 7) & 1 and (row >= len(ids) or ids[row] != wanted):
            return False
    return True
