"""Functions of texts computed in Python, row by row, where Arrow's kernels need constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.expressions.functions.datum import Datum, all_valid
from projseg.algebra.expressions.functions.text.text_budget import text_limit, texts_too_large
from projseg.segment_format.vectors.arrow_arrays import array_of

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
    bytes_left = text_limit(arguments)
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
