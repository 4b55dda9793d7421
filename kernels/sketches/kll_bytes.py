"""KLL sketches as bytes: the compact form of Apache DataSketches, as Spark's functions read it.

    0   4-byte words of the header: 2 or 5     3   flags: 1 empty, 2 level 0 is sorted, 4 one value
    1   1; 2 for one value                     4   k (u16)
    2   15: KLL                                6   8: the least capacity of a level

A sketch of no value ends here; one of one value has that value. Others go on:

    8   number of values (u64)                 18  number of levels (u8), and a 0
    16  k (u16)                                20  where each level starts (u32)

then the least value, the greatest, and all levels. A value of level h stands for 2^h of them.
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

_LEVELS_MAX: Final = 61
_TOTAL_MAX: Final = 1 << 40  # more rows than a segment has; sums of totals stay below 2^63
_LEVEL_SIZE_MIN: Final = 8
_EMPTY: Final = 1
_SORTED: Final = 2
_SINGLE: Final = 4
_PROBLEMS: Final = {
    1: "is shorter than its header",
    2: "does not start as a compact DataSketches KLL sketch",
    3: "has a length that does not fit its header",
    4: "has levels that do not fit its number of values",
    5: "has a smaller k than is wanted",
}

Words = NDArray[np.uint64]


def level_capacity(k: int, depth: int) -> int:
    """Return how many values DataSketches keeps in a level, `depth` levels below the greatest."""
    if depth > 30:
        half = depth // 2
        return max(_LEVEL_SIZE_MIN, _share(_share(k, half), depth - half))
    return max(_LEVEL_SIZE_MIN, _share(k, depth))


def _share(k: int, depth: int) -> int:
    return int((((k << 1) << depth) // 3**depth + 1) >> 1)


def total_capacities(k: int) -> NDArray[np.int64]:
    """Return, for each number of levels from 0 on, how many values all levels hold."""
    sizes = [level_capacity(k, depth) for depth in range(_LEVELS_MAX)]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int64)


def kll_bytes(
    starts: NDArray[np.int64],
    values: Words,
    levels: NDArray[np.uint8],
    bounds: tuple[Words, Words],
    item: int,
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the sketches of all groups: (offsets, content), the buffers of an Arrow binary array.

    Group i has values[starts[i] : starts[i + 1]], bits of `item` bytes, each level's ascending,
    level by level from 0 on; `bounds` has the least and the greatest value of each group. Raises
    LimitExceededError if the sketches together pass 2 GiB.
    """
    counts = np.diff(starts)
    group_count = len(counts)
    if len(values) != len(levels) or any(len(bound) != group_count for bound in bounds):
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "KLL parts do not fit their groups")
    tops = np.zeros(group_count, np.int64)
    has_values = counts > 0
    tops[has_values] = levels[starts[1:][has_values] - 1].astype(np.int64) + 1
    is_large = (counts > 1) | (tops > 1)
    sizes = np.where(is_large, 20 + 4 * tops + item * (2 + counts), 8 + item * counts)
    offsets, content = room_for(sizes, "KLL sketches", "k")
    least, greatest = bounds
    capacities = total_capacities(k)
    _write(starts, values, levels, least, greatest, item, tops, k, capacities, offsets, content)
    return offsets, content


def parse_klls(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], item: int, k: int
) -> tuple[NDArray[np.int64], Words, NDArray[np.int64]]:
    """Check every sketch and return (starts, values uint64, weights int64), level by level.

    Of several values the least comes before them and the greatest behind them once more, with a
    weight of 0; values are bits of `item` bytes, unchecked. Raises CorruptSegmentError, naming the
    first bad sketch.
    """
    check_offsets(offsets, content)
    starts = np.zeros(len(offsets), np.int64)
    bad, problem = _count_values(offsets, content, item, k, starts[1:])
    np.cumsum(starts, out=starts)
    values = np.zeros(0 if problem else int(starts[-1]), np.uint64)
    weights = np.zeros(len(values), np.int64)
    if not problem:
        bad, problem = _read_values(offsets, content, item, starts, values, weights)
    require_sound("KLL", bad, problem, _PROBLEMS)
    return starts, values, weights


@kernel
def _write(
    starts: NDArray[np.int64],
    values: NDArray[np.uint64],
    levels: NDArray[np.uint8],
    least: NDArray[np.uint64],
    greatest: NDArray[np.uint64],
    item: int,
    tops: NDArray[np.int64],
    k: int,
    capacities: NDArray[np.int64],
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
) -> None:
    """Write all sketches.

    Shapes: starts, offsets [g + 1]; values, levels [n]; least, greatest, tops [g]; capacities [c];
    content [bytes].
    Oracle: tests/oracle/quantiles.py::sketch.
    """
    for group in range(len(tops)):
        at = np.int64(offsets[group])
        start, end = starts[group], starts[group + 1]
        is_large = tops[group] > 1 or end - start > 1
        content[at] = 5 if is_large else 2
        content[at + 1] = 1 if is_large or start == end else 2
        content[at + 2] = 15
        content[at + 3] = _SORTED if is_large else _EMPTY if start == end else _SINGLE
        write_word(content, at + 4, np.uint64(k), 2)
        content[at + 6] = _LEVEL_SIZE_MIN
        at += 8
        if is_large:
            total = np.int64(0)
            for i in range(start, end):
                total += np.int64(1) << np.int64(levels[i])
            write_word(content, at, np.uint64(total), 8)
            write_word(content, at + 8, np.uint64(k), 2)
            content[at + 10] = tops[group]
            at += 12
            first = start
            free = capacities[tops[group]] - (end - start)
            for level in range(tops[group]):
                while first < end and levels[first] < level:
                    first += 1
                write_word(content, at, np.uint64(free + first - start), 4)
                at += 4
            write_word(content, at, np.uint64(least[group]), item)
            write_word(content, at + item, np.uint64(greatest[group]), item)
            at += 2 * item
        for i in range(start, end):
            write_word(content, at, np.uint64(values[i]), item)
            at += item


@kernel
def _count_values(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    item: int,
    k: int,
    counts: NDArray[np.int64],
) -> Any:
    """Count what `_read_values` will write for each sketch; return (row, problem).

    Shapes: offsets [n + 1]; content [bytes]; counts [n].
    Oracle: tests/oracle/quantiles.py::read.
    """
    for row in range(len(counts)):
        sketch = content[offsets[row] : offsets[row + 1]]
        if len(sketch) == 0:
            continue
        problem = _header_problem(sketch, k)
        if problem:
            return row, problem
        if sketch[0] == 2:
            counts[row] = (sketch[3] & _SINGLE) != 0
            if len(sketch) != 8 + item * counts[row]:
                return row, 3
            continue
        level_count = np.int64(sketch[18])
        held = (len(sketch) - 20 - 4 * level_count) // item
        if held < 3 or len(sketch) != 20 + 4 * level_count + item * held:
            return row, 3
        counts[row] = held
    return 0, 0


@kernel
def _header_problem(sketch: NDArray[np.uint8], k: int) -> Any:
    """Return the problem of a sketch's header by its number, 0 for none.

    Shapes: sketch [bytes].
    Part of: `_count_values`.
    """
    if len(sketch) < 8:
        return 1
    state = sketch[3] & (_EMPTY | _SINGLE)
    is_short = sketch[0] == 2 and state in (_EMPTY, _SINGLE)
    is_long = sketch[0] == 5 and state == 0
    version = 2 if state == _SINGLE else 1
    is_kll = sketch[1] == version and sketch[2] == 15 and sketch[6] == _LEVEL_SIZE_MIN
    if not (is_kll and (is_short or is_long)):
        return 2
    if np.int64(read_word(sketch, 4, 2)) < k:
        return 5
    if is_long and len(sketch) < 20:
        return 1
    return 4 if is_long and not 1 <= sketch[18] <= _LEVELS_MAX else 0


@kernel
def _read_values(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    item: int,
    starts: NDArray[np.int64],
    values: NDArray[np.uint64],
    weights: NDArray[np.int64],
) -> Any:
    """Read counted values; return (row, problem).

    Shapes: offsets, starts [n + 1]; content [bytes]; values, weights [v].
    Oracle: tests/oracle/quantiles.py::read.
    """
    for row in range(len(starts) - 1):
        sketch = content[offsets[row] : offsets[row + 1]]
        start, count = starts[row], starts[row + 1] - starts[row]
        if count == 1:
            weights[start] = 1
        elif count > 1 and not _read_weights(sketch, weights[start + 1 : start + count - 1]):
            return row, 4
        at = len(sketch) - item * count
        for i in range(count):
            values[start + i] = read_word(sketch, at + item * i, item)
        if count > 1:  # the greatest stands behind the least
            greatest = values[start + 1]
            for i in range(start + 1, start + count - 1):
                values[i] = values[i + 1]
            values[start + count - 1] = greatest
    return 0, 0


@kernel
def _read_weights(sketch: NDArray[np.uint8], weights: NDArray[np.int64]) -> Any:
    """Read how many values each stands for; return whether the levels fit the number of values.

    Shapes: sketch [bytes]; weights [v].
    Part of: `_read_values`.
    """
    level_count = np.int64(sketch[18])
    first = np.int64(read_word(sketch, 20, 4))
    left = np.uint64(read_word(sketch, 8, 8))
    if left > np.uint64(_TOTAL_MAX):
        return False
    start = np.int64(0)
    for level in range(level_count):
        end = np.int64(len(weights))
        if level + 1 < level_count:
            end = np.int64(read_word(sketch, 24 + 4 * level, 4)) - first
        if end < start or end > len(weights):
            return False
        if np.uint64(end - start) > left >> np.uint64(level):
            return False
        left -= np.uint64(end - start) << np.uint64(level)
        weights[start:end] = np.int64(1) << level
        start = end
    return left == np.uint64(0)
