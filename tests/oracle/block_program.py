"""Slow, obvious twin of block programs: one row at a time, over Python's numbers."""

from __future__ import annotations

import math
import struct

from projseg.kernels.block_operations import Operation as Op


def wrapped(value):
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def as_double(bits):
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def as_bits(double):
    return struct.unpack("<q", struct.pack("<d", double))[0]


def truncated(x, y):
    """The quotient of two integers, rounded towards zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def half_up(x, divisor):
    size = (2 * abs(x) + divisor) // (2 * divisor)
    return -size if x < 0 else size


def order(double):
    return math.isnan(double), 0.0 if math.isnan(double) else double


INTEGERS = {
    Op.ADD: lambda x, y: wrapped(x + y),
    Op.SUBTRACT: lambda x, y: wrapped(x - y),
    Op.MULTIPLY: lambda x, y: wrapped(x * y),
    Op.DIVIDE: lambda x, y: wrapped(truncated(x, y)) if y else x,
    Op.REMAINDER: lambda x, y: x - truncated(x, y) * y if y else 0,
    Op.MULTIPLY_HIGH: lambda x, y: x * y >> 64,
    Op.LESS_UNSIGNED: lambda x, y: int(x % 2**64 < y % 2**64),
    Op.EQUAL: lambda x, y: int(x == y),
    Op.LESS: lambda x, y: int(x < y),
    Op.AND: lambda x, y: x & y,
    Op.OR: lambda x, y: x | y,
    Op.XOR: lambda x, y: x ^ y,
}
COMPARED = {
    Op.EQUAL_DOUBLES: lambda x, y: int(order(x) == order(y)),
    Op.LESS_DOUBLES: lambda x, y: int(order(x) < order(y)),
}


def product(x, y):
    try:
        return x * y
    except OverflowError:
        return math.inf


DOUBLES = {
    Op.ADD_DOUBLES: lambda x, y: x + y,
    Op.SUBTRACT_DOUBLES: lambda x, y: x - y,
    Op.MULTIPLY_DOUBLES: product,
    Op.DIVIDE_DOUBLES: lambda x, y: x / y if y else x,
}


def run(steps, columns, start, end):
    """Return the outputs as lists of 64-bit integers, or None if a requirement is not met."""
    outputs = {}
    for row in range(start, end):
        registers = {}
        for step in steps:
            if not run_step(step, columns, row, registers, outputs):
                return None
    return [outputs[number] for number in sorted(outputs)]


def run_step(step, columns, row, registers, outputs):  # noqa: C901 - one branch a kind of step
    operation, written, x, y, z, low, high = step
    if operation == Op.CONSTANT:
        registers[written] = low
    elif Op.LOAD_BYTE <= operation <= Op.LOAD_LONG:
        registers[written] = int(columns[x].tolist()[row]) + low
    elif operation in (Op.LOAD_LOW_HALF, Op.LOAD_HIGH_HALF):
        registers[written] = columns[x].tolist()[row][operation - Op.LOAD_LOW_HALF]
    elif Op.LOOK_UP_BYTE <= operation <= Op.LOOK_UP_WORD:
        registers[written] = int(columns[y].tolist()[columns[x].tolist()[row]])
    elif operation in INTEGERS:
        registers[written] = INTEGERS[operation](registers[x], registers[y])
    elif operation == Op.DIVIDE_HALF_UP:
        registers[written] = half_up(registers[x], low)
    elif operation in (Op.DIVIDE_HALVES, Op.DIVIDE_HALVES_HIGH):
        value = (registers[y] << 64) + registers[x] % 2**64
        quotient = half_up(value, low) if high == 1 else truncated(value, low)
        registers[written] = wrapped(quotient >> 64 * (operation - Op.DIVIDE_HALVES))
    elif operation in COMPARED:
        pair = as_double(registers[x]), as_double(registers[y])
        registers[written] = COMPARED[operation](*pair)
    elif operation == Op.SELECT:
        registers[written] = registers[y] if registers[x] else registers[z]
    elif operation in DOUBLES:
        pair = as_double(registers[x]), as_double(registers[y])
        registers[written] = as_bits(DOUBLES[operation](*pair))
    elif operation == Op.TO_DOUBLE:
        registers[written] = as_bits(float(registers[x]) / max(low, 1))
    elif operation == Op.REQUIRE_BETWEEN:
        return not registers[y] or low <= registers[x] <= high
    else:
        outputs.setdefault(y, []).append(wrapped(registers[x] - low))
    return True
