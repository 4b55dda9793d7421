"""HyperLogLog sketches as bytes, many at a time: the compact form of Apache DataSketches, HLL_8.

    LIST  up to 7 coupons   8 bytes, then coupons
    SET   more coupons     12 bytes, the count in the last four, then coupons
    HLL   registers        40 bytes: HIP estimate, kxq0, kxq1, zero registers, 0; then 2**lgK bytes

The first eight bytes are: header length in ints, 1, 7, lgK, 3 for coupons, flags, list count,
mode | HLL_8 << 2. A sketch made of folded parts has no meaningful HIP (order of arrival) estimate,
so HLL sketches carry the out-of-order flag and readers use the composite estimator.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.sketches.hll_coupons import LG_K_MAX, LG_K_MIN
from projseg.kernels.sketches.hll_registers import register_sums
from projseg.kernels.sketches.sketch_bytes import (
    check_offsets,
    read_word,
    require_sound,
    room_for,
    write_word,
)
from projseg.kernels.texts.text_bytes import read_only

_LIST_BYTES: Final = 8
_SET_BYTES: Final = 12
_HLL_BYTES: Final = 40
_EMPTY_FLAG: Final = 4
_COMPACT_FLAG: Final = 8
_OUT_OF_ORDER_FLAG: Final = 16
_PROBLEMS: Final = {
    1: "is shorter than its header",
    2: "does not start as a DataSketches HLL sketch",
    3: "has an lgK outside 4 to 21, or below the one asked for",
    4: "is not of type HLL_8, or has an unknown mode",
    5: "has a length that does not fit its header",
    6: "holds a coupon or register out of range",
}


def sketch_bytes(
    starts: NDArray[np.int64],
    pairs: NDArray[np.uint64],
    slots: NDArray[np.int32],
    registers: NDArray[np.uint8],
    lg_k: int,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the sketches of all groups: (offsets, content), the buffers of an Arrow binary array.

    Group i's coupons are the low halves of pairs[starts[i] : starts[i + 1]]; slots[i] is its row of
    `registers`, -1 for none. Raises LimitExceededError if the sketches together pass 2 GiB.
    """
    counts = np.diff(starts)
    is_bad = len(counts) != len(slots) or bool((counts < 0).any()) or int(starts[-1]) > len(pairs)
    if is_bad or int(slots.max(initial=-1)) >= len(registers):
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "sketch parts do not fit their groups")
    header = np.where(counts > 7, _SET_BYTES, _LIST_BYTES)
    sizes = np.where(slots >= 0, _HLL_BYTES + (1 << lg_k), header + 4 * counts)
    offsets, content = room_for(sizes, "sketches", "lgK")
    sums = np.zeros(2)
    _build(starts, pairs, slots, registers, lg_k, offsets, content, sums, sums.view(np.uint64))
    return offsets, content


def parse_sketches(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], lg_k: int
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Check sketches of at least `lg_k`; return (modes int8[n], coupon counts int64[n]).

    A mode is 0 for a list, 1 for a set, 2 for registers, whose count is 0; an empty sketch stands
    for null. Raises CorruptSegmentError, naming the first bad sketch.
    """
    check_offsets(offsets, content)
    modes = np.zeros(len(offsets) - 1, np.int8)
    counts = np.zeros(len(offsets) - 1, np.int64)
    bad, problem = _parse(offsets, read_only(content), lg_k, modes, counts)
    require_sound("HLL", bad, problem, _PROBLEMS)
    return modes, counts


def coupons_of_sketches(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    modes: NDArray[np.int8],
    counts: NDArray[np.int64],
) -> NDArray[np.uint32]:
    """Return the coupons of all sketches, row by row, as `parse_sketches` counted them."""
    _same_rows(modes, counts, offsets[1:])
    coupons = np.empty(int(counts.sum()), np.uint32)
    _coupons(offsets, read_only(content), modes, counts, coupons)
    return coupons


def fold_sketch_registers(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    modes: NDArray[np.int8],
    rows: NDArray[np.int32],
    registers: NDArray[np.uint8],
) -> None:
    """Fold sketches that hold registers into `registers`, uint8[p, 2**lg_k], in place.

    `parse_sketches` has checked them; a sketch of more registers is folded down.
    """
    _same_rows(modes, rows, offsets[1:])
    used = rows[modes == 2]
    if len(used) and (int(used.min()) < 0 or int(used.max()) >= len(registers)):
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "a sketch has no place in the registers")
    _fold_registers(offsets, read_only(content), modes, rows, registers)


def _same_rows(first: NDArray[Any], *others: NDArray[Any]) -> None:
    if any(len(other) != len(first) for other in others):
        raise InvalidInputError("PROJSEG_BAD_GROUP_IDS", "sketch columns differ in length")


@kernel
def _build(
    starts: NDArray[np.int64],
    pairs: NDArray[np.uint64],
    slots: NDArray[np.int32],
    registers: NDArray[np.uint8],
    lg_k: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    sums: NDArray[np.float64],
    sum_words: NDArray[np.uint64],
) -> None:
    """Write all sketches; `sums` and `sum_words` are the same scratch.

    Shapes: starts, offsets [g + 1]; pairs [p]; slots [g]; registers [r, k]; content [bytes];
    sums, sum_words [2].
    Oracle: tests/oracle/hll.py::sketch.
    """
    for group in range(len(slots)):
        at = np.int64(offsets[group])
        count = starts[group + 1] - starts[group]
        has_registers = slots[group] >= 0
        mode = 2 if has_registers else (1 if count > 7 else 0)
        content[at] = 10 if has_registers else 2 + mode
        content[at + 1] = 1
        content[at + 2] = 7
        content[at + 3] = lg_k
        content[at + 7] = mode | 8
        if has_registers:
            content[at + 5] = _COMPACT_FLAG | _OUT_OF_ORDER_FLAG
            _write_registers(registers[slots[group]], content, at, sums, sum_words)
            continue
        content[at + 4] = 3 if mode == 0 else 5
        content[at + 5] = _COMPACT_FLAG | (_EMPTY_FLAG if count == 0 else 0)
        if mode == 0:
            content[at + 6] = count
            at += 8
        else:
            write_word(content, at + 8, np.uint64(count), 4)
            at += 12
        for i in range(count):
            write_word(content, at + 4 * i, pairs[starts[group] + i], 4)


@kernel
def _write_registers(
    registers: NDArray[np.uint8],
    content: NDArray[np.uint8],
    at: int,
    sums: NDArray[np.float64],
    sum_words: NDArray[np.uint64],
) -> None:
    """Write an HLL sketch's header fields and registers.

    Shapes: registers [k]; content [bytes]; sums, sum_words [2].
    Oracle: tests/oracle/hll.py::sketch.
    """
    ranks = content[at + _HLL_BYTES : at + _HLL_BYTES + len(registers)]
    for i in range(len(registers)):
        ranks[i] = registers[i]
    sums[0], sums[1], zero_count = register_sums(registers)
    write_word(content, at + 16, sum_words[0], 8)
    write_word(content, at + 24, sum_words[1], 8)
    write_word(content, at + 32, np.uint64(zero_count), 4)


@kernel
def _parse(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    lg_k: int,
    modes: NDArray[np.int8],
    counts: NDArray[np.int64],
) -> Any:
    """Check all sketches; return (row, problem).

    Shapes: offsets [n + 1]; content [bytes]; modes, counts [n].
    Oracle: tests/oracle/hll.py::sketch.
    """
    for row in range(len(modes)):
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        if size == 0:
            continue
        problem = _parse_one(content[start : start + size], lg_k, modes, counts, row)
        if problem:
            return row, problem
    return 0, 0


@kernel
def _parse_one(
    sketch: NDArray[np.uint8],
    lg_k: int,
    modes: NDArray[np.int8],
    counts: NDArray[np.int64],
    row: int,
) -> Any:
    """Check one sketch; return a key of `_PROBLEMS` or 0.

    Shapes: sketch [bytes]; modes, counts [n].
    Oracle: tests/oracle/hll.py::sketch.
    """
    problem = _header_problem(sketch, lg_k)
    if problem:
        return problem
    mode = sketch[7] & 3
    header = 40 if mode == 2 else 8 + 4 * mode
    if len(sketch) < header:
        return 1
    modes[row] = mode
    if mode == 2:
        has_size = len(sketch) == header + (1 << sketch[3])
        return _register_problem(sketch, header) if has_size else 5
    counts[row] = sketch[6] if mode == 0 else np.int64(read_word(sketch, 8, 4))
    return _coupon_problem(sketch, header) if len(sketch) == header + 4 * counts[row] else 5


@kernel
def _header_problem(sketch: NDArray[np.uint8], lg_k: int) -> Any:
    """Check the first eight bytes.

    Shapes: sketch [bytes].
    Oracle: tests/oracle/hll.py::sketch.
    """
    if len(sketch) < 8:
        return 1
    if sketch[1] != 1 or sketch[2] != 7:
        return 2
    if sketch[3] < max(lg_k, LG_K_MIN) or sketch[3] > LG_K_MAX:
        return 3
    mode = sketch[7] & 3
    is_known = sketch[7] >> 2 == 2 and mode != 3 and sketch[0] == (10 if mode == 2 else 2 + mode)
    return 0 if is_known else 4


@kernel
def _register_problem(sketch: NDArray[np.uint8], header: int) -> Any:
    """Check that no register passes 63.

    Shapes: sketch [bytes].
    Oracle: tests/oracle/hll.py::sketch.
    """
    ranks = sketch[header:]
    largest = np.uint8(0)
    for i in range(len(ranks)):  # from 0 and of one type, so that the compiler vectorises it
        largest = max(largest, ranks[i])
    return 6 if largest > 63 else 0


@kernel
def _coupon_problem(sketch: NDArray[np.uint8], header: int) -> Any:
    """Check that every coupon has a rank.

    Shapes: sketch [bytes].
    Oracle: tests/oracle/hll.py::sketch.
    """
    for at in range(header, len(sketch), 4):
        if read_word(sketch, at, 4) >> np.uint64(26) == np.uint64(0):
            return 6
    return 0


@kernel
def _coupons(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    modes: NDArray[np.int8],
    counts: NDArray[np.int64],
    coupons: NDArray[np.uint32],
) -> None:
    """Write the coupons of coupon sketches.

    Shapes: offsets [n + 1]; content [bytes]; modes, counts [n]; coupons [c].
    Oracle: tests/oracle/hll.py::sketch.
    """
    count = 0
    for row in range(len(modes)):
        at = np.int64(offsets[row]) + 8 + 4 * modes[row]
        for i in range(counts[row]):
            coupons[count] = read_word(content, at + 4 * i, 4)
            count += 1


@kernel
def _fold_registers(
    offsets: NDArray[np.int64],
    content: NDArray[np.uint8],
    modes: NDArray[np.int8],
    rows: NDArray[np.int32],
    registers: NDArray[np.uint8],
) -> None:
    """Take the larger of each pair of registers.

    Shapes: offsets [n + 1]; content [bytes]; modes, rows [n]; registers [r, k].
    Oracle: tests/oracle/hll.py::registers.
    """
    mask = registers.shape[1] - 1
    for row in range(len(modes)):
        if modes[row] != 2:
            continue
        start = np.int64(offsets[row]) + 40
        target = registers[rows[row]]
        source = content[start : np.int64(offsets[row + 1])]
        if len(source) == len(target):  # a loop without branches, which the compiler vectorises
            for i in range(len(target)):
                target[i] = max(target[i], source[i])
            continue
        for i in range(len(source)):
            rank = source[i]
            if rank > target[i & mask]:
                target[i & mask] = rank
