"""Evaluate expressions over Arrow arrays, or compile them to the steps of a block program.

Over arrays they raise the errors of Spark's ANSI mode. AND, OR, CASE and COALESCE compute an
operand that may fail only for the rows that need it, so that `x <> 0 AND 1 / x > 2` never divides
by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks.block_builder import (
    BlockBuilder,
    NotInBlocksError,
    Value,
    is_exact,
)
from projseg.algebra.expressions.blocks.wide_steps import constant as wide_constant
from projseg.algebra.expressions.functions.datum import (
    ARRAY_BYTES_MAX,
    Datum,
    TextsTooLargeError,
    as_array,
    texts_too_large,
)
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Lazy, NoBlocks, without_zone
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, literal_scalar
from projseg.algebra.time.time_zones import is_fixed
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.logical_types import arrow_to_numbers


def evaluate(expression: Expression, columns: Mapping[str, pa.Array], row_count: int) -> pa.Array:
    """Return the expression's value for each row, which may be one of `columns`.

    These are at least `expression.columns`, each of `row_count` values and of the bound type.
    Raises EvaluationError where Spark's ANSI mode raises: overflow, division by zero, a bad cast.
    """
    return as_array(_value(expression, columns, row_count), row_count)


def evaluate_in_parts(
    expression: Expression, columns: Mapping[str, pa.Array], row_count: int
) -> pa.Array:
    """Evaluate as `evaluate` does, over fewer rows at a time where the texts would be too large.

    Raises TextsTooLargeError if the values do not fit in one array.
    """
    try:
        return evaluate(expression, columns, row_count)
    except TextsTooLargeError:
        if row_count <= 1:
            raise
    middle = row_count // 2
    parts = []
    for start, end in ((0, middle), (middle, row_count)):
        sliced = {name: columns[name].slice(start, end - start) for name in expression.columns}
        parts.append(evaluate_in_parts(expression, sliced, end - start))
    if sum(part.nbytes for part in parts) > ARRAY_BYTES_MAX:
        raise texts_too_large(row_count)
    return pa.concat_arrays(parts)


def _value(expression: Expression, columns: Mapping[str, pa.Array], row_count: int) -> Datum:
    if isinstance(expression, Column):
        found = columns[expression.name]
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if isinstance(expression, Literal):
        return literal_scalar(expression)
    assert isinstance(expression, Call)
    compute = FUNCTIONS[expression.function].evaluate
    if isinstance(compute, Lazy):
        return compute.compute(expression, _Operands(columns, row_count))
    data = [_value(argument, columns, row_count) for argument in expression.arguments]
    if all(isinstance(datum, pa.Scalar) for datum in data):
        data = [as_array(datum, row_count) for datum in data]
    return compute(expression, data, row_count)


class _Operands:
    """The `Operands` of a lazy function, over some rows."""

    def __init__(self, columns: Mapping[str, pa.Array], row_count: int) -> None:
        self.columns, self.row_count = columns, row_count

    def value(self, operand: Expression) -> Datum:
        return _value(operand, self.columns, self.row_count)

    def value_where(self, operand: Expression, wanted: NDArray[np.bool_]) -> pa.Array:
        if not may_fail(operand) or wanted.all():
            return evaluate(operand, self.columns, self.row_count)
        rows = np.flatnonzero(wanted)
        taken = {name: self.columns[name].take(primitive_array(rows)) for name in operand.columns}
        values = evaluate(operand, taken, len(rows))
        positions = np.zeros(self.row_count, dtype=np.int64)
        positions[rows] = np.arange(len(rows))
        return values.take(primitive_array(positions, wanted))

    def may_fail(self, operand: Expression) -> bool:
        return may_fail(operand)


def may_fail(expression: Expression) -> bool:
    """Whether evaluating it may raise an EvaluationError for some row."""
    calls = (node for node in expression.walk() if isinstance(node, Call))
    return any(FUNCTIONS[call.function].may_fail(call) for call in calls)


def regions_of(tree: Expression) -> Iterator[str]:
    """Yield the zones of a tree's calls; a field's name is a parameter, too, and no zone."""
    for node in tree.walk():
        if not isinstance(node, Call) or FUNCTIONS[node.function].zone is without_zone:
            continue
        for parameter in node.parameters:
            zone = parameter.timezone if isinstance(parameter, Granularity) else parameter
            if isinstance(zone, str) and not is_fixed(zone):
                yield zone


def compiled(
    expression: Expression,
    blocks: BlockBuilder,
    leaf: Callable[[Expression, BlockBuilder], Value | None],
) -> Value:
    """Return the value that steps compute, which are added to a builder.

    `leaf` returns the value of a column, or of an expression over one, if that is loaded or looked
    up. Raises NotInBlocksError if a part has no such form: its function or types have none, or its
    values may pass 64 bits.
    """
    if not (is_exact(expression.type) or expression.type == pa.float64()):
        raise NotInBlocksError(f"values of {expression.type}")
    if isinstance(expression, Literal):
        return _constant(expression, blocks)
    known = leaf(expression, blocks)
    if known is not None:
        return known
    if not isinstance(expression, Call):
        raise NotInBlocksError("a column without numbers")
    function = FUNCTIONS[expression.function]
    if isinstance(function.in_blocks, NoBlocks):
        raise NotInBlocksError(f"{expression.function}: {function.in_blocks.value}")
    form: Callable[[Call, Any, BlockBuilder], Value] = function.in_blocks
    if isinstance(function.evaluate, Lazy):
        return form(expression, lambda operand: compiled(operand, blocks, leaf), blocks)
    return form(expression, [compiled(each, blocks, leaf) for each in expression.arguments], blocks)


def has_form(call: Call) -> bool:
    """Whether steps compute the function of a call, if its values allow that."""
    return not isinstance(FUNCTIONS[call.function].in_blocks, NoBlocks)


def _constant(constant: Literal, blocks: BlockBuilder) -> Value:
    value = constant.value
    if value is None:
        return blocks.null()
    if isinstance(value, float):
        return blocks.double(value)
    values, _ = arrow_to_numbers(pa.repeat(literal_scalar(constant), 1))
    return wide_constant(blocks, int(values[0]))
