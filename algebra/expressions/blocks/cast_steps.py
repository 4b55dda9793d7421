"""Casts in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.blocks.block_builder import BlockBuilder
from projseg.algebra.expressions.blocks.block_value import (
    NotInBlocksError,
    Value,
    is_exact,
    require_narrow,
)
from projseg.algebra.expressions.blocks.number_steps import Form, exact, fitted
from projseg.algebra.expressions.blocks.wide_steps import rescaled, scaled
from projseg.algebra.expressions.coercion import is_datetime, is_decimal, scale_of
from projseg.algebra.expressions.tree import Call
from projseg.algebra.time.period import DAY
from projseg.kernels.blocks.block_operations import Operation
from projseg.segment_format.layout.logical_types import TIMESTAMP

# Quotients of integers up to here are rounded once.
_EXACT_DOUBLE_MAX: Final = 1 << 53
_LONG_DIGITS_MAX: Final = 18


def _cast(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    (value,), source, wanted = arguments, call.arguments[0].type, call.type
    if pa.types.is_boolean(wanted):
        return _to_boolean(value, source, blocks)
    if is_datetime(source) or is_datetime(wanted):
        return _to_timestamp(call, value, blocks)
    if wanted == pa.float64():
        return _to_double(value, source, blocks)
    if not is_exact(source):
        raise NotInBlocksError("doubles to whole numbers")
    if is_decimal(wanted):
        found = rescaled(blocks, value, scale_of(source), scale_of(wanted))
        return fitted(blocks, found, wanted)
    if is_decimal(source):
        return _to_whole(value, source, wanted, blocks)
    return fitted(blocks, value, wanted)


def _to_boolean(value: Value, source: pa.DataType, blocks: BlockBuilder) -> Value:
    operation = Operation.EQUAL if is_exact(source) else Operation.EQUAL_DOUBLES
    require_narrow(value)
    is_zero = blocks.emit(operation, value.register, blocks.constant(0).register)
    return Value(blocks.opposite(is_zero), 0, 1, value.validity)


def _to_timestamp(call: Call, value: Value, blocks: BlockBuilder) -> Value:
    source, wanted = call.arguments[0].type, call.type
    zone = call.parameters[0] if call.parameters else "UTC"
    is_utc = wanted != TIMESTAMP or zone == "UTC"
    if not (pa.types.is_date32(source) and pa.types.is_timestamp(wanted) and is_utc):
        raise NotInBlocksError("a cast that reads a clock")
    return scaled(blocks, value, DAY)


def _to_double(value: Value, source: pa.DataType, blocks: BlockBuilder) -> Value:
    if source == pa.float64():
        return value
    divisor = 10 ** scale_of(source)
    if is_decimal(source) and max(divisor, -value.low, value.high) > _EXACT_DOUBLE_MAX:
        raise NotInBlocksError("a decimal of many digits")
    register = blocks.emit(Operation.TO_DOUBLE, value.register, low=divisor)
    return Value(register, validity=value.validity)


def _to_whole(
    value: Value, source: pa.DataType, wanted: pa.DataType, blocks: BlockBuilder
) -> Value:
    """Drop the fraction; Spark casts a wide decimal to int by way of its nearest double."""
    if source.precision > _LONG_DIGITS_MAX and wanted != pa.int64():
        raise NotInBlocksError("a wide decimal to int")
    if source.scale == 0:
        return fitted(blocks, value, wanted)
    high = max(abs(value.low), abs(value.high))
    divisor = blocks.constant(10**source.scale)
    return fitted(blocks, exact(blocks, Operation.DIVIDE, value, divisor, -high, high), wanted)


FORMS: Final[dict[str, Form]] = {"cast": _cast}
