"""Steps of block programs that move rows of columns into registers and out of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.blocks.block_operations import Operation
from projseg.kernels.runtime.array_types import Integers, Narrow
from projseg.kernels.runtime.kernel import kernel


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
