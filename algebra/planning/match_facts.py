"""The facts about a query and one segment on which matching depends.

Matching gives the same result for segments with equal views, so it runs once for each view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import values_by_branch
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.proofs.filter_implication import Premises
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.memory.forks import cached_property

Refinement = tuple[Granularity, Granularity, str]
"""(stored granularity, granularity asked for, the column of both)."""


Steady = tuple[Granularity, Expression]
"""(stored granularity of a time, an expression of that time)."""


class SegmentView(msgspec.Struct, frozen=True, dict=True):
    """A query as one segment sees it.

    Parameters
    ----------
    conditions : tuple of Expression
        Conjuncts of the query's filter that are not true of every row.
    bounds : tuple of Expression
        Conditions that the query's interval puts on the time column.
    proved : frozenset of Expression
        Conditions known to be true of every row.
    constants : tuple of (str, Literal)
        Columns that have one value in the segment; null for a column that it lacks.
    single : frozenset of Expression
        Expressions of a time that have one value in the segment, whichever that is.
    refinements : frozenset of Refinement
        Pairs where, at all times in the segment, each stored bucket is in one bucket asked for.
    steady : frozenset of Steady
        Pairs where the expression has, in each stored bucket, one value, that at its start.
    exact : frozenset of Expression
        Arguments of sums, and branches of them, whose sums `has_exact_sum` proves.
    sure : frozenset of Expression
        Arguments of counts and extremes, and branches of them, that raise for no row.
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
    def known(self) -> tuple[Expression, ...]:
        """All conditions that are true of every row of the answer."""
        return (*self.conditions, *self.bounds, *sorted(self.proved, key=repr))

    @cached_property
    def premises(self) -> Premises:
        """The known conditions, to prove others from."""
        return Premises(self.known)

    def refines(self, stored: Granularity, wanted: Granularity, column: str) -> bool:
        """Whether stored buckets of a column can be grouped again into the buckets asked for."""
        return stored == wanted or (stored, wanted, column) in self.refinements


def summands(query: QuerySpec) -> tuple[Expression, ...]:
    """Return what is computed to be summed, and the branches of it."""
    sums = (p.arguments[0] for p in query.primitives if p.kind.sums)
    values = (value for argument in sums for value in values_by_branch(argument))
    return tuple(dict.fromkeys(value for value in values if isinstance(value, Call)))


def inputs(query: QuerySpec) -> tuple[Expression, ...]:
    """Return what is computed to be counted, or to find the least or the greatest of it."""
    counted = (p for p in query.primitives if p.kind.counts or p.kind.extreme)
    found = (one for p in counted for argument in p.arguments for one in values_by_branch(argument))
    return tuple(dict.fromkeys(one for one in found if isinstance(one, Call)))
