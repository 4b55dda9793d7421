"""Keep the rows for which a filter is true."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import Call, Expression
from projseg.evaluation.arrow_vectors import Search, truth_by_id
from projseg.evaluation.choose import evaluate_over, truth, without_joins
from projseg.evaluation.in_blocks import evaluated_in_blocks
from projseg.evaluation.ranges import NumberRange, exact_ranges, inside_any
from projseg.evaluation.rows import MaskedRows, Rows
from projseg.kernels.rows.select import allowed_rows
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.vectors.vectors import Ids, Numbers

# Once less than this share of the rows is left, later columns are fetched for those rows alone.
_MASKED_SHARE_MIN: Final = 0.25

Mask = NDArray[np.bool_]


def filter_rows(rows: Rows, condition: Expression | None) -> Rows:
    """Return the rows for which `condition` is true; None keeps all."""
    return mask_by_all(MaskedRows(rows), conjuncts(condition)).compact()


def mask_by_all(selected: MaskedRows, conditions: Iterable[Expression]) -> MaskedRows:
    """Return those of the selected rows for which all conditions are true.

    Conditions on one column are applied together; columns one after the other. Once few rows are
    left, later columns are fetched for those alone, and so are columns whose conditions might raise
    an error.
    """
    by_columns: dict[frozenset[str], list[Expression]] = {}
    for condition in conditions:
        by_columns.setdefault(condition.columns, []).append(condition)
    for columns, together in by_columns.items():
        if len(selected.rows) == 0:
            break
        selected = _mask_together(selected, columns, together)
    return selected


def _mask_together(
    selected: MaskedRows, columns: frozenset[str], conditions: Sequence[Expression]
) -> MaskedRows:
    """Apply conditions on the same columns: the safe ones to all rows, the others to those left."""
    if len(columns) == 1:
        (name,) = columns
        vector = selected.rows.vector(name)
        if isinstance(vector, Ids):
            allowed = allowed_ids(conditions, name, vector.dictionary)
            if allowed is not None:
                return narrowed(selected, allowed_rows(vector.ids, allowed))
        if isinstance(vector, Numbers):
            ranges = {condition: exact_ranges(condition) for condition in conditions}
            whole = [found[0] for found in ranges.values() if len(found) == 1]
            if whole:
                selected = narrowed(selected, reduce(NumberRange.intersect, whole).mask(vector))
            conditions = [c for c, found in ranges.items() if len(found) != 1]
    for condition in conditions:
        in_blocks = None
        if not _is_of_single_columns(condition):
            over_columns = without_joins(condition, selected.rows)
            in_blocks = evaluated_in_blocks(over_columns, selected.rows)
        if in_blocks is not None:  # quicker than to fetch the rows that are left, and never fails
            selected = narrowed(selected, truth(in_blocks))
            continue
        rows = selected.compact()
        selected = narrowed(MaskedRows(rows), condition_mask(condition, rows))
    return selected


def _is_of_single_columns(condition: Expression) -> bool:
    """Whether operands of AND and OR have one column each: truths are known by value."""
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        return all(map(_is_of_single_columns, condition.arguments))
    return len(condition.columns) == 1


def narrowed(selected: MaskedRows, mask: Mask) -> MaskedRows:
    """Return those of the selected rows where `mask`, which is overwritten, is true too."""
    if selected.mask is not None:
        mask &= selected.mask
    kept = int(np.count_nonzero(mask))
    if kept == len(mask):
        return MaskedRows(selected.rows)
    if kept >= len(mask) * _MASKED_SHARE_MIN:
        return MaskedRows(selected.rows, mask)
    return MaskedRows(selected.rows.where(mask, kept))


def allowed_ids(
    conditions: Sequence[Expression],
    name: str,
    dictionary: Dictionary,
    search: Search | None = None,
) -> NDArray[np.bool_] | None:
    """Return, bool[ids], whether all conditions are true of each value of their column `name`.

    `search` is as of `truth_by_id`.

    None if a value raises an error, since perhaps no selected row holds it, or if the texts that
    are computed on the way take too much memory together.
    """
    try:
        masks = [truth_by_id(condition, name, dictionary, search) for condition in conditions]
    except (ArithmeticError, TextsTooLargeError):
        return None
    return reduce(np.logical_and, masks)


def condition_mask(condition: Expression, rows: Rows) -> Mask:
    """Return where `condition` is true, as bool[len(rows)].

    AND is true where all its operands are, OR where one is, so the operands are evaluated one by
    one, each over its own dictionary where it has a single column. One that may fail is evaluated
    for those rows alone that the operands before it leave undecided.
    """
    if not isinstance(condition, Call) or condition.function not in ("and", "or"):
        return _mask_of_one(condition, rows)
    is_and = condition.function == "and"
    mask = np.full(len(rows), is_and)
    for part in condition.arguments:
        if may_fail(part):
            undecided = mask if is_and else ~mask
            mask[undecided] = condition_mask(part, rows.where(undecided))
        elif is_and:
            mask &= condition_mask(part, rows)
        else:
            mask |= condition_mask(part, rows)
    return mask


def _mask_of_one(condition: Expression, rows: Rows) -> Mask:
    """Return where a condition that is no AND or OR is true."""
    if len(condition.columns) == 1:
        (name,) = condition.columns
        vector = rows.vector(name)
        if isinstance(vector, Ids):
            allowed = allowed_ids([condition], name, vector.dictionary)
            if allowed is not None:
                return allowed_rows(vector.ids, allowed)
        found = exact_ranges(condition) if isinstance(vector, Numbers) else ()
        if isinstance(vector, Numbers) and found:
            return inside_any(found, vector)
    return truth(evaluate_over(condition, rows))
