"""Find how a projection can feed each of a query's primitives.

In order of preference: from a stored state, narrowed by a FILTER over grouping columns if needed;
from values of grouping columns, if it does not matter how often a value occurs; from values of
grouping columns, each counted as often as a stored count says. A projection of rows is folded as
base rows are.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.conditional import conditional_of
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
    moved : tuple of Expression
        Conditions on the query's rows that no longer are in `view`, since the grouping columns do
        not decide them: each primitive has them in its FILTER.
    """

    def __init__(
        self,
        spec: ProjectionSpec,
        view: SegmentView,
        rewriter: GroupingRewriter,
        moved: tuple[Expression, ...] = (),
    ) -> None:
        self._moved = moved
        self._spec = spec
        self._rewriter = rewriter
        self._context = (*spec.filter_conjuncts, *view.known)
        self._premises = view.premises if not spec.filter_conjuncts else Premises(self._context)

    def find(self, primitive: Primitive) -> Feed | None:
        """Return how to feed a primitive, None if the projection cannot."""
        if self._moved:
            conditions = (*self._moved, *conjuncts(primitive.filter))
            primitive = replace(primitive, filter=conjunction(conditions))
        stored = self._spec.state_by_meaning.get(primitive.text)
        if stored is not None:
            return MergeStates(stored)
        conditions = self._open(conjuncts(primitive.filter))
        if self._spec.holds_rows:
            return self._added_rows(primitive, conditions)
        return (
            self._merged(primitive, conditions)
            or self._added(primitive, conditions)
            or self._weighed(primitive, conditions)
            or self._sum_of_sums(primitive, conditions)
            or self._sum_or_zero(primitive, conditions)
        )

    def row_count(self) -> str | None:
        """Return the text of a stored count of the rows to answer for; None if none is stored."""
        feed = self.find(Primitive("count", ()))
        return feed.prefix if isinstance(feed, MergeStates) and feed.filter is None else None

    def _open(self, conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Return the conditions that are not proved by what is known."""
        return tuple(c for c in conditions if not self._premises.imply(c))

    def _added_rows(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> AddRows | None:
        """Fold rows of a projection of rows, as base rows are."""
        arguments, residual = self._rewritten(primitive.arguments), self._rewritten(conditions)
        if arguments is None or residual is None:
            return None
        return AddRows(tuple(arguments), conjunction(residual))

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
        for text, stored in self._spec.states:
            if not _is_alike(stored, primitive):
                continue
            needed = _conditions(stored)
            if not all(wanted.imply(condition) for condition in needed):
                continue
            left = Premises((*self._context, *needed)) if needed else self._premises
            residual = self._rewritten([c for c in conditions if not left.imply(c)])
            if residual is not None:
                found.append(MergeStates(text, conjunction(residual)))
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

    def _sum_or_zero(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> FoldSeveral | None:
        """Answer sum(CASE WHEN p THEN x ELSE 0 END) from sum(x) FILTER (WHERE p).

        Only if x is never null where p is true: then every row has a value, so the sum is null of
        no rows alone. Each stored row stands for some, and adds a zero.
        """
        case = conditional_of(primitive.arguments) if primitive.function == "sum" else None
        if case is None or not isinstance(case.otherwise, Literal) or case.otherwise.value != 0:
            return None
        known = Premises((*self._context, *conditions, case.condition))
        value = _without_cast(case.value)
        zeros = self._rewritten(conditions)
        is_of_rows = bool(self._spec.grouping) or self._spec.filter is None
        if not known.is_not_null(value) or zeros is None or not is_of_rows:
            return None
        where = conjunction((*conjuncts(primitive.filter), case.condition))
        alike = replace(primitive, arguments=(value,), filter=where)
        found = self.find(alike) if alike.fields == primitive.fields else None
        if found is None:
            return None
        return FoldSeveral((found, AddRows((case.otherwise,), conjunction(zeros))))

    def _rewritten(
        self, expressions: list[Expression] | tuple[Expression, ...]
    ) -> list[Expression] | None:
        try:
            return [self._rewriter.rewrite(expression) for expression in expressions]
        except NotStored:
            return None


def _without_cast(value: Expression) -> Expression:
    """Strip a cast to wider whole numbers, or to decimals with more digits before the point."""
    value = without_widening(value)
    if not isinstance(value, Call) or value.function != "cast":
        return value
    (inner,) = value.arguments
    if not pa.types.is_decimal(inner.type) or not pa.types.is_decimal(value.type):
        return value
    is_wider = inner.type.precision <= value.type.precision
    return inner if is_wider and inner.type.scale == value.type.scale else value


def _is_alike(stored: Primitive, wanted: Primitive) -> bool:
    """Whether two primitives differ at most in which rows they take."""
    if stored.function != wanted.function or not _is_precise(stored, wanted):
        return False
    return stored.function == "count" or stored.arguments == wanted.arguments


def _is_precise(stored: Primitive, wanted: Primitive) -> bool:
    """Whether a state is as large as wanted, or can be made as small."""
    if not wanted.kind.serves_smaller:
        return stored.parameters == wanted.parameters
    return _size(stored) >= _size(wanted)


def _size(primitive: Primitive) -> int:
    size = primitive.parameters[0]
    assert isinstance(size, int), "the parameter is a size"
    return size


def _conditions(stored: Primitive) -> tuple[Expression, ...]:
    """Return the conditions of the rows in a stored primitive; for count(x), x is not null too."""
    own = conjuncts(stored.filter)
    return (*own, *_have_values(stored.arguments)) if stored.function == "count" else own


def _have_values(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return tuple(map(not_null, arguments))
