"""Keep the rows for which a filter is true."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.expressions_over_rows import evaluate_over, truth
from projseg.aggregation.rows import Rows
from projseg.algebra.expressions.tree import Call, Expression


def filter_rows(rows: Rows, condition: Expression | None) -> Rows:
    """Return the rows for which `condition` is true; None keeps all.

    The parts of a conjunction are applied one after the other, each to what the ones before it
    left, so later columns are fetched for fewer rows.
    """
    if condition is None:
        return rows
    if isinstance(condition, Call) and condition.function == "and":
        for part in condition.arguments:
            rows = filter_rows(rows, part)
        return rows
    if len(rows) == 0:
        return rows
    mask = is_true(condition, rows)
    return rows if mask.all() else rows.subset(np.flatnonzero(mask))


def is_true(condition: Expression, rows: Rows) -> NDArray[np.bool_]:
    """Return where `condition` is true, as bool[len(rows)].

    AND and OR of "is true" is "is true" of AND and OR, so their operands are evaluated one by one,
    each over its own dictionary where it has a single column.
    """
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        masks = (is_true(part, rows) for part in condition.arguments)
        combine = np.logical_and if condition.function == "and" else np.logical_or
        result = next(masks).copy()
        for mask in masks:
            combine(result, mask, out=result)
        return result
    return truth(evaluate_over(condition, rows))
