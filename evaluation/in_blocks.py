"""Evaluate expressions over many rows as block programs, without Arrow arrays in between.

A program never raises an error of a query: where it cannot prove that none is due, the expression
is evaluated as `algebra.expressions.evaluate` does it, which raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks.block_builder import (
    BlockBuilder,
    NotInBlocksError,
    Value,
    is_long,
)
from projseg.algebra.expressions.evaluate import compiled, evaluate, has_form
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.evaluation.arrow_vectors import grouping_vector, values_by_id
from projseg.evaluation.rows import Rows
from projseg.kernels.block_operations import Operation
from projseg.kernels.block_program import BlockProgram
from projseg.memory.cache import KEPT
from projseg.memory.memory_pool import empty
from projseg.segment_format.arrow_arrays import WIDE
from projseg.segment_format.vectors import Ids, Numbers, Vector, held_bytes

BLOCK_ROWS_MIN: Final = 1 << 13
"""Fewer rows are not worth a program; tests set it to 0."""

_CHUNK_ROWS: Final = 1 << 18  # how many rows are computed before they are folded
_RANGE_MAX: Final = 1 << 16  # of numbers whose values are looked up
_ROWS_A_VALUE: Final = 16  # a look-up pays for so many rows of each number
_LONG: Final[np.dtype[Any]] = np.dtype(np.int64)
_NO_LONGS: Final = (np.dtype(np.float32), np.dtype(object))


class BlockValues(msgspec.Struct, frozen=True):
    """A program that computes an expression over some rows, and the form of its values.

    It stores values to output 0, of `dtype` (uint8, uint32, int64, float64, or WIDE where `bounds`,
    those of the stored values, pass 64 bits), to which `base` is added; and 1 or 0 to output 1
    where `is_nullable`. With `may_fail`, a value may raise an error.
    """

    program: BlockProgram
    type: pa.DataType
    dtype: np.dtype[Any]
    base: int
    bounds: tuple[int, int] | None
    is_nullable: bool
    may_fail: bool

    def numbers(self, start: int, end: int) -> Numbers | None:
        """Return the values of rows [start, end); None if one of them may raise an error."""
        values = empty(end - start, self.dtype)
        validity = empty(end - start, np.bool_) if self.is_nullable else None
        outputs = [values] if validity is None else [values, validity]
        if not self.program.run(start, end, outputs):
            return None
        return Numbers(values, self.type, self.base, validity, self.bounds)

    def chunks(self, row_count: int) -> Iterator[tuple[int, Numbers]]:
        """Yield (first row, values) of so few rows at a time that caches hold them.

        For programs that cannot fail.
        """
        for start in range(0, row_count, _CHUNK_ROWS):
            numbers = self.numbers(start, min(start + _CHUNK_ROWS, row_count))
            assert numbers is not None
            yield start, numbers


def block_values(expression: Expression, rows: Rows) -> BlockValues | None:
    """Return the program of an expression over `rows`; None if there is none, or rows are few."""
    if len(rows) < BLOCK_ROWS_MIN or len(rows) == 0 or not isinstance(expression, Call):
        return None
    blocks = BlockBuilder()
    try:
        value = compiled(expression, blocks, _Leaves(rows).value)
        return _stored(expression.type, value, blocks, len(rows))
    except NotInBlocksError:
        return None


def evaluated_in_blocks(expression: Expression, rows: Rows) -> Vector | None:
    """Return the value of `expression` in each of `rows`; None if it is not computed in blocks."""
    values = block_values(expression, rows)
    return None if values is None else values.numbers(0, len(rows))


def _stored(
    arrow_type: pa.DataType, value: Value, blocks: BlockBuilder, row_count: int
) -> BlockValues:
    """Store an expression's value in the fewest bytes."""
    base = 0 if arrow_type == pa.float64() else value.low
    operation, dtype = Operation.STORE_LONG, _LONG
    bounds: tuple[int, int] | None = 0, value.high - value.low
    if arrow_type == pa.float64():
        dtype, bounds = np.dtype(np.float64), None
    elif value.high - value.low < 1 << 8 and value.upper is None:
        operation, dtype = Operation.STORE_BYTE, np.dtype(np.uint8)
    elif value.high - value.low < 1 << 32 and value.upper is None:
        operation, dtype = Operation.STORE_WORD, np.dtype(np.uint32)
    else:
        base, bounds = 0, (min(value.low, 0), max(value.high, 0))
    parts = [(operation, value.register)]
    if value.upper is not None:
        parts = [
            (Operation.STORE_LOW_HALF, value.register),
            (Operation.STORE_HIGH_HALF, value.upper),
        ]
        dtype = WIDE
    stores = [(step, _held(blocks, value, register, base), 0, base) for step, register in parts]
    if value.validity is not None:
        stores.append((Operation.STORE_BYTE, value.validity, 1, 0))
    program = blocks.program(stores, row_count)
    is_nullable = value.validity is not None
    return BlockValues(program, arrow_type, dtype, base, bounds, is_nullable, blocks.may_fail)


def _held(blocks: BlockBuilder, value: Value, register: int, base: int) -> int:
    """Return the stored values of a register: the base where the value is null."""
    if value.validity is None:
        return register
    return blocks.emit(Operation.SELECT, value.validity, register, blocks.constant(base).register)


class _Leaves:
    """Values that a program loads from columns, or looks up by the ids of one column."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[Expression, Value | None] = {}

    def value(self, expression: Expression, blocks: BlockBuilder) -> Value | None:
        if len(expression.columns) != 1:
            return None
        if expression not in self._known:
            self._known[expression] = self._column_value(expression, blocks)
        return self._known[expression]

    def _column_value(self, expression: Expression, blocks: BlockBuilder) -> Value | None:
        (name,) = expression.columns
        vector = self._rows.vector(name)
        if isinstance(vector, Ids):
            return _looked_up_by_id(expression, name, vector, blocks)
        if not isinstance(vector, Numbers):
            raise NotInBlocksError("a column of neither numbers nor ids")
        if isinstance(expression, Column):
            return _loaded(vector, blocks)
        assert isinstance(expression, Call)
        if not has_form(expression):
            return _looked_up_by_value(expression, name, vector, blocks)
        with suppress(NotInBlocksError):
            return _looked_up_by_value(expression, name, vector, blocks, _ROWS_A_VALUE)
        return None


def _loaded(vector: Numbers, blocks: BlockBuilder) -> Value:
    values = vector.values
    if values.dtype in _NO_LONGS:
        raise NotInBlocksError(f"a column of {values.dtype}")
    validity = None if vector.validity is None else blocks.load(vector.validity)
    if values.dtype == WIDE:
        lower, upper = blocks.load_halves(values)
        bounds = vector.limits()
        return Value(
            lower, *bounds, validity, None if is_long(*bounds) else upper, zeros=vector.zeros
        )
    low, high = (0, 0) if values.dtype == np.float64 else vector.limits()
    return Value(blocks.load(values, vector.base), low, high, validity, zeros=vector.zeros)


def _looked_up_by_id(expression: Expression, name: str, vector: Ids, blocks: BlockBuilder) -> Value:
    if len(vector.dictionary) > max(len(vector), BLOCK_ROWS_MIN):
        raise NotInBlocksError("a dictionary of more values than rows")
    try:
        by_id = values_by_id(expression, name, vector.dictionary)
    except (ArithmeticError, TextsTooLargeError) as error:
        raise NotInBlocksError("a value that perhaps no row holds raises an error") from error
    return _looked_up(vector.ids, by_id, blocks)


def _looked_up_by_value(
    expression: Expression, name: str, vector: Numbers, blocks: BlockBuilder, rows_a_value: int = 1
) -> Value:
    """Evaluate an expression once for each number up to the greatest, and for null.

    Each number has `rows_a_value` rows at least on average.
    """
    if vector.values.dtype.kind != "u":
        raise NotInBlocksError("wide numbers")
    row_count = len(vector)
    if (
        vector.bounds is not None
        and rows_a_value > 1
        and rows_a_value * vector.bounds[1] > row_count
    ):
        raise NotInBlocksError("a wide range of numbers")
    count = int(vector.values.max()) + 1
    if count > _RANGE_MAX or rows_a_value * count > row_count:
        raise NotInBlocksError("a wide range of numbers")
    has_null = vector.validity is not None
    key = ("values by number", expression, vector.type, vector.base, count, has_null)
    found: Vector | None = KEPT.get(key)
    if found is None:
        numbers = np.arange(count + has_null, dtype=np.uint32) % np.uint32(count)
        is_number = np.arange(count + 1) < count if has_null else None
        every = Numbers(numbers, vector.type, vector.base, is_number)
        try:
            values = evaluate(expression, {name: every.to_arrow()}, len(every))
        except (ArithmeticError, TextsTooLargeError) as error:
            raise NotInBlocksError("a value that perhaps no row holds raises an error") from error
        made = grouping_vector(values)
        found = KEPT.put(key, made, held_bytes(made))
    present = None if vector.validity is None else blocks.load(vector.validity)
    return _looked_up(vector.values, found, blocks, present)


def _looked_up(
    ids: NDArray[Any], by_id: Vector, blocks: BlockBuilder, present: int | None = None
) -> Value:
    """Return the values of ids; of rows that are not present, by a register, the last value."""
    if not isinstance(by_id, Numbers) or by_id.values.dtype in (*_NO_LONGS, WIDE):
        raise NotInBlocksError("texts, or numbers of another width")
    table, valid = by_id.wide(), by_id.validity
    own = valid if present is None or valid is None else valid[:-1]
    validity = None
    if valid is not None and own is not None and not own.all():
        validity = blocks.look_up(ids, valid.astype(np.int64))
    low = high = 0
    held = table if valid is None else table[valid]
    if table.dtype == np.int64 and len(held):
        low, high = int(held.min()), int(held.max())
    register = blocks.look_up(ids, table)
    if present is None:
        return Value(register, low, high, validity)
    if valid is not None and not valid[-1]:
        return Value(register, low, high, blocks.both(validity, present))
    of_null = table[-1].item()
    last = blocks.constant(of_null) if table.dtype == np.int64 else blocks.double(of_null)
    register = blocks.emit(Operation.SELECT, present, register, last.register)
    if validity is not None:
        one = blocks.constant(1).register
        validity = blocks.emit(Operation.SELECT, present, validity, one)
    return Value(register, low, high, validity)
