"""Expressions with one value in a whole segment, which its plan takes for constants.

Such values differ from segment to segment, for example the day. A match is made for all segments in
which an expression is constant, with a place for its value; each segment's plan fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.planning.source_plan import (
    AddFunction,
    Feed,
    FoldMultiple,
    FoldSeveral,
    Known,
    MergeStates,
    SourcePlan,
)
from projseg.algebra.proofs.filter_simplify import ZoneSets

Fill = Callable[[Expression], Expression]
_Feed = TypeVar("_Feed", bound=Feed)


@dataclass(frozen=True)
class SegmentConstant(Expression):
    """The place of the value that an expression over base columns has in a segment."""

    expression: Expression

    def __str__(self) -> str:
        return f"the segment's {to_sql(self.expression)}"


def constants_of(expression: Expression, zones: ZoneSets) -> Iterator[Expression]:
    """Yield the largest parts of an expression that have one value in a segment; no nulls."""
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
    return replace(expression, arguments=arguments)


def filled_plan(plan: SourcePlan, zones: ZoneSets) -> SourcePlan:
    """Return the plan of a projection with a segment's values in their places."""

    def fill(expression: Expression) -> Expression:
        if isinstance(expression, SegmentConstant):
            value = zones.constant(expression.expression)
            assert value is not None
            return value
        if not isinstance(expression, Call):
            return expression
        return replace(expression, arguments=tuple(map(fill, expression.arguments)))

    subtracted_rows = plan.subtracted_rows
    if subtracted_rows is not None:
        feeds = tuple(_filled_feed(feed, fill) for feed in subtracted_rows.reversal.feeds)
        reversal = msgspec.structs.replace(subtracted_rows.reversal, feeds=feeds)
        subtracted_rows = msgspec.structs.replace(subtracted_rows, reversal=reversal)
    return msgspec.structs.replace(
        plan,
        keys=tuple(map(fill, plan.keys)),
        feeds=tuple(_filled_feed(feed, fill) for feed in plan.feeds),
        filter=None if plan.filter is None else fill(plan.filter),
        subtracted_rows=subtracted_rows,
    )


def is_placeholder(expression: Expression | None) -> bool:
    """Whether some part of an expression is a place for a segment's value."""
    nodes = () if expression is None else expression.walk()
    return any(isinstance(node, SegmentConstant) for node in nodes)


def expressions_of(feed: Feed) -> Iterator[Expression | None]:
    """Yield what a feed evaluates."""
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
        elif not isinstance(feed, MergeStates):
            yield from feed.arguments


def _filled_feed(feed: _Feed, fill: Fill) -> _Feed:
    if isinstance(feed, FoldSeveral):
        return msgspec.structs.replace(feed, feeds=tuple(_filled_feed(f, fill) for f in feed.feeds))
    if isinstance(feed, FoldMultiple):
        factors = tuple(map(fill, feed.factors))
        return msgspec.structs.replace(feed, feed=_filled_feed(feed.feed, fill), factors=factors)
    if isinstance(feed, Known):
        return feed
    condition = None if feed.filter is None else fill(feed.filter)
    if isinstance(feed, MergeStates):
        return msgspec.structs.replace(feed, filter=condition)
    if isinstance(feed, AddFunction):
        return msgspec.structs.replace(feed, argument=fill(feed.argument), filter=condition)
    arguments = tuple(map(fill, feed.arguments))
    return msgspec.structs.replace(feed, arguments=arguments, filter=condition)
