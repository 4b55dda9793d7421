"""Find how a projection can feed each of a query's primitives.

It is fed directly, or by functions of stored states: the extremes of what rises with a stored
extreme, sums of products of stored sums, and sums over the branches of a CASE.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import (
    Branch,
    branches_of,
    fraction_of,
    is_null,
    is_value,
    multiple_of,
    opposite_of,
    products_of,
)
from projseg.algebra.aggregates.primitive import Extreme, Primitive
from projseg.algebra.expressions.canonical import conjunction, conjuncts, not_null
from projseg.algebra.expressions.coercion import is_floating, is_integral
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Order
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.planning.projection_feeds import DirectFeeds
from projseg.algebra.planning.source_plan import (
    AddFunction,
    AddPresence,
    AddRows,
    Feed,
    FoldMultiple,
    FoldSeveral,
    MergeStates,
)
from projseg.algebra.proofs.exact_values import is_operation, keeps_values
from projseg.algebra.proofs.filter_proofs import Premises

_COUNT: Final = Primitive("count", ())


class FeedFinder(DirectFeeds):
    """Finds feeds in one projection of one segment; parameters are those of `DirectFeeds`."""

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
            or self._of_narrower(primitive, conditions)
            or self._of_extreme(primitive, conditions)
            or self._of_presence(primitive, conditions)
            or self._of_products(primitive, conditions)
            or self._of_branches(primitive, conditions)
            or self._of_rest(primitive, conditions)
        )

    def row_count(self) -> str | None:
        """Return the text of a stored count of the rows to answer for; None if none is stored."""
        feed = self.find(Primitive("count", ()))
        return feed.prefix if isinstance(feed, MergeStates) and feed.filter is None else None

    def _of_narrower(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> MergeStates | None:
        """Answer sum(CAST(x AS DOUBLE)) from sum(x) where that is made of doubles too."""
        value = primitive.arguments[0] if primitive.arguments else None
        if not isinstance(value, Call) or (value.function, value.type) != ("cast", pa.float64()):
            return None
        (inner,) = value.arguments
        kind = primitive.kind
        is_widened = kind.sums and inner.type == pa.float32()
        is_number = inner.type == pa.float32() or is_integral(inner.type)
        if not is_widened and not (kind.is_of_doubles and is_number):
            return None
        return self._merged(replace(primitive, arguments=(inner,)), conditions)

    def _of_extreme(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> AddFunction | None:
        """Answer max(f(x)) from max(x) where f rises, and from min(x) where it falls."""
        extreme = primitive.kind.extreme
        if extreme is None or not self._is_sure(primitive.arguments[0]):
            return None
        found = self._by_extreme(primitive.arguments[0], extreme, conditions)
        if found is None:
            return None
        argument, stored, extreme, feed = found
        return AddFunction(stored, extreme, feed.prefix, argument, feed.filter)

    def _by_extreme(
        self, value: Expression, extreme: Extreme, conditions: tuple[Expression, ...]
    ) -> tuple[Expression, Primitive, Extreme, MergeStates] | None:
        """Return an extreme of a value as a function of a stored extreme, and that."""
        for stored in (Primitive(extreme.value, (value,)), Primitive("kll", (value,), None, (1,))):
            feed = self._merged(stored, conditions)
            if feed is not None:
                return Column(value.type, AddFunction.STATE), stored, extreme, feed
        if not isinstance(value, Call) or not keeps_values(value):
            return None
        fixed = [self._rewritten((argument,)) for argument in value.arguments]
        if fixed.count(None) != 1:
            return None
        place = fixed.index(None)
        order = FUNCTIONS[value.function].order(value)[place]
        if order == Order.NONE:
            return None
        wanted = extreme if order == Order.RISES else extreme.opposite
        found = self._by_extreme(value.arguments[place], wanted, conditions)
        if found is None:
            return None
        arguments = tuple(found[0] if one is None else one[0] for one in fixed)
        return Call(value.type, value.function, arguments, value.parameters), *found[1:]

    def _of_presence(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> AddPresence | None:
        """Answer any(y IS NULL) from count(*) and count(y), every(y IS NULL) from count(y)."""
        tested = primitive.arguments[0] if primitive.kind.extreme else None
        value = None if tested is None else _tested_for_null(tested)
        if tested is None or value is None or not self._is_sure(value):
            return None
        is_any = primitive.kind.extreme is Extreme.GREATEST
        wanted = [Primitive("count", (value,))]
        if is_any == (tested != not_null(value)):
            wanted.append(_COUNT)
        feeds = [self._merged(count, conditions) for count in wanted]
        stored = dict(self._spec.states)
        # Where a count has a filter of its own, a row of it may be of no row that is asked for.
        known = [f for f in feeds if f is not None and stored[f.prefix].filter is None]
        if len(known) < len(wanted):
            return None
        other = known[1].prefix if len(known) > 1 else None
        return AddPresence(known[0].prefix, other, is_any, known[-1].filter)

    def _of_products(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> FoldSeveral | None:
        """Answer sum(2 * x * g + y + 1) from sum(x), sum(y) and a count, by grouping column g.

        Only where that is exact and no row raises; and each sum is of the rows in which no part of
        the argument is null.
        """
        argument = primitive.arguments[0] if primitive.kind.sums else None
        if argument is None or argument not in self._view.exact:
            return None
        products = products_of(argument, self._is_factor)
        if products is None:
            return None
        parts = dict.fromkeys(part for factors in products for part in factors)
        have_values = self._values_needed(tuple(parts))
        feeds = []
        for factors, constant in products.items():
            found = self._of_product(primitive, factors, constant, (*conditions, *have_values))
            if found is None:
                return None
            feeds.append(found)
        return FoldSeveral(tuple(feeds))

    def _is_factor(self, expression: Expression) -> bool:
        """Whether a product has an expression as a whole: it is grouped by, or its sum is stored.

        Other operations are taken apart.
        """
        is_stored = any(
            stored.kind.sums and stored.arguments == (expression,)
            for _, stored in self._spec.states
        )
        if is_floating(expression.type):
            return False
        is_whole = is_stored or not is_operation(expression)
        return is_whole or self._rewritten((expression,)) is not None

    def _of_product(
        self,
        primitive: Primitive,
        parts: tuple[Expression, ...],
        constant: Fraction,
        conditions: tuple[Expression, ...],
    ) -> Feed | None:
        """Return the multiple of a stored sum or count that feeds a product; None if none does."""
        rewritten = [(part, self._rewritten((part,))) for part in parts]
        factors = tuple(found[0] for _, found in rewritten if found is not None)
        summed = tuple(part for part, found in rewritten if found is None)
        if len(summed) > 1:
            return None
        inner = Primitive("sum", summed, primitive.filter) if summed else _COUNT
        feed: Feed | None = self._merged(inner, conditions)
        if feed is None and not summed and not factors:
            feed = self._of_rest(inner, conditions)
        if feed is None and summed and not factors and branches_of(summed[0]):
            feed = self._of_branches(inner, conditions)
        whole = multiple_of(constant, parts, primitive)
        if feed is None or whole is None:
            return None
        is_same = inner.kind.sums and inner.fields == primitive.fields
        if is_same and whole == 1 and not factors:
            return feed
        return FoldMultiple(inner, feed, whole, factors)

    def _of_branches(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> FoldSeveral | None:
        """Answer sum(CASE WHEN p THEN x ELSE 0 END) from sum(x) FILTER (WHERE p).

        So of a count, and of the least and the greatest, which is that of some branch.
        """
        kind = primitive.kind
        is_sum, is_extreme = kind.sums, kind.extreme is not None
        if not (is_sum or kind.counts or is_extreme) or len(primitive.arguments) != 1:
            return None
        branches = branches_of(primitive.arguments[0])
        feeds: list[Feed] = []
        zeros: list[Branch] = []
        for branch in branches:
            if is_sum and _is_zero(branch.value):
                zeros.append(branch)
            elif not is_null(branch.value):
                found = self._of_branch(primitive, conditions, branch)
                if found is None:
                    return None
                feeds.append(found)
        added = self._of_zeros(conditions, branches, zeros) if zeros else ()
        if not branches or added is None:
            return None
        return FoldSeveral((*feeds, *added))

    def _of_branch(
        self, primitive: Primitive, conditions: tuple[Expression, ...], branch: Branch
    ) -> Feed | None:
        """Return how the rows of one branch are summed or counted."""
        is_sum = primitive.kind.sums
        constant = fraction_of(branch.value) if is_sum else None
        if constant is not None:
            rows = (*conditions, *self._open(conjuncts(branch.condition)))
            return self._of_product(primitive, (), constant, rows)
        is_counted = primitive.kind.counts and is_value(branch.value)
        arguments = () if is_counted else (branch.value,)
        own = conjunction((*conditions, *conjuncts(branch.condition)))
        return self.find(Primitive(primitive.function, arguments, own))

    def _of_zeros(
        self,
        conditions: tuple[Expression, ...],
        branches: tuple[Branch, ...],
        zeros: list[Branch],
    ) -> tuple[Feed, ...] | None:
        """Return how the zeros of a sum are added, which is null of no rows alone.

        If no branch has nulls, each stored row adds one, since it stands for some rows.
        """
        if self._spec.grouping or self._spec.filter is None:
            everywhere = self._rewritten(conditions)
            if everywhere is not None and all(self._has_value(b, conditions) for b in branches):
                return (AddRows((zeros[0].value,), conjunction(everywhere)),)
        found: list[Feed] = []
        for branch in zeros:
            open_ones = (*conditions, *self._open(conjuncts(branch.condition)))
            count = self._merged(_COUNT, open_ones)
            if count is None:
                return None
            found.append(FoldMultiple(_COUNT, count, 0))
        return tuple(found)

    def _has_value(self, branch: Branch, conditions: tuple[Expression, ...]) -> bool:
        """Whether the value of a branch is never null where it counts."""
        known = Premises((*self._context, *conditions, branch.condition))
        return known.is_not_null(branch.value)

    def _of_rest(
        self, primitive: Primitive, conditions: tuple[Expression, ...]
    ) -> FoldSeveral | None:
        """Answer count_if(y IS NULL) as count(*) - count(y)."""
        if not primitive.kind.counts:
            return None
        for condition in conditions:
            others = tuple(other for other in conditions if other != condition)
            whole = self._merged(primitive, others)
            if whole is None:
                continue
            rest = self._open((opposite_of(condition),))
            part = self._merged(primitive, (*others, *rest))
            if part is not None:
                return FoldSeveral((whole, FoldMultiple(primitive, part, -1)))
        return None


def _tested_for_null(condition: Expression) -> Expression | None:
    """Return the value that IS NULL or IS NOT NULL tests; None for another condition."""
    inner = condition
    if isinstance(inner, Call) and inner.function == "not":
        inner = inner.arguments[0]
    is_test = isinstance(inner, Call) and inner.function == "is_null"
    return inner.children[0] if is_test else None


def _is_zero(value: Expression) -> bool:
    return isinstance(value, Literal) and value.value == 0
