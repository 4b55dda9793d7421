"""Whether a projection can answer though rows of its segment were deleted since it was built.

Its states still count these rows. What they contributed is taken back: they are folded as base
rows, by the query's keys and filter, and subtracted. That needs states of which a part can be taken
away exactly; the number of values of each, as a sum of none is null; and the number of rows of each
group, as a group of none is no group. Nothing may be evaluated on a deleted row, nor on a group
that has only such rows, that could raise an error: base rows would not raise it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Expression
from projseg.algebra.planning.find_inputs import FeedFinder
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter
from projseg.algebra.planning.match_facts import SegmentView
from projseg.algebra.planning.match_one_projection import Match
from projseg.algebra.planning.source_plan import (
    AddWeighted,
    Feed,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
    Reversal,
)
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.query.bound_query import QuerySpec


def reversal_of(query: QuerySpec, match: Match, view: SegmentView) -> Reversal | Reason:
    """Return how a projection's answer is freed of deleted rows, or why it cannot be."""
    if match.moved:
        return Reason(ReasonCode.ROWS_DELETED, f"{to_sql(match.moved[0])} is in stored states")
    fallible = _fallible(query, match, view)
    if fallible is not None:
        return _may_fail(fallible)
    primitives = list(query.primitives)
    wanted: list[Primitive | None] = []
    for primitive in query.primitives:
        if not is_reversible(primitive):
            return Reason(ReasonCode.ROWS_DELETED, primitive.text)
        wanted.append(primitive.value_count)
    rows = Primitive("count", ()) if query.keys else None
    finder = FeedFinder(match.spec, view, GroupingRewriter(match.spec, view))
    feeds = []
    for count in (*wanted, rows):
        if count is None or count in primitives:
            continue
        found = finder.find(count)
        if found is None:
            return Reason(ReasonCode.ROWS_DELETED, f"{count.text} is not stored")
        primitives.append(count)
        feeds.append(found)
    return Reversal(
        tuple(primitives),
        tuple(feeds),
        None if rows is None else primitives.index(rows),
        tuple(None if count is None else primitives.index(count) for count in wanted),
    )


def filter_may_fail() -> Reason:
    """Return the reason against a projection whose filter may raise an error on a deleted row."""
    return _may_fail("the filter")


def _may_fail(what: str) -> Reason:
    return Reason(ReasonCode.ROWS_DELETED, f"{what} may fail on a deleted row")


def is_reversible(primitive: Primitive) -> bool:
    """Whether the state of some rows can be taken out of a state exactly: not a sum of doubles."""
    is_exact = not any(pa.types.is_floating(arrow_type) for _, arrow_type in primitive.fields)
    return primitive.kind.is_reversible and is_exact


def _fallible(query: QuerySpec, match: Match, view: SegmentView) -> str | None:
    """Return what might raise an error that base rows would not raise; None if nothing might."""
    stored_keys = match.spec.column_by_expression
    for named, rewritten in zip(query.keys, match.keys, strict=True):
        is_stored = named.expression in stored_keys
        if may_fail(rewritten) or (not is_stored and may_fail(named.expression)):
            return f"grouping column {named.name}"
    if _any_may_fail([*view.conditions, match.filter]):
        return "the filter"
    for primitive, feed in zip(query.primitives, match.feeds, strict=True):
        # The segment's writer has evaluated what is stored on every row that may be asked for.
        is_stored = isinstance(feed, MergeStates) and feed.prefix == primitive.text
        own = () if is_stored else (primitive.filter,)
        proved = is_stored or view.exact.issuperset(primitive.arguments)
        if _any_may_fail([*own, *(() if proved else primitive.arguments), *_computed(feed)]):
            return primitive.text
    return None


def _any_may_fail(expressions: Iterable[Expression | None]) -> bool:
    return any(expression is not None and may_fail(expression) for expression in expressions)


def _computed(feed: Feed) -> list[Expression | None]:
    """Return what a feed evaluates on the rows of a projection."""
    if isinstance(feed, FoldSeveral):
        return [expression for part in feed.feeds for expression in _computed(part)]
    if isinstance(feed, FoldMultiple):
        return [*feed.factors, *_computed(feed.feed)]
    arguments = feed.arguments if isinstance(feed, AddWeighted) else ()
    return [getattr(feed, "filter", None), *arguments]
