"""Filters over rows: masks, and comparisons with constants as ranges of physical numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.tree import BOTTOM, TOP, Call, Column, Cut, Expression, Literal
from projseg.algebra.proofs.predicate_truth import truth_of
from projseg.algebra.proofs.value_set import ANYTHING
from projseg.evaluation.arrow_vectors import Search, truth_by_id
from projseg.evaluation.choose import (
    evaluate_over,
    is_true_of_a_joined_row,
    truth,
    without_joins,
)
from projseg.evaluation.in_blocks import evaluated_in_blocks
from projseg.evaluation.rows import MaskedRows, Rows, joined_parts
from projseg.kernels.row_selection import allowed_rows, between
from projseg.segment_format.arrow_arrays import WIDE, are_at_least, array_of
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.logical_types import arrow_to_numbers
from projseg.segment_format.vectors import Ids, Numbers

# Once less than this share of the rows is left, later columns are fetched for those rows alone.
_MASKED_SHARE_MIN: Final = 0.25
# Which comparisons bound a value from below, and which from above.
_COMPARISONS: Final = {
    "=": (True, True),
    "in": (True, True),
    "<": (False, True),
    "<=": (False, True),
    ">": (True, False),
    ">=": (True, False),
}
_INT64_LIMIT: Final = 1 << 63
_RANGES_MAX: Final = 4  # beyond, a program compares all constants in one pass
_RANGES_KEPT: Final = 1024  # each question asks for those of its conditions in every segment

_Mask = NDArray[np.bool_]


def filter_rows(rows: Rows, condition: Expression | None) -> Rows:
    """Return the rows for which `condition` is true; None keeps all."""
    return mask_by_all(MaskedRows(rows), conjuncts(condition)).compact()


def mask_by_all(selected: MaskedRows, conditions: Iterable[Expression]) -> MaskedRows:
    """Return those of the selected rows for which all conditions are true.

    Conditions on one column are applied together; columns one after the other. Once few rows are
    left, later columns are fetched for those alone, and so are columns whose conditions might raise
    an error. What is joined comes last, and nothing is joined if a condition is true of no row of
    its dimension.
    """
    conditions = tuple(conditions)
    joined = [one for one in conditions if joined_parts(one)]
    if joined:
        later = [one for one in conditions if joined_parts(one) or may_fail(one)]
        selected = _mask_by_columns(selected, (one for one in conditions if one not in later))
        if len(selected.rows) and not all(map(is_true_of_a_joined_row, joined)):
            return MaskedRows(selected.rows.slice(0, 0))
        conditions = tuple(later)
    return _mask_by_columns(selected, conditions)


def _mask_by_columns(selected: MaskedRows, conditions: Iterable[Expression]) -> MaskedRows:
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


def narrowed(selected: MaskedRows, mask: _Mask) -> MaskedRows:
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

    `search` is as in `truth_by_id`.

    None if a value raises an error, since perhaps no selected row holds it, or if the texts that
    are computed on the way take too much memory together.
    """
    try:
        masks = [truth_by_id(condition, name, dictionary, search) for condition in conditions]
    except (ArithmeticError, TextsTooLargeError):
        return None
    return reduce(np.logical_and, masks)


def condition_mask(condition: Expression, rows: Rows) -> _Mask:
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


def _mask_of_one(condition: Expression, rows: Rows) -> _Mask:
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


class NumberRange(msgspec.Struct, frozen=True):
    """Values of `name` between `low` and `high`, in physical numbers; None is unbounded.

    A bound is part of the range unless it is open there. If the range is not exact, values outside
    do not match and those inside may.
    """

    name: str
    low: Any
    high: Any
    is_low_open: bool = False
    is_high_open: bool = False
    is_exact: bool = True

    def may_match(self, minimum: NDArray[Any], maximum: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which pages may hold a match, by their least and greatest values: bool[pages]."""
        result = np.ones(len(minimum), np.bool_)
        if self.low is not None:
            result &= maximum >= self.low
        if self.high is not None:
            result &= minimum <= self.high
        return result

    def intersect(self, other: NumberRange) -> NumberRange:
        """Return the range of values in both, of the same column."""
        lows = [(r.low, r.is_low_open) for r in (self, other) if r.low is not None]
        highs = [(r.high, not r.is_high_open) for r in (self, other) if r.high is not None]
        low, is_low_open = max(lows, default=(None, False))
        high, is_high_closed = min(highs, default=(None, True))
        return replace(
            self, low=low, is_low_open=is_low_open, high=high, is_high_open=not is_high_closed
        )

    def mask(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which values lie inside, bool[n]: nulls never, NaN above every number."""
        values = numbers.values
        if values.dtype.kind == "f":
            inside = self._float_mask(values)
        elif values.dtype == object:
            inside = self._object_mask(values)
        elif values.dtype == WIDE:
            inside = self._wide_mask(values)
        else:
            inside = self._integer_mask(values, numbers.base)
        return inside if numbers.validity is None else inside & numbers.validity

    def integer_bounds(self, dtype: np.dtype[Any], base: int) -> tuple[int, int]:
        """Return (least, greatest) of the stored integers inside; without any, least is greater."""
        bounds = np.iinfo(dtype)
        low = bounds.min if self.low is None else self.low + self.is_low_open - base
        high = bounds.max if self.high is None else self.high - self.is_high_open - base
        return max(low, bounds.min), min(high, bounds.max)

    def _integer_mask(self, values: NDArray[Any], base: int) -> NDArray[np.bool_]:
        low, high = self.integer_bounds(values.dtype, base)
        bounds = np.iinfo(values.dtype)
        if low > high:
            return np.zeros(len(values), np.bool_)
        inside: NDArray[np.bool_]
        if low == high:
            inside = values == values.dtype.type(low)
        elif low == bounds.min:
            inside = values <= values.dtype.type(high)
        elif high == bounds.max:
            inside = values >= values.dtype.type(low)
        else:
            inside = between(values, low, high)
        return inside

    def _float_mask(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        inside = np.ones(len(values), np.bool_)
        if self.high is not None:
            inside = values < self.high if self.is_high_open else values <= self.high
        if self.low is not None:  # "not below", so that NaN is inside
            inside &= ~(values <= self.low if self.is_low_open else values < self.low)
        return inside

    def _wide_mask(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        inside = np.ones(len(values), np.bool_)
        if self.low is not None:
            inside = are_at_least(values, self.low + self.is_low_open)
        if self.high is not None:
            inside &= ~are_at_least(values, self.high + 1 - self.is_high_open)
        return inside

    def _object_mask(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        inside = np.ones(len(values), np.bool_)
        if self.low is not None:
            inside &= (values >= self.low + self.is_low_open).astype(np.bool_)
        if self.high is not None:
            inside &= (values <= self.high - self.is_high_open).astype(np.bool_)
        return inside


@lru_cache(maxsize=_RANGES_KEPT)
def value_range(condition: Expression) -> NumberRange | None:
    """Return the range of a column that a condition implies; None if no such range is known.

    Comparisons with constants have one, also of functions of the column with an inverse.
    """
    if not isinstance(condition, Call):
        return None
    column, *others = condition.arguments
    if condition.function not in _COMPARISONS or not isinstance(column, Column):
        return _inverted_range(condition)
    if not all(isinstance(other, Literal) for other in others):
        return None
    numbers = [_physical(o.value, column.type) for o in others if isinstance(o, Literal)]
    if any(number is None for number in numbers):
        return None
    is_low, is_high = _COMPARISONS[condition.function]
    low, high = min(numbers), max(numbers)
    return NumberRange(
        column.name,
        low if is_low else None,
        high if is_high else None,
        is_low_open=condition.function == ">",
        is_high_open=condition.function == "<",
        is_exact=len(numbers) == 1,
    )


@lru_cache(maxsize=_RANGES_KEPT)
def exact_ranges(condition: Expression) -> tuple[NumberRange, ...]:
    """Return a few ranges that hold exactly the values for which a condition is true, else none.

    `x <> 0` is true below 0 and above; `x IN (1, 5)` is true of two ranges of one value.
    """
    whole = value_range(condition)
    if whole is not None and whole.is_exact:
        return (whole,)
    name, cuts = _true_cuts(condition)
    if len(cuts) > 2 * _RANGES_MAX:
        return ()
    return tuple(_range_of(name, *pair) for pair in zip(cuts[::2], cuts[1::2], strict=True))


def inside_any(ranges: Sequence[NumberRange], numbers: Numbers) -> NDArray[np.bool_]:
    """Return which values lie in one of the ranges, bool[n]; nulls never do."""
    values = numbers.values
    if values.dtype.kind in "iu":
        bounds = {one: one.integer_bounds(values.dtype, numbers.base) for one in ranges}
        ranges = [one for one, (low, high) in bounds.items() if low <= high] or ranges[:1]
        outside = _only_value_outside([bounds[one] for one in ranges], values.dtype)
        if outside is not None:
            inside: NDArray[np.bool_] = values != values.dtype.type(outside)
            return inside if numbers.validity is None else inside & numbers.validity
    mask, *others = (one.mask(numbers) for one in ranges)
    for other in others:
        mask |= other
    return mask


def _only_value_outside(bounds: Sequence[tuple[int, int]], dtype: np.dtype[Any]) -> int | None:
    """Return the one value that two ranges of integers leave out, as `<>` does; else None."""
    if len(bounds) != 2:
        return None
    (low, below), (above, high) = sorted(bounds)
    is_all = (low, high) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return below + 1 if is_all and below + 2 == above else None


def _inverted_range(condition: Call) -> NumberRange | None:
    """Return the range of values between the outermost cuts of where a condition is true."""
    name, cuts = _true_cuts(condition)
    if not cuts or (cuts[0], cuts[-1]) == (BOTTOM, TOP):
        return None
    return replace(_range_of(name, cuts[0], cuts[-1]), is_exact=len(cuts) == 2)


def _true_cuts(condition: Expression) -> tuple[str, tuple[Cut, ...]]:
    """Return the column of integers, and the cuts between which a condition is true of it.

    A condition that raises for some value has none, so that its error is not lost.
    """
    truth = truth_of(condition)
    if truth is None or not isinstance(truth.term, Column) or truth.defined != ANYTHING:
        return "", ()
    cuts = truth.true.cuts
    if truth.true.has_null or not _is_by_integers(truth.term.type):
        return "", ()
    if any(len(cut) > 1 and not -_INT64_LIMIT <= cut[1] < _INT64_LIMIT for cut in cuts):
        return "", ()
    return truth.term.name, cuts


def _range_of(name: str, low: Cut, high: Cut) -> NumberRange:
    """Return the integers between two cuts."""
    lowest = None if low == BOTTOM else low[1]
    return NumberRange(name, lowest, None if high == TOP else high[1], is_high_open=True)


def _is_by_integers(arrow_type: pa.DataType) -> bool:
    """Whether the physical numbers of a type are its order keys."""
    is_time = pa.types.is_timestamp(arrow_type) or pa.types.is_date32(arrow_type)
    return is_time or bool(pa.types.is_integer(arrow_type))


def _physical(value: object, arrow_type: pa.DataType) -> Any:
    """Return a constant in the column's physical numbers; None for null, NaN and what overflows."""
    if value is None or value != value:  # noqa: PLR0124 - NaN is what differs from itself
        return None
    try:
        values, _ = arrow_to_numbers(array_of([value], arrow_type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return values[0].item() if isinstance(values[0], np.generic) else values[0]
