"""Functions of texts computed row by row, and how much text one evaluation may make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.expressions.functions.datum import Datum, all_valid
from projseg.errors import LimitExceededError
from projseg.segment_format.vectors.arrow_arrays import array_of

# How much text one evaluation may make; functions that lengthen text check it before they do.
#
# A few bytes of a file or a query can stand for any amount of text: by `repeat` or `lpad`, or by
# one long text of a dictionary that is joined with a number of each row. Callers that evaluate many
# rows try fewer rows at a time when `TextsTooLargeError` is raised.

TEXT_BYTES_MAX: Final = 16 << 20
"""Bytes of text that a call may make for several rows; more if its arguments are that large."""

_GROWTH_MAX: Final = 2  # times what the arguments take


class TextsTooLargeError(LimitExceededError):
    """The texts of several rows take too much memory together; those of fewer rows may fit."""


def texts_too_large(row_count: int) -> TextsTooLargeError:
    """Return the error of an evaluation over `row_count` rows."""
    return TextsTooLargeError(
        "PROJSEG_TEXT_TOO_LONG",
        f"an expression makes too much text of {row_count} rows; use fewer rows or shorter texts",
    )


def _text_limit(arguments: Sequence[pa.Array | pa.Scalar]) -> int:
    """Return how many bytes of text a call may make from these arguments."""
    taken: int = sum(a.nbytes for a in arguments if isinstance(a, pa.Array))
    return max(TEXT_BYTES_MAX, _GROWTH_MAX * taken)


def check_text_bytes(
    byte_count: int, arguments: Sequence[pa.Array | pa.Scalar], row_count: int
) -> None:
    """Refuse to make `byte_count` bytes of text if that is too much, except for a single row.

    Raises
    ------
    TextsTooLargeError
        If the texts exceed `_text_limit` and there are several rows.
    """
    if row_count > 1 and byte_count > _text_limit(arguments):
        raise texts_too_large(row_count)


_OBJECT_ROWS: Final = 1 << 16  # how many rows are turned into Python objects at a time


def by_row(
    compute: Callable[..., Any],
    arguments: Sequence[Datum],
    row_count: int,
    result: pa.DataType,
    *,
    takes_null: bool = False,
) -> pa.Array:
    """Return `compute(*values)` for each row; equal rows are computed once.

    The result is null where an argument is null, unless `takes_null` says that `compute` takes
    None.

    Raises
    ------
    TextsTooLargeError
        If the resulting texts take too much memory together.
    """
    bytes_left = _text_limit(arguments)
    valid = [True] * row_count if takes_null else all_valid(arguments, row_count)
    known: dict[tuple[Any, ...], Any] = {}
    parts: list[pa.Array] = []
    for start in range(0, max(row_count, 1), _OBJECT_ROWS):
        end = min(start + _OBJECT_ROWS, row_count)
        columns = [_objects(argument, start, end) for argument in arguments]
        values: list[Any] = []
        for is_valid, row in zip(valid[start:end], zip(*columns, strict=True), strict=True):
            if not is_valid:
                values.append(None)
                continue
            if row not in known:
                known[row] = compute(*row)
            value = known[row]
            if isinstance(value, str | bytes):
                bytes_left -= len(value)
                if bytes_left < 0 and row_count > 1:
                    raise texts_too_large(row_count)
            values.append(value)
        parts.append(array_of(values, result))
        if len(known) > _OBJECT_ROWS:
            known.clear()
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _objects(datum: Datum, start: int, end: int) -> list[Any]:
    if isinstance(datum, pa.Scalar):
        return [datum.as_py()] * (end - start)
    values: list[Any] = datum.slice(start, end - start).to_pylist()
    return values


def constant_of(datum: Datum) -> Any:
    """Return the value of a datum that is one value for all rows, else None."""
    return datum.as_py() if isinstance(datum, pa.Scalar) else None
