"""Plans that read nothing: a whole segment's count, minimum and maximum are in its metadata."""

from __future__ import annotations

import math

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.tree import Column
from projseg.algebra.planning.source_plan import Known, SourcePlan
from projseg.algebra.proofs.filter_simplify import ZoneSets, outcomes
from projseg.algebra.proofs.segment_facts import ColumnFacts, SegmentFacts
from projseg.algebra.query.bound_query import QuerySpec


def metadata_plan(query: QuerySpec, facts: SegmentFacts, zones: ZoneSets) -> SourcePlan | None:
    """Return the plan that takes every primitive from metadata; None if one is not exact there.

    Each key must have one value in the segment, and some row must be left to have it. The caller
    has checked that no filter and no interval leaves out a row of the segment.
    """
    if query.is_row_scan or (query.keys and facts.deleted_row_count >= facts.row_count):
        return None
    feeds = []
    for primitive in query.primitives:
        feed = _known(primitive, facts, zones)
        if feed is None:
            return None
        feeds.append(feed)
    keys = [zones.constant(named.expression) for named in query.keys]
    known = tuple(key for key in keys if key is not None)
    if len(known) < len(keys):
        return None
    return SourcePlan(source=None, keys=known, feeds=tuple(feeds), is_metadata=True)


def _known(primitive: Primitive, facts: SegmentFacts, zones: ZoneSets) -> Known | None:
    if primitive.function not in ("count", "min", "max"):
        return None
    if primitive.filter is not None:
        found = outcomes(primitive.filter, zones)
        if not found.true:
            return Known(0 if primitive.function == "count" else None)
        if not found.is_always_true:
            return None
    if not primitive.arguments:
        return Known(facts.row_count - facts.deleted_row_count)
    column = primitive.arguments[0]
    if not isinstance(column, Column) or len(primitive.arguments) > 1:
        return None
    return _known_of_column(primitive.function, facts.columns.get(column.name), facts)


def _known_of_column(
    function: str, values: ColumnFacts | None, facts: SegmentFacts
) -> Known | None:
    """Return what is known of a column; one that the segment lacks is null in all rows.

    Of the rows that are left where some are deleted, neither the nulls nor the extremes are known.
    """
    if values is None or values.null_count == facts.row_count:
        return Known(0 if function == "count" else None)
    if facts.deleted_row_count and (function != "count" or values.null_count):
        return None
    if function == "count":
        return Known(facts.row_count - facts.deleted_row_count - values.null_count)
    return _extreme(function, values)


def _extreme(function: str, values: ColumnFacts) -> Known | None:
    """Return the exact extreme, NaN being the largest value."""
    if not values.is_exact:
        return None
    if values.has_nan and (function == "max" or values.minimum is None):
        return Known(math.nan)
    value = values.minimum if function == "min" else values.maximum
    return None if value is None else Known(value)
