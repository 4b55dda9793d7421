"""The data that evaluators take and return, and what all families of functions do with it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.parameters.arguments import refuse_word
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import EvaluationError
from projseg.segment_format.layout.logical_types import type_name
from projseg.segment_format.vectors.arrow_arrays import filled_values, primitive_array, valid_values

_INT_MAX: Final = (1 << 31) - 1

Datum: TypeAlias = pa.Array | pa.Scalar
"""A column of values, or one value for all rows; at least one argument of a call is a column."""


def overflow(message: str) -> EvaluationError:
    """Return the error of a value that does not fit its type."""
    return EvaluationError("PROJSEG_EVALUATION_OVERFLOW", message)


def divide_by_zero(call: Call) -> EvaluationError:
    """Return the error of a division by zero."""
    return EvaluationError(
        "PROJSEG_EVALUATION_DIVIDE_BY_ZERO",
        f"'{call.function}' divides by zero; use nullif(divisor, 0) for null instead",
    )


def literal_of(arguments: Sequence[Expression], index: int, what: str) -> Any:
    """Return the value of an argument that must be a constant that is not null.

    Raises
    ------
    InvalidInputError
        If it is not such a constant.
    """
    argument = arguments[index]
    if not isinstance(argument, Literal) or argument.value is None:
        raise bad_expression(f"{what} must be a constant")
    return argument.value


def word_of(arguments: Sequence[Expression], index: int, what: str) -> str:
    """Return an argument that is a word of the language, a unit or a zone, and no value.

    Raises
    ------
    InvalidInputError
        If it is no constant, or a parameter.
    """
    refuse_word(arguments[index], what)
    return str(literal_of(arguments, index, what))


def whole_of(arguments: Sequence[Expression], index: int, what: str) -> int:
    """Return the int of an argument that must be a constant number, or the text of one.

    Raises
    ------
    InvalidInputError
        If it is no such constant, or does not fit an int.
    """
    value = literal_of(arguments, index, what)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    is_text = isinstance(value, str) and value.isascii()
    try:
        number = int(value) if is_number or is_text else _INT_MAX + 1
    except (ValueError, OverflowError):  # no digits, NaN or an infinity
        number = _INT_MAX + 1
    if not -_INT_MAX - 1 <= number <= _INT_MAX:
        raise bad_expression(f"{what} must be a constant whole number that fits int")
    return number


def cast_arguments(
    arguments: Sequence[Expression], wanted: Sequence[pa.DataType], zone: str
) -> tuple[Expression, ...]:
    """Return the arguments cast to the types a function takes.

    Raises
    ------
    InvalidInputError
        If there is no such cast.
    """
    pairs = zip(arguments, wanted[: len(arguments)], strict=True)
    return tuple(cast_to(argument, arrow_type, zone) for argument, arrow_type in pairs)


def require_type(found: bool, function: str, argument: Expression, wanted: str) -> None:
    """Refuse an argument of the wrong kind of type.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION, unless `found` is true.
    """
    if not found:
        raise bad_expression(f"{function} takes {wanted}, not {type_name(argument.type)}")


def as_array(datum: Datum, row_count: int) -> pa.Array:
    """Return the datum as an array of `row_count` values."""
    if isinstance(datum, pa.Scalar):
        return pa.repeat(datum, row_count)
    return datum


def valid_mask(datum: Datum, row_count: int) -> NDArray[np.bool_]:
    """Return bool[n], true where the value is not null."""
    if isinstance(datum, pa.Scalar):
        return np.full(row_count, datum.is_valid)
    if datum.null_count == 0:
        return np.ones(row_count, dtype=np.bool_)
    return valid_values(datum)


def all_valid(data: Sequence[Datum], row_count: int) -> NDArray[np.bool_]:
    """Return bool[n], true where no datum is null."""
    valid = valid_mask(data[0], row_count)
    for datum in data[1:]:
        valid = valid & valid_mask(datum, row_count)
    return valid


def integers(datum: Datum, row_count: int) -> NDArray[np.int64]:
    """Return whole numbers, dates (days) or timestamps (microseconds) as int64[n]; null as 0."""
    array = as_array(datum, row_count)
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    return filled_values(array, 0)


def from_integers(
    values: NDArray[Any], valid: NDArray[np.bool_], arrow_type: pa.DataType
) -> pa.Array:
    """Return whole numbers, dates or timestamps as an array, null where not valid.

    Parameters
    ----------
    values : int64[n]
        They must fit the type where they are valid.
    valid : bool[n]
        Where there is a value.
    arrow_type : pa.DataType
        An integer type, date32 or a timestamp.
    """
    validity = None if valid.all() else valid
    if validity is not None:
        values = np.where(valid, values, 0)
    if pa.types.is_date32(arrow_type):
        return primitive_array(values.astype(np.int32), validity).cast(arrow_type)
    plain = primitive_array(values.astype(np.int64, copy=False), validity)
    return plain if arrow_type == pa.int64() else plain.cast(arrow_type)


def whole_numbers(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return doubles without a fraction, float64[n], as int64[n].

    As in Java, values outside int64 become its nearest end, and NaN becomes 0.
    """
    inside = np.abs(values) < 2.0**63
    ends = np.where(values > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    whole = np.where(inside, values, 0.0).astype(np.int64)
    return np.where(inside | np.isnan(values), whole, ends)


def doubles(datum: Datum, row_count: int) -> NDArray[np.float64]:
    """Return numbers as float64[n]; null as 0."""
    array = as_array(datum, row_count).cast(pa.float64(), safe=False)
    return filled_values(array, 0.0)


def true_mask(array: Datum, row_count: int) -> NDArray[np.bool_]:
    """Return bool[n], true where a boolean is true, not false or null."""
    return filled_values(as_array(array, row_count), False)
