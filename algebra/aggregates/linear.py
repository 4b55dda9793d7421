"""Exact arithmetic as a sum of products: `2 * (x + 1) * g` is `2 * g * x` and `2 * g`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.coercion import scale_of
from projseg.algebra.expressions.text.render import to_sql
from projseg.algebra.expressions.tree import Call, Expression, Literal

Products: TypeAlias = dict[tuple[Expression, ...], Fraction]
"""From factors, sorted by their texts, to the constant that they are multiplied by; it may be 0."""

_PRODUCTS_MAX: Final = 16
_OPERATIONS: Final = ("+", "-", "*", "negative", "cast")


def products_of(expression: Expression, is_factor: Callable[[Expression], bool]) -> Products | None:
    """Return the products whose sum an expression is, as if no operation overflowed or rounded.

    None if they are too many.

    Parameters
    ----------
    expression : Expression
        Over integers and decimals.
    is_factor : function of an expression
        Whether an operation is to stay whole.
    """
    if isinstance(expression, Literal):
        constant = fraction_of(expression)
        return None if constant is None else {(): constant}
    is_taken_apart = isinstance(expression, Call) and expression.function in _OPERATIONS
    if not isinstance(expression, Call) or not is_taken_apart or is_factor(expression):
        return {(expression,): Fraction(1)}
    parts = [products_of(argument, is_factor) for argument in expression.arguments]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    found = _combined(expression.function, known)
    return found if len(found) <= _PRODUCTS_MAX else None


def fraction_of(expression: Expression) -> Fraction | None:
    """Return the value of a constant that is an integer or a decimal; None of others."""
    value = expression.value if isinstance(expression, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return Fraction(value)


def multiple_of(
    constant: Fraction, factors: tuple[Expression, ...], primitive: Primitive
) -> int | None:
    """Return how often a sum has the unscaled product of factors; None if no whole number says."""
    ((_, arrow_type),) = primitive.fields
    digits = scale_of(arrow_type) - sum(scale_of(factor.type) for factor in factors)
    multiple = constant * Fraction(10) ** digits
    return int(multiple) if multiple.denominator == 1 else None


def _combined(function: str, parts: list[Products]) -> Products:
    if function == "cast":
        return parts[0]
    if function == "negative":
        return _scaled(parts[0], -1)
    if function == "*":
        return _multiplied(*parts)
    return _added(parts[0], _scaled(parts[1], 1 if function == "+" else -1))


def _scaled(products: Products, factor: int) -> Products:
    return {factors: constant * factor for factors, constant in products.items()}


def _added(left: Products, right: Products) -> Products:
    found = dict(left)
    for factors, constant in right.items():
        found[factors] = found.get(factors, Fraction(0)) + constant
    return found


def _multiplied(left: Products, right: Products) -> Products:
    found: Products = {}
    for factors, constant in left.items():
        for others, other in right.items():
            joint = tuple(sorted((*factors, *others), key=to_sql))
            found[joint] = found.get(joint, Fraction(0)) + constant * other
    return found
