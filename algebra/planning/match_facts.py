"""The facts about a query and one segment on which matching depends.

Matching gives the same result for segments with equal views, so it runs once for each view.

A condition is separable if nothing else depends on its columns: no aggregate, no other condition
and no FILTER or filter of a projection. Then it proves nothing about the rest of the query, and
whether a projection can check it depends on its own columns. So projections are matched without it,
once for all queries that differ in the constants of such conditions, and it is added afterwards.

An expression with one value in a whole segment is a constant of its plan, for example the day. A
match is made for all segments in which it is constant, with a placeholder for its value; each
segment's plan fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import values_by_branch
from projseg.algebra.expressions.canonical import conjunction
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.planning.source_plan import (
    AddFunction,
    AddPresence,
    Feed,
    FoldMultiple,
    FoldSeveral,
    Known,
    MergeStates,
    SourcePlan,
)
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_proofs import Premises, ZoneSets
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.memory.forks import cached_property

Refinement = tuple[Granularity, Granularity, str]
"""(stored granularity, granularity asked for, the column of both)."""
Steady = tuple[Granularity, Expression, str]
"""(stored granularity, an expression of a time, the column of both)."""

_Feed = TypeVar("_Feed", bound=Feed)


class SegmentView(msgspec.Struct, frozen=True, dict=True):
    """A query as one segment sees it: conjuncts of its filter that are not true of every row there.

    `bounds` are the interval's conditions on the time column, `proved` conditions that are true of
    every row. `constants` are columns with one value in the segment, null for a column that it
    lacks; `single` are expressions of a time with one value, whichever that is. In a pair of
    `refinements`, each stored bucket is in one bucket of the query at all times in the segment; by
    `steady`, an expression has one value in each stored bucket, that at its start.
    `exact` are arguments of sums, and branches of them, whose sums `has_exact_sum` proves; `sure`
    are those of counts and extremes that raise for no row.
    """

    conditions: tuple[Expression, ...]
    bounds: tuple[Expression, ...] = ()
    proved: frozenset[Expression] = frozenset()
    constants: tuple[tuple[str, Literal], ...] = ()
    single: frozenset[Expression] = frozenset()
    refinements: frozenset[Refinement] = frozenset()
    steady: frozenset[Steady] = frozenset()
    exact: frozenset[Expression] = frozenset()
    sure: frozenset[Expression] = frozenset()

    def without(self, conditions: Iterable[Expression]) -> SegmentView:
        """Return the view of a query that lacks some of the conditions."""
        dropped = set(conditions)
        return replace(self, conditions=tuple(c for c in self.conditions if c not in dropped))

    @cached_property
    def constant_by_column(self) -> Mapping[str, Literal]:
        """The value of each column that has only one."""
        return dict(self.constants)

    @cached_property
    def known_conditions(self) -> tuple[Expression, ...]:
        """All conditions that are true of every row of the answer."""
        return (*self.conditions, *self.bounds, *sorted(self.proved, key=repr))

    @cached_property
    def premises(self) -> Premises:
        """The known conditions, from which other conditions are proved."""
        return Premises(self.known_conditions)

    def refines(self, stored: Granularity, wanted: Granularity, column: str) -> bool:
        """Whether stored buckets of a column can be grouped again into the buckets asked for."""
        return stored == wanted or (stored, wanted, column) in self.refinements


def summands(query: QuerySpec) -> tuple[Expression, ...]:
    """Return the arguments of sums, and their branches."""
    sums = (p.arguments[0] for p in query.primitives if p.kind.sums)
    values = (value for argument in sums for value in values_by_branch(argument))
    return tuple(dict.fromkeys(value for value in values if isinstance(value, Call)))


def inputs(query: QuerySpec) -> tuple[Expression, ...]:
    """Return the arguments of counts and extremes."""
    counted = (p for p in query.primitives if p.kind.counts or p.kind.extreme)
    found = (one for p in counted for argument in p.arguments for one in values_by_branch(argument))
    return tuple(dict.fromkeys(one for one in found if isinstance(one, Call)))


class SeparatedQuery(msgspec.Struct, frozen=True, dict=True):
    """A query without its separable conditions; queries with equal ones are matched alike.

    `columns` are those of the conditions, by name; `has_interval` says that an interval is among
    them.
    """

    rest: QuerySpec
    columns: tuple[Column, ...] = ()
    has_interval: bool = False

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of their columns."""
        return frozenset(column.name for column in self.columns)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was separated."""
        return not self.columns and not self.has_interval


def separated(query: QuerySpec, decided: frozenset[str]) -> SeparatedQuery:
    """Return a query without its separable conditions."""
    taken = decided.union(
        *(argument.columns for p in query.primitives for argument in p.arguments),
        *(p.filter.columns for p in query.primitives if p.filter is not None),
    )
    apart: list[Expression] = []
    rest: list[Expression] = []
    for condition in query.conditions:
        (apart if _is_separable(condition) else rest).append(condition)
    while True:
        taken = taken.union(*(condition.columns for condition in rest))
        rest = [condition for condition in apart if not condition.columns.isdisjoint(taken)]
        if not rest:
            break
        apart = [condition for condition in apart if condition.columns.isdisjoint(taken)]
    has_interval = query.interval is not None and query.time_column not in taken
    if not apart and not has_interval:
        return SeparatedQuery(query)
    left_out = set(map(id, apart))  # thousands of conditions take seconds to compare
    kept = conjunction(c for c in query.conditions if id(c) not in left_out)
    interval = None if has_interval else query.interval
    rows = query.among(kept if apart else query.filter, interval)
    return SeparatedQuery(rows, _columns(apart), has_interval)


def decided_columns(spec: ProjectionSpec) -> frozenset[str]:
    """Return the base columns that a projection's filter and aggregators read."""
    conditions = (*spec.filter_conjuncts, *(p.filter for p in spec.primitives))
    trees = (*conditions, *(tree for p in spec.primitives for tree in p.arguments))
    return frozenset[str]().union(*(tree.columns for tree in trees if tree is not None))


def _is_separable(condition: Expression) -> bool:
    """Whether a condition cannot fail, and depends on columns in a way that matching need not know.

    Of functions of a time a segment may know the value, or a projection the floor.
    """
    if not condition.columns or may_fail(condition):
        return False
    of_time = any(pa.types.is_temporal(column.type) for column in _columns([condition]))
    return not of_time or (
        isinstance(condition, Call)
        and all(isinstance(one, Column | Literal) for one in condition.arguments)
    )


def _columns(conditions: Iterable[Expression]) -> tuple[Column, ...]:
    nodes = (node for condition in conditions for node in condition.walk())
    found = {node.name: node for node in nodes if isinstance(node, Column)}
    return tuple(found[name] for name in sorted(found))


@dataclass(frozen=True)
class SegmentConstant(Expression):
    """The place of the value that an expression over base columns has in a segment."""

    expression: Expression

    def __str__(self) -> str:
        return f"the segment's {to_sql(self.expression)}"


def constants_of(expression: Expression, zones: ZoneSets) -> Iterator[Expression]:
    """Yield the largest parts of an expression that have one value, not null, in a segment."""
    if isinstance(expression, Literal):
        return
    found = zones.constant(expression)
    if found is not None and found.value is not None:
        yield expression
        return
    for child in expression.children:
        yield from constants_of(child, zones)


def with_constants(expression: Expression, zones: ZoneSets) -> Expression:
    """Return an expression with values for the largest parts that have one in a segment."""
    if isinstance(expression, Literal):
        return expression
    found = zones.constant(expression)
    if found is not None:
        return found
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(with_constants(argument, zones) for argument in expression.arguments)
    return replace_fields(expression, arguments=arguments)


def filled_plan(plan: SourcePlan, zones: ZoneSets) -> SourcePlan:
    """Return the plan of a projection with a segment's values in their places."""

    def fill(expression: Expression) -> Expression:
        if isinstance(expression, SegmentConstant):
            value = zones.constant(expression.expression)
            assert value is not None
            return value
        if not isinstance(expression, Call):
            return expression
        return replace_fields(expression, arguments=tuple(map(fill, expression.arguments)))

    subtracted_rows = plan.subtracted_rows
    if subtracted_rows is not None:
        feeds = tuple(_filled_feed(feed, fill) for feed in subtracted_rows.reversal.feeds)
        reversal = replace(subtracted_rows.reversal, feeds=feeds)
        subtracted_rows = replace(subtracted_rows, reversal=reversal)
    return replace(
        plan,
        keys=tuple(map(fill, plan.keys)),
        feeds=tuple(_filled_feed(feed, fill) for feed in plan.feeds),
        filter=None if plan.filter is None else fill(plan.filter),
        subtracted_rows=subtracted_rows,
    )


def _filled_feed(feed: _Feed, fill: Callable[[Expression], Expression]) -> _Feed:
    if isinstance(feed, FoldSeveral):
        return replace(feed, feeds=tuple(_filled_feed(f, fill) for f in feed.feeds))
    if isinstance(feed, FoldMultiple):
        factors = tuple(map(fill, feed.factors))
        return replace(feed, feed=_filled_feed(feed.feed, fill), factors=factors)
    if isinstance(feed, Known):
        return feed
    condition = None if feed.filter is None else fill(feed.filter)
    if isinstance(feed, MergeStates | AddPresence):
        return replace(feed, filter=condition)
    if isinstance(feed, AddFunction):
        return replace(feed, argument=fill(feed.argument), filter=condition)
    arguments = tuple(map(fill, feed.arguments))
    return replace(feed, arguments=arguments, filter=condition)


def is_placeholder(expression: Expression | None) -> bool:
    """Whether some part of an expression is a place for a segment's value."""
    nodes = () if expression is None else expression.walk()
    return any(isinstance(node, SegmentConstant) for node in nodes)


def expressions_of(feed: Feed) -> Iterator[Expression | None]:
    """Yield the expressions that a feed evaluates."""
    if isinstance(feed, FoldSeveral):
        for part in feed.feeds:
            yield from expressions_of(part)
    elif isinstance(feed, FoldMultiple):
        yield from feed.factors
        yield from expressions_of(feed.feed)
    elif not isinstance(feed, Known):
        yield feed.filter
        if isinstance(feed, AddFunction):
            yield feed.argument
        elif not isinstance(feed, MergeStates | AddPresence):
            yield from feed.arguments
