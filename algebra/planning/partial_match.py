"""Match a projection with some of a query's rows; base rows answer for the others.

The part is an interval of whole buckets, or a condition that the projection's filter or its buckets
of time ask for: `k = 'a'` of a query of every k, whole hours of alternatives that begin or end
within one. Each row is answered for once: by the projection where the condition is true, by base
rows where it is false or null.

The part may also be all but deleted rows. A projection's states still count rows that were deleted
since it was built. What they contributed is subtracted: they are folded as base rows, by the
query's keys and filter, and subtracted. That needs states of which a part can be taken away
exactly; the number of values of each, as a sum of none is null; and the number of rows of each
group, as a group of none is no group. Nothing may be evaluated on a deleted row, nor on a group
that has only such rows, that could raise an error: base rows would not raise it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.canonical import canonical, conjunction
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import TRUE, Call, Expression
from projseg.algebra.planning.find_inputs import FeedFinder
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter, NotStored
from projseg.algebra.planning.match_facts import SegmentView
from projseg.algebra.planning.match_one_projection import Match, match_projection
from projseg.algebra.planning.source_plan import (
    AddWeighted,
    Feed,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
    Reversal,
)
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec, StoredFloor, TimeGrouping
from projseg.algebra.proofs.predicate_truth import cut_micros, interval_conditions, truth_of
from projseg.algebra.proofs.segment_facts import SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.algebra.time.zoned_buckets import Granularity

_OF_FILTERS: Final = (
    ReasonCode.FILTER_NOT_IMPLIED,
    ReasonCode.FILTER_COLUMN_NOT_STORED,
    ReasonCode.GRANULARITY_TOO_COARSE,
    ReasonCode.TIME_ZONE,
)


def match_part(
    query: QuerySpec, spec: ProjectionSpec, view: SegmentView, reason: Reason
) -> tuple[Match, SegmentView] | None:
    """Return how a projection answers for a part of a query's rows, and the view of that part."""
    is_barred = query.is_row_scan or spec.holds_rows or query.context.force_projections
    if is_barred or reason.code not in _OF_FILTERS:
        return None
    missing = tuple(c for c in spec.filter_conjuncts if not view.premises.imply(c))
    rewriter = GroupingRewriter(spec, view)
    kept = tuple(_implying(c, rewriter, spec.stored_floors) or c for c in view.conditions)
    narrowed = tuple(k for k, c in zip(kept, view.conditions, strict=True) if k is not c)
    part = conjunction((*missing, *narrowed))
    inner = replace(view, conditions=tuple(dict.fromkeys((*kept, *missing))))
    if part is None or inner.premises.is_contradiction:
        return None
    match = match_projection(query, spec, inner)
    return None if isinstance(match, Reason) else (replace(match, part=part), inner)


def not_true(condition: Expression) -> Expression:
    """Return the condition that another is false or null."""
    return canonical(Call(pa.bool_(), "not", (Call(pa.bool_(), "<=>", (condition, TRUE)),)))


def _implying(
    condition: Expression, rewriter: GroupingRewriter, floors: Sequence[StoredFloor]
) -> Expression | None:
    """Return a condition that grouping columns decide, and that implies another; None if none."""
    try:
        rewriter.rewrite(condition)
    except NotStored:
        pass
    else:
        return condition
    for floor in floors:
        found = _in_whole_buckets(condition, floor)
        if found is not None:
            return found
    if not isinstance(condition, Call) or condition.function not in ("and", "or"):
        return None
    parts = [_implying(argument, rewriter, floors) for argument in condition.arguments]
    kept = tuple(part for part in parts if part is not None)
    if not kept or (condition.function == "and" and len(kept) < len(parts)):
        return None
    return canonical(Call(condition.type, condition.function, kept))


def _in_whole_buckets(condition: Expression, floor: StoredFloor) -> Expression | None:
    """Return that a time lies in one of the buckets all of whose times fulfil a condition."""
    truth = truth_of(condition)
    if truth is None or truth.term != floor.moment or not pa.types.is_timestamp(truth.term.type):
        return None
    cuts = [cut_micros(cut, truth.term.type) for cut in truth.true.cuts]
    ranges = (
        _whole_buckets(floor.granularity, *ends) for ends in zip(cuts[::2], cuts[1::2], strict=True)
    )
    found = [conjunction(interval_conditions(r, truth.term)) for r in ranges if r is not None]
    parts = tuple(part for part in found if part is not None)
    return canonical(Call(pa.bool_(), "or", parts)) if len(parts) > 1 else next(iter(parts), None)


def _whole_buckets(buckets: Granularity, start: int, end: int) -> Interval | None:
    if start > MIN_MICROS and not buckets.is_boundary(start):
        start = buckets.next_boundary(start)
    if end < MAX_MICROS:
        end = buckets.floor_one(end)
    return Interval(start, end) if start < end else None


class Cover(msgspec.Struct, frozen=True):
    """The part of an interval that a projection answers, None for all its rows, and other parts.

    Edges are disjoint, and cut to the times of the segment. `bounds` is the interval as conditions
    on grouping columns other than the buckets, if these select the projection's rows; none of them
    if all its rows lie in the interval.
    """

    buckets: Interval | None
    edges: tuple[Interval, ...] = ()
    bounds: tuple[Expression, ...] | None = None

    def share(self, data: Interval) -> float:
        """Return the share of the data's time that the buckets cover, 0 to 1."""
        return 1.0 if self.buckets is None else share_of(self.buckets, data)


def share_of(part: Interval, data: Interval) -> float:
    """Return the share of `data` that lies in `part`, 0 to 1."""
    low, high = max(part.start_us, data.start_us), min(part.end_us, data.end_us)
    return max(high - low, 0) / max(data.end_us - data.start_us, 1)


def data_interval(facts: SegmentFacts) -> Interval | None:
    """Return the smallest interval that holds every time of a segment, None if it has none."""
    if facts.time_minimum_us is None or facts.time_maximum_us is None:
        return None
    return Interval(facts.time_minimum_us, facts.time_maximum_us + 1)


def covers_all_rows(
    interval: Interval | None, data: Interval | None, *, has_null_time: bool
) -> bool:
    """Whether an interval includes all rows of a segment."""
    if interval is None:
        return True
    return data is not None and interval.contains(data) and not has_null_time


def cover_by_bounds(
    bounds: tuple[Expression | None, ...],
    is_fulfilled: tuple[bool, ...],
    *,
    has_null_time: bool,
) -> Cover | None:
    """Return the cover that selects rows by conditions on grouping columns; None if there is none.

    Every time in the segment fulfils the bounds in `is_fulfilled`; if the time of some row is null,
    a bound is needed to leave it out.
    """
    pairs = zip(bounds, is_fulfilled, strict=True)
    needed = [bound for bound, is_known in pairs if has_null_time or not is_known]
    left = tuple(bound for bound in needed if bound is not None and bound != TRUE)
    if not bounds or None in needed:
        return None
    return Cover(None, bounds=left)


def cover(
    time: TimeGrouping | None,
    interval: Interval | None,
    data: Interval | None,
    *,
    has_null_time: bool,
) -> Cover | Reason:
    """Return how a projection's buckets cover an interval, which overlaps `data`, or why none does.

    The first bucket starts before the smallest time of the data. So if the interval includes the
    smallest time, buckets are taken from the start of its bucket; likewise at the largest time. No
    interval includes a row of null time.
    """
    if covers_all_rows(interval, data, has_null_time=has_null_time):
        return Cover(None)
    if time is None or interval is None or data is None:
        return Reason(ReasonCode.UNALIGNED_INTERVAL, "the projection keeps no time")
    buckets = time.granularity
    start, end = interval.start_us, interval.end_us
    if start <= data.start_us:
        first = low = buckets.floor_one(data.start_us)
    else:
        first = low = start if buckets.is_boundary(start) else buckets.next_boundary(start)
    if end >= data.end_us:
        last = high = data.end_us
    else:
        last = high = buckets.floor_one(end)
    if low >= high:
        return Reason(ReasonCode.UNALIGNED_INTERVAL, f"{interval} holds no whole {buckets}")
    edges = (Interval(start, max(first, start)), Interval(min(last, end), end))
    found = (edge.intersect(data) for edge in edges)
    return Cover(Interval(low, high), tuple(edge for edge in found if edge is not None))


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
    """Return an expression that may raise an error which base rows would not raise, or None."""
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
    """Return the expressions that a feed evaluates on the rows of a projection."""
    if isinstance(feed, FoldSeveral):
        return [expression for part in feed.feeds for expression in _computed(part)]
    if isinstance(feed, FoldMultiple):
        return [*feed.factors, *_computed(feed.feed)]
    arguments = feed.arguments if isinstance(feed, AddWeighted) else ()
    return [getattr(feed, "filter", None), *arguments]
