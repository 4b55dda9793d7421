"""How functions pass nulls on, as far as proofs use it."""

from __future__ import annotations

from typing import Final

_TOTAL: Final = frozenset(
    (
        *("=", "!=", "<", "<=", ">", ">=", "not"),
        *("+", "-", "*", "negative", "abs"),
        *("cast", "time_floor"),
        *("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"),
        *("yearofweek", "hour", "minute", "second", "second_with_fraction"),
        *("lower", "upper", "length", "trim", "ltrim", "rtrim", "concat", "substring", "replace"),
        *("startswith", "endswith", "contains"),
    )
)

NULL_ONLY_FROM_NULL: Final = _TOTAL
"""Functions whose value is null only if an argument is; they raise rather than return null."""
NULL_FROM_NULL: Final = _TOTAL | frozenset(("/", "%", "div", "like", "rlike", "round"))
"""Functions whose value is null if any argument is."""
