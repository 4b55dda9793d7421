"""Whether two answers to one query are the same rows."""

from __future__ import annotations

import math
from typing import Any, Final

import pyarrow as pa

FLOAT_TOLERANCE: Final = 1e-9  # relative: the order of additions differs between sources


def same_answer(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers hold the same rows, in any order; doubles up to rounding.

    Parameters
    ----------
    one, other : Table
        Answers; other columns or types are other answers.
    """
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    return all(
        _same_value(left[name], right[name])
        for left, right in zip(_ordered(one), _ordered(other), strict=True)
        for name in left
    )


def _ordered(answer: pa.Table) -> list[dict[str, Any]]:
    """Return the rows in an order that rounding does not change."""
    discrete = [field.name for field in answer.schema if not pa.types.is_floating(field.type)]
    rows: list[dict[str, Any]] = answer.to_pylist()
    return sorted(rows, key=lambda row: [(row[n] is not None, str(row[n])) for n in discrete])


def _same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or math.isclose(left, right, rel_tol=FLOAT_TOLERANCE)
    return bool(left == right)
