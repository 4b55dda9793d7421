"""Match a projection with a query: how it can answer, or why it cannot.

The result depends on the query, the projection and the `SegmentView` only. The interval and the
cost depend on each segment: see `partial_match` and `choose_source`. An index of projections by
column excludes most projections without examining each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from projseg.algebra.expressions.canonical import conjunction, conjuncts, not_null
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import TRUE, Column, Expression
from projseg.algebra.planning.find_inputs import FeedFinder
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter, NotStored
from projseg.algebra.planning.match_facts import SegmentView, expressions_of, is_placeholder
from projseg.algebra.planning.source_plan import Feed
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_proofs import Premises
from projseg.algebra.query.bound_query import QuerySpec
from projseg.memory.forks import cached_property


class Match(msgspec.Struct, frozen=True, dict=True):
    """How a projection answers, whatever the interval.

    Keys, or what the query's row scan reads, are over stored columns; `filter` is left to check on
    stored rows. A bound on time is over grouping columns, TRUE if every stored row fulfils it, None
    if the grouping columns do not decide it. Conditions that are `moved` are not checked on stored
    rows, but are in the FILTER of each merged state. Rows whose stored count `present` is 0 are
    left out, because no row of the answer is behind them; without it, each stored row stands for
    rows of the answer, or there are no keys. Base rows are answered for where `part` is true.
    """

    spec: ProjectionSpec
    keys: tuple[Expression, ...]
    feeds: tuple[Feed, ...]
    filter: Expression | None
    bounds: tuple[Expression | None, ...] = ()
    moved: tuple[Expression, ...] = ()
    present: str | None = None
    part: Expression | None = None

    def among(
        self,
        conditions: tuple[Expression, ...],
        bounds: tuple[Expression, ...] | None,
        view: SegmentView,
    ) -> Match:
        """Return the match with more conditions on stored rows, perhaps with bounds."""
        kept = conjunction((*conjuncts(self.filter), *conditions))
        if bounds is None:
            return replace(self, filter=kept)
        rewriter = GroupingRewriter(self.spec, view)
        stored = tuple(_stored_bound(bound, rewriter) for bound in bounds)
        return replace(self, filter=kept, bounds=stored)

    @cached_property
    def has_places(self) -> bool:
        """Whether values of each segment are to be filled in."""
        own = (*self.keys, *self.bounds, self.filter)
        fed = (each for feed in self.feeds for each in expressions_of(feed))
        return any(map(is_placeholder, (*own, *fed)))


def match_projection(query: QuerySpec, spec: ProjectionSpec, view: SegmentView) -> Match | Reason:
    """Return how `spec` answers a query on segments like `view`, or why it cannot."""
    rewriter = GroupingRewriter(spec, view)
    keys = _rewrite_keys(query, rewriter)
    if isinstance(keys, Reason):
        return keys
    unimplied = _unimplied(query, spec, view)
    if unimplied is not None:
        return Reason(ReasonCode.FILTER_NOT_IMPLIED, to_sql(unimplied))
    stored = Premises((*spec.filter_conjuncts, *view.proved))
    left = (condition for condition in view.conditions if not stored.imply(condition))
    kept, undecided = _stored_conditions(left, rewriter)
    bounds = tuple(
        TRUE if stored.imply(bound) else _stored_bound(bound, rewriter) for bound in query.bounds
    )
    match = Match(spec, keys, (), conjunction(kept), bounds)
    if undecided:
        return _with_filtered_states(query, match, view, undecided)
    feeds = _feeds(query, FeedFinder(spec, view, rewriter))
    return feeds if isinstance(feeds, Reason) else replace(match, feeds=feeds)


def _feeds(query: QuerySpec, finder: FeedFinder) -> tuple[Feed, ...] | Reason:
    feeds = []
    for primitive in query.primitives:
        feed = finder.find(primitive)
        if feed is None:
            return finder.missing(primitive)
        feeds.append(feed)
    return tuple(feeds)


def _with_filtered_states(
    query: QuerySpec, match: Match, view: SegmentView, undecided: dict[Expression, Reason]
) -> Match | Reason:
    """Answer `sum(x) WHERE p` from `sum(x) FILTER (WHERE p)`, where no grouping column decides p.

    So is `sum(x) WHERE x IS NOT NULL` answered from `sum(x)`. A stored row of which no base row
    fulfils p makes no group, which a stored count tells.
    """
    (reason, *_), moved = undecided.values(), tuple(undecided)
    spec = match.spec
    has_filters = any(primitive.filter is not None for _, primitive in spec.states)
    if not has_filters and not all(map(_says_not_null, moved)):
        return reason
    rest = view.without(moved)
    finder = FeedFinder(spec, rest, GroupingRewriter(spec, rest), moved)
    feeds = _feeds(query, finder)
    present = finder.row_count() if query.keys else None
    if isinstance(feeds, Reason) or (query.keys and present is None):
        return reason
    return replace(match, feeds=feeds, moved=moved, present=present)


def _rewrite_keys(query: QuerySpec, rewriter: GroupingRewriter) -> tuple[Expression, ...] | Reason:
    keys = []
    wanted = query.scanned or tuple(named.expression for named in query.keys)
    for expression in wanted:
        try:
            keys.append(rewriter.rewrite(expression))
        except NotStored as missing:
            is_column = isinstance(expression, Column)
            if missing.code != ReasonCode.MISSING_GROUPING_COLUMN or is_column:
                text = missing.column if is_column else to_sql(expression)
                return Reason(missing.code, text)
            return Reason(ReasonCode.MISSING_VIRTUAL_COLUMN, to_sql(expression))
    if len(query.scanned) > len(query.columns) and not isinstance(keys[-1], Column):
        return Reason(ReasonCode.MISSING_GROUPING_COLUMN, query.time_column or "")
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
            if narrowing is None or not Premises((*view.known_conditions, narrowing)).imply(
                condition
            ):
                return condition
    return None


def _stored_bound(bound: Expression, rewriter: GroupingRewriter) -> Expression | None:
    """Return a bound on time over grouping columns, None if these do not decide it."""
    try:
        return rewriter.rewrite(bound)
    except NotStored:
        return None


def matched_conditions(
    spec: ProjectionSpec, view: SegmentView, conditions: tuple[Expression, ...]
) -> tuple[Expression, ...] | Reason:
    """Return separable conditions over a projection's columns, or why these do not decide them."""
    stored, undecided = _stored_conditions(conditions, GroupingRewriter(spec, view))
    return next(iter(undecided.values())) if undecided else tuple(stored)


def _stored_conditions(
    conditions: Iterable[Expression], rewriter: GroupingRewriter
) -> tuple[list[Expression], dict[Expression, Reason]]:
    """Return the conditions rewritten over grouping columns, and why the others cannot be."""
    kept: list[Expression] = []
    undecided: dict[Expression, Reason] = {}
    for condition in conditions:
        try:
            kept.append(rewriter.rewrite(condition))
        except NotStored as missing:
            is_column = missing.code == ReasonCode.MISSING_GROUPING_COLUMN
            code = ReasonCode.FILTER_COLUMN_NOT_STORED if is_column else missing.code
            undecided[condition] = Reason(code, missing.column if is_column else to_sql(condition))
    return kept, undecided


def _says_not_null(condition: Expression) -> bool:
    negated = condition.children[0] if condition.children else condition
    return len(negated.children) == 1 and condition == not_null(negated.children[0])


class ColumnIndex:
    """For each base column, a bit for each projection whose stored columns read it, in order."""

    def __init__(self, specs: Sequence[ProjectionSpec]) -> None:
        self._specs = specs
        self._keeping: dict[str, int] = {}
        for index, spec in enumerate(specs):
            bit = 1 << index
            for column in spec.read_columns:
                self._keeping[column] = self._keeping.get(column, 0) | bit

    def narrow(
        self, query: QuerySpec, view: SegmentView, allowed: frozenset[int]
    ) -> tuple[list[int], dict[str, Reason]]:
        """Return the projections that have all columns of the query's keys, and why others fail."""
        left = sum(1 << index for index in allowed)
        rejected: dict[str, Reason] = {}
        if query.is_row_scan:
            grouped = sum(1 << index for index in allowed if not self._specs[index].holds_rows)
            left &= ~grouped
            rejected = {self._specs[i].name: Reason(ReasonCode.ROW_SCAN) for i in _bits(grouped)}
        for expression in query.scanned or [named.expression for named in query.keys]:
            for name in sorted(_needed(expression, view)):
                if name in view.constant_by_column:
                    continue
                lacking = left & ~self._keeping.get(name, 0)
                left &= ~lacking
                reason = _missing(expression, name, query.time_column)
                rejected |= {self._specs[index].name: reason for index in _bits(lacking)}
        return list(_bits(left)), rejected


def _needed(expression: Expression, view: SegmentView) -> frozenset[str]:
    """Return the columns that an expression depends on beyond what has one value."""
    if not view.single or expression.columns == frozenset():
        return expression.columns
    if expression in view.single:
        return frozenset()
    if isinstance(expression, Column):
        return expression.columns
    return frozenset[str]().union(*(_needed(child, view) for child in expression.children))


def _missing(key: Expression, column: str, time_column: str | None) -> Reason:
    is_column = isinstance(key, Column)
    code = ReasonCode.MISSING_GROUPING_COLUMN if is_column else ReasonCode.MISSING_VIRTUAL_COLUMN
    if column == time_column:
        code = ReasonCode.GRANULARITY_TOO_COARSE
    return Reason(code, column if is_column else to_sql(key))


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
