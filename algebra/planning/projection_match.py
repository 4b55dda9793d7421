"""Match a projection with a query: how it can answer, or why it cannot.

The result depends on the query, the projection and the `SegmentView` only. The interval and the
cost depend on each segment: see `interval_cover` and `segment_offers`.
"""

from __future__ import annotations

import msgspec

from projseg.algebra.expressions.predicates import conjunction
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.aggregate_feeds import FeedFinder
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter, NotStored
from projseg.algebra.planning.segment_view import SegmentView
from projseg.algebra.planning.source_plan import Feed, Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_implication import Premises
from projseg.algebra.query.spec import QuerySpec


class Match(msgspec.Struct, frozen=True):
    """How a projection answers, whatever the interval.

    Parameters
    ----------
    spec : ProjectionSpec
        The projection.
    keys : tuple of Expression
        The query's keys over grouping columns.
    feeds : tuple of Feed
        One for each of the query's primitives.
    filter : Expression or None
        The condition left to check on stored rows.
    """

    spec: ProjectionSpec
    keys: tuple[Expression, ...]
    feeds: tuple[Feed, ...]
    filter: Expression | None


def match_projection(query: QuerySpec, spec: ProjectionSpec, view: SegmentView) -> Match | Reason:
    """Return how `spec` answers a grouping query on segments like `view`, or why it cannot."""
    rewriter = GroupingRewriter(spec, view)
    keys = _rewrite_keys(query, rewriter)
    if isinstance(keys, Reason):
        return keys
    unimplied = _unimplied(query, spec, view)
    if unimplied is not None:
        return Reason(ReasonCode.FILTER_NOT_IMPLIED, to_sql(unimplied))
    conditions = _residual(spec, view, rewriter)
    if isinstance(conditions, Reason):
        return conditions
    finder = FeedFinder(spec, view, rewriter)
    feeds = []
    for primitive in query.primitives:
        feed = finder.find(primitive)
        if feed is None:
            return Reason(ReasonCode.AGGREGATOR_NOT_STORED, primitive.text)
        feeds.append(feed)
    return Match(spec, keys, tuple(feeds), conjunction(conditions))


def _rewrite_keys(query: QuerySpec, rewriter: GroupingRewriter) -> tuple[Expression, ...] | Reason:
    keys = []
    for named in query.keys:
        try:
            keys.append(rewriter.rewrite(named.expression))
        except NotStored as missing:
            is_column = isinstance(named.expression, Column)
            if missing.code != ReasonCode.MISSING_GROUPING_COLUMN or is_column:
                text = missing.column if is_column else to_sql(named.expression)
                return Reason(missing.code, text)
            return Reason(ReasonCode.MISSING_VIRTUAL_COLUMN, to_sql(named.expression))
    return tuple(keys)


def _unimplied(query: QuerySpec, spec: ProjectionSpec, view: SegmentView) -> Expression | None:
    """Return a condition of the projection that the query does not imply; None if it implies all.

    Without keys, rows that fail the FILTERs of all aggregates change nothing, so a condition that
    each of these FILTERs implies is implied too. With keys, such rows still make groups.
    """
    conditions: tuple[Expression, ...] = spec.filter_conjuncts
    for condition in conditions:
        if view.premises.imply(condition):
            continue
        filters = [primitive.filter for primitive in query.primitives]
        if query.keys or not filters:
            return condition
        for narrowing in filters:
            if narrowing is None or not Premises((*view.known, narrowing)).imply(condition):
                return condition
    return None


def _residual(
    spec: ProjectionSpec, view: SegmentView, rewriter: GroupingRewriter
) -> list[Expression] | Reason:
    """Return the part of the query's filter left to check, over grouping columns."""
    stored = Premises((*spec.filter_conjuncts, *view.proved))
    kept = []
    for condition in view.conditions:
        if stored.imply(condition):
            continue
        try:
            kept.append(rewriter.rewrite(condition))
        except NotStored as missing:
            if missing.code == ReasonCode.MISSING_GROUPING_COLUMN:
                return Reason(ReasonCode.FILTER_COLUMN_NOT_STORED, missing.column)
            return Reason(missing.code, to_sql(condition))
    return kept
