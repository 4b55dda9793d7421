"""Functions of texts whose arguments vary from row to row, computed in Python for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.expressions.functions.datum import Datum, all_valid
from projseg.algebra.expressions.functions.text_budget import text_limit, texts_too_large
from projseg.segment_format.arrow_arrays import array_of

_OBJECT_ROWS: Final = 1 << 16  # rows whose values are Python objects at a time


def by_row(
    compute: Callable[..., Any],
    arguments: Sequence[Datum],
    row_count: int,
    result: pa.DataType,
    *,
    takes_null: bool = False,
) -> pa.Array:
    """Return `compute(*values)` for each distinct row of arguments.

    For arguments that vary from row to row, which Arrow's kernels do not take. Null where one is
    null, unless `compute` takes None.

    Raises
    ------
    TextsTooLargeError
        If the values are texts that take too much together.
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
    """Return the value of a datum that is the same in all rows, else None."""
    return datum.as_py() if isinstance(datum, pa.Scalar) else None
