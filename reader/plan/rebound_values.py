"""Which conditions and times of a query may have other values, and nothing else of its plan.

A plan has an interval for other times without binding the query again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.argument_values import ArgumentValue
from projseg.algebra.expressions.binder_names import span_of
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.coercion import cast_to, is_datetime, is_integral
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.sql_parameters import Argument, Arguments, parameter_names
from projseg.algebra.expressions.sql_words import written_type
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, datetime_micros
from projseg.algebra.proofs.predicate_truth import intersection
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query, output_texts
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import TIMESTAMP

_ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
_EPOCH: Final = date(1970, 1, 1)

_BOUNDS: Final[dict[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


class ValueSlot(NamedTuple):
    """A condition that compares a column with the value, or the values, of one parameter."""

    column: Column
    function: str
    parameter: str


class ValueSlots(NamedTuple):
    """The parameters of a query: of conditions by their position, of times, and all others.

    `times` is None if other parameters bound the time, or if there is no time column.
    """

    conditions: dict[int, ValueSlot]
    times: TimeSlots | None
    without_slot: frozenset[str]


def slots_of(query: Query, bound: QuerySpec, arguments: Arguments | None) -> ValueSlots:
    """Return the slots of a query's parameters, which all have names."""
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
    columns = Counter(name_key(column.name) for column in tree.find_all(exp.Column))
    parameters = list(tree.find_all(exp.Placeholder))
    written = Counter(parameter.name for parameter in parameters)
    return frozenset(
        one.name for one in parameters if written[one.name] == 1 and _is_plain_text(one, columns)
    )


def _is_plain_text(parameter: exp.Placeholder, columns: Counter[str]) -> bool:
    comparison: Any = parameter.parent
    if type(comparison) not in (*_BOUNDS, exp.In):
        return False
    sides = [side for side in comparison.iter_expressions() if side is not parameter]
    is_with_column = len(sides) == 1 and isinstance(sides[0], exp.Column)
    if not is_with_column or columns[name_key(sides[0].name)] > 1:
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
    elif condition.function in _BOUNDS.values() and isinstance(constants[0], Argument):
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


def kinds_of_values(arguments: Arguments | None) -> tuple[tuple[str, Hashable], ...] | None:
    """Return the kinds of values on which a template depends; None if there can be none.

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


class _TimeSlot(NamedTuple):
    """A bound on the time column: how it is compared with which parameter.

    The value may be cast to the column's type; `micros` is added to it.
    """

    function: str
    parameter: str
    is_cast: bool
    micros: int


class TimeSlots(NamedTuple):
    """The bounds of a filter on the time column whose values are parameters.

    `zone` is that of times without one; `has_others` says that the filter mentions the time column
    elsewhere too.
    """

    type: pa.DataType
    zone: str
    slots: tuple[_TimeSlot, ...] = ()
    has_others: bool = False

    @property
    def parameters(self) -> frozenset[str]:
        """The names of their parameters."""
        return frozenset(slot.parameter for slot in self.slots)

    @staticmethod
    def of(tree: exp.Expression | None, bound: QuerySpec) -> TimeSlots | None:
        """Return the bounds of a filter; None if parameters decide more of the time."""
        assert bound.time_column is not None
        assert bound.time_type is not None
        empty = TimeSlots(bound.time_type, bound.context.zone)
        slots: list[_TimeSlot] = []
        has_others = False
        for part in _parts(tree):
            named = (name_key(column.name) for column in part.find_all(exp.Column))
            if name_key(bound.time_column) not in named:
                continue
            if part.find(exp.Placeholder) is None:
                has_others = True
                continue
            found = [_time_slot(*comparison, empty) for comparison in _comparisons(part)]
            if not found:
                return None
            for slot in found:
                if slot is None:
                    return None
                slots.append(slot)
        if slots and has_others:
            return None
        return empty._replace(slots=tuple(slots), has_others=has_others)

    def interval(self, arguments: Arguments | None) -> Interval | None:
        """Return the times that fulfil all bounds, or None; ValueError if a value is no bound."""
        found: Interval | None = None
        for slot in self.slots:
            assert arguments is not None
            found = intersection(found, self._times(slot, arguments.values[slot.parameter]))
        return found

    def _times(self, slot: _TimeSlot, value: object) -> Interval:
        is_plain = isinstance(value, Literal) and value.value is not None
        if not isinstance(value, Literal) or not is_plain or not self._is_bound(slot, value):
            raise ValueError
        start = self._micros(value) + slot.micros
        unit = DAY if pa.types.is_date32(self.type) else 1
        end = start + unit
        if start < MIN_MICROS or end > MAX_MICROS:
            raise ValueError
        if slot.function == "<":
            return Interval(MIN_MICROS, start)
        if slot.function == "<=":
            return Interval(MIN_MICROS, end)
        if slot.function == "=":
            return Interval(start, end)
        return Interval(start if slot.function == ">=" else end, MAX_MICROS)

    def _is_bound(self, slot: _TimeSlot, value: Literal) -> bool:
        if value.type == self.type:
            return True
        return value.type == pa.string() and (slot.is_cast or not slot.micros)

    def _micros(self, value: Literal) -> int:
        plain: Any = value.value
        if value.type == pa.string():
            plain = self._moment(value)
        if isinstance(plain, datetime):
            return datetime_micros(plain)
        days: int = (plain - _EPOCH).days
        return days * DAY

    def _moment(self, text: Literal) -> datetime | date:
        written = _ISO.fullmatch(str(text.value))
        if written is not None and pa.types.is_timestamp(self.type):
            if self.type != TIMESTAMP or self.zone == "UTC":
                return datetime.fromisoformat(written[0])
        elif written is not None and written[1] is None:
            return date.fromisoformat(written[0])
        found = canonical(cast_to(text, self.type, self.zone))
        if not isinstance(found, Literal) or found.value is None:
            raise ValueError
        moment: Any = found.value
        assert isinstance(moment, date)  # as a datetime is
        return moment


def _parts(tree: exp.Expression | None) -> Iterator[exp.Expression]:
    """Yield the operands of a chain of ANDs."""
    rest = [] if tree is None else [tree]
    while rest:
        part = rest.pop()
        if isinstance(part, exp.And):
            rest += (part.expression, part.this)
        elif isinstance(part, exp.Paren):
            rest.append(part.this)
        else:
            yield part


def _comparisons(part: exp.Expression) -> Iterator[tuple[str, Any, Any]]:
    """Yield the comparisons that a condition consists of; none if it is anything else."""
    if isinstance(part, exp.Between) and not part.args.get("symmetric"):
        yield ">=", part.this, part.args["low"]
        yield "<=", part.this, part.args["high"]
    elif type(part) in _BOUNDS:
        yield _BOUNDS[type(part)], part.this, part.expression


def _time_slot(function: str, column: Any, value: Any, times: TimeSlots) -> _TimeSlot | None:
    micros: int | None = 0
    if isinstance(value, exp.Add | exp.Sub) and isinstance(value.expression, exp.Interval):
        micros = _exact_micros(value, times)
        value = value.this
    is_cast = isinstance(value, exp.Cast) and not value.args.get("safe")
    if is_cast and written_type(value.to) != times.type:
        return None
    value = value.this if is_cast else value
    is_slot = isinstance(column, exp.Column) and isinstance(value, exp.Placeholder)
    if not is_slot or micros is None:
        return None
    return _TimeSlot(function, str(value.this), is_cast, micros)


def _exact_micros(sum_: exp.Add | exp.Sub, times: TimeSlots) -> int | None:
    """Return the microseconds of a length of time; None if they depend on the time."""
    is_constant = sum_.expression.find(exp.Placeholder) is None
    span = span_of(sum_.expression) if is_constant else None
    has_even_days = times.zone == "UTC" or times.type != TIMESTAMP
    if span is None or span.months or (span.days and not has_even_days):
        return None
    if not pa.types.is_timestamp(times.type):
        return None
    return span.micros if isinstance(sum_, exp.Add) else -span.micros
