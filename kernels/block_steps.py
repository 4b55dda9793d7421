"""The steps of block programs (`block_program.py`): one loop over a block of rows each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.block_operations import (
    Operation,
    divide_halves,
    load_column,
    look_up_column,
    multiply_high,
    store_column,
)
from projseg.kernels.runtime.kernel import kernel


@kernel
def run_steps(
    code: NDArray[np.int64],
    constant_count: int,
    registers: NDArray[np.int64],
    doubles: NDArray[np.float64],
    columns: tuple[NDArray[np.uint8], ...],
    outputs: tuple[NDArray[np.uint8], ...],
    start: int,
    end: int,
) -> bool:
    """Run every step over a block of rows, then over the next; return whether all succeeded.

    The first `constant_count` steps run once. Registers are the same memory as `doubles`. Columns
    and outputs are the bytes of arrays; each step knows how wide the items are that it reads.

    Shapes: code [m, 7]; registers, doubles [r, b]; columns, outputs [bytes].
    Oracle: tests/oracle/block_program.py::run.
    """
    for first in range(start, end, registers.shape[1]):
        count = min(registers.shape[1], end - first)
        for step in range(0 if first == start else constant_count, len(code)):
            operation, written, x, y = code[step, 0], code[step, 1], code[step, 2], code[step, 3]
            low = code[step, 5]
            out = registers[written][:count]
            if operation == Operation.CONSTANT:
                registers[written][:] = low
            elif operation <= Operation.LOAD_HIGH_HALF:
                load_column(operation, columns[x], low, first, out)
            elif operation <= Operation.LOOK_UP_WORD:
                look_up_column(operation, columns[x], columns[y].view(np.int64), first, out)
            elif operation <= Operation.SELECT:
                z, high = code[step, 4], code[step, 6]
                _compute(operation, registers, doubles, x, y, z, low, high, out)
            elif operation <= Operation.TO_DOUBLE:
                _compute_doubles(operation, registers, doubles, x, y, low, doubles[written][:count])
            elif operation >= Operation.STORE_BYTE:
                store_column(operation, registers[x][:count], low, first - start, outputs[y])
            elif not _are_between(registers[x][:count], registers[y][:count], low, code[step, 6]):
                return False
    return True


@kernel
def _compute(
    operation: int,
    registers: NDArray[np.int64],
    doubles: NDArray[np.float64],
    x: int,
    y: int,
    z: int,
    low: int,
    high: int,
    out: NDArray[np.int64],
) -> None:
    """Compute integers and truth values.

    Shapes: registers, doubles [r, b]; out [b].
    Part of: `run_steps`.
    """
    count = len(out)
    if operation <= Operation.MULTIPLY:
        _add_or_multiply(operation, registers[x][:count], registers[y][:count], out)
    elif operation == Operation.MULTIPLY_HIGH:
        multiply_high(registers[x][:count], registers[y][:count], out)
    elif operation <= Operation.REMAINDER:
        _divide(operation, registers[x][:count], registers[y][:count], out)
    elif operation == Operation.DIVIDE_HALF_UP:
        _divide_half_up(registers[x][:count], low, out)
    elif operation <= Operation.DIVIDE_HALVES_HIGH:
        is_high = operation == Operation.DIVIDE_HALVES_HIGH
        divide_halves(registers[x][:count], registers[y][:count], low, high == 1, is_high, out)
    elif operation <= Operation.LESS_UNSIGNED:
        _compare(operation, registers[x][:count], registers[y][:count], out)
    elif operation <= Operation.LESS_DOUBLES:
        _compare_doubles(operation, doubles[x][:count], doubles[y][:count], out)
    elif operation <= Operation.XOR:
        _combine(operation, registers[x][:count], registers[y][:count], out)
    else:
        _select(registers[x][:count], registers[y][:count], registers[z][:count], out)


@kernel
def _add_or_multiply(
    operation: int, x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Add, subtract or multiply.

    Shapes: x, y, out [b].
    Part of: `_compute`.
    """
    if operation == Operation.ADD:
        for row in range(len(out)):
            out[row] = x[row] + y[row]
    elif operation == Operation.SUBTRACT:
        for row in range(len(out)):
            out[row] = x[row] - y[row]
    else:
        for row in range(len(out)):
            out[row] = x[row] * y[row]


@kernel
def _divide(
    operation: int, x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Divide towards zero; by 0 as by 1. Doubles divide sooner, exactly up to 52 bits.

    Shapes: x, y, out [b].
    Part of: `_compute`.
    """
    bits = np.int64(0)
    for row in range(len(out)):
        bits |= (x[row] ^ (x[row] >> 63)) | (y[row] ^ (y[row] >> 63))
    if bits >> 52 != 0:
        _divide_long(operation, x, y, out)
    elif operation == Operation.DIVIDE:
        for row in range(len(out)):
            divisor = np.float64(y[row] + (y[row] == 0))
            out[row] = np.int64(np.float64(x[row]) / divisor)
    else:
        for row in range(len(out)):
            divisor = np.float64(y[row] + (y[row] == 0))
            out[row] = x[row] - np.int64(np.float64(x[row]) / divisor) * np.int64(divisor)


@kernel
def _divide_long(
    operation: int, x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Divide any integers; the processor cannot divide the least by -1, which wraps around.

    Shapes: x, y, out [b].
    Part of: `_divide`.
    """
    for row in range(len(out)):
        divisor = y[row]
        quotient, rest = x[row], np.int64(0)
        if divisor == -1:
            quotient = -quotient
        elif divisor != 0:
            quotient = x[row] // divisor
            rest = x[row] - quotient * divisor
            if rest != 0 and (x[row] < 0) != (divisor < 0):
                quotient += 1
                rest -= divisor
        out[row] = quotient if operation == Operation.DIVIDE else rest


@kernel
def _divide_half_up(x: NDArray[np.int64], divisor: int, out: NDArray[np.int64]) -> None:
    """Divide by a positive number, rounded half away from zero.

    Shapes: x, out [b].
    Part of: `_compute`.
    """
    for row in range(len(out)):
        below = x[row] // divisor
        rest = x[row] - below * divisor
        half = divisor // 2 + 1 if x[row] < 0 else divisor - divisor // 2
        out[row] = below + (rest >= half)


@kernel
def _compare(
    operation: int, x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Compare integers.

    Shapes: x, y, out [b].
    Part of: `_compute`.
    """
    if operation == Operation.EQUAL:
        for row in range(len(out)):
            out[row] = x[row] == y[row]
    elif operation == Operation.LESS:
        for row in range(len(out)):
            out[row] = x[row] < y[row]
    else:
        for row in range(len(out)):
            out[row] = np.uint64(x[row]) < np.uint64(y[row])


@kernel
def _compare_doubles(
    operation: int, x: NDArray[np.float64], y: NDArray[np.float64], out: NDArray[np.int64]
) -> None:
    """Compare in Spark's order.

    Shapes: x, y, out [b].
    Part of: `_compute`.
    """
    if operation == Operation.EQUAL_DOUBLES:
        for row in range(len(out)):
            out[row] = (x[row] == y[row]) | ((x[row] != x[row]) & (y[row] != y[row]))
    else:
        for row in range(len(out)):
            out[row] = (x[row] < y[row]) | ((x[row] == x[row]) & (y[row] != y[row]))


@kernel
def _combine(
    operation: int, x: NDArray[np.int64], y: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Combine truth values.

    Shapes: x, y, out [b].
    Part of: `_compute`.
    """
    if operation == Operation.AND:
        for row in range(len(out)):
            out[row] = x[row] & y[row]
    elif operation == Operation.OR:
        for row in range(len(out)):
            out[row] = x[row] | y[row]
    else:
        for row in range(len(out)):
            out[row] = x[row] ^ y[row]


@kernel
def _select(
    x: NDArray[np.int64], y: NDArray[np.int64], z: NDArray[np.int64], out: NDArray[np.int64]
) -> None:
    """Choose between two values; both are read first, so that none branches.

    Shapes: x, y, z, out [b].
    Part of: `_compute`.
    """
    for row in range(len(out)):
        chosen, other = y[row], z[row]
        out[row] = chosen if x[row] != 0 else other


@kernel
def _compute_doubles(
    operation: int,
    registers: NDArray[np.int64],
    doubles: NDArray[np.float64],
    x: int,
    y: int,
    divisor: int,
    out: NDArray[np.float64],
) -> None:
    """Compute doubles.

    Shapes: registers, doubles [r, b]; out [b].
    Part of: `run_steps`.
    """
    count = len(out)
    left, right = doubles[x][:count], doubles[y][:count]
    if operation == Operation.TO_DOUBLE:
        _to_double(registers[x][:count], divisor, out)
    elif operation == Operation.ADD_DOUBLES:
        for row in range(count):
            out[row] = left[row] + right[row]
    elif operation == Operation.SUBTRACT_DOUBLES:
        for row in range(count):
            out[row] = left[row] - right[row]
    elif operation == Operation.MULTIPLY_DOUBLES:
        for row in range(count):
            out[row] = left[row] * right[row]
    else:
        for row in range(count):
            out[row] = left[row] / (1.0 if right[row] == 0 else right[row])


@kernel
def _to_double(x: NDArray[np.int64], divisor: int, out: NDArray[np.float64]) -> None:
    """Divide, rounded once: both numbers must be below 2**53, unless the divisor is 1.

    Shapes: x, out [b].
    Part of: `_compute_doubles`.
    """
    by = np.float64(divisor) if divisor > 1 else 1.0
    for row in range(len(out)):
        out[row] = np.float64(x[row]) / by


@kernel
def _are_between(x: NDArray[np.int64], counts: NDArray[np.int64], low: int, high: int) -> bool:
    """Return whether all values that count lie in [low, high].

    Shapes: x, counts [b].
    Part of: `run_steps`.
    """
    outside = 0
    for row in range(len(x)):
        outside |= (counts[row] != 0) & ((x[row] < low) | (x[row] > high))
    return outside == 0
