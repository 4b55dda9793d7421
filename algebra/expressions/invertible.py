"""What a function of a column was computed from: of `x + 1` it is that less 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.binding.bind import bind
from projseg.algebra.expressions.coercion import cast_to, is_integral, is_lossless
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal

Inverted = tuple[Expression, Expression]
"""A part of a function, and its value as a function of the whole's."""


def argument_from(whole: Expression, column: Column, value: Expression) -> Expression | None:
    """Return a column as a function of what is computed from it alone.

    Parameters
    ----------
    whole : Expression
        What is computed from `column`.
    column : Column
        The column.
    value : Expression
        What has the value of `whole`.

    Returns
    -------
    Expression or None
        None if different values of the column may have one value of `whole`, as far as is known.
    """
    if whole == column:
        return value
    if not isinstance(whole, Call) or whole.function not in _INVERTED:
        return None
    found = _INVERTED[whole.function](whole, value)
    return None if found is None else argument_from(found[0], column, found[1])


def _of_cast(call: Call, value: Expression) -> Inverted | None:
    (inner,) = call.arguments
    is_text = call.type == pa.string()
    keeps_value = is_integral(inner.type) or inner.type == pa.date32()
    if not (keeps_value if is_text else is_lossless(inner.type, call.type)):
        return None
    return inner, cast_to(value, inner.type, "UTC")


def _of_sum(call: Call, value: Expression) -> Inverted | None:
    plain, constant = call.arguments  # canonical: a constant stands on the right
    if not is_integral(call.type) or not isinstance(constant, Literal) or constant.value is None:
        return None
    return plain, Call(call.type, "-", (value, constant))


def _of_difference(call: Call, value: Expression) -> Inverted | None:
    left, right = call.arguments
    if not is_integral(call.type):
        return None
    if isinstance(right, Literal) and right.value is not None:
        return left, Call(call.type, "+", (value, right))
    if isinstance(left, Literal) and left.value is not None:
        return right, Call(call.type, "-", (left, value))
    return None


def _of_negation(call: Call, value: Expression) -> Inverted | None:
    if not is_integral(call.type):
        return None
    return call.arguments[0], Call(call.type, "negative", (value,))


def _of_concatenation(call: Call, value: Expression) -> Inverted | None:
    places = [n for n, part in enumerate(call.arguments) if not isinstance(part, Literal)]
    if len(places) != 1 or call.type != pa.string():
        return None
    (place,) = places
    before, after = (
        sum(len(str(part.value)) for part in parts if isinstance(part, Literal))
        for parts in (call.arguments[:place], call.arguments[place + 1 :])
    )
    text = f"substring(whole, {before + 1}, length(whole) - {before + after})"
    return call.arguments[place], _with_whole(bind(text, _WHOLE), value)


def _with_whole(expression: Expression, value: Expression) -> Expression:
    if isinstance(expression, Column):
        return value
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(_with_whole(argument, value) for argument in expression.arguments)
    return replace(expression, arguments=arguments)


_WHOLE: Final = pa.schema([("whole", pa.string())])
_INVERTED: Final[dict[str, Callable[[Call, Expression], Inverted | None]]] = {
    "cast": _of_cast,
    "+": _of_sum,
    "-": _of_difference,
    "negative": _of_negation,
    "concat": _of_concatenation,
}
