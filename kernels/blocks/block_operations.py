"""The operations of block programs (`block_program.py`)."""

from __future__ import annotations

from enum import IntEnum


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
