"""Plans with slots for values: a question that differs from an earlier one in values alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, Final, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.canonical import canonical, conjuncts
from projseg.algebra.expressions.coercion import is_integral
from projseg.algebra.expressions.sql_parameters import Arguments
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.planning.partial_match import covers_all_rows, data_interval, share_of
from projseg.algebra.planning.planner import Planner
from projseg.algebra.planning.shared_matching import SharedMatching
from projseg.algebra.planning.source_cost import ReadShape
from projseg.algebra.planning.source_plan import SourceChoice, SourcePlan
from projseg.algebra.proofs.filter_proofs import ZoneSets, outcomes
from projseg.algebra.proofs.predicate_truth import intersection
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.errors import ProjsegError
from projseg.reader.plan.rebound_values import TimeSlots, ValueSlot, literals_of, slots_of
from projseg.table_layer.metadata.segment_entry import SegmentEntry

SEGMENTS_MAX: Final = 1024
"""The most segments of which a template keeps facts and choices."""
_OUTCOMES_MAX: Final = 8  # of which choices are kept for each segment
_NO_ROWS: Final = SourceChoice(())
# What is computed of a query, whatever the constants of its conditions.
_ALIKE: Final = ("joins", "columns_read", "output_schema")


class _Choice(NamedTuple):
    """A choice, and for each plan the positions of the query's conditions in its filter.

    None stands for a part of the filter that has no slot. The shape is of base rows of which an
    interval leaves out some; None if the interval leaves out none.
    """

    choice: SourceChoice
    origins: tuple[tuple[int | None, ...], ...]
    shape: ReadShape | None = None


class _Segment(NamedTuple):
    """The facts about a segment that hold for any values.

    `choices` has one by whether each slot's condition is left to check, and by what the interval
    leaves out; None if a choice may depend on values. `keeps_time` says that a projection can
    answer for some of the times.
    """

    facts: SegmentFacts
    zones: ZoneSets
    data: Interval | None
    keeps_time: bool
    choices: dict[tuple[bool, ...], _Choice] | None
    ranges: dict[int, _Range | None]

    def outcome(self, index: int, condition: Expression) -> bool | None:
        """Return whether a slot's condition is true of all rows, or of none; None means of some."""
        assert isinstance(condition, Call)
        if index not in self.ranges:
            self.ranges[index] = _range(self.facts, condition.children[0])
        if (known := self.ranges[index]) is not None and len(condition.arguments) == 2:
            constant = condition.arguments[1]
            assert isinstance(constant, Literal)
            return known.outcome(condition.function, constant.value)
        found = outcomes(condition, self.zones)
        return (True if found.is_always_true else None) if found.true else False


class _Range(NamedTuple):
    """The least and the greatest value of a column in a segment, and whether it has nulls."""

    least: Any
    greatest: Any
    has_null: bool

    def outcome(self, function: str, value: Any) -> bool | None:
        """Return whether a comparison is true of all rows, or of none; None means of some."""
        least, greatest = self.least, self.greatest
        if function in ("=", "in"):
            some = least <= value <= greatest
            every = least == value == greatest
        elif function[0] == "<":
            some, every = least < value, greatest < value
            if function == "<=":
                some, every = least <= value, greatest <= value
        else:
            some, every = value < greatest, value < least
            if function == ">=":
                some, every = value <= greatest, value <= least
        if not some:
            return False
        return True if every and not self.has_null else None


def _range(facts: SegmentFacts, column: Expression) -> _Range | None:
    """Return the range of a column's values; None if it is not known, or values have no order.

    Python orders texts and whole numbers as Spark does.
    """
    assert isinstance(column, Column)
    found = facts.columns.get(column.name)
    if not (column.type == pa.string() or is_integral(column.type)) or found is None:
        return None
    if found.minimum is None or found.maximum is None or found.null_count >= facts.row_count:
        return None
    return _Range(found.minimum, found.maximum, found.null_count > 0)


class PlanTemplate:
    """A plan for queries that differ in the values of slots, which are by position of conditions.

    A slot's condition depends on a column that nothing else in the query or in a projection depends
    on (`match_facts`). So a value decides only whether its condition is true of all rows of a
    segment, of none or of some: for each outcome, one choice of a source serves all values. Of an
    interval the same is true where no projection keeps time. Several threads may use a template at
    once.
    """

    def __init__(
        self,
        query: QuerySpec,
        slots: dict[int, ValueSlot],
        times: TimeSlots | None,
        matching: SharedMatching,
    ) -> None:
        self._query = query
        self._slots = slots
        self._times = times
        self._matching = matching
        self._columns = frozenset(slot.column.name for slot in slots.values())
        self._segments: dict[str, _Segment] = {}

    @staticmethod
    def of(
        query: Query,
        bound: QuerySpec,
        interval: Interval | None,
        arguments: Arguments | None,
        matching: SharedMatching,
    ) -> PlanTemplate | None:
        """Return the template of a query; None if a value may decide more than its condition.

        The interval is the query's own, without the bounds of its filter.
        """
        slots = slots_of(query, bound, arguments)
        times = slots.times
        if slots.without_slot or (arguments is None and interval is None):
            return None
        is_timed = bound.interval is not None
        if is_timed and (times is None or not matching.has_separated_interval):
            return None
        if times is not None and times.has_others and interval is not None:
            return None
        columns = [slot.column.name for slot in slots.conditions.values()]
        others = (c for index, c in enumerate(bound.conditions) if index not in slots.conditions)
        taken = frozenset[str]().union(*(condition.columns for condition in others))
        is_apart = len(set(columns)) == len(columns) and taken.isdisjoint(columns)
        if not is_apart or not matching.separated_names.issuperset(columns):
            return None
        found = PlanTemplate(bound, slots.conditions, times, matching)
        return found if found.filled(interval, arguments) == bound else None

    def filled(self, interval: Interval | None, arguments: Arguments | None) -> QuerySpec | None:
        """Return the query with other values; None if a condition takes another form by them."""
        conditions = list(self._query.conditions)
        for index, (column, function, parameter) in self._slots.items():
            assert arguments is not None
            made = _compared(column, function, literals_of(arguments.values[parameter]))
            if made is None:
                return None
            conditions[index] = made
        times = self._times
        if times is None or times.has_others:
            within = self._query.interval
        else:
            try:
                within = intersection(interval, times.interval(arguments))
            except (ProjsegError, ValueError):
                return None
        found = self._query.among(_all_of(conditions), within)
        found.__dict__["conditions"] = tuple(conditions)
        for name in _ALIKE:
            found.__dict__[name] = getattr(self._query, name)
        return found

    def chooser(
        self, query: QuerySpec, facts_of: Callable[[SegmentEntry], SegmentFacts]
    ) -> Callable[[SegmentEntry], SourceChoice]:
        """Return a function that chooses sources for one query as `Planner.choose` does."""
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
        keeps_time = any(self._query.time_column in one.columns for one in grouping)
        zones = ZoneSets(facts)
        choices: dict[tuple[bool, ...], _Choice] | None = None if varies else {}
        return _Segment(facts, zones, data_interval(facts), keeps_time, choices, {})

    def _choice(self, query: QuerySpec, planner: Planner, segment: _Segment) -> SourceChoice:
        if query.interval is not None and not _overlaps(query.interval, segment):
            return _NO_ROWS
        cut = _is_cut(query, segment)
        if segment.choices is None or (cut and segment.keeps_time):
            return planner.choose(segment.facts)
        is_left = []
        for index in self._slots:
            found = segment.outcome(index, query.conditions[index])
            if found is False:
                return _NO_ROWS
            is_left.append(found is None)
        key = (cut, *_sides(query.interval), *is_left)
        if (known := segment.choices.get(key)) is not None:
            return _with_values(known, query, segment)
        choice = planner.choose(segment.facts)
        origins = _origins(choice, query, list(compress(self._slots, is_left)))
        shape = planner.shape_of_rows(segment.facts) if cut else None
        if cut and [plan.source for plan in choice.plans] != [None]:
            return choice
        if origins is not None and len(segment.choices) < _OUTCOMES_MAX:
            segment.choices[key] = _Choice(choice, origins, shape)
        return choice


def _compared(column: Column, function: str, literals: tuple[Literal, ...]) -> Call | None:
    """Return a condition in canonical form; None if it has another form with these constants."""
    if literals[0].type != column.type:
        most = 1 << (column.type.bit_width - 1)  # both are whole numbers
        if not all(-most <= one.value < most for one in literals):
            return None
        literals = tuple(Literal(column.type, one.value) for one in literals)
    made = Call(pa.bool_(), function, (column, *literals))
    if function != "in":
        return made  # constants of the column's own type are compared as they are
    found = canonical(made)
    return found if isinstance(found, Call) and found.function == function else None


def _overlaps(interval: Interval, segment: _Segment) -> bool:
    return segment.data is not None and interval.overlaps(segment.data)


def _sides(interval: Interval | None) -> tuple[bool, bool]:
    """Return which ends an interval has."""
    if interval is None:
        return False, False
    return interval.start_us > MIN_MICROS, interval.end_us < MAX_MICROS


def _is_cut(query: QuerySpec, segment: _Segment) -> bool:
    """Whether the interval of a query leaves out a row of a segment."""
    if query.interval is None:
        return False
    time = segment.facts.columns.get(query.time_column or "")
    has_null_time = time is not None and time.null_count > 0
    return not covers_all_rows(query.interval, segment.data, has_null_time=has_null_time)


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


def _with_values(known: _Choice, query: QuerySpec, segment: _Segment) -> SourceChoice:
    each = zip(known.choice.plans, known.origins, strict=True)
    plans = tuple(_filled(*one, query) for one in each)
    if known.shape is not None and query.interval is not None and segment.data is not None:
        facts, share = segment.facts, share_of(query.interval, segment.data)
        sizes = facts.column_bytes
        cost = known.shape.cost(facts.row_count, sizes, sum(sizes.values()), share)
        count = round(facts.row_count * share)
        plans = (replace(plans[0], interval=query.interval, row_count=count, cost=cost),)
    return replace(known.choice, plans=plans)


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


def _all_of(conditions: list[Expression]) -> Expression | None:
    """Return the AND of canonical conditions over different columns; None for none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Call(pa.bool_(), "and", tuple(conditions))
