"""Find how a projection's own states and grouping columns feed a primitive.

In order of preference: from a stored state, narrowed by a FILTER over grouping columns if needed;
from values of grouping columns, if it does not matter how often a value occurs; from values of
grouping columns, each counted as often as a stored count says. A projection of rows is folded as
base rows are.
"""

from __future__ import annotations

from projseg.algebra.aggregates.aggregate_rewrites import multiple_of, products_of
from projseg.algebra.aggregates.primitive import Primitive, declared_as
from projseg.algebra.expressions.canonical import conjunction, conjuncts, not_null
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.planning.grouping_rewrite import GroupingRewriter, NotStored
from projseg.algebra.planning.match_facts import SegmentView
from projseg.algebra.planning.source_plan import (
    AddRows,
    AddWeighted,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
)
from projseg.algebra.planning.why_not import Reason, ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.exact_values import is_operation, keeps_values
from projseg.algebra.proofs.filter_proofs import Premises


class DirectFeeds:
    """Finds feeds in one projection of one segment, by one state or by grouping columns alone.

    The rewriter goes from base columns to grouping columns. Conditions that are `moved` are no
    longer in the view, since the grouping columns do not decide them: each primitive has them in
    its FILTER.
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
        self._view = view
        self._rewriter = rewriter
        self._context = (*spec.filter_conjuncts, *view.known_conditions)
        self._premises = view.premises if not spec.filter_conjuncts else Premises(self._context)

    def missing(self, primitive: Primitive) -> Reason:
        """Return the aggregator that a projection lacks to feed a primitive, as one declares it."""
        kind = primitive.kind
        text = declared_as(primitive)
        if self._spec.holds_rows or kind.not_stored:  # only its arguments can be stored
            try:
                for needed in (*primitive.arguments, *conjuncts(primitive.filter)):
                    self._rewriter.rewrite(needed)
            except NotStored as absent:
                return Reason(absent.code, absent.column)
            text = "count(*)" if kind.is_weighable else f"{text}, which {kind.not_stored}"
        return Reason(ReasonCode.AGGREGATOR_NOT_STORED, text)

    def _open(self, conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Return the conditions that no fact proves."""
        return tuple(c for c in conditions if not self._premises.imply(c))

    def _values_needed(self, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """Return the conditions under which no argument is null, as far as they are not proved."""
        parts = (part for argument in arguments for part in _parts_with_nulls(argument))
        return self._open(_have_values(tuple(parts)))

    def _is_sure(self, argument: Expression) -> bool:
        """Whether an argument raises for no row, so that a count of other rows loses no error."""
        return argument in self._view.sure or not may_fail(argument)

    def _added_rows(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> AddRows | FoldSeveral | None:
        """Fold rows of a projection of rows, as base rows are."""
        arguments, residual = self._rewritten(primitive.arguments), self._rewritten(conditions)
        if arguments is None or residual is None:
            return None
        feed = AddRows(tuple(arguments), conjunction(residual))
        is_exact = self._view.exact.issuperset(primitive.arguments)
        by_columns = sum_by_columns(primitive, feed) if is_exact else None
        if by_columns is None or counts_values(arguments[0]):
            return by_columns or feed
        return feed if self._values_needed(primitive.arguments) else by_columns

    def _merged(
        self,
        primitive: Primitive,
        conditions: tuple[Expression, ...],
        also_known: tuple[Expression, ...] = (),
    ) -> MergeStates | None:
        """Merge a stored state of the same rows, or of more rows that a filter can tell apart."""
        of_any = False
        if primitive.kind.counts:
            conditions = (*conditions, *self._values_needed(primitive.arguments))
            of_any = all(map(self._is_sure, primitive.arguments))
        elif not primitive.kind.is_by_time:
            also_known = (*also_known, *_have_values(primitive.arguments))  # others add nothing
        wanted = Premises((*self._context, *conditions, *also_known))
        found = []
        for text, stored in self._spec.states:
            if not _is_alike(stored, primitive, of_any=of_any):
                continue
            needed = _conditions(stored)
            if not all(wanted.imply(condition) for condition in needed):
                continue
            counted = needed if primitive.kind.counts else (*needed, *also_known)
            left = Premises((*self._context, *counted)) if counted else self._premises
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

    def _rewritten(
        self, expressions: list[Expression] | tuple[Expression, ...]
    ) -> list[Expression] | None:
        try:
            return [self._rewriter.rewrite(expression) for expression in expressions]
        except NotStored:
            return None


def _is_alike(stored: Primitive, wanted: Primitive, *, of_any: bool) -> bool:
    """Whether two primitives differ at most in which rows they take, and of counts in arguments."""
    if stored.function != wanted.function or not _is_precise(stored, wanted):
        return False
    return of_any or stored.arguments == wanted.arguments


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
    return (*own, *_have_values(stored.arguments)) if stored.kind.counts else own


def _have_values(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return tuple(map(not_null, arguments))


def _parts_with_nulls(value: Expression) -> tuple[Expression, ...]:
    """Return the parts that must not be null so that a value, which raises no error, is not."""
    if isinstance(value, Literal) and value.value is not None:
        return ()
    if not isinstance(value, Call) or not keeps_values(value):
        return (value,)
    return tuple(part for argument in value.arguments for part in _parts_with_nulls(argument))


def sum_by_columns(primitive: Primitive, feed: AddRows) -> FoldSeveral | None:
    """Return how a sum over all rows is made of sums of columns; None if it is not.

    It is exact where `has_exact_sum` proves that of the argument, and `counts_values` or no column
    of it has nulls.
    """
    if not primitive.kind.sums or feed.filter is not None:
        return None
    (argument,) = feed.arguments
    if not isinstance(argument, Call):
        return None
    products = products_of(argument, lambda part: not is_operation(part))
    parts = []
    for factors, constant in (products or {}).items():
        whole = multiple_of(constant, factors, primitive)
        if len(factors) > 1 or not all(isinstance(f, Column) for f in factors) or whole is None:
            return None
        summed = factors
        if not factors and counts_values(argument):
            summed = tuple(dict.fromkeys(n for n in argument.walk() if isinstance(n, Column)))
        inner = Primitive("sum" if factors else "count", summed)
        parts.append(FoldMultiple(inner, AddRows(summed), whole))
    return FoldSeveral(tuple(parts)) if parts else None


def counts_values(argument: Expression) -> bool:
    """Whether `sum_by_columns` counts the rows in which an argument's only column has a value."""
    return len(argument.columns) == 1
