"""Less to fold than a query says: fewer keys and primitives, and rows of the first groups alone.

Rows that agree in `a` agree in `a + 1`, so of `GROUP BY a, a + 1` rows are grouped by `a`.
`sum(x + 1)` and `sum(x + 2)` are both `sum(x)` and a multiple of `count(x)`: where every source of
a plan says so, sources are folded and merged for `sum(x)` and `count(x)` alone.

Groups are ordered by ORDER BY, then by their keys. Where a key comes first, the last of so many
different keys of a sample is a bound: at least as many groups do not come behind it, and all rows
of a group have the same key. So what is left has the first groups, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from projseg.aggregation.inputs import SharedTerm, multiples_of
from projseg.aggregation.partial import FoldedPartial, Partial
from projseg.aggregation.state import State
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.functions.function_table import parts_zeros
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.planning.source_plan import Feed, FoldMultiple, FoldSeveral, SourcePlan
from projseg.algebra.query.bound_query import OrderTerm, QuerySpec, ascending
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import narrowed
from projseg.evaluation.rows import MaskedRows, MemorySource, all_rows
from projseg.kernels.sorting import distinct
from projseg.reader.order_ranks import Bound, key_ranks
from projseg.reader.segment_source import SegmentSource
from projseg.segment_format.vectors import Vector
from projseg.table_layer.metadata.segment_entry import SegmentEntry

# Rows of the sample at least, and for each group that is wanted; of so many rows it takes one.
_SAMPLE_ROWS: Final = 1 << 12
_SAMPLE_ROWS_A_GROUP: Final = 1 << 6
_ROWS_A_SAMPLED: Final = 1 << 3
# Fewer groups than one for so many rows cost less than the comparison.
_ROWS_A_GROUP: Final = 1 << 6
# Comparing costs less than grouping where at most this share of the rows is left.
_LEFT_SHARE_MAX: Final = 0.25

_Term = tuple[int | None, Primitive]
"""What a primitive is multiplied by; None if it is the primitive itself."""


class ReducedFold(msgspec.Struct, frozen=True):
    """What is folded for a query, each primitive once, and how its own primitives are made of that.

    Rows are grouped by the query's keys at `key_positions`; `terms` has those of each of its
    primitives.
    """

    query: QuerySpec
    key_positions: tuple[int, ...]
    primitives: tuple[Primitive, ...]
    terms: tuple[tuple[_Term, ...], ...]

    @classmethod
    def of(cls, query: QuerySpec, plans: Sequence[SourcePlan]) -> ReducedFold | None:
        """Return the fold that all plans can do; None if it is not less."""
        if query.is_row_scan or any(plan.subtracted_rows is not None for plan in plans):
            return None
        keys = _independent_keys(query)
        terms = _common_terms(query.primitives, plans)
        folded = tuple({p.text: p for several in terms for _, p in several}.values())
        if len(folded) >= len(query.primitives):
            folded, terms = query.primitives, tuple(((None, p),) for p in query.primitives)
        is_less = (len(keys), len(folded)) != (len(query.keys), len(query.primitives))
        return cls(query, keys, folded, terms) if is_less else None

    def folded_query(self) -> QuerySpec:
        """Return the query of what is folded."""
        query = replace(self.query, keys=tuple(self.query.keys[n] for n in self.key_positions))
        query.__dict__["primitives"] = self.primitives
        return query

    def plan(self, plan: SourcePlan) -> SourcePlan:
        """Return a plan of the same source that feeds what is folded."""
        feeds: dict[str, Feed] = {}
        for primitive, feed, terms in zip(
            self.query.primitives, plan.feeds, self.terms, strict=True
        ):
            parts = _parts_of(feed) if terms[0][0] is not None else None
            feeds |= {p.text: fed for _, p, fed in parts or [(None, primitive, feed)]}
        keys = tuple(plan.keys[n] for n in self.key_positions)
        return replace(plan, keys=keys, feeds=tuple(feeds[p.text] for p in self.primitives))

    def expanded(self, groups: Partial) -> Partial:
        """Return the groups with the query's keys and the states of its primitives."""
        positions = groups.positions(None)
        return FoldedPartial(
            self._keys(groups), self._states(groups), positions, groups.group_count
        )

    def _keys(self, groups: Partial) -> Sequence[Vector]:
        keys = self.query.keys
        known = dict(zip(self.key_positions, groups.keys, strict=True))
        if len(known) == len(keys):
            return groups.keys
        columns = {next(iter(keys[n].expression.columns)): v for n, v in known.items()}
        rows = all_rows(MemorySource(groups.group_count, columns))
        return [
            known[n] if n in known else evaluate_over(key.expression, rows)
            for n, key in enumerate(keys)
        ]

    def _states(self, groups: Partial) -> Sequence[State]:
        found = dict(zip((p.text for p in self.primitives), groups.states, strict=True))
        known: dict[str, SharedTerm] = {}
        states: list[State] = []
        for primitive, terms in zip(self.query.primitives, self.terms, strict=True):
            parts = []
            for factor, inner in terms:
                if factor is not None:
                    if inner.text not in known:
                        known[inner.text] = SharedTerm.of(found[inner.text])
                    parts.append((factor, known[inner.text]))
            states.append(multiples_of(primitive, parts) if parts else found[primitive.text])
        return states


def _independent_keys(query: QuerySpec) -> tuple[int, ...]:
    """Return the keys without those that are expressions over columns that are keys, too."""
    columns = {k.expression.name for k in query.keys if isinstance(k.expression, Column)}
    every = tuple(range(len(query.keys)))
    if query.grouping_sets is not None or not columns or query.joins:
        return every
    kept = tuple(n for n in every if not _follows(query, n, columns))
    # What remains must be columns, over which the others are evaluated.
    are_columns = all(isinstance(query.keys[n].expression, Column) for n in kept)
    return kept if are_columns else every


def _follows(query: QuerySpec, number: int, columns: set[str]) -> bool:
    expression = query.keys[number].expression
    if isinstance(expression, Column) or not expression.columns:
        return False
    calls = (node for node in expression.walk() if isinstance(node, Call))
    return expression.columns <= columns and not any(map(parts_zeros, calls))


def _common_terms(
    primitives: Sequence[Primitive], plans: Sequence[SourcePlan]
) -> tuple[tuple[_Term, ...], ...]:
    """Return the terms of primitives in all plans; where plans differ, each is its own."""
    alone: tuple[tuple[_Term, ...], ...] = tuple(((None, one),) for one in primitives)
    if not plans or not any(isinstance(f, FoldSeveral | FoldMultiple) for f in plans[0].feeds):
        return alone
    terms, *others = (_terms_of(primitives, plan) for plan in plans)
    return alone if terms is None or any(other != terms for other in others) else terms


def _terms_of(
    primitives: Sequence[Primitive], plan: SourcePlan
) -> tuple[tuple[_Term, ...], ...] | None:
    """Return the terms of primitives in a plan; None if it feeds one of those in several ways."""
    found, feeds = [], dict[str, Feed]()
    for primitive, feed in zip(primitives, plan.feeds, strict=True):
        parts = _parts_of(feed) or [(None, primitive, feed)]
        if any(feeds.setdefault(inner.text, fed) != fed for _, inner, fed in parts):
            return None
        found.append(tuple((factor, inner) for factor, inner, _ in parts))
    return tuple(found)


def _parts_of(feed: Feed) -> list[tuple[int | None, Primitive, Feed]] | None:
    """Return the multiples that a feed adds up; None if it does something else, too."""
    parts = feed.feeds if isinstance(feed, FoldSeveral) else (feed,)
    found: list[tuple[int | None, Primitive, Feed]] = []
    for part in parts:
        if not isinstance(part, FoldMultiple) or part.factors:
            return None
        found.append((part.constant, part.primitive, part.feed))
    return found


def among_first(
    selected: MaskedRows,
    source: SegmentSource,
    entry: SegmentEntry,
    query: QuerySpec,
    plan: SourcePlan,
) -> MaskedRows:
    """Return those of a source's rows whose groups may be among the first."""
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
