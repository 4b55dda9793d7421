"""Leave out rows whose groups come behind the first that a query returns, before they are grouped.

Groups are ordered by ORDER BY, then by their keys. Where a key comes first, the last of so many
different keys of a sample is a bound: at least as many groups do not come behind it, and all rows
of a group have the same key. So what is left has the first groups, whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np

from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.planning.source_plan import SourcePlan
from projseg.algebra.query.bound_query import OrderTerm, QuerySpec, ascending
from projseg.evaluation.masks import narrowed
from projseg.evaluation.rows import MaskedRows
from projseg.kernels.rows.sorting import distinct
from projseg.reader.run.order_ranks import Bound, key_ranks
from projseg.reader.sources.segment_source import SegmentSource
from projseg.table_layer.metadata.segment_entry import SegmentEntry

# Rows of the sample at least, and for each group that is wanted; of so many rows it takes one.
_SAMPLE_ROWS: Final = 1 << 12
_SAMPLE_ROWS_A_GROUP: Final = 1 << 6
_ROWS_A_SAMPLED: Final = 1 << 3
# Fewer groups than one for so many rows cost less than the comparison.
_ROWS_A_GROUP: Final = 1 << 6
# Comparing costs less than grouping where at most this share of the rows is left.
_LEFT_SHARE_MAX: Final = 0.25


def among_first(
    selected: MaskedRows,
    source: SegmentSource,
    entry: SegmentEntry,
    query: QuerySpec,
    plan: SourcePlan,
) -> MaskedRows:
    """Return those of a source's rows whose groups may be among the first.

    Parameters
    ----------
    selected : MaskedRows
        Each row that counts is of a group of the result.
    source, entry : SegmentSource, SegmentEntry
        Where they are.
    query : QuerySpec
        What is asked.
    plan : SourcePlan
        How the source answers it.
    """
    found = _first_key(query)
    if found is None or query.limit is None or any(map(may_fail, _arguments(query))):
        return selected  # an error of any row is the query's
    place, term = found
    key = plan.keys[place]
    names = [key.name for key in plan.keys if isinstance(key, Column)]
    if not isinstance(key, Column) or len(names) < len(plan.keys):
        return selected
    if prod(values_max(source, entry, name) for name in names) * _ROWS_A_GROUP < source.row_count:
        return selected
    bound = _bound(selected, key.name, term, query.limit)
    if bound is None:
        return selected
    is_before, is_equal = bound.compare(selected.rows.vector(key.name))
    return narrowed(selected, is_before | is_equal)


def _first_key(query: QuerySpec) -> tuple[int, OrderTerm] | None:
    """Return the place of the key that groups are ordered by first, and how; None: by no key."""
    if query.having is not None or query.grouping_sets is not None or not query.limit:
        return None
    places = {key.name: place for place, key in enumerate(query.keys)}
    for term in (*query.order_by, *ascending(query.keys))[:1]:
        if isinstance(term.expression, Column) and term.expression.name in places:
            return places[term.expression.name], term
    return None


def _arguments(query: QuerySpec) -> Iterator[Expression]:
    for primitive in query.primitives:
        yield from primitive.arguments
        if primitive.filter is not None:
            yield primitive.filter


def _bound(selected: MaskedRows, name: str, term: OrderTerm, limit: int) -> Bound | None:
    """Return the last of the first keys of a sample; None if it would leave out too few rows."""
    rows, wanted = selected.rows, max(_SAMPLE_ROWS, _SAMPLE_ROWS_A_GROUP * limit)
    step = len(rows) // wanted
    if step < _ROWS_A_SAMPLED:
        return None
    positions = np.arange(0, len(rows), step, dtype=np.uint32)
    if selected.mask is not None:
        positions = positions[selected.mask[positions]]
    keys = rows.subset(positions).vector(name)
    ranks = key_ranks(keys, term)
    ordered = distinct(ranks)
    if len(ordered) < limit:
        return None
    last = ordered[limit - 1]
    if np.count_nonzero(ranks <= last) > len(ranks) * _LEFT_SHARE_MAX:
        return None
    place = int((ranks == last).argmax())
    return Bound(term, keys.slice(place, place + 1).to_arrow())


def values_max(source: SegmentSource, entry: SegmentEntry, name: str) -> int:
    """Return how many values a column may have in a segment; without a dictionary, they are many.

    Integers are no more than lie between the bounds.
    """
    dictionary = source.dictionary(name)
    if dictionary is not None:
        return len(dictionary)
    zone = source.schema.zone(entry, name)
    if zone is None or not isinstance(zone.min, int) or not isinstance(zone.max, int):
        return source.row_count
    return min(zone.max - zone.min + 2, source.row_count)
