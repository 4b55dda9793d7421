"""Find how a projection can feed each of a query's primitives.

In order of preference: from a stored state, narrowed by a FILTER over grouping columns if needed;
from values of grouping columns, if it does not matter how often a value occurs; from values of
grouping columns, each counted as often as a stored count says.
"""

from __future__ import annotations

from msgspec.structs import replace

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.predicates import conjunction, conjuncts, not_null
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter, NotStored
from projseg.algebra.planning.segment_view import SegmentView
from projseg.algebra.planning.source_plan import (
    AddRows,
    AddWeighted,
    Feed,
    FoldSeveral,
    MergeStates,
)
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.filter_implication import Premises
from projseg.algebra.proofs.integer_ranges import in_type_range, without_widening


class FeedFinder:
    """Finds feeds in one projection of one segment.

    Parameters
    ----------
    spec : ProjectionSpec
        The projection, whose states are stored.
    view : SegmentView
        What is known of the query's rows in the segment.
    rewriter : GroupingRewriter
        From base columns to grouping columns of `spec`.
    """

    def __init__(self, spec: ProjectionSpec, view: SegmentView, rewriter: GroupingRewriter) -> None:
        self._spec = spec
        self._rewriter = rewriter
        self._context = (*spec.filter_conjuncts, *view.known)
        self._premises = view.premises if not spec.filter_conjuncts else Premises(self._context)

    def find(self, primitive: Primitive) -> Feed | None:
        """Return how to feed a primitive, None if the projection cannot."""
        if primitive.text in self._spec.primitive_by_text:
            return MergeStates(primitive.text)
        conditions = self._open(conjuncts(primitive.filter))
        return (
            self._merged(primitive, conditions)
            or self._added(primitive, conditions)
            or self._weighed(primitive, conditions)
            or self._sum_of_sums(primitive, conditions)
        )

    def _open(self, conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Return the conditions that are not proved by what is known."""
        return tuple(c for c in conditions if not self._premises.imply(c))

    def _merged(
        self,
        primitive: Primitive,
        conditions: tuple[Expression, ...],
        also_known: tuple[Expression, ...] = (),
    ) -> MergeStates | None:
        """Merge a stored state of the same rows, or of more rows that a filter can tell apart."""
        if primitive.function == "count":
            conditions = (*conditions, *self._open(_have_values(primitive.arguments)))
        wanted = Premises((*self._context, *conditions, *also_known))
        found = []
        for stored in self._spec.primitives:
            if not _is_alike(stored, primitive):
                continue
            needed = _conditions(stored)
            if not all(wanted.imply(condition) for condition in needed):
                continue
            left = Premises((*self._context, *needed)) if needed else self._premises
            residual = self._rewritten([c for c in conditions if not left.imply(c)])
            if residual is not None:
                found.append(MergeStates(stored.text, conjunction(residual)))
        return min(found, key=lambda feed: feed.filter is not None, default=None)

    def _added(self, primitive: Primitive, conditions: tuple[Expression, ...]) -> AddRows | None:
        """Fold values of grouping columns in, if it does not matter how often they occur."""
        arguments = self._rewritten(primitive.arguments)
        if not arguments:
            return None
        deciding = arguments[-1:] if primitive.kind.is_by_time else arguments
        if any(isinstance(a, Literal) and a.value is None for a in deciding):
            return AddRows(tuple(arguments))  # rows with a null here do not count
        residual = self._rewritten(conditions)
        if not primitive.kind.is_idempotent or residual is None:
            return None
        return AddRows(tuple(arguments), conjunction(residual))

    def _weighed(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> AddWeighted | None:
        """Fold values of grouping columns in, each as often as a stored count says."""
        arguments = self._rewritten(primitive.arguments)
        if not primitive.kind.is_weighable or not arguments:
            return None
        have_values = _have_values(primitive.arguments)
        count = self._merged(Primitive("count", ()), conditions, have_values)
        if count is None:
            return None
        return AddWeighted(tuple(arguments), count.prefix, count.filter)

    def _sum_of_sums(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> FoldSeveral | None:
        """Answer sum(a + b) from sum(a) and sum(b).

        Only for integers, whose sums are exact; only if neither is ever null, since a row with one
        null adds nothing; and only if no row overflows, since base rows would raise.
        """
        total = primitive.arguments[0] if primitive.arguments else None
        is_sum = primitive.function == "sum" and isinstance(total, Call) and total.function == "+"
        if not is_sum or total is None or not self._premises.imply(in_type_range(total)):
            return None
        feeds = []
        for part in total.children:
            plain = without_widening(part)
            alike = replace(primitive, arguments=(plain,))
            if alike.fields != primitive.fields:
                return None
            if not self._premises.is_not_null(plain):
                return None
            merged = self._merged(alike, conditions)
            if merged is None:
                return None
            feeds.append(merged)
        return FoldSeveral(tuple(feeds))

    def _rewritten(
        self, expressions: list[Expression] | tuple[Expression, ...]
    ) -> list[Expression] | None:
        try:
            return [self._rewriter.rewrite(expression) for expression in expressions]
        except NotStored:
            return None


def _is_alike(stored: Primitive, wanted: Primitive) -> bool:
    """Whether two primitives differ at most in which rows they take."""
    if stored.function != wanted.function or stored.parameters != wanted.parameters:
        return False
    return stored.function == "count" or stored.arguments == wanted.arguments


def _conditions(stored: Primitive) -> tuple[Expression, ...]:
    """Return the conditions of the rows in a stored primitive; for count(x), x is not null too."""
    own = conjuncts(stored.filter)
    return (*own, *_have_values(stored.arguments)) if stored.function == "count" else own


def _have_values(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return tuple(map(not_null, arguments))
