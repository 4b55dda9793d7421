"""The data that evaluators take and return, and what all families of functions do with it.

Texts are made up to a limit of bytes for one evaluation, and searched in compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import bad_expression, cast_to, is_floating
from projseg.algebra.expressions.sql_parameters import refuse_word
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.errors import EvaluationError, LimitExceededError
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    scalar_of,
    text_buffers,
    valid_values,
)
from projseg.segment_format.logical_types import type_name

TEXT_BYTES_MAX: Final = 16 << 20
"""Bytes of text that a call may make for several rows; more if its arguments are that large."""
ARRAY_BYTES_MAX: Final = (1 << 31) - 1
"""Bytes of text that an array may hold, whose offsets have 32 bits."""
SEARCHED_TEXTS_MIN: Final = 1 << 16
"""So many texts are searched in compiled code; fewer by Arrow, before that is loaded."""
_GROWTH_MAX: Final = 2  # times what the arguments take
_INT_MAX: Final = (1 << 31) - 1

Datum: TypeAlias = pa.Array | pa.Scalar
"""A column of values, or one value for all rows; at least one argument of a call is a column."""


def plain_floats(values: pa.Array | pa.ChunkedArray | pa.Scalar) -> Any:
    """Return floats in which equal values have equal bits: one zero, one NaN; others unchanged.

    Every search by hash, which is by bits, needs it: a NaN may have any sign and payload.
    """
    if not is_floating(values.type):
        return values
    positive_zero = pc.add(values, scalar_of(0.0, values.type))
    return pc.if_else(pc.is_nan(values), scalar_of(np.nan, values.type), positive_zero)


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
    """Return the value of an argument that must be a constant that is not null."""
    argument = arguments[index]
    if not isinstance(argument, Literal) or argument.value is None:
        raise bad_expression(f"{what} must be a constant")
    return argument.value


def word_of(arguments: Sequence[Expression], index: int, what: str) -> str:
    """Return an argument that is a word of the language, a unit or a zone, and no value.

    Raises InvalidInputError if it is no constant, or a parameter.
    """
    refuse_word(arguments[index], what)
    return str(literal_of(arguments, index, what))


def whole_of(arguments: Sequence[Expression], index: int, what: str) -> int:
    """Return the int of an argument that must be a constant number, or the text of one."""
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
    """Return the arguments cast to the types a function takes."""
    pairs = zip(arguments, wanted[: len(arguments)], strict=True)
    return tuple(cast_to(argument, arrow_type, zone) for argument, arrow_type in pairs)


def require_type(found: bool, function: str, argument: Expression, wanted: str) -> None:
    """Raise PROJSEG_BAD_EXPRESSION for an argument of the wrong kind of type, unless `found`."""
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
    """Return whole numbers, dates or timestamps, int64[n], as an array, null where not valid.

    Values fit the type where they are valid.
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


class TextsTooLargeError(LimitExceededError):
    """The texts of several rows take too much memory together; those of fewer rows may fit.

    A few bytes of a file or a query can stand for any amount of text: by `repeat` or `lpad`, or by
    one long text of a dictionary that is joined with a number of each row. Functions that lengthen
    text check before they do; callers that evaluate many rows then try fewer at a time.
    """


def texts_too_large(row_count: int) -> TextsTooLargeError:
    """Return the error of an evaluation over `row_count` rows."""
    return TextsTooLargeError(
        "PROJSEG_TEXT_TOO_LONG",
        f"an expression makes too much text of {row_count} rows; use fewer rows or shorter texts",
    )


def text_limit(arguments: Sequence[pa.Array | pa.Scalar], row_count: int) -> int:
    """Return how many bytes of text a call may make from these arguments; more of one row."""
    if row_count <= 1:
        return ARRAY_BYTES_MAX
    taken: int = sum(a.nbytes for a in arguments if isinstance(a, pa.Array))
    return max(TEXT_BYTES_MAX, _GROWTH_MAX * taken)


def check_text_bytes(
    byte_count: int, arguments: Sequence[pa.Array | pa.Scalar], row_count: int
) -> None:
    """Raise TextsTooLargeError if `byte_count` bytes of text exceed `text_limit`."""
    if byte_count > text_limit(arguments, row_count):
        raise texts_too_large(row_count)


def constant_of(datum: Datum) -> Any:
    """Return the value of a datum that is one value for all rows, else None."""
    return datum.as_py() if isinstance(datum, pa.Scalar) else None


def searched(texts: pa.Array, pattern: Sequence[int]) -> pa.Array:
    """Return which texts match a pattern of bytes and wildcards, as in `like_texts`."""
    with late_import:
        from projseg.kernels.texts.like_texts import like_rows
    found = like_rows(*text_buffers(texts), pattern)
    return primitive_array(found, valid_values(texts) if texts.null_count else None)
