"""Plans with slots for values: a question that differs from an earlier one in values alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import compress
from typing import Any, Final, NamedTuple

import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from projseg.algebra.expressions.canonical import canonical, conjuncts
from projseg.algebra.expressions.coercion import is_integral
from projseg.algebra.expressions.parameters.argument_values import ArgumentValue
from projseg.algebra.expressions.parameters.arguments import Argument, Arguments
from projseg.algebra.expressions.parameters.sql_parameters import parameter_names
from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.planning.planner import Planner
from projseg.algebra.planning.shared_matching import SharedMatching
from projseg.algebra.planning.source_plan import SourceChoice, SourcePlan
from projseg.algebra.proofs.filter_simplify import ZoneSets, outcomes
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query, output_texts
from projseg.table_layer.metadata.segment_entry import SegmentEntry

_COMPARISONS: Final = frozenset(("=", "<", "<=", ">", ">="))
_COMPARING: Final = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In)
SEGMENTS_MAX: Final = 1024
"""The most segments of which a template keeps facts and choices."""
_OUTCOMES_MAX: Final = 8  # of which choices are kept for each segment
_NO_ROWS: Final = SourceChoice(())

ValueKinds = tuple[tuple[str, Hashable], ...]


class _Slot(NamedTuple):
    """A condition that compares a column with the value, or the values, of one parameter."""

    column: Column
    function: str
    parameter: str


class _Choice(NamedTuple):
    """A choice, and for each plan the positions of the query's conditions in its filter.

    None stands for a part of the filter that has no slot.
    """

    choice: SourceChoice
    origins: tuple[tuple[int | None, ...], ...]


class _Segment(NamedTuple):
    """What is known of a segment whatever the values.

    Parameters
    ----------
    facts, zones
        As of the planner.
    choices : dict of tuple of bool to _Choice, or None
        By whether each slot's condition is left to check; None: a choice may depend on values.
    """

    facts: SegmentFacts
    zones: ZoneSets
    choices: dict[tuple[bool, ...], _Choice] | None


def kinds_of_values(arguments: Arguments) -> ValueKinds | None:
    """Return what templates need to know of values beside a query's text; None: there is none.

    Texts and whole numbers compare with a column of their type in one way, whatever the value.
    """
    found: list[tuple[str, Hashable]] = []
    for name, value in arguments.values.items():
        literals = _literals(value)
        if not literals:
            return None
        first = literals[0].type
        if not (first == pa.string() or is_integral(first)):
            return None
        if any(one.value is None or one.type != first for one in literals):
            return None
        found.append((name, (first, isinstance(value, tuple))))
    return tuple(found)


def _literals(value: ArgumentValue) -> tuple[Literal, ...]:
    """Return the constants that a parameter stands for; none for a length of time."""
    if isinstance(value, tuple):
        return value
    return (value,) if isinstance(value, Literal) else ()


class PlanTemplate:
    """What planning found for queries that differ in the values of slots.

    A slot's condition depends on a column that nothing else in the query or in a projection
    depends on (`separable_conditions`). So a value decides only whether its condition is true of
    all rows of a segment, of none or of some: for each outcome, one choice of a source serves all
    values. Several threads may use a template at once.

    Parameters
    ----------
    query : QuerySpec
        The first of the queries.
    slots : dict of int to _Slot
        By the position of their conditions.
    matching : SharedMatching
        The matching of all of them.
    """

    def __init__(self, query: QuerySpec, slots: dict[int, _Slot], matching: SharedMatching) -> None:
        self._query = query
        self._slots = slots
        self._matching = matching
        self._columns = frozenset(slot.column.name for slot in slots.values())
        self._segments: dict[str, _Segment] = {}

    @staticmethod
    def of(
        query: Query, bound: QuerySpec, arguments: Arguments, matching: SharedMatching
    ) -> PlanTemplate | None:
        """Return the template of a query; None if a value may decide more than its condition.

        Parameters
        ----------
        query, bound
            The query, whose parameters all have names, and what it is over the table's columns.
        arguments : Arguments
            Its values, all of `kinds_of_values`.
        matching : SharedMatching
            What it shares with queries of other values.
        """
        if any(map(parameter_names, output_texts(query))) or not _is_plain_text(query.filter):
            return None
        slots = {
            index: slot
            for index, condition in enumerate(bound.conditions)
            if (slot := _slot(condition, arguments)) is not None
        }
        columns = [slot.column.name for slot in slots.values()]
        if {slot.parameter for slot in slots.values()} != arguments.values.keys():
            return None
        others = (c for index, c in enumerate(bound.conditions) if index not in slots)
        taken = frozenset[str]().union(*(condition.columns for condition in others))
        is_apart = len(set(columns)) == len(columns) and taken.isdisjoint(columns)
        if not is_apart or not matching.separated_names.issuperset(columns):
            return None
        return PlanTemplate(bound, slots, matching)

    def filled(self, arguments: Arguments) -> QuerySpec | None:
        """Return the query with other values; None if a condition takes another form by them."""
        conditions = list(self._query.conditions)
        for index, (column, function, parameter) in self._slots.items():
            literals = _literals(arguments.values[parameter])
            if literals[0].type != column.type:
                literals = tuple(Literal(column.type, one.value) for one in literals)
            made = canonical(Call(pa.bool_(), function, (column, *literals)))
            if not isinstance(made, Call) or made.function != function:
                return None
            conditions[index] = made
        return self._query.among(_all_of(conditions), self._query.interval)

    def chooser(
        self, query: QuerySpec, facts_of: Callable[[SegmentEntry], SegmentFacts]
    ) -> Callable[[SegmentEntry], SourceChoice]:
        """Return what chooses for one of the queries as `Planner.choose` does.

        Parameters
        ----------
        query : QuerySpec
            The query.
        facts_of : callable
            What tells the facts of a segment.
        """
        planner = Planner(query, matching=self._matching)

        def choose(entry: SegmentEntry) -> SourceChoice:
            segment = self._segments.get(entry.file)
            if segment is None:
                segment = self._segment(facts_of(entry))
                if len(self._segments) < SEGMENTS_MAX:
                    self._segments[entry.file] = segment
            return self._choice(query, planner, segment)

        return choose

    def _segment(self, facts: SegmentFacts) -> _Segment:
        specs = [stored.spec for stored in facts.projections]
        grouping = [named.expression for spec in specs for named in spec.grouping]
        computed = (one.columns for one in grouping if not isinstance(one, Column))
        # Costs of rows in an order, and matches with stored expressions, depend on values.
        varies = any(spec.holds_rows for spec in specs) or not all(
            map(self._columns.isdisjoint, computed)
        )
        return _Segment(facts, ZoneSets(facts), None if varies else {})

    def _choice(self, query: QuerySpec, planner: Planner, segment: _Segment) -> SourceChoice:
        if segment.choices is None:
            return planner.choose(segment.facts)
        is_left = []
        for index in self._slots:
            found = outcomes(query.conditions[index], segment.zones)
            if not found.true:
                return _NO_ROWS
            is_left.append(not found.is_always_true)
        key = tuple(is_left)
        if (known := segment.choices.get(key)) is not None:
            return _with_values(known, query)
        choice = planner.choose(segment.facts)
        origins = _origins(choice, query, list(compress(self._slots, key)))
        if origins is not None and len(segment.choices) < _OUTCOMES_MAX:
            segment.choices[key] = _Choice(choice, origins)
        return choice


def _is_plain_text(text: str | None) -> bool:
    """Whether each parameter is once compared with a column that nothing else mentions.

    Only the text tells: binding may drop a comparison that the present values decide.
    """
    if text is None:
        return False
    tree = parse_sql(text)
    columns = [column.name.casefold() for column in tree.find_all(exp.Column)]
    names = []
    for parameter in tree.find_all(exp.Placeholder):
        comparison: Any = parameter.parent
        if type(comparison) not in _COMPARING:
            return False
        sides = [side for side in comparison.iter_expressions() if side is not parameter]
        is_with_column = len(sides) == 1 and isinstance(sides[0], exp.Column)
        if not is_with_column or columns.count(sides[0].name.casefold()) > 1:
            return False
        outer: Any = comparison
        while outer is not tree:
            outer = outer.parent
            if not isinstance(outer, exp.And | exp.Paren):
                return False
        names.append(parameter.name)
    return len(set(names)) == len(names)


def _slot(condition: Expression, arguments: Arguments) -> _Slot | None:
    """Return the slot that a condition is; None of one that is more than a comparison."""
    column, *constants = condition.children or (condition,)
    if not isinstance(condition, Call) or not isinstance(column, Column):
        return None
    name = None
    if condition.function == "in":
        name = _name_of_list(constants, arguments)
    elif condition.function in _COMPARISONS and isinstance(constants[0], Argument):
        name = constants[0].parameter if _is_plain(column.type, constants[0], arguments) else None
    return None if name is None else _Slot(column, condition.function, name)


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


def _origins(
    choice: SourceChoice, query: QuerySpec, left: list[int]
) -> tuple[tuple[int | None, ...], ...] | None:
    """Return the origins of a choice's conditions; None if a plan has slots elsewhere."""
    found = []
    for plan in choice.plans:
        if plan.subtracted_rows is not None:
            return None
        parts = conjuncts(plan.filter)
        origins = tuple(_origin(part, query, left) for part in parts)
        if sorted(one for one in origins if one is not None) != left:
            return None
        found.append(origins)
    return tuple(found)


def _origin(part: Expression, query: QuerySpec, left: list[int]) -> int | None:
    if not isinstance(part, Call) or len(part.arguments) < 2:
        return None
    for index in left:
        condition = query.conditions[index]
        # Constants are the same objects wherever a condition is rewritten to.
        is_same = part.arguments[1] is condition.children[1]
        if is_same and isinstance(part.arguments[0], Column):
            return index
    return None


def _with_values(known: _Choice, query: QuerySpec) -> SourceChoice:
    each = zip(known.choice.plans, known.origins, strict=True)
    return replace(known.choice, plans=tuple(_filled(*one, query) for one in each))


def _filled(plan: SourcePlan, origins: tuple[int | None, ...], query: QuerySpec) -> SourcePlan:
    if all(one is None for one in origins):
        return plan
    parts: list[Expression] = []
    for part, origin in zip(conjuncts(plan.filter), origins, strict=True):
        if origin is None:
            parts.append(part)
        else:
            condition = query.conditions[origin]
            assert isinstance(condition, Call)
            arguments = (part.children[0], *condition.arguments[1:])
            parts.append(Call(condition.type, condition.function, arguments))
    return replace(plan, filter=_all_of(parts))


def _all_of(conditions: list[Expression]) -> Expression:
    """Return the AND of canonical conditions over different columns."""
    only = conditions[0]
    return only if len(conditions) == 1 else Call(pa.bool_(), "and", tuple(conditions))
