"""Compute sum(a - b) as sum(a) - sum(b) where that is exact: no row's a - b is evaluated."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from projseg.aggregation.rows import Rows
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.segment_format.arrow_arrays import numpy_dtype
from projseg.segment_format.vectors import Numbers


class Term(msgspec.Struct, frozen=True):
    """A column that is added (sign 1) or subtracted (sign -1)."""

    name: str
    numbers: Numbers
    sign: int


class _Part(msgspec.Struct, frozen=True):
    """Terms whose signed sum is the value of a sub-expression, which lies in [low, high]."""

    terms: tuple[Term, ...]
    low: int
    high: int


_SIGN_OF_SECOND: Final = {"+": 1, "-": -1}


def linear_terms(expression: Expression, rows: Rows) -> tuple[Term, ...] | None:
    """Return the columns whose signed sum is `expression` in every row.

    None unless the expression only adds and subtracts integer columns without nulls in `rows`, and
    the columns' bounds prove that no step overflows, which Spark's ANSI mode would refuse.
    """
    if not isinstance(expression, Call) or len(rows) == 0:
        return None
    part = _part(expression, rows)
    return None if part is None else part.terms


def _part(expression: Expression, rows: Rows) -> _Part | None:
    if not pa.types.is_integer(expression.type):
        return None
    if isinstance(expression, Column):
        return _column_part(expression, rows)
    if not isinstance(expression, Call):
        return None
    parts = [_part(argument, rows) for argument in expression.arguments]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    found = _combined(expression.function, known)
    return found if found is not None and _fits(found, expression.type) else None


def _column_part(column: Column, rows: Rows) -> _Part | None:
    vector = rows.vector(column.name)
    is_plain = isinstance(vector, Numbers) and vector.values.dtype.kind in "iu"
    if not is_plain or not isinstance(vector, Numbers) or vector.validity is not None:
        return None
    return _Part((Term(column.name, vector, 1),), *vector.limits())


def _combined(function: str, parts: list[_Part]) -> _Part | None:
    if function == "cast":
        return parts[0]
    if function == "negative":
        return _scaled(parts[0], -1)
    if function not in _SIGN_OF_SECOND or len(parts) != 2:
        return None
    first, second = parts[0], _scaled(parts[1], _SIGN_OF_SECOND[function])
    return _Part(first.terms + second.terms, first.low + second.low, first.high + second.high)


def _scaled(part: _Part, sign: int) -> _Part:
    if sign == 1:
        return part
    terms = tuple(replace(term, sign=-term.sign) for term in part.terms)
    return _Part(terms, -part.high, -part.low)


def _fits(part: _Part, arrow_type: pa.DataType) -> bool:
    bounds = np.iinfo(numpy_dtype(arrow_type))
    return bool(bounds.min <= part.low and part.high <= bounds.max)
