"""Match a projection with a part of a query's rows; base rows answer for the others.

The part is a condition that the projection's filter or its buckets of time ask for: `k = 'a'` of a
query of every k, whole hours of alternatives that begin or end within one. Each row is answered
for once: by the projection where the condition is true, by base rows where it is false or null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.canonical import canonical, conjunction
from projseg.algebra.expressions.tree import TRUE, Call, Expression
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter, NotStored
from projseg.algebra.planning.match_facts import SegmentView
from projseg.algebra.planning.match_one_projection import Match, match_projection
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec, StoredFloor
from projseg.algebra.proofs.predicate_truth import truth_of
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.time_bounds import cut_micros, interval_conditions
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
    """Return how a projection answers for a part of a query's rows, and the view of that part.

    Parameters
    ----------
    query, spec, view
        As of `match_projection`.
    reason : Reason
        Why it cannot answer for all of them.
    """
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
