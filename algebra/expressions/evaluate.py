"""Evaluation of expressions over Arrow arrays, with Spark's ANSI errors.

AND, OR, CASE and COALESCE compute an operand that may fail only for the rows that need it, so that
`x <> 0 AND 1 / x > 2` never divides by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.fallible import may_fail
from projseg.algebra.expressions.functions.rule import Datum, as_array, true_mask, valid_mask
from projseg.algebra.expressions.functions.table import EVALUATORS
from projseg.algebra.expressions.functions.text_budget import TextsTooLargeError, texts_too_large
from projseg.algebra.expressions.literals import literal_scalar
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.segment_format.arrow_arrays import filled_values, primitive_array, scalar_of

_ARRAY_BYTES_MAX: Final = 2**31 - 1  # offsets of a text array are of 32 bits


def evaluate(expression: Expression, columns: Mapping[str, pa.Array], row_count: int) -> pa.Array:
    """Return the expression's value for each row.

    Parameters
    ----------
    expression : Expression
        A tree made by `bind`.
    columns : mapping of name to array
        At least `expression.columns`, each of `row_count` values and of the bound type.
    row_count : int
        How many rows there are.

    Returns
    -------
    pa.Array
        `row_count` values of `expression.type`; may be one of `columns`.

    Raises
    ------
    EvaluationError
        Where Spark's ANSI mode raises: overflow, division by zero, a bad cast.
    """
    return as_array(_value(expression, columns, row_count), row_count)


def evaluate_in_parts(
    expression: Expression, columns: Mapping[str, pa.Array], row_count: int
) -> pa.Array:
    """Return what `evaluate` does, also where it must not make so much text at a time.

    Raises
    ------
    TextsTooLargeError
        If even the values do not fit in one array.
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
    if sum(part.nbytes for part in parts) > _ARRAY_BYTES_MAX:
        raise texts_too_large(row_count)
    return pa.concat_arrays(parts)


def _value(expression: Expression, columns: Mapping[str, pa.Array], row_count: int) -> Datum:
    if isinstance(expression, Column):
        found = columns[expression.name]
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if isinstance(expression, Literal):
        return literal_scalar(expression)
    assert isinstance(expression, Call)
    if expression.function in _LAZY:
        return _LAZY[expression.function](expression, columns, row_count)
    data = [_value(argument, columns, row_count) for argument in expression.arguments]
    if all(isinstance(datum, pa.Scalar) for datum in data):
        data = [as_array(datum, row_count) for datum in data]
    return EVALUATORS[expression.function](expression, data, row_count)


def _value_where(
    expression: Expression,
    columns: Mapping[str, pa.Array],
    wanted: NDArray[np.bool_],
) -> pa.Array:
    """Return the value where wanted; elsewhere it is null if it may not be computed."""
    if not may_fail(expression) or wanted.all():
        return evaluate(expression, columns, len(wanted))
    rows = np.flatnonzero(wanted)
    taken = {name: columns[name].take(primitive_array(rows)) for name in expression.columns}
    values = evaluate(expression, taken, len(rows))
    positions = np.zeros(len(wanted), dtype=np.int64)
    positions[rows] = np.arange(len(rows))
    return values.take(primitive_array(positions, wanted))


def _all_or_any(call: Call, columns: Mapping[str, pa.Array], row_count: int) -> pa.Array:
    is_and = call.function == "and"
    combine = pc.and_kleene if is_and else pc.or_kleene
    result = pa.repeat(scalar_of(is_and, pa.bool_()), row_count)
    for operand in call.arguments:
        if may_fail(operand):
            decided = filled_values(result, is_and) != is_and
            value = _value_where(operand, columns, ~decided)
        else:
            value = _value(operand, columns, row_count)
        result = combine(result, value)
    return result


def _case(call: Call, columns: Mapping[str, pa.Array], row_count: int) -> pa.Array:
    *pairs, default = call.arguments
    open_rows = np.ones(row_count, dtype=np.bool_)
    conditions, values = [], []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        taken = true_mask(_value_where(condition, columns, open_rows), row_count) & open_rows
        conditions.append(primitive_array(taken))
        values.append(_value_where(value, columns, taken))
        open_rows &= ~taken
    otherwise = _value_where(default, columns, open_rows)
    names = [f"condition_{index}" for index in range(len(conditions))]
    chosen = pa.StructArray.from_arrays(conditions, names)
    return pc.case_when(chosen, *values, otherwise)


def _coalesce(call: Call, columns: Mapping[str, pa.Array], row_count: int) -> pa.Array:
    result = evaluate(call.arguments[0], columns, row_count)
    for argument in call.arguments[1:]:
        missing = ~valid_mask(result, row_count)
        if not missing.any():
            break
        result = pc.coalesce(result, _value_where(argument, columns, missing))
    return result


_LAZY: Final[dict[str, Callable[[Call, Mapping[str, pa.Array], int], Any]]] = {
    "and": _all_or_any,
    "or": _all_or_any,
    "case": _case,
    "coalesce": _coalesce,
}
