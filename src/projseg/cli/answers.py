"""Whether two answers to one query are the same rows."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

import pyarrow as pa

FLOAT_TOLERANCE: Final = 1e-9  # relative: the order of additions differs between sources
SKETCH_TOLERANCE: Final = 0.05  # relative: three standard errors of lgK 12, merged or not


def same_answer(one: pa.Table, other: pa.Table, approximate: Collection[str] = ()) -> bool:
    """Whether two answers hold the same rows, in any order.

    Parameters
    ----------
    one, other : Table
        Answers with the same columns.
    approximate : collection of str
        Columns of approximate counts, which may differ by a sketch's error.
    """
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    exact = [name for name in one.column_names if name not in approximate]
    return all(
        _same_row(left, right, approximate)
        for left, right in zip(_ordered(one, exact), _ordered(other, exact), strict=True)
    )


def _ordered(answer: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    discrete = [
        name for name in columns if not pa.types.is_floating(answer.schema.field(name).type)
    ]
    rows: list[dict[str, Any]] = answer.to_pylist()
    return sorted(rows, key=lambda row: [(row[n] is not None, str(row[n])) for n in discrete])


def _same_row(left: dict[str, Any], right: dict[str, Any], approximate: Collection[str]) -> bool:
    return all(
        _same_value(left[name], right[name], SKETCH_TOLERANCE if name in approximate else None)
        for name in left
    )


def _same_value(left: Any, right: Any, tolerance: float | None) -> bool:
    if left is None or right is None:
        return left is right
    if tolerance is not None:
        return math.isclose(left, right, rel_tol=tolerance, abs_tol=1)
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or math.isclose(left, right, rel_tol=FLOAT_TOLERANCE)
    return bool(left == right)
