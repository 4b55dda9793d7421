"""Keep the rows for which a filter is true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.expressions_over_rows import evaluate_over, truth, values_by_id
from projseg.aggregation.number_ranges import NumberRange, value_range
from projseg.aggregation.rows import Rows
from projseg.algebra.expressions.predicates import conjuncts
from projseg.algebra.expressions.tree import Call, Expression
from projseg.kernels.select import rows_with_allowed_id, set_where_allowed
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.vectors import Ids, Numbers


def filter_rows(rows: Rows, condition: Expression | None) -> Rows:
    """Return the rows for which `condition` is true; None keeps all."""
    return filter_by_all(rows, conjuncts(condition))


def filter_by_all(rows: Rows, conditions: Iterable[Expression]) -> Rows:
    """Return the rows for which all conditions are true.

    Conditions on one column are applied together; columns one after the other, each to what the
    ones before it left, so later columns are fetched for fewer rows.
    """
    by_columns: dict[frozenset[str], list[Expression]] = {}
    for condition in conditions:
        by_columns.setdefault(condition.columns, []).append(condition)
    for columns, together in by_columns.items():
        if len(rows) == 0:
            break
        rows = _filter_together(rows, columns, together)
    return rows


def _filter_together(rows: Rows, columns: frozenset[str], conditions: Sequence[Expression]) -> Rows:
    if len(columns) == 1:
        (name,) = columns
        vector = rows.vector(name)
        if isinstance(vector, Ids):
            allowed = allowed_ids(conditions, name, vector.dictionary)
            if allowed is not None:
                return _rows_with_ids(rows, vector, allowed)
        if isinstance(vector, Numbers):
            rows, conditions = _filter_by_ranges(rows, vector, conditions)
    for condition in conditions:
        rows = rows.where(is_true(condition, rows))
    return rows


def allowed_ids(
    conditions: Sequence[Expression], name: str, dictionary: Dictionary
) -> NDArray[np.bool_] | None:
    """Return, for each id of the one column `name`, whether all conditions are true of its value.

    None if a value raises an error: it may be one that no selected row holds.
    """
    try:
        masks = [truth(values_by_id(condition, name, dictionary)) for condition in conditions]
    except ArithmeticError:
        return None
    return reduce(np.logical_and, masks)


def _rows_with_ids(rows: Rows, vector: Ids, allowed: NDArray[np.bool_]) -> Rows:
    kept = np.flatnonzero(allowed)
    if len(kept) == len(allowed):
        return rows
    if len(kept) == 0 or kept[-1] - kept[0] + 1 > len(kept):
        return rows.subset(rows_with_allowed_id(vector.ids, allowed))
    ids = Numbers(vector.ids, vector.type)
    return rows.where(NumberRange("", int(kept[0]), int(kept[-1])).mask(ids))


def _filter_by_ranges(
    rows: Rows, numbers: Numbers, conditions: Sequence[Expression]
) -> tuple[Rows, list[Expression]]:
    """Apply all exact comparisons with constants as one range; return what is left to apply."""
    ranges = {condition: value_range(condition) for condition in conditions}
    exact = [found for found in ranges.values() if found is not None and found.is_exact]
    if exact:
        rows = rows.where(reduce(NumberRange.intersect, exact).mask(numbers))
    return rows, [c for c, found in ranges.items() if found is None or not found.is_exact]


def is_true(condition: Expression, rows: Rows) -> NDArray[np.bool_]:
    """Return where `condition` is true, as bool[len(rows)].

    AND and OR of "is true" is "is true" of AND and OR, so their operands are evaluated one by one,
    each over its own dictionary where it has a single column.
    """
    if isinstance(condition, Call) and condition.function == "and":
        return reduce(np.logical_and, (is_true(part, rows) for part in condition.arguments))
    mask = np.zeros(len(rows), np.bool_)
    is_or = isinstance(condition, Call) and condition.function == "or"
    for part in condition.children if is_or else (condition,):
        _set_where_true(mask, part, rows)
    return mask


def _set_where_true(mask: NDArray[np.bool_], condition: Expression, rows: Rows) -> None:
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        mask |= is_true(condition, rows)
        return
    if len(condition.columns) == 1:
        (name,) = condition.columns
        vector = rows.vector(name)
        if isinstance(vector, Ids):
            allowed = allowed_ids([condition], name, vector.dictionary)
            if allowed is not None:
                set_where_allowed(mask, vector.ids, allowed)
                return
        found = value_range(condition)
        if isinstance(vector, Numbers) and found is not None and found.is_exact:
            mask |= found.mask(vector)
            return
    mask |= truth(evaluate_over(condition, rows))
