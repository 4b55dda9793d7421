"""What a query has left to ask of one segment, in the few facts that matching depends on.

Segments with equal views match alike, so that of thousands of segments only a few are worked out.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from projseg.algebra.expressions.tree import Expression, Literal
from projseg.algebra.proofs.filter_implication import Premises
from projseg.algebra.time.granularity import Granularity
from projseg.memory.lazy import cached_property

Refinement = tuple[Granularity, Granularity, str]
"""(stored buckets, buckets asked for, the column both cut)."""


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
        Columns that have one value here; null for a column that the segment lacks.
    refinements : frozenset of Refinement
        Which stored buckets lie each in one bucket asked for, over the times found here.
    """

    conditions: tuple[Expression, ...]
    bounds: tuple[Expression, ...] = ()
    proved: frozenset[Expression] = frozenset()
    constants: tuple[tuple[str, Literal], ...] = ()
    refinements: frozenset[Refinement] = frozenset()

    @cached_property
    def constant_by_column(self) -> Mapping[str, Literal]:
        """The value of each column that has only one."""
        return dict(self.constants)

    @cached_property
    def known(self) -> tuple[Expression, ...]:
        """All conditions that every row in question fulfils."""
        return (*self.conditions, *self.bounds, *sorted(self.proved, key=repr))

    @cached_property
    def premises(self) -> Premises:
        """The same, to prove others from."""
        return Premises(self.known)

    def refines(self, stored: Granularity, wanted: Granularity, column: str) -> bool:
        """Whether stored buckets of a column can be grouped again into the buckets asked for."""
        return stored == wanted or (stored, wanted, column) in self.refinements
