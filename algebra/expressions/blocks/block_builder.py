"""Build a block program: steps over virtual registers, equal ones once, then few real registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import is_datetime, is_decimal, is_integral
from projseg.algebra.expressions.tree import Call, Expression
from projseg.kernels.block_operations import Operation
from projseg.kernels.block_program import (
    PROGRAM_COLUMNS_MAX,
    PROGRAM_REGISTERS_MAX,
    BlockProgram,
    Step,
)

_LONG_LEAST: Final = -(1 << 63)
_LONG_GREATEST: Final = (1 << 63) - 1
_WIDE_EDGE: Final = 1 << 127


class NotInBlocksError(Exception):
    """An expression, or its columns' values, ask for more than block programs do."""


class Value(msgspec.Struct, frozen=True):
    """The value of an expression in each row, in a register.

    These are 64-bit numbers in the form that `vectors.Numbers` describes, doubles as their bits;
    what a null row holds means nothing. Bounds are of values that are not null, and mean nothing
    for doubles. `validity` is the register that holds 1 where there is a value and 0 where it is
    null, None without nulls; `upper` that of the upper 64 of 128 bits, where bounds pass 64. All
    values that are not null end with at least `zeros` decimal zeros.
    """

    register: int
    low: int = 0
    high: int = 0
    validity: int | None = None
    upper: int | None = None
    zeros: int = 0


def is_exact(arrow_type: pa.DataType) -> bool:
    """Whether values are integers in some form: of numbers, decimals, times or truth."""
    is_number = is_integral(arrow_type) or is_decimal(arrow_type)
    return is_number or is_datetime(arrow_type) or bool(pa.types.is_boolean(arrow_type))


def is_long(low: int, high: int) -> bool:
    """Whether 64 bits hold all numbers from `low` to `high`."""
    return low >= _LONG_LEAST and high <= _LONG_GREATEST


def require_long(low: int, high: int) -> None:
    """Raise NotInBlocksError for bounds that pass 64 bits."""
    if not is_long(low, high):
        raise NotInBlocksError("values may pass 64 bits")


def require_narrow(value: Value) -> None:
    """Raise NotInBlocksError for numbers of 128 bits, in steps that read 64."""
    if value.upper is not None:
        raise NotInBlocksError("a step over values that may pass 64 bits")


def is_wide(low: int, high: int) -> bool:
    """Whether 128 bits hold all numbers from `low` to `high`."""
    return low >= -_WIDE_EDGE and high < _WIDE_EDGE


def require_wide(low: int, high: int) -> None:
    """Raise NotInBlocksError for bounds that pass 128 bits."""
    if not is_wide(low, high):
        raise NotInBlocksError("values may pass 128 bits")


# How many of x, y and z are registers; 2 of operations that are not named.
_OPERANDS: Final = {
    **dict.fromkeys(range(Operation.CONSTANT, Operation.LOOK_UP_WORD + 1), 0),
    Operation.DIVIDE_HALF_UP: 1,
    Operation.SELECT: 3,
    Operation.TO_DOUBLE: 1,
    **dict.fromkeys(range(Operation.STORE_BYTE, Operation.STORE_HIGH_HALF + 1), 1),
}
_LOADS: Final = {1: Operation.LOAD_BYTE, 2: Operation.LOAD_SHORT, 4: Operation.LOAD_WORD}
_LOOK_UPS: Final = {
    1: Operation.LOOK_UP_BYTE,
    2: Operation.LOOK_UP_SHORT,
    4: Operation.LOOK_UP_WORD,
}


class BlockBuilder:
    """Collects the steps of one program.

    `wanted` is the register that holds 1 in the rows that the query asks a value for; None: in all.
    Only for them a requirement fails.
    """

    def __init__(self) -> None:
        self.wanted: int | None = None
        self._steps: dict[tuple[int, ...], int] = {}
        self._columns: list[NDArray[Any]] = []

    @property
    def may_fail(self) -> bool:
        """Whether a step requires something of the values."""
        return any(step[0] == Operation.REQUIRE_BETWEEN for step in self._steps)

    def emit(
        self, operation: Operation, x: int = 0, y: int = 0, z: int = 0, low: int = 0, high: int = 0
    ) -> int:
        """Return the register that a step writes; equal steps write one.

        Raises NotInBlocksError if a constant passes 64 bits.
        """
        require_long(min(low, high), max(low, high))
        step = (int(operation), x, y, z, low, high)
        return self._steps.setdefault(step, len(self._steps))

    def constant(self, value: int) -> Value:
        """Return a constant."""
        return Value(self.emit(Operation.CONSTANT, low=value), value, value)

    def double(self, value: float) -> Value:
        """Return a constant double."""
        bits = int(np.array([value], np.float64).view(np.int64)[0])
        return Value(self.emit(Operation.CONSTANT, low=bits))

    def null(self) -> Value:
        """Return null."""
        return replace(self.constant(0), validity=self.constant(0).register)

    def load(self, values: NDArray[Any], base: int = 0) -> int:
        """Return the register of a column: uint8, uint16, uint32, int64, float64 or bool[n]."""
        operation = _LOADS.get(values.itemsize, Operation.LOAD_LONG)
        return self.emit(operation, self._column(values), low=base)

    def load_halves(self, values: NDArray[Any]) -> tuple[int, int]:
        """Return the registers of the lower and the upper halves of a column, WIDE[n]."""
        column = self._column(values)
        low = self.emit(Operation.LOAD_LOW_HALF, column)
        return low, self.emit(Operation.LOAD_HIGH_HALF, column)

    def look_up(self, ids: NDArray[Any], table: NDArray[Any]) -> int:
        """Return the register of `table[ids]`; the table is int64[d] or float64[d]."""
        return self.emit(_LOOK_UPS[ids.itemsize], self._column(ids), self._column(table))

    def _column(self, values: NDArray[Any]) -> int:
        for slot, known in enumerate(self._columns):
            if known is values:
                return slot
        if len(self._columns) == PROGRAM_COLUMNS_MAX:
            raise NotInBlocksError("too many columns")
        self._columns.append(values)
        return len(self._columns) - 1

    def both(self, left: int | None, right: int | None) -> int | None:
        """Return the register that holds 1 where both do; None holds 1 everywhere."""
        if left is None or right is None:
            return right if left is None else left
        return self.emit(Operation.AND, left, right)

    def opposite(self, truth: int) -> int:
        """Return the register that holds 1 where `truth` holds 0, and 0 where it holds 1."""
        return self.emit(Operation.XOR, truth, self.constant(1).register)

    def register_of(self, validity: int | None) -> int:
        """Return a validity as a register."""
        return self.constant(1).register if validity is None else validity

    def required(self, value: Value, low: int, high: int) -> Value:
        """Return a value that lies in [low, high], in the rows that are wanted and not null."""
        if low <= value.low and value.high <= high:
            return value
        counts = self.register_of(self.both(value.validity, self.wanted))
        edges = {"low": max(low, _LONG_LEAST), "high": min(high, _LONG_GREATEST)}
        self.emit(Operation.REQUIRE_BETWEEN, value.register, counts, **edges)
        # Rows that are not wanted may lie outside, but what is computed of them is not used.
        bounds = max(low, value.low), min(high, value.high)
        return replace(value, low=min(bounds), high=max(bounds))

    def program(
        self, stores: Sequence[tuple[Operation, int, int, int]], row_count: int
    ) -> BlockProgram:
        """Return the program that stores registers, as (operation, register, output, base).

        Raises NotInBlocksError if it takes too many registers.
        """
        steps = [(step[0], written, *step[1:]) for step, written in self._steps.items()]
        steps += [
            (int(operation), -1, register, output, 0, base, 0)
            for operation, register, output, base in stores
        ]
        constants = [step for step in steps if step[0] == Operation.CONSTANT]
        ordered = [*constants, *(step for step in steps if step[0] != Operation.CONSTANT)]
        code = _with_few_registers(ordered, {step[1] for step in constants})
        if max(step[1] for step in code) >= PROGRAM_REGISTERS_MAX:
            raise NotInBlocksError("too many registers")
        return BlockProgram(code, self._columns, row_count, len(constants))


def _with_few_registers(steps: Sequence[tuple[int, ...]], constants: set[int]) -> list[Step]:
    """Return the steps over few registers: one is written anew once its last reader has run.

    A step never writes a register that it reads, so that its loop runs several rows at a time.
    Registers of constants are never written anew.
    """
    last_use = {}
    for position, step in enumerate(steps):
        for operand in step[2 : 2 + _OPERANDS.get(step[0], 2)]:
            last_use[operand] = position
    real: dict[int, int] = {}
    free: list[int] = []
    code: list[Step] = []
    for position, (operation, written, *rest) in enumerate(steps):
        operands = rest[: _OPERANDS.get(operation, 2)]
        place = 0
        if operation < Operation.REQUIRE_BETWEEN:
            place = free.pop() if free else len({*real.values()})
            real[written] = place
        x, y, z, low, high = [real[operand] for operand in operands] + rest[len(operands) :]
        code.append((operation, place, x, y, z, low, high))
        free += [
            real[operand]
            for operand in {*operands}
            if last_use[operand] == position and operand not in constants
        ]
    return code


Computed: TypeAlias = Callable[[Expression], Value]
"""What computes an argument of a lazy function, for the rows that are wanted at that time."""

Form: TypeAlias = Callable[[Call, Sequence[Value], BlockBuilder], Value]
"""(call, the values of its arguments, builder) -> its value."""

LazyForm: TypeAlias = Callable[[Call, Computed, BlockBuilder], Value]
"""(call, what computes an argument, builder) -> its value."""
