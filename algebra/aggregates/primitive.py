"""What is stored: an aggregate's mergeable part, named by its canonical text.

A query's aggregate is made of primitives (avg = sum and count); projections store primitives, each
once. Two aggregates that need the same primitive share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.aggregates.result_types import DECIMAL_DIGITS_MAX, sum_type
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Expression
from projseg.memory.lazy import cached_property

Fields = tuple[tuple[str, pa.DataType], ...]
"""Stored columns: (part name, logical type) each."""


class PrimitiveKind(msgspec.Struct, frozen=True):
    """What is known of a kind of primitive; `aggregation.states` folds it.

    Parameters
    ----------
    fields : function of the arguments' types
        The columns that store a state; SPEC.md 7.1.
    is_idempotent : bool
        A value that occurs again does not change the state.
    is_weighable : bool
        It matters how often a value occurs, and rows can be folded in so many times.
    is_by_time : bool
        Of (value, time): takes rows without a value, but none without a time.
    is_quick : bool
        A row is folded in less time than it takes to fetch it from its column.
    is_set : bool
        A state is a set or a sketch of one, which costs more to add to and to merge.
    """

    fields: Callable[..., Fields]
    is_idempotent: bool = False
    is_weighable: bool = False
    is_by_time: bool = False
    is_quick: bool = False
    is_set: bool = False


class Primitive(msgspec.Struct, frozen=True, dict=True):
    """One mergeable state over rows.

    Parameters
    ----------
    function : str
        A key of `PRIMITIVES`: "count", "sum", "min", "max", "hll", ...
    arguments : tuple of Expression
        Inputs, over the rows' columns; empty for count(*).
    filter : Expression or None
        FILTER (WHERE ...); rows where it is not true are left out.
    parameters : tuple
        Constants, such as a sketch's lgK.
    """

    function: str
    arguments: tuple[Expression, ...]
    filter: Expression | None = None
    parameters: tuple[object, ...] = ()

    @cached_property
    def text(self) -> str:
        """Canonical SQL-like text: equal for equal primitives, and the stored columns' prefix."""
        inputs = [to_sql(argument) for argument in self.arguments] or ["*"]
        inputs += [str(parameter) for parameter in self.parameters]
        suffix = "" if self.filter is None else f" FILTER (WHERE {to_sql(self.filter)})"
        return f"{self.function}({', '.join(inputs)}){suffix}"

    @property
    def kind(self) -> PrimitiveKind:
        """What is known of all primitives of the function."""
        return PRIMITIVES[self.function]

    @cached_property
    def fields(self) -> Fields:
        """The columns that store a state."""
        return self.kind.fields(*(argument.type for argument in self.arguments))


def _count(*arguments: pa.DataType) -> Fields:
    del arguments
    return (("count", pa.int64()),)


def _sum(value: pa.DataType) -> Fields:
    """Return a double, or a decimal wide enough for any partial sum."""
    final = sum_type(value)
    if final == pa.float64():
        return (("sum", final),)
    scale = final.scale if pa.types.is_decimal(final) else 0
    return (("sum", pa.decimal128(DECIMAL_DIGITS_MAX, scale)),)


def _value(value: pa.DataType) -> Fields:
    return (("value", value),)


def _value_and_time(value: pa.DataType, time: pa.DataType) -> Fields:
    return (("value", value), ("time", time))


def _moments(value: pa.DataType) -> Fields:
    del value
    return (("count", pa.int64()), ("mean", pa.float64()), ("squares", pa.float64()))


def _bits(value: pa.DataType) -> Fields:
    return (("bits", value),)


def _values(value: pa.DataType) -> Fields:
    return (("values", pa.list_(value)),)


def _sketch(value: pa.DataType) -> Fields:
    del value
    return (("sketch", pa.binary()),)


PRIMITIVES: Final[dict[str, PrimitiveKind]] = {
    "count": PrimitiveKind(_count, is_quick=True),
    "sum": PrimitiveKind(_sum, is_weighable=True, is_quick=True),
    "min": PrimitiveKind(_value, is_idempotent=True, is_quick=True),
    "max": PrimitiveKind(_value, is_idempotent=True, is_quick=True),
    "min_by": PrimitiveKind(_value_and_time, is_idempotent=True, is_by_time=True),
    "max_by": PrimitiveKind(_value_and_time, is_idempotent=True, is_by_time=True),
    "moments": PrimitiveKind(_moments, is_weighable=True),
    "bit_and": PrimitiveKind(_bits, is_idempotent=True),
    "bit_or": PrimitiveKind(_bits, is_idempotent=True),
    "bit_xor": PrimitiveKind(_bits, is_weighable=True),
    "distinct": PrimitiveKind(_values, is_idempotent=True, is_set=True),
    "hll": PrimitiveKind(_sketch, is_idempotent=True, is_set=True),
    "theta": PrimitiveKind(_sketch, is_idempotent=True, is_set=True),
}
