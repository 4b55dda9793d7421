"""Evaluate expressions over vectors: once for each dictionary value where one column suffices."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.datum import (
    TEXT_BYTES_MAX,
    TextsTooLargeError,
    texts_too_large,
)
from projseg.algebra.expressions.joined_values import JOIN_FUNCTIONS
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.evaluation.arrow_vectors import (
    computed_vector,
    concat_vectors,
    grouping_vector,
    values_by_id,
)
from projseg.evaluation.dimension_rows import POSITION
from projseg.evaluation.in_blocks import evaluated_in_blocks
from projseg.evaluation.rows import JoinedPart, Rows, column_name, joined_parts, with_columns
from projseg.segment_format.arrow_arrays import filled_values, primitive_array
from projseg.segment_format.dictionary import Dictionary, narrow_id_dtype
from projseg.segment_format.logical_types import MICROS_A_DAY, is_text, numbers_to_arrow
from projseg.segment_format.vectors import Ids, Numbers, Vector, held_bytes, text_bytes

_BUCKETS_MAX: Final = 1 << 14
_BUCKET: Final = "\0bucket"  # the column of a floor that expressions are evaluated over


def bucket_vector(times: Numbers, granularity: Granularity, result_type: pa.DataType) -> Vector:
    """Return the start of each row's time bucket as a timestamp, timestamp_ntz or date.

    The result is dictionary-encoded: the buckets between the first and the last row are few, and
    ids into them group without hashing.
    """
    values = times.wide()
    known = values if times.validity is None else values[times.validity]
    if len(known) == 0:
        return Numbers(np.zeros(len(values), np.int64), result_type, validity=times.validity)
    buckets = _buckets(granularity, int(known.min()), int(known.max()))
    if buckets is None:
        floors = granularity.floor(values)
        return Numbers(_in_units_of(floors, result_type), result_type, validity=times.validity)
    has_null = times.validity is not None
    ids = _bucket_ids(values, buckets, has_null)
    dictionary_values = numbers_to_arrow(_in_units_of(buckets.starts, result_type), result_type)
    if times.validity is not None:
        ids[~times.validity] = 0
        dictionary_values = pa.concat_arrays([pa.nulls(1, result_type), dictionary_values])
    return Ids(ids, Dictionary(dictionary_values))


class _Buckets(msgspec.Struct, frozen=True):
    """Pieces of time that lie in one bucket each, and the buckets, both by ascending start.

    `bucket_of` has the position of each piece's bucket, None if each piece has its own. `width` is
    the length in microseconds of every piece but the first and the last, which may be shorter; or 0
    if lengths differ, as those of months do.
    """

    begins: NDArray[np.int64]
    bucket_of: NDArray[np.intp] | None
    starts: NDArray[np.int64]
    width: int


def _buckets(granularity: Granularity, low: int, high: int) -> _Buckets | None:
    """Return the buckets of all instants from `low` to `high`; None if too many."""
    if (high - low) // granularity.length_micros > _BUCKETS_MAX:
        return None
    begins, floors = granularity.pieces(low, high + 1)
    if bool(np.all(floors[1:] > floors[:-1])):
        is_even = len(begins) > 1 and bool(np.all(np.diff(begins[1:]) == granularity.micros))
        return _Buckets(begins, None, floors, granularity.micros if is_even else 0)
    starts, bucket_of = np.unique(floors, return_inverse=True)
    return _Buckets(begins, bucket_of, starts, 0)


def _bucket_ids(
    values: NDArray[np.int64], buckets: _Buckets, has_null: bool
) -> NDArray[np.unsignedinteger]:
    """Return the position of each value's bucket; plus 1 if there are nulls, which get id 0."""
    begins = buckets.begins
    shift = 1 if has_null else 0
    dtype = narrow_id_dtype(len(buckets.starts) + shift)
    if not has_null and bool(np.all(values[1:] >= values[:-1])):
        edges = np.searchsorted(values, begins[1:], side="left")
        counts = np.diff(np.concatenate([[0], edges, [len(values)]]))
        pieces = np.arange(len(begins)) if buckets.bucket_of is None else buckets.bucket_of
        return np.repeat(pieces.astype(dtype), counts)
    if buckets.width:
        positions = (values - begins[1]) // buckets.width + 1
    else:
        positions = np.searchsorted(begins, values, side="right") - 1
        if buckets.bucket_of is not None:
            positions = buckets.bucket_of[positions]
    ids: NDArray[np.unsignedinteger] = (positions + shift).astype(dtype)
    return ids


def _in_units_of(micros: NDArray[np.int64], result_type: pa.DataType) -> NDArray[np.int64]:
    return micros // MICROS_A_DAY if pa.types.is_date32(result_type) else micros


# At most so many bytes of a dictionary's texts are written out row by row at a time.
_TEXT_BYTES_MAX: Final = 64 << 20


def evaluate_over(expression: Expression, rows: Rows) -> Vector:
    """Return the value of `expression` in each of `rows`.

    Raises EvaluationError for a value in one of the rows, as Spark's ANSI mode does, and
    TextsTooLargeError if the resulting texts take too much memory together; those of fewer rows may
    fit.
    """
    if isinstance(expression, Column):
        return rows.vector(expression.name)
    if len(expression.columns) == 1:
        (name,) = expression.columns
        vector = rows.vector(name)
        if isinstance(vector, Ids) and len(vector.dictionary) <= max(len(vector), 1024):
            with suppress(TextsTooLargeError):
                return _evaluate_over_dictionary(expression, name, vector)
    if joined_parts(expression):
        return _evaluate_joined(expression, rows)
    known = None
    if len(expression.columns) == 1:
        known = _of_time_buckets(expression, vector)
    if known is None:
        known = evaluated_in_blocks(expression, rows)
    if known is not None:
        return known
    if len(rows) <= 1 or _text_bytes(expression, rows) <= _TEXT_BYTES_MAX:
        with suppress(TextsTooLargeError):
            columns = {name: rows.vector(name).to_arrow() for name in expression.columns}
            return computed_vector(evaluate(expression, columns, len(rows)))
    return _evaluate_halves(expression, rows)


def _evaluate_joined(expression: Expression, rows: Rows) -> Vector:
    """Return the value of an expression that reads joined columns."""
    over_columns = without_joins(expression, rows)
    if over_columns != expression:
        return evaluate_over(over_columns, rows)
    assert isinstance(expression, Call)
    if len(rows) > 1 and _text_bytes(expression, rows) > _TEXT_BYTES_MAX:
        return _evaluate_halves(expression, rows)
    if expression.function not in JOIN_FUNCTIONS:
        columns = {name: rows.vector(name).to_arrow() for name in expression.columns}
        return computed_vector(evaluate(expression, columns, len(rows)))
    data = {f"\0{n}": evaluate_over(a, rows) for n, a in enumerate(expression.arguments)}
    names = tuple(Column(vector.type, name) for name, vector in data.items())
    arrays = {name: vector.to_arrow() for name, vector in data.items()}
    return computed_vector(evaluate(replace(expression, arguments=names), arrays, len(rows)))


def without_joins(expression: Expression, rows: Rows) -> Expression:
    """Return an expression in which what reads joined columns is a column of `rows`.

    These columns are computed here, and `rows` keeps them for other expressions. A part that
    raises for a row of its dimension stays, since perhaps nothing matches that row.
    """
    names: dict[Expression, str] = {}
    for part in joined_parts(expression):
        if part.over_rows.columns == {POSITION}:
            continue
        name = column_name(part.whole)
        if not rows.has_computed(name):
            values = _values_of_rows(part)
            if values is None:
                continue
            positions = evaluate_over(part.hop.position, rows)
            assert isinstance(positions, Numbers)
            rows.keep(name, values.take(positions.wide().astype(np.uint32)))
        names[part.whole] = name
    return with_columns(expression, names) if names else expression


def is_true_of_a_joined_row(condition: Expression) -> bool:
    """Whether a condition may be true, by the rows of its dimension; True if it depends on more."""
    parts = joined_parts(condition)
    if not parts or parts[0].whole != condition or parts[0].over_rows.columns == {POSITION}:
        return True
    (part,) = parts
    try:
        path = part.hop.path
        return bool(path.dimension.rows().is_true_of_some(path, part.over_rows))
    except (ArithmeticError, TextsTooLargeError):
        return True


def _values_of_rows(part: JoinedPart) -> Vector | None:
    try:
        values: Vector = part.hop.path.dimension.rows().values(part.over_rows)
    except (ArithmeticError, TextsTooLargeError):
        return None
    return values


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


def _of_time_buckets(expression: Expression, times: Vector) -> Vector | None:
    """Return an expression over the floors of timestamps: it is computed once for each bucket.

    Fields of time are such: `hour(t)` is bound as the hour of a floor of `t`.
    """
    if not isinstance(times, Numbers) or not pa.types.is_timestamp(times.type):
        return None
    floors = {node for node in expression.walk() if _is_floor_of_column(node)}
    if len(floors) != 1:
        return None
    (floor,) = floors
    over_buckets = with_columns(expression, {floor: _BUCKET})
    if over_buckets.columns != {_BUCKET}:
        return None
    assert isinstance(floor, Call)
    (granularity,) = floor.parameters
    assert isinstance(granularity, Granularity)
    buckets = bucket_vector(times, granularity, floor.type)
    if floor == expression:
        return buckets
    if not isinstance(buckets, Ids) or len(buckets.dictionary) > len(buckets):
        return None
    return _evaluate_over_dictionary(over_buckets, _BUCKET, buckets)


def _is_floor_of_column(node: Expression) -> bool:
    is_floor = isinstance(node, Call) and node.function == "time_floor"
    return is_floor and isinstance(node, Call) and isinstance(node.arguments[0], Column)


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
