"""How functions pass nulls on, as far as proofs use it."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions.coercion import is_decimal, is_floating
from projseg.algebra.expressions.tree import Call

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

NULL_FROM_NULL: Final = _TOTAL | frozenset(("/", "%", "div", "like", "rlike", "round"))
"""Functions whose value is null if any argument is."""


def is_null_only_from_null(call: Call) -> bool:
    """Whether a call is null only if an argument is; where it has no value else, it raises.

    What is no number, NaN or infinite, is null as a decimal.
    """
    is_cast_of_floats = call.function == "cast" and is_floating(call.arguments[0].type)
    return call.function in _TOTAL and not (is_cast_of_floats and is_decimal(call.type))
