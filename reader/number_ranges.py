"""Comparisons of one fixed-width column with constants, as ranges over its physical numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.segment_format.types import arrow_to_numbers

# Which comparisons bound a value from below, and which from above.
_COMPARISONS: Final = {
    "=": (True, True),
    "in": (True, True),
    "<": (False, True),
    "<=": (False, True),
    ">": (True, False),
    ">=": (True, False),
}


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Values of `name` from `low` to `high`, both inclusive; None is unbounded.

    A page none of whose values lies in it cannot match; whether others do is not said.
    """

    name: str
    low: Any
    high: Any

    def may_match(self, minimum: NDArray[Any], maximum: NDArray[Any]) -> NDArray[np.bool_]:
        """Return, for pages with these smallest and largest values, which may match."""
        result = np.ones(len(minimum), np.bool_)
        if self.low is not None:
            result &= maximum >= self.low
        if self.high is not None:
            result &= minimum <= self.high
        return result


def value_range(condition: Expression) -> NumberRange | None:
    """Return the range that a comparison of a column with constants implies, None if none is."""
    if not isinstance(condition, Call) or condition.function not in _COMPARISONS:
        return None
    column, *others = condition.arguments
    if not isinstance(column, Column) or not all(isinstance(o, Literal) for o in others):
        return None
    numbers = [_physical(o.value, column.type) for o in others if isinstance(o, Literal)]
    if any(number is None for number in numbers):
        return None
    is_low, is_high = _COMPARISONS[condition.function]
    low, high = min(numbers), max(numbers)
    return NumberRange(column.name, low if is_low else None, high if is_high else None)


def _physical(value: object, arrow_type: pa.DataType) -> Any:
    """Return a constant in the column's physical numbers; None if it has none (null, NaN)."""
    if value is None or value != value:  # noqa: PLR0124 - NaN is what differs from itself
        return None
    try:
        values, _ = arrow_to_numbers(pa.array([value], arrow_type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return values[0].item() if isinstance(values[0], np.generic) else values[0]
