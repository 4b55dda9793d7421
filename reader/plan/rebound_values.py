"""Which conditions of a question may have other values, and nothing else of its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.argument_values import ArgumentValue
from projseg.algebra.expressions.coercion import is_datetime, is_integral
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.sql_parameters import Argument, Arguments, parameter_names
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query, output_texts
from projseg.reader.plan.rebound_times import TimeSlots

_COMPARISONS: Final = frozenset(("=", "<", "<=", ">", ">="))
_COMPARING: Final = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In)

ValueKinds = tuple[tuple[str, Hashable], ...]


class ValueSlot(NamedTuple):
    """A condition that compares a column with the value, or the values, of one parameter."""

    column: Column
    function: str
    parameter: str


class ValueSlots(NamedTuple):
    """What is known of a query's parameters.

    Parameters
    ----------
    conditions : dict of int to ValueSlot
        By the position of their conditions.
    times : TimeSlots or None
        The bounds whose values are parameters; None: there are others, or no time column.
    without_slot : frozenset of str
        The parameters that are neither.
    """

    conditions: dict[int, ValueSlot]
    times: TimeSlots | None
    without_slot: frozenset[str]


def slots_of(query: Query, bound: QuerySpec, arguments: Arguments | None) -> ValueSlots:
    """Return what is known of the parameters of a query, which all have names."""
    is_written = query.filter is not None and query.filter.strip()
    tree = parse_sql(query.filter) if query.filter is not None and is_written else None
    times = None if bound.time_column is None else TimeSlots.of(tree, bound)
    of_times = frozenset[str]() if times is None else times.parameters
    plain = frozenset[str]() if tree is None else _plain_parameters(tree)
    slots = {
        index: slot
        for index, condition in enumerate(bound.conditions)
        if (slot := _slot(condition, arguments)) is not None and slot.parameter in plain
    }
    known = of_times.union(slot.parameter for slot in slots.values())
    known = known.difference(*map(parameter_names, output_texts(query)))
    names = frozenset[str]() if arguments is None else frozenset(arguments.values)
    return ValueSlots(slots, times, names - known)


def _plain_parameters(tree: exp.Expression) -> frozenset[str]:
    """Return the parameters that are once compared with a column that nothing else mentions.

    Only the text tells: binding may drop a comparison that the present values decide.
    """
    columns = Counter(column.name.casefold() for column in tree.find_all(exp.Column))
    parameters = list(tree.find_all(exp.Placeholder))
    written = Counter(parameter.name for parameter in parameters)
    return frozenset(
        one.name for one in parameters if written[one.name] == 1 and _is_plain_text(one, columns)
    )


def _is_plain_text(parameter: exp.Placeholder, columns: Counter[str]) -> bool:
    comparison: Any = parameter.parent
    if type(comparison) not in _COMPARING:
        return False
    sides = [side for side in comparison.iter_expressions() if side is not parameter]
    is_with_column = len(sides) == 1 and isinstance(sides[0], exp.Column)
    if not is_with_column or columns[sides[0].name.casefold()] > 1:
        return False
    outer: Any = comparison.parent
    while isinstance(outer, exp.And | exp.Paren):
        outer = outer.parent
    return outer is None or isinstance(outer, exp.Select)


def _slot(condition: Expression, arguments: Arguments | None) -> ValueSlot | None:
    """Return the slot that a condition is; None of one that is more than a comparison."""
    if arguments is None:
        return None
    column, *constants = condition.children or (condition,)
    if not isinstance(condition, Call) or not isinstance(column, Column):
        return None
    name = None
    if condition.function == "in":
        name = _name_of_list(constants, arguments)
    elif condition.function in _COMPARISONS and isinstance(constants[0], Argument):
        name = constants[0].parameter if _is_plain(column.type, constants[0], arguments) else None
    return None if name is None else ValueSlot(column, condition.function, name)


def _is_plain(column_type: pa.DataType, constant: Argument, arguments: Arguments) -> bool:
    """Whether a constant is a parameter's value, at most widened to the type of a column."""
    given = arguments.values[constant.parameter]
    if not isinstance(given, Literal) or given.value != constant.value:
        return False
    is_number = is_integral(column_type) and is_integral(given.type)
    return constant.type == column_type and (is_number or given.type == column_type)


def _name_of_list(constants: list[Expression], arguments: Arguments) -> str | None:
    """Return the parameter whose values are all of some constants, as the same objects."""
    for name, values in arguments.values.items():
        if isinstance(values, tuple) and set(map(id, constants)) <= set(map(id, values)):
            return name if frozenset(constants) == frozenset(values) else None
    return None


def kinds_of_values(arguments: Arguments | None) -> ValueKinds | None:
    """Return what templates need to know of values beside a query's text; None: there is none.

    Texts, whole numbers, dates and times compare with a column of their type in one way, whatever
    the value.
    """
    found: list[tuple[str, Hashable]] = []
    for name, value in () if arguments is None else arguments.values.items():
        literals = literals_of(value)
        if not literals:
            return None
        first = literals[0].type
        if not (first == pa.string() or is_integral(first) or is_datetime(first)):
            return None
        for one in literals:
            if one.value is None or one.type != first:
                return None
        found.append((name, (first, isinstance(value, tuple))))
    return tuple(found)


def literals_of(value: ArgumentValue) -> tuple[Literal, ...]:
    """Return the constants that a parameter stands for; none for a length of time."""
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, Literal) else ()
