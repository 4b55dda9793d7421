"""Match a query with the projections that a group of segments has in common.

The result for one segment is kept for all that are alike in what matching depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.state_columns import state_column_name
from projseg.algebra.expressions.canonical import conjuncts, not_null
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, order_key
from projseg.algebra.planning.match_facts import (
    Refinement,
    SegmentView,
    SeparatedQuery,
    Steady,
    constants_of,
    expressions_of,
    inputs,
    is_placeholder,
    summands,
)
from projseg.algebra.planning.match_one_projection import (
    ColumnIndex,
    Match,
    match_projection,
    matched_conditions,
)
from projseg.algebra.planning.partial_match import (
    filter_may_fail,
    match_part,
    not_true,
    reversal_of,
)
from projseg.algebra.planning.sorted_rows import bucket_columns
from projseg.algebra.planning.source_cost import ReadShape, base_shape, read_shape
from projseg.algebra.planning.source_plan import Reversal
from projseg.algebra.planning.why_not import Reason
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.exact_values import has_exact_sum, is_steady, is_sure, ordered_parts
from projseg.algebra.proofs.filter_proofs import ZoneSets, outcomes, tested_for_null
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.bucket_order import always_refines, refines
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.memory.forks import cached_property

_SHARED_TIME: Final = 32 * DAY
_ADDED_MAX: Final = 16
"""Verdicts with separable conditions that are kept: neighbouring segments mostly share them."""


class Fitting(msgspec.Struct, frozen=True, dict=True):
    """A projection, by its position in the segment, that can answer, and what its cost depends on.

    `rank` decides at equal cost: the coarser, then fewer grouping columns, then by name. `reversal`
    frees its answer of deleted rows, where there are some and it holds groups; `needs_row_numbers`
    is as in `SourcePlan`; `rest` is for base rows outside the match's part.
    """

    index: int
    match: Match
    shape: ReadShape
    rank: tuple[int, int, str]
    reversal: Reversal | None = None
    needs_row_numbers: bool = False
    rest: ReadShape | None = None

    @cached_property
    def has_places(self) -> bool:
        """Whether values of each segment are to be filled in."""
        feeds = () if self.reversal is None else self.reversal.feeds
        fed = (each for feed in feeds for each in expressions_of(feed))
        return self.match.has_places or any(map(is_placeholder, fed))


class Verdicts(msgspec.Struct, frozen=True):
    """Which projections fit, and why the others do not."""

    fitting: tuple[Fitting, ...]
    rejected: dict[str, Reason]


class CandidateGroup:
    """One set of projections, and one query without its separable conditions.

    Each segment of the group stores `specs` in this order; the query context allows the positions
    in `allowed`; rows of each segment were deleted if `has_deleted_rows`.
    """

    def __init__(
        self,
        separated: SeparatedQuery,
        specs: Sequence[ProjectionSpec],
        allowed: frozenset[int],
        *,
        has_deleted_rows: bool = False,
    ) -> None:
        self._query = query = separated.rest
        self._separated = separated
        self._specs = tuple(specs)
        self._allowed = allowed
        self._has_deleted_rows = has_deleted_rows
        self._verdicts: dict[SegmentView, Verdicts] = {}
        self._with_added: dict[tuple[object, ...], Verdicts] = {}
        self._index = ColumnIndex(self._specs)
        own = [self._specs[index] for index in sorted(allowed)]
        predicates = [(one, tested_for_null(one)) for one in _predicates(query, own)]
        self._null_tests = [(p, one.name) for p, one in predicates if isinstance(one, Column)]
        self._predicates = [p for p, one in predicates if not isinstance(one, Column)]
        self._constant_columns = _constant_columns((*query.columns_read, *separated.columns), own)
        self._summands = summands(query) if own else ()
        self._inputs = inputs(query) if own else ()
        self._of_time = () if query.is_row_scan or not own else _expressions_of_time(separated)
        self._always, self._sometimes = _refinements(query, own)
        self._ordered = _ordered_of_time(query, own)

    def verdicts(
        self,
        facts: SegmentFacts,
        zones: ZoneSets,
        conditions: tuple[Expression, ...],
        bounds: tuple[Expression, ...],
    ) -> Verdicts:
        """Return which projections can answer on a segment, and why others cannot.

        Conditions are the part of the query's filter that is not true of every row.
        """
        apart: tuple[Expression, ...] = ()
        rest = conditions
        if conditions and (names := self._separated.names):
            apart = tuple(c for c in conditions if c.columns and c.columns <= names)
            rest = tuple(c for c in conditions if not (c.columns and c.columns <= names))
        view = self._view(facts, zones, rest)
        if view not in self._verdicts:
            self._verdicts[view] = self._work_out(view)
        if not apart and not self._separated.has_interval:
            return self._verdicts[view]
        key = (view, apart, bounds)
        found = self._with_added.get(key)
        if found is None:
            if len(self._with_added) >= _ADDED_MAX:
                self._with_added = {}
            found = self._added(self._verdicts[view], view, apart, bounds)
            self._with_added[key] = found
        return found

    def _added(
        self,
        found: Verdicts,
        view: SegmentView,
        conditions: tuple[Expression, ...],
        bounds: tuple[Expression, ...],
    ) -> Verdicts:
        """Return verdicts with separable conditions and bounds added."""
        fitting, rejected = [], dict(found.rejected)
        for one in found.fitting:
            added = matched_conditions(one.match.spec, view, conditions)
            if not isinstance(added, Reason) and one.reversal is not None:
                added = filter_may_fail() if any(map(may_fail, added)) else added
            if isinstance(added, Reason):
                rejected[one.match.spec.name] = added
            else:
                match = one.match.among(
                    added, bounds if self._separated.has_interval else None, view
                )
                rest = None if one.rest is None else one.rest.filtered(conditions)
                shape = one.shape.filtered(added)
                fitting.append(replace(one, match=match, shape=shape, rest=rest))
        return Verdicts(tuple(fitting), rejected)

    def _view(
        self, facts: SegmentFacts, zones: ZoneSets, conditions: tuple[Expression, ...]
    ) -> SegmentView:
        proved = [p for p in self._predicates if outcomes(p, zones).is_always_true]
        proved += [p for p, name in self._null_tests if facts.is_never_null(name)]
        constants = [
            (column.name, value)
            for column in self._constant_columns
            if (value := _constant(column, facts)) is not None
        ]
        found = [r for r in self._sometimes if _refines_here(r, facts, self._query.time_column)]
        return SegmentView(
            conditions=conditions,
            bounds=self._query.bounds,
            proved=frozenset(proved),
            constants=tuple(constants),
            single=frozenset(
                part for whole in self._of_time for part in constants_of(whole, zones)
            ),
            refinements=self._always.union(found) if found else self._always,
            steady=frozenset(
                (buckets, part, moment)
                for buckets, part, moment in self._ordered
                if _holds_around(is_steady, facts, moment, self._query.time_column, part, buckets)
            ),
            exact=frozenset(
                one for one in self._summands if has_exact_sum(one, zones, facts.row_count)
            ),
            sure=frozenset(one for one in self._inputs if is_sure(one, zones)),
        )

    def _work_out(self, view: SegmentView) -> Verdicts:
        candidates, rejected = self._index.narrow(self._query, view, self._allowed)
        fitting = []
        for index in candidates:
            spec = self._specs[index]
            found = match_projection(self._query, spec, view)
            answered = view
            if isinstance(found, Reason):
                rejected[spec.name] = found
                part = match_part(self._query, spec, view, found)
                if part is None:
                    continue
                found, answered = part
            is_subtracted = self._has_deleted_rows and not spec.holds_rows
            reversal = reversal_of(self._query, found, answered) if is_subtracted else None
            if isinstance(reversal, Reason):
                rejected[spec.name] = reversal
                continue
            shape = read_shape(
                found.keys,
                tuple(conjuncts(found.filter)),
                self._query.primitives,
                found.feeds,
                () if found.present is None else (state_column_name(found.present, "count"),),
                bucket_columns(spec),
            )
            needs_row_numbers = spec.holds_rows and (
                self._has_deleted_rows or self._query.is_row_scan
            )
            rest = None
            if found.part is not None:
                rest = base_shape(self._query, (*view.conditions, not_true(found.part)))
            fitting.append(
                Fitting(index, found, shape, _rank(spec), reversal, needs_row_numbers, rest)
            )
        return Verdicts(tuple(fitting), rejected)


def _rank(spec: ProjectionSpec) -> tuple[int, int, str]:
    granularity = Granularity.ALL if spec.time_grouping is None else spec.time_grouping.granularity
    return (-granularity.length_micros, len(spec.grouping), spec.name)


def _predicates(query: QuerySpec, specs: Sequence[ProjectionSpec]) -> tuple[Expression, ...]:
    """Return the conditions whose truth in a segment can decide whether a projection fits."""
    own_filters = [p.filter for p in query.primitives]
    states = [p for spec in specs for _, p in spec.states]
    stored = [p for p in states if p.kind.counts or p.filter]
    found: list[Expression] = [c for spec in specs for c in spec.filter_conjuncts]
    found += [c for condition in own_filters for c in conjuncts(condition)]
    found += [c for primitive in stored for c in conjuncts(primitive.filter)]
    columns = dict.fromkeys(
        node
        for primitive in (*query.primitives, *stored)
        for argument in primitive.arguments
        for node in argument.walk()
        if isinstance(node, Column)
    )
    found += [not_null(column) for column in columns]
    return tuple(dict.fromkeys(found))


def _constant_columns(
    columns: Sequence[Column], specs: Sequence[ProjectionSpec]
) -> tuple[Column, ...]:
    """Return the columns that some projection lacks, but could replace by a segment's one value."""
    stored_by_all = [set(spec.column_by_expression) for spec in specs]
    return tuple(
        column
        for column in columns
        if not stored_by_all or not all(column in stored for stored in stored_by_all)
    )


def _expressions_of_time(query: SeparatedQuery) -> tuple[Expression, ...]:
    """Return the expressions of times in a query that may be constant in a segment."""
    return tuple(
        expression
        for expression in dict.fromkeys((*query.rest.expressions, *query.columns))
        if any(
            isinstance(node, Column) and pa.types.is_temporal(node.type)
            for node in expression.walk()
        )
    )


def _constant(column: Column, facts: SegmentFacts) -> Literal | None:
    values = facts.columns.get(column.name)
    if values is not None and not values.is_known:
        return None
    if values is None or values.null_count >= facts.row_count:
        return Literal(column.type, None)
    is_single = values.is_exact and not values.null_count and values.minimum == values.maximum
    if not is_single or values.minimum is None or pa.types.is_floating(column.type):
        return None
    if pa.types.is_temporal(column.type):
        return None  # segments have different times, so views would be too many
    return Literal(column.type, values.minimum)


def _refinements(
    query: QuerySpec, specs: Sequence[ProjectionSpec]
) -> tuple[frozenset[Refinement], tuple[Refinement, ...]]:
    """Return the refinements that hold at all times, and those that may hold in some segments."""
    wanted = {
        (node.arguments[0], node.parameters[0])
        for expression in query.expressions
        for node in expression.walk()
        if isinstance(node, Call) and node.function == "time_floor"
    }
    pairs = {
        (floor.granularity, granularity, moment.name)
        for spec in specs
        for floor in spec.stored_floors
        for moment, granularity in wanted
        if isinstance(moment, Column)
        and moment == floor.moment
        and isinstance(granularity, Granularity)
        and granularity != floor.granularity
    }
    always = frozenset(pair for pair in pairs if always_refines(pair[0], pair[1]))
    return always, tuple(sorted(pairs - always, key=str))


def _ordered_of_time(query: QuerySpec, specs: Sequence[ProjectionSpec]) -> tuple[Steady, ...]:
    """Return expressions of the query that are monotonic in a time which a projection truncates.

    Where such an expression has one value in each bucket of a segment, it is that of its start.
    """
    floors = {
        (floor.granularity, floor.moment)
        for spec in specs
        for floor in spec.stored_floors
        if isinstance(floor.moment, Column) and pa.types.is_timestamp(floor.moment.type)
    }
    found = dict.fromkeys(
        (buckets, part, moment.name)
        for buckets, moment in floors
        if isinstance(moment, Column)
        for expression in query.expressions
        for part in ordered_parts(expression, moment)
        if isinstance(part, Call) and moment not in part.arguments
    )
    return tuple(found)


def _refines_here(refinement: Refinement, facts: SegmentFacts, time_column: str | None) -> bool:
    stored, wanted, name = refinement
    return _holds_around(refines, facts, name, time_column, stored, wanted)


def _holds_around(
    holds: Callable[..., bool],
    facts: SegmentFacts,
    name: str,
    time_column: str | None,
    *what: object,
) -> bool:
    """Whether something holds of all times of a column in a segment.

    It is tried of the enclosing 32 days first: many segments share them, so the answer is cached.
    """
    values = facts.columns.get(name)
    if values is None or values.null_count >= facts.row_count:
        return True
    low, high = facts.time_minimum_us, facts.time_maximum_us
    if name != time_column or low is None:
        low, high = _micros(values.minimum), _micros(values.maximum)
    if low is None or high is None:
        return False
    around = low // _SHARED_TIME * _SHARED_TIME, (high // _SHARED_TIME + 1) * _SHARED_TIME
    return holds(*what, *around) or holds(*what, low, high + 1)


def _micros(value: object) -> int | None:
    for arrow_type, unit in ((pa.timestamp("us"), 1), (pa.date32(), DAY)):
        if (key := order_key(value, arrow_type)) is not None:
            return int(key) * unit
    return None
