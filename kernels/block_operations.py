"""The operations of block programs (`block_program.py`) and their steps over columns and int128."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import Integers, Narrow, kernel


class Operation(IntEnum):
    """What a step does; x, y and z are registers, `low` and `high` constants."""

    CONSTANT = 0  # low
    LOAD_BYTE = 1  # column x of bytes, plus low
    LOAD_SHORT = 2
    LOAD_WORD = 3
    LOAD_LONG = 4
    LOAD_LOW_HALF = 5  # the first of two longs in each row of column x
    LOAD_HIGH_HALF = 6
    LOOK_UP_BYTE = 7  # column y of longs at the id in column x of bytes
    LOOK_UP_SHORT = 8
    LOOK_UP_WORD = 9
    ADD = 10  # integers wrap around
    SUBTRACT = 11
    MULTIPLY = 12
    MULTIPLY_HIGH = 13  # the upper half of the product of 128 bits
    DIVIDE = 14  # rounded towards zero; by zero: x
    REMAINDER = 15  # with the sign of x; by zero: 0
    DIVIDE_HALF_UP = 16  # x by the constant low > 0
    DIVIDE_HALVES = 17  # x, the lower half, and y, the upper, by the constant low, 0 < low < 2**31;
    DIVIDE_HALVES_HIGH = 18  # towards zero, or half up if high is 1; this is the upper half
    EQUAL = 19  # 1 or 0
    LESS = 20
    LESS_UNSIGNED = 21
    EQUAL_DOUBLES = 22  # NaN equals itself
    LESS_DOUBLES = 23  # NaN is greatest
    AND = 24
    OR = 25
    XOR = 26
    SELECT = 27  # y where x is not 0, else z
    ADD_DOUBLES = 28
    SUBTRACT_DOUBLES = 29
    MULTIPLY_DOUBLES = 30
    DIVIDE_DOUBLES = 31  # by zero: x
    TO_DOUBLE = 32  # x / low
    REQUIRE_BETWEEN = 33  # fails unless low <= x <= high wherever y is not 0
    STORE_BYTE = 34  # x - low, to output y of bytes
    STORE_WORD = 35
    STORE_LONG = 36
    STORE_LOW_HALF = 37  # x, as the first of two longs in each row of output y
    STORE_HIGH_HALF = 38


@kernel
def multiply_high(x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Compute the upper 64 bits of products of 128. After: Warren, "Hacker's Delight", 8-2.

    Shapes: x, y, out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    for row in range(len(out)):
        x_low, x_high = x[row] & 0xFFFFFFFF, x[row] >> 32
        y_low, y_high = y[row] & 0xFFFFFFFF, y[row] >> 32
        lowest = np.int64((np.uint64(x_low) * np.uint64(y_low)) >> np.uint64(32))
        middle = x_high * y_low + lowest
        other = x_low * y_high + (middle & 0xFFFFFFFF)
        out[row] = x_high * y_high + (middle >> 32) + (other >> 32)


@kernel
def divide_halves(
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    divisor: int,
    is_half_up: bool,
    is_high: bool,
    out: NDArray[np.int64],
) -> None:
    """Divide integers of 128 bits by a constant below 2**31, towards zero or half away from it.

    Of the quotient, the lower or the upper half is written. It is divided as on paper, with digits
    of 32 bits, and nothing branches.

    Shapes: low, high, out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    inverse = 1.0 / divisor
    rounded_from = divisor - divisor // 2 if is_half_up else divisor
    for row in range(len(out)):
        sign = high[row] >> 63  # -1 or 0: x ^ sign, less sign, is the size of x
        lower = (low[row] ^ sign) - sign
        upper = (high[row] ^ sign) + (np.int64(lower == 0) & -sign)
        first = (upper >> 32) & 0xFFFFFFFF
        digit = _digit(first, divisor, inverse)
        above = digit << 32
        rest = ((first - digit * divisor) << 32) | (upper & 0xFFFFFFFF)
        digit = _digit(rest, divisor, inverse)
        above |= digit
        rest = ((rest - digit * divisor) << 32) | ((lower >> 32) & 0xFFFFFFFF)
        digit = _digit(rest, divisor, inverse)
        below = digit << 32
        rest = ((rest - digit * divisor) << 32) | (lower & 0xFFFFFFFF)
        digit = _digit(rest, divisor, inverse)
        below |= digit
        carry = np.int64(rest - digit * divisor >= rounded_from)
        below += carry
        above += carry & np.int64(below == 0)
        below = (below ^ sign) - sign
        above = (above ^ sign) + (np.int64(below == 0) & -sign)
        out[row] = above if is_high else below


@kernel
def _digit(number: int, divisor: int, inverse: float) -> Any:
    """Return a quotient below 2**32 of positive numbers of at most 63 bits.

    The product of doubles, which takes a fraction of a division, misses it by one at most.

    Part of: `divide_halves`.
    """
    quotient = np.int64(np.float64(number) * inverse)
    rest = number - quotient * divisor
    return quotient - np.int64(rest < 0) + np.int64(rest >= divisor)


@kernel
def load_column(
    operation: int, column: NDArray[np.uint8], base: int, first: int, out: NDArray[np.int64]
) -> None:
    """Load rows of a column of any width.

    Shapes: column [bytes]; out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    if operation == Operation.LOAD_BYTE:
        _load(column[first:], base, out)
    elif operation == Operation.LOAD_SHORT:
        _load(column.view(np.uint16)[first:], base, out)
    elif operation == Operation.LOAD_WORD:
        _load(column.view(np.uint32)[first:], base, out)
    elif operation == Operation.LOAD_LONG:
        _load(column.view(np.int64)[first:], base, out)
    else:
        half = operation - Operation.LOAD_LOW_HALF
        longs = column.view(np.int64)
        for row in range(len(out)):
            out[row] = longs[2 * (first + row) + half]


@kernel
def look_up_column(
    operation: int,
    column: NDArray[np.uint8],
    table: NDArray[np.int64],
    first: int,
    out: NDArray[np.int64],
) -> None:
    """Look up the ids of a column of any width.

    Shapes: column [bytes]; table [d]; out [b].
    Oracle: tests/oracle/block_program.py::run.
    """
    if operation == Operation.LOOK_UP_BYTE:
        _look_up(column[first:], table, out)
    elif operation == Operation.LOOK_UP_SHORT:
        _look_up(column.view(np.uint16)[first:], table, out)
    else:
        _look_up(column.view(np.uint32)[first:], table, out)


@kernel
def store_column(
    operation: int, x: NDArray[np.int64], base: int, at: int, output: NDArray[np.uint8]
) -> None:
    """Store to an output of any width.

    Shapes: x [b]; output [bytes].
    Oracle: tests/oracle/block_program.py::run.
    """
    if operation == Operation.STORE_BYTE:
        _store(x, base, output[at:])
    elif operation == Operation.STORE_WORD:
        _store(x, base, output.view(np.uint32)[at:])
    elif operation == Operation.STORE_LONG:
        _store(x, base, output.view(np.int64)[at:])
    else:
        half = operation - Operation.STORE_LOW_HALF
        longs = output.view(np.int64)
        for row in range(len(x)):
            longs[2 * (at + row) + half] = x[row]


@kernel
def _load(values: Integers, base: int, out: NDArray[np.int64]) -> None:
    """Widen.

    Shapes: values [n]; out [b].
    Part of: `load_column`.
    """
    for row in range(len(out)):
        out[row] = np.int64(values[row]) + base


@kernel
def _look_up(ids: Narrow, table: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Fetch the value of each id.

    Shapes: ids [n]; table [d]; out [b].
    Part of: `look_up_column`.
    """
    for row in range(len(out)):
        out[row] = table[ids[row]]


@kernel
def _store(x: NDArray[np.int64], base: int, out: Integers) -> None:
    """Write `x - base` to the first places of an output that holds it.

    Shapes: x [b]; out [n].
    Part of: `store_column`.
    """
    for row in range(len(x)):
        out[row] = x[row] - base
