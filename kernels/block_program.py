"""Run a program of simple operations over columns, some rows at a time, without the global lock.

A program computes an expression: each of its operations reads and writes registers, which hold one
64-bit number for each row of a block; a number of 128 bits takes two. Blocks are so short that
registers stay in the processor's cache. One kernel runs every program, so no expression is
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.block_operations import Operation
from projseg.kernels.block_steps import run_steps

BLOCK_ROWS: Final = 1024
PROGRAM_REGISTERS_MAX: Final = 64
PROGRAM_COLUMNS_MAX: Final = 32
PROGRAM_OUTPUTS_MAX: Final = 2


_LOADS: Final = {
    Operation.LOAD_BYTE: 1,
    Operation.LOAD_SHORT: 2,
    Operation.LOAD_WORD: 4,
    Operation.LOAD_LONG: 8,
    Operation.LOAD_LOW_HALF: 16,
    Operation.LOAD_HIGH_HALF: 16,
}
_LOOK_UPS: Final = {
    Operation.LOOK_UP_BYTE: np.dtype(np.uint8),
    Operation.LOOK_UP_SHORT: np.dtype(np.uint16),
    Operation.LOOK_UP_WORD: np.dtype(np.uint32),
}
_STORES: Final = {
    Operation.STORE_BYTE: 1,
    Operation.STORE_WORD: 4,
    Operation.STORE_LONG: 8,
    Operation.STORE_LOW_HALF: 16,
    Operation.STORE_HIGH_HALF: 16,
}
_DIVISOR_MAX: Final = {
    Operation.DIVIDE_HALF_UP: (1 << 63) - 1,
    Operation.DIVIDE_HALVES: (1 << 31) - 1,
    Operation.DIVIDE_HALVES_HIGH: (1 << 31) - 1,
}
_NOTHING: Final = np.zeros(0, np.uint8)

Step = tuple[int, int, int, int, int, int, int]
"""(operation, written register, x, y, z, low, high); what is not needed is 0."""


class BlockProgram:
    """A program of steps over contiguous columns of at least `row_count` rows.

    The first `constant_count` steps write constants, to registers that no later step writes. Raises
    InvalidInputError (PROJSEG_INTERNAL) if a step reads or writes a register or column that is not
    there.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        columns: Sequence[NDArray[Any]],
        row_count: int,
        constant_count: int,
    ) -> None:
        self._code = np.array(steps, np.int64).reshape(len(steps), 7)
        self._row_count, self._constant_count = row_count, constant_count
        register_count = 1 + max((step[1] for step in steps), default=0)
        good = len(columns) <= PROGRAM_COLUMNS_MAX and 0 < register_count <= PROGRAM_REGISTERS_MAX
        if not (good and all(_is_good(s, columns, row_count, register_count) for s in steps)):
            raise InvalidInputError("PROJSEG_INTERNAL", "a program reads what is not there")
        given = [_bytes_of(column) for column in columns]
        self._columns = (*given, *[_NOTHING] * (PROGRAM_COLUMNS_MAX - len(given)))
        self._stores = [
            (step[3], _STORES[Operation(step[0])]) for step in steps if step[0] in _STORES
        ]
        self._registers = np.empty((register_count, BLOCK_ROWS), np.int64)
        self._doubles = self._registers.view(np.float64)

    def run(self, start: int, end: int, outputs: Sequence[NDArray[Any]]) -> bool:
        """Compute the rows [start, end) into at most two outputs, filled from their beginning.

        Return whether every requirement was met; if not, the outputs mean nothing.
        """
        given = [_bytes_of(output) for output in outputs]
        places = [len(given[y]) // width for y, width in self._stores]
        if not 0 <= start <= end <= self._row_count or min(places) < end - start:
            raise InvalidInputError("PROJSEG_INTERNAL", f"no room for rows {start} to {end}")
        written = (*given, *[_NOTHING] * (PROGRAM_OUTPUTS_MAX - len(given)))
        registers = self._registers, self._doubles
        code, constants = self._code, self._constant_count
        return bool(run_steps(code, constants, *registers, self._columns, written, start, end))


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an array's bytes, writable, since Numba compiles for read-only ones separately."""
    writable = array if array.flags.writeable else array.copy()
    return writable.view(np.uint8)


def _is_good(
    step: Step, columns: Sequence[NDArray[Any]], row_count: int, register_count: int
) -> bool:
    """Whether a step reads and writes registers and columns that are there."""
    operation, written, x, y, z, low, _ = step
    if not 0 <= written < register_count or min(x, y, z) < 0:
        return False
    if operation in _LOADS:
        is_there = x < len(columns) and len(columns[x]) >= row_count
        return is_there and columns[x].itemsize == _LOADS[Operation(operation)]
    if operation in _LOOK_UPS:
        if max(x, y) >= len(columns) or len(columns[x]) < row_count or columns[y].itemsize != 8:
            return False
        ids = columns[x]
        is_of_type = ids.dtype == _LOOK_UPS[Operation(operation)]
        return is_of_type and int(ids.max(initial=0)) < len(columns[y])
    if operation in _STORES:
        return x < register_count and y < PROGRAM_OUTPUTS_MAX
    is_divisor_good = operation not in _DIVISOR_MAX or 0 < low <= _DIVISOR_MAX[Operation(operation)]
    return max(x, y, z) < register_count and is_divisor_good
