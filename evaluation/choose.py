"""Evaluate expressions over vectors: once for each dictionary value where one column suffices."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.text.text_budget import (
    TEXT_BYTES_MAX,
    TextsTooLargeError,
    texts_too_large,
)
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.time.granularity import Granularity
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.bucket_numbers import bucket_vector
from projseg.evaluation.by_dictionary import values_by_id
from projseg.evaluation.concat import concat_vectors
from projseg.evaluation.in_blocks import evaluated_in_blocks
from projseg.evaluation.rows import Rows
from projseg.segment_format.layout.logical_types import is_text
from projseg.segment_format.vectors.arrow_arrays import filled_values, primitive_array
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector, held_bytes, text_bytes

# At most so many bytes of a dictionary's texts are written out row by row at a time.
_TEXT_BYTES_MAX: Final = 64 << 20


def evaluate_over(expression: Expression, rows: Rows) -> Vector:
    """Return the value of `expression` in each of `rows`.

    Raises
    ------
    EvaluationError
        Where Spark's ANSI mode would raise, for a value that one of the rows holds.
    TextsTooLargeError
        If the resulting texts take too much memory together; those of fewer rows may fit.
    """
    if isinstance(expression, Column):
        return rows.vector(expression.name)
    if len(expression.columns) == 1:
        (name,) = expression.columns
        vector = rows.vector(name)
        if isinstance(vector, Ids) and len(vector.dictionary) <= max(len(vector), 1024):
            with suppress(TextsTooLargeError):
                return _evaluate_over_dictionary(expression, name, vector)
        buckets = _floor_of_plain_column(expression, vector)
        if buckets is not None:
            return buckets
    in_blocks = evaluated_in_blocks(expression, rows)
    if in_blocks is not None:
        return in_blocks
    if len(rows) <= 1 or _text_bytes(expression, rows) <= _TEXT_BYTES_MAX:
        with suppress(TextsTooLargeError):
            columns = {name: rows.vector(name).to_arrow() for name in expression.columns}
            return grouping_vector(evaluate(expression, columns, len(rows)))
    return _evaluate_halves(expression, rows)


def _evaluate_halves(expression: Expression, rows: Rows) -> Vector:
    middle = len(rows) // 2
    halves = rows.slice(0, middle), rows.slice(middle, len(rows))
    found = [evaluate_over(expression, half) for half in halves]
    if is_text(expression.type) and sum(map(held_bytes, found)) > TEXT_BYTES_MAX:
        raise texts_too_large(len(rows))
    return concat_vectors(found)


def _text_bytes(expression: Expression, rows: Rows) -> int:
    """Return an upper bound on the bytes of the columns' texts when each row has its own copy."""
    return sum(text_bytes(rows.vector(name), _TEXT_BYTES_MAX) for name in expression.columns)


def _floor_of_plain_column(expression: Expression, vector: Vector) -> Vector | None:
    is_floor = isinstance(expression, Call) and expression.function == "time_floor"
    if not is_floor or not isinstance(vector, Numbers):
        return None
    assert isinstance(expression, Call)
    if not isinstance(expression.arguments[0], Column) or not pa.types.is_timestamp(vector.type):
        return None
    (granularity,) = expression.parameters
    assert isinstance(granularity, Granularity)
    return bucket_vector(vector, granularity, expression.type)


def _evaluate_over_dictionary(expression: Expression, name: str, vector: Ids) -> Vector:
    try:
        by_id = values_by_id(expression, name, vector.dictionary)
    except ArithmeticError:
        # The dictionary also holds values of rows that are not selected; they must not raise.
        used, ids = np.unique(vector.ids, return_inverse=True)
        values = vector.dictionary.values.take(primitive_array(used))
        by_id = grouping_vector(evaluate(expression, {name: values}, len(values)))
        return by_id.take(ids)
    return by_id.take(vector.ids)


def truth(vector: Vector) -> NDArray[np.bool_]:
    """Return where a boolean vector is true (not false, not null), bool[n]."""
    if isinstance(vector, Ids):
        by_id = filled_values(vector.dictionary.values, False)
        mask: NDArray[np.bool_] = by_id[vector.ids]
        return mask
    assert isinstance(vector, Numbers)
    is_byte = vector.values.dtype == np.uint8 and vector.base == 0
    mask = (vector.values if is_byte else vector.wide()) != 0
    return mask if vector.validity is None else mask & vector.validity
