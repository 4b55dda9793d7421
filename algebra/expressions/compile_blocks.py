"""An expression as the steps of a block program, if it has such a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from projseg.algebra.expressions.blocks.block_builder import (
    BlockBuilder,
    NotInBlocksError,
    Value,
    is_exact,
)
from projseg.algebra.expressions.blocks.wide_steps import constant as wide_constant
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Lazy, NoBlocks
from projseg.algebra.expressions.literals import literal_scalar
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.segment_format.layout.logical_types import arrow_to_numbers

Leaf = Callable[[Expression, BlockBuilder], Value | None]
"""From a column, or an expression over one, to its value if that is loaded or looked up."""


def compiled(expression: Expression, blocks: BlockBuilder, leaf: Leaf) -> Value:
    """Return the value that steps compute, which are added to a builder.

    Parameters
    ----------
    expression : Expression
        A bound tree.
    blocks : BlockBuilder
        Where the steps go.
    leaf : callable
        What knows the columns.

    Raises
    ------
    NotInBlocksError
        If a part has no such form: its function or types have none, or its values may pass 64 bits.
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
