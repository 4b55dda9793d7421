"""Do two engines give the same answer? Row order is not part of it, nor are types of engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.benchmarks.workloads.question import Question

RELATIVE_TOLERANCE: Final = 1e-9  # sums of doubles depend on the order of addition
SMALL_COUNT: Final = 20.0
_DECIMAL_DIGITS: Final = 76  # Arrow's most
APPROXIMATION_BOUND: Final = 0.15  # three of the 5 % standard deviations that Spark promises


def normalised(answer: pa.Table, query: Question) -> pa.Table:
    """Return the answer with the query's names, plain types and one order of rows.

    Columns that the query does not determine are left out. Whole numbers become int64,
    times microseconds UTC, texts strings; decimals keep their scale;
    rows are sorted by all exact columns, so two right answers differ in approximate and floating
    columns only.
    """
    arrays = [_plain(column.combine_chunks()) for column in answer.columns]
    table = pa.table(arrays, names=list(query.output_names))
    if query.determined is not None:
        table = table.select(list(query.determined))
    keys = [(name, "ascending") for name in _sort_columns(table, query)]
    return table.sort_by(keys) if keys and table.num_rows > 1 else table


def find_difference(reference: pa.Table, answer: pa.Table, query: Question) -> str | None:
    """Return the first difference of two normalised answers, None if there is none.

    Approximate columns are not looked at; see `approximation_error`.
    """
    if answer.num_rows != reference.num_rows:
        return f"{answer.num_rows} rows instead of {reference.num_rows}"
    for name in reference.column_names:
        if name in query.approximate_outputs:
            continue
        expected, found = reference[name].combine_chunks(), answer[name].combine_chunks()
        unequal = _unequal_rows(expected, found)
        if unequal is None:
            return f"{name} is {found.type} instead of {expected.type}"
        if len(unequal):
            row = int(unequal[0])
            return (
                f"{name} differs in {len(unequal)} of {len(found)} rows, first in row {row}:"
                f" {found[row].as_py()!r} instead of {expected[row].as_py()!r}"
            )
    return None


def same_answer(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers of one schema hold the same rows in any order; doubles up to rounding."""
    if one.schema != other.schema or len(one) != len(other):
        return False
    keys = [(f.name, "ascending") for f in one.schema if not pa.types.is_floating(f.type)]
    if keys:
        one, other = one.sort_by(keys), other.sort_by(keys)
    return all(
        np.allclose(left.to_numpy(), right.to_numpy(), rtol=RELATIVE_TOLERANCE, equal_nan=True)
        if pa.types.is_floating(left.type)
        else left.equals(right)
        for left, right in zip(one.columns, other.columns, strict=True)
    )


def approximation_error(exact: pa.Table, answer: pa.Table, query: Question) -> float | None:
    """Return the largest relative error of the approximate columns against exact counts.

    Counts below `SMALL_COUNT` are judged as that: one more than six is no error of 17 %.
    """
    if not query.approximate_outputs or exact.num_rows != answer.num_rows:
        return None
    errors = []
    for name in query.approximate_outputs:
        truth = exact[name].combine_chunks().to_numpy(zero_copy_only=False).astype(np.float64)
        found = answer[name].combine_chunks().to_numpy(zero_copy_only=False).astype(np.float64)
        errors.append(np.max(np.abs(found - truth) / np.maximum(truth, SMALL_COUNT), initial=0.0))
    return float(max(errors))


def _unequal_rows(expected: pa.Array, found: pa.Array) -> NDArray[np.intp] | None:
    """Return the positions of unequal rows; None when the types cannot be compared."""
    types = (expected.type, found.type)
    if any(map(pa.types.is_floating, types)) and all(map(_is_fractional, types)):
        return _apart(expected, found)
    if all(map(pa.types.is_decimal, types)):
        expected, found = _of_one_scale(expected, found)
    if expected.type != found.type:
        return None
    is_equal = pc.equal(expected, found)
    both_null = pc.and_(pc.is_null(expected), pc.is_null(found))
    unequal = pc.invert(pc.if_else(both_null, True, pc.fill_null(is_equal, False)))
    return np.flatnonzero(unequal.to_numpy(zero_copy_only=False))


def _is_fractional(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _apart(expected: pa.Array, found: pa.Array) -> NDArray[np.intp]:
    """Return the positions of doubles that are not close; a decimal may have been rounded."""
    scales = [one.type.scale for one in (expected, found) if pa.types.is_decimal(one.type)]
    rounding = 0.5 * 10.0 ** -min(scales) if scales else 0.0
    left, right = (
        array.cast(pa.float64()).to_numpy(zero_copy_only=False) for array in (expected, found)
    )
    is_close = np.isclose(right, left, rtol=RELATIVE_TOLERANCE, atol=rounding, equal_nan=True)
    return np.flatnonzero(~is_close)


def _of_one_scale(expected: pa.Array, found: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return decimals with as many digits after the point as either has."""
    scale = max(expected.type.scale, found.type.scale)
    wide = pa.decimal256(_DECIMAL_DIGITS, scale)
    return expected.cast(wide), found.cast(wide)


def _sort_columns(table: pa.Table, query: Question) -> list[str]:
    """Return the exact columns, and the floating ones after them where rows are scanned."""
    exact = [
        field.name
        for field in table.schema
        if field.name not in query.approximate_outputs and not pa.types.is_floating(field.type)
    ]
    floating = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    return exact + floating if query.columns else exact


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    for is_such, plain in _PLAIN_TYPES:
        if is_such(array.type):
            return array.cast(plain)
    return array


def _is_whole_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.scale == 0)


_PLAIN_TYPES: Final[tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...]] = (
    (pa.types.is_integer, pa.int64()),
    (_is_whole_decimal, pa.int64()),  # DuckDB's sums of integers are 128 bits wide
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_timestamp, pa.timestamp("us", tz="UTC")),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.string()),  # ClickHouse's strings are any bytes
)
