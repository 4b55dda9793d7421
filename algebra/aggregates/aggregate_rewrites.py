"""Aggregates as others that mean the same: CASE as FILTER, exact arithmetic as sums of products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as replace_fields
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.parse_aggregate import AggregateCall
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.canonical import canonical, conjunction, not_null
from projseg.algebra.expressions.coercion import scale_of
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import TRUE, Call, Column, Expression, Literal

# Aggregates of CASE as aggregates with FILTER: `sum(CASE WHEN p THEN x END)` is a sum where p.
#
# An aggregate that passes over nulls sees of such a CASE the rows where the condition is true, and
# computes the value for them alone, which is what FILTER does. So both spellings are one state. A
# sum of any CASE is the sum over its branches, each with FILTER.

_BRANCHES_MAX: Final = 16
_ARITHMETIC: Final = ("+", "-", "*", "negative", "cast")

_Aggregate = TypeVar("_Aggregate", AggregateCall, Primitive)


class Conditional(msgspec.Struct, frozen=True):
    """CASE WHEN condition THEN value ELSE otherwise END."""

    condition: Expression
    value: Expression
    otherwise: Expression


def _conditional_of(arguments: Sequence[Expression]) -> Conditional | None:
    """Return the CASE of one condition that is the only argument; None if there is none."""
    if len(arguments) != 1:
        return None
    (argument,) = arguments
    if not isinstance(argument, Call) or argument.function != "case":
        return None
    if len(argument.arguments) != 3:
        return None
    return Conditional(*argument.arguments)


def with_filter(aggregate: _Aggregate) -> _Aggregate:
    """Return an equal aggregate with FILTER for each CASE that is null where it does not hold.

    An aggregate of a value and a time is returned as it is: it counts rows whose value is null. So
    is one whose own FILTER may fail, since that has to be computed for every row.
    """
    found = _conditional_of(aggregate.arguments)
    if found is None or not is_null(found.otherwise):
        return aggregate
    conditions = [_as_filter(found.condition)]
    if aggregate.filter is not None:
        if may_fail(aggregate.filter):
            return aggregate
        conditions.insert(0, aggregate.filter)
    is_counted = aggregate.function == "count" and is_value(found.value)
    arguments = () if is_counted else (found.value,)
    return with_filter(replace(aggregate, arguments=arguments, filter=conjunction(conditions)))


class Branch(msgspec.Struct, frozen=True):
    """The value of an expression in the rows where a condition is true."""

    condition: Expression
    value: Expression


def branches_of(expression: Expression) -> tuple[Branch, ...]:
    """Return the branches of the first CASE or COALESCE in arithmetic; () if there is none.

    For each row, exactly one of the conditions is true.
    """
    found = _choice_in(expression)
    if found is None:
        return ()
    branches = tuple(_coalesced(found) if found.function == "coalesce" else _cases(found))
    if len(branches) > _BRANCHES_MAX:
        return ()
    return tuple(
        Branch(branch.condition, canonical(_with(expression, found, branch.value)))
        for branch in branches
    )


def values_by_branch(expression: Expression) -> Iterator[Expression]:
    """Yield an expression, and the values of its branches, and so on."""
    yield expression
    for branch in branches_of(expression):
        yield from values_by_branch(branch.value)


def values_of_choice(call: Call) -> tuple[Expression, ...]:
    """Return the values among which a CASE or COALESCE chooses."""
    if call.function == "coalesce":
        return call.arguments
    return (*call.arguments[1::2], call.arguments[-1])


def opposite_of(condition: Expression) -> Expression:
    """Return the condition that is true of the rows where another is not, and of no others."""
    if isinstance(condition, Call):
        if condition.function == "is_null":
            return not_null(condition.arguments[0])
        inner = condition.arguments[0]
        if condition.function == "not" and isinstance(inner, Call):
            if inner.function == "is_null":
                return inner
            if inner.function == "<=>" and inner.arguments[1] == TRUE:
                return inner.arguments[0]
    is_true = Call(pa.bool_(), "<=>", (condition, TRUE))
    return canonical(Call(pa.bool_(), "not", (is_true,)))


def _choice_in(expression: Expression) -> Call | None:
    if not isinstance(expression, Call):
        return None
    if expression.function in ("case", "coalesce"):
        return expression
    if expression.function not in _ARITHMETIC:
        return None
    found = map(_choice_in, expression.arguments)
    return next((choice for choice in found if choice is not None), None)


def _cases(call: Call) -> Iterator[Branch]:
    *pairs, otherwise = call.arguments
    before: list[Expression] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        yield Branch(conjunction((*before, _as_filter(condition))) or TRUE, value)
        before.append(opposite_of(_as_filter(condition)))
    yield Branch(conjunction(before) or TRUE, otherwise)


def _coalesced(call: Call) -> Iterator[Branch]:
    before: list[Expression] = []
    for argument in call.arguments[:-1]:
        yield Branch(conjunction((*before, not_null(argument))) or TRUE, argument)
        before.append(opposite_of(not_null(argument)))
    yield Branch(conjunction(before) or TRUE, call.arguments[-1])


def _with(expression: Expression, old: Expression, new: Expression) -> Expression:
    if expression == old:
        return new
    if not isinstance(expression, Call) or expression.function not in _ARITHMETIC:
        return expression
    arguments = tuple(_with(argument, old, new) for argument in expression.arguments)
    return replace_fields(expression, arguments=arguments)


def is_null(expression: Expression) -> bool:
    """Whether an expression is the constant null."""
    return isinstance(expression, Literal) and expression.value is None


def _as_filter(condition: Expression) -> Expression:
    """Return a condition as FILTER has it: a boolean column stands alone there."""
    is_equality = isinstance(condition, Call) and condition.function == "="
    if is_equality and isinstance(condition.children[0], Column) and condition.children[1] == TRUE:
        return condition.children[0]
    return condition


def is_value(expression: Expression) -> bool:
    """Whether an expression is a constant that is not null."""
    return isinstance(expression, Literal) and expression.value is not None


Products: TypeAlias = dict[tuple[Expression, ...], Fraction]
"""From factors, sorted by their texts, to the constant that they are multiplied by; it may be 0."""

_PRODUCTS_MAX: Final = 16
_OPERATIONS: Final = ("+", "-", "*", "negative", "cast")


def products_of(expression: Expression, is_factor: Callable[[Expression], bool]) -> Products | None:
    """Return the products whose sum an expression is, as if no operation overflowed or rounded.

    None if they are too many; `is_factor` says whether an operation is to stay whole.
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
    """Return the value of a constant that is an integer or a decimal; None for any other."""
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
