"""Canonical comparisons: the constant on the right, in the other operand's own type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from projseg.algebra.expressions.coercion import (
    is_decimal,
    is_floating,
    is_integral,
    is_lossless,
)
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.comparison import SWAPPED
from projseg.algebra.expressions.sql_parameters import Argument
from projseg.algebra.expressions.tree import (
    FALSE,
    TRUE,
    UNKNOWN,
    Call,
    Column,
    Expression,
    Literal,
    scalar_literal,
    without_negative_zero,
)
from projseg.errors import EvaluationError


def canonical_comparison(call: Call, order: Callable[[Expression], Any]) -> Expression:
    """Return the comparison with its operands in order and without a cast around its column."""
    left, right = call.arguments
    constants = isinstance(left, Literal), isinstance(right, Literal)
    # Constants come last, and the order of others is by their texts, which take long to write.
    if constants[0] > constants[1] or (constants[0] == constants[1] and order(left) > order(right)):
        return Call(call.type, SWAPPED[call.function], (right, left))
    if not isinstance(right, Literal):
        return call
    right = without_negative_zero(right)
    call = Call(call.type, call.function, (left, right))
    if call.function == "<=>" and right.value is None:
        return Call(call.type, "is_null", (left,))
    if pa.types.is_boolean(left.type) and call.function in ("=", "!="):
        return _boolean_equality(call, left, right)
    narrow = _narrowed(left, right)
    return call if narrow is None else Call(call.type, call.function, narrow)


def _boolean_equality(call: Call, left: Expression, right: Literal) -> Expression:
    is_wanted = (call.function == "=") == (right.value is True)
    if isinstance(left, Column):
        return Call(call.type, "=", (left, TRUE if is_wanted else FALSE))
    return left if is_wanted else Call(call.type, "not", (left,))


def _narrowed(left: Expression, right: Literal) -> tuple[Expression, Expression] | None:
    """Return the operands in the type that `left` had before a lossless cast.

    None if there is no such cast, or if no constant of that type equals `right`.
    """
    inner = left
    if isinstance(left, Call) and left.function == "cast":
        inner = left.arguments[0]
        if not is_lossless(inner.type, left.type):
            return None
    if inner.type == right.type:
        return None
    constant = _recast(right, inner.type)
    return None if constant is None else (inner, constant)


def _recast(constant: Literal, wanted: pa.DataType) -> Literal | None:
    """Return the equal constant of another number type, or None if there is none."""
    if not all(is_integral(t) or is_floating(t) or is_decimal(t) for t in (constant.type, wanted)):
        return None
    try:
        there = _cast(constant, wanted)
        if _cast(there, constant.type) != constant:
            return None
        if isinstance(constant, Argument) and is_integral(constant.type) and is_integral(wanted):
            return Argument(wanted, there.value, constant.parameter)  # so that plans keep its slot
        return there
    except EvaluationError:
        return None


def _cast(constant: Literal, wanted: pa.DataType) -> Literal:
    if constant.type == wanted:
        return constant
    return scalar_literal(evaluate(Call(wanted, "cast", (constant,)), {}, 1)[0])


def canonical_in(call: Call) -> Expression:
    """Return IN with ascending distinct constants; one constant makes an equality.

    A null among the constants becomes OR NULL; options that are not all constants become an OR of
    equalities.
    """
    value, *options = call.arguments
    constants = [option for option in options if isinstance(option, Literal)]
    if len(constants) < len(options):
        equals = tuple(Call(pa.bool_(), "=", (value, option)) for option in options)
        return equals[0] if len(equals) == 1 else Call(pa.bool_(), "or", equals)
    present = [without_negative_zero(c) for c in constants if c.value is not None]
    if len(present) < len(constants):
        known = Call(pa.bool_(), "in", (value, *present)) if present else FALSE
        return Call(pa.bool_(), "or", (known, UNKNOWN)) if present else UNKNOWN
    inner, present = _narrowed_options(value, present)
    ordered = sorted(dict.fromkeys(present), key=_value_order)
    function = "in" if len(ordered) > 1 else "="
    return Call(pa.bool_(), function, (inner, *ordered))


def _narrowed_options(
    value: Expression, options: list[Literal]
) -> tuple[Expression, list[Literal]]:
    is_cast = isinstance(value, Call) and value.function == "cast"
    if not is_cast or not is_lossless(value.children[0].type, value.type):
        return value, options
    inner = value.children[0]
    found = [_recast(option, inner.type) for option in options]
    kept = [option for option in found if option is not None]
    return (inner, kept) if kept else (value, options)


def _value_order(literal: Literal) -> tuple[bool, Any]:
    value: Any = literal.value
    return value != value, value  # noqa: PLR0124


def merged_alternatives(operands: Iterable[Expression]) -> list[Expression]:
    """Return OR's operands with `x = a` and `x IN (b, c)` of the same x merged into one IN."""
    return _merged(operands, _equalities, _one_of)


def merged_exclusions(operands: Iterable[Expression]) -> list[Expression]:
    """Return AND's operands with `x != a` and `x NOT IN (b, c)` of the same x merged into one."""
    return _merged(operands, _inequalities, _none_of)


def _one_of(value: Expression, constants: tuple[Literal, ...]) -> Expression:
    return canonical_in(Call(pa.bool_(), "in", (value, *constants)))


def _none_of(value: Expression, constants: tuple[Literal, ...]) -> Expression:
    return Call(pa.bool_(), "not", (_one_of(value, constants),))


def _merged(
    operands: Iterable[Expression],
    read: Callable[[Expression], tuple[Expression, tuple[Literal, ...]] | None],
    write: Callable[[Expression, tuple[Literal, ...]], Expression],
) -> list[Expression]:
    found: dict[Expression, list[tuple[Expression, tuple[Literal, ...]]]] = {}
    places: list[Expression] = []
    for operand in operands:
        value, constants = read(operand) or (operand, ())
        found.setdefault(value, []).append((operand, constants))
        places.append(value)
    merged: list[Expression] = []
    for value in dict.fromkeys(places):
        members = found[value]
        constants = tuple(dict.fromkeys(c for _, each in members for c in each))
        is_set = len(members) > 1 and bool(constants)
        merged.append(write(value, constants) if is_set else members[0][0])
    return merged


def _equalities(operand: Expression) -> tuple[Expression, tuple[Literal, ...]] | None:
    if not isinstance(operand, Call) or operand.function not in ("=", "in"):
        return None
    value, *options = operand.arguments
    constants = tuple(o for o in options if isinstance(o, Literal) and o.type == value.type)
    return (value, constants) if len(constants) == len(options) else None


def _inequalities(operand: Expression) -> tuple[Expression, tuple[Literal, ...]] | None:
    if not isinstance(operand, Call):
        return None
    if operand.function == "not":
        inner = operand.arguments[0]
        return _equalities(inner) if isinstance(inner, Call) and inner.function == "in" else None
    if operand.function != "!=":
        return None
    return _equalities(Call(pa.bool_(), "=", operand.arguments))
