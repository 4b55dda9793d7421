"""Prove of a condition that it is true of every row, from other conditions or a segment's facts.

The prover is small and sound: it reasons with sets of values of one term, nulls, AND and OR. It may
fail to find a proof that exists. From facts it also says whether a condition is true of no row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from math import prod
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.canonical import canonical, conjuncts
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Nulls
from projseg.algebra.expressions.tree import TRUE, Call, Column, Expression, Literal, order_key
from projseg.algebra.proofs.predicate_truth import Truth, stated_truth, truth_of
from projseg.algebra.proofs.segment_facts import (
    ColumnFacts,
    SegmentFacts,
    constant_between,
    time_reading,
)
from projseg.algebra.proofs.value_set import (
    ANY_VALUE,
    ANYTHING,
    NOTHING,
    NULL_ONLY,
    ValueSet,
    only,
    values_between,
    values_of_sum,
    without_widening,
)

_CASES_MAX: Final = 64
"""Combinations of disjuncts that one proof may try, so that planning time stays bounded."""


class Premises:
    """Conditions that are true, not merely not false, of all rows, and what follows from them."""

    def __init__(self, conditions: Iterable[Expression]) -> None:
        self.conditions = frozenset(part for whole in conditions for part in conjuncts(whole))
        self._sets: dict[Expression, ValueSet] = {}
        self._not_null: set[Expression] = set()
        self._proved: dict[Expression, bool] = {}
        for condition in self.conditions:
            self._learn(condition)

    def _learn(self, condition: Expression) -> None:
        stated, truth = stated_truth(condition), truth_of(condition)
        if stated is None or truth is None:
            self._learn_not_null(condition)
            if isinstance(condition, Call) and condition.function == "join_found":
                for argument in condition.arguments:  # a null key matches no row
                    self._learn_not_null(argument)
            return
        for term, true in {stated.term: stated.true, truth.term: truth.true}.items():
            self._sets[term] = self._sets.get(term, ANYTHING).intersection(true)
            if not true.has_null:
                self._learn_not_null(term)

    def _learn_not_null(self, expression: Expression) -> None:
        """Note which expressions cannot be null if `expression` is not null."""
        self._not_null.add(expression)
        if not isinstance(expression, Call):
            return
        if FUNCTIONS[expression.function].nulls == Nulls.FROM_ANY:
            for argument in expression.arguments:
                self._learn_not_null(argument)

    @property
    def is_contradiction(self) -> bool:
        """Whether no row can fulfil all conditions, judged for one term at a time."""
        return any(known.is_empty for known in self._sets.values())

    def is_not_null(self, expression: Expression) -> bool:
        """Whether the conditions prove that an expression is not null."""
        if isinstance(expression, Literal):
            return expression.value is not None
        if expression in self._not_null or not self._sets.get(expression, ANYTHING).has_null:
            return True
        if not isinstance(expression, Call):
            return False
        record = FUNCTIONS[expression.function]
        if record.nulls == Nulls.NEVER or self._has_value(expression):
            return True
        return record.null_only_from_null(expression) and all(
            map(self.is_not_null, expression.arguments)
        )

    def _has_value(self, call: Call) -> bool:
        """Whether a choice among values is never null: some value of COALESCE, each of CASE."""
        if call.function == "coalesce":
            return any(map(self.is_not_null, call.arguments))
        values = (*call.arguments[1::2], call.arguments[-1])
        return call.function == "case" and all(map(self.is_not_null, values))

    def imply(self, goal: Expression) -> bool:
        """Whether `goal` is proved to be true wherever all conditions are true."""
        if goal not in self._proved:
            self._proved[goal] = self._prove(goal) or self._prove_by_cases(goal)
        return self._proved[goal]

    def _values_of(self, term: Expression) -> ValueSet:
        """Return the values that a term may have."""
        known = self._sets.get(term, ANYTHING)
        return known.without_null() if self.is_not_null(term) else known

    def _prove(self, goal: Expression) -> bool:
        if goal in self.conditions or goal == TRUE or self.is_contradiction:
            return True
        tested = tested_for_null(goal)
        if tested is not None and not may_fail(tested) and self.is_not_null(tested):
            return True
        truth = truth_of(goal)
        if truth is not None:
            return self._values_of(truth.term).is_within(truth.true)
        if not isinstance(goal, Call) or goal.function not in ("and", "or"):
            return False
        if goal.function == "and":
            return all(self.imply(part) for part in goal.arguments)
        return any(self.imply(part) for part in goal.arguments) or self._cover(goal)

    def _cover(self, goal: Call) -> bool:
        """Whether the disjuncts over one term together allow every value that it may have."""
        true_sets: dict[Expression, ValueSet] = {}
        for part in goal.arguments:
            if (truth := truth_of(part)) is not None:
                true_sets[truth.term] = true_sets.get(truth.term, NOTHING).union(truth.true)
        return any(self._values_of(term).is_within(found) for term, found in true_sets.items())

    def _prove_by_cases(self, goal: Expression) -> bool:
        """Try each disjunct of a premise in turn: a goal that all of them imply is implied."""
        choices = [c for c in self.conditions if isinstance(c, Call) and c.function == "or"]
        if prod(len(choice.arguments) for choice in choices) > _CASES_MAX:
            return False
        for choice in choices:
            others = self.conditions - {choice}
            if all(Premises([*others, part]).imply(goal) for part in choice.arguments):
                return True
        return False


def tested_for_null(condition: Expression) -> Expression | None:
    """Return the expression that a condition says not to be null; None for other conditions."""
    inner = condition.children[0] if condition.children else None
    is_negation = isinstance(condition, Call) and condition.function == "not"
    if not is_negation or not isinstance(inner, Call) or inner.function != "is_null":
        return None
    return inner.arguments[0]


class Outcomes(msgspec.Struct, frozen=True):
    """Which of the three truth values a condition can have among some rows."""

    true: bool
    false: bool
    null: bool

    @property
    def is_always_true(self) -> bool:
        """Whether it is true of every row."""
        return not self.false and not self.null


_ANY_OUTCOME: Final = Outcomes(true=True, false=True, null=True)


class ZoneSets:
    """The values that terms can have in one segment."""

    def __init__(self, facts: SegmentFacts) -> None:
        self._facts = facts
        self._by_term: dict[Expression, ValueSet] = {}
        self._ends: dict[str, tuple[int, int] | None] = {}

    def of(self, term: Expression) -> ValueSet:
        """Return a set that holds every value of a term; anything, if its facts do not say."""
        if term not in self._by_term:
            self._by_term[term] = self._compute(term)
        return self._by_term[term]

    def constant(self, expression: Expression) -> Literal | None:
        """Return the only value that an expression of a time can have.

        None if it may have several.
        """
        reading = time_reading(expression)
        if reading is None:
            return None
        column = reading.column
        if column.name not in self._ends:
            self._ends[column.name] = self._ends_of(column)
        ends = self._ends[column.name]
        return None if ends is None else constant_between(expression, *ends)

    def ends_of_only_column(self, expression: Expression) -> tuple[object, object] | None:
        """Return values between which the only column of an expression lies, as in `Literal`.

        None if it has several columns, or no bounds are known, or some value is NaN.
        """
        if len(expression.columns) != 1:
            return None
        (name,) = expression.columns
        facts = self._facts.columns.get(name)
        if facts is None or facts.has_nan or facts.minimum is None or facts.maximum is None:
            return None
        return facts.minimum, facts.maximum

    def _ends_of(self, column: Column) -> tuple[int, int] | None:
        """Return the order keys between which a column lies, None if it may be null."""
        facts = self._facts.columns.get(column.name)
        if facts is None or facts.null_count:
            return None
        low, high = (order_key(end, column.type) for end in (facts.minimum, facts.maximum))
        return None if low is None or high is None else (low, high)

    def _compute(self, term: Expression) -> ValueSet:
        if isinstance(term, Column):
            facts = self._facts.columns.get(term.name)
            return _column_values(facts, term.type, self._facts.row_count)
        if (constant := self.constant(term)) is not None:
            is_null = constant.value is None
            found = NULL_ONLY if is_null else only(constant.value, term.type)
            return ANYTHING if found is None else found
        if isinstance(term, Call) and term.function == "cast":
            plain = without_widening(term)
            return ANYTHING if plain == term else self.of(plain)
        if isinstance(term, Call) and term.function == "+":
            return values_of_sum(tuple(map(self.of, term.arguments)), term.type)
        return ANYTHING


def _column_values(facts: ColumnFacts | None, arrow_type: pa.DataType, row_count: int) -> ValueSet:
    """Return a set that holds all of a column's values in a segment of `row_count` rows."""
    if row_count == 0:
        return NOTHING
    if facts is not None and not facts.is_known:
        return ANYTHING
    if facts is None or facts.null_count >= row_count:
        return NULL_ONLY
    known: ValueSet | None = NOTHING if facts.has_nan else None
    if facts.minimum is not None and facts.maximum is not None:
        known = values_between(facts.minimum, facts.maximum, arrow_type)
    if known is None:
        known = ANY_VALUE
    if facts.has_nan and (nan := only(math.nan, arrow_type)) is not None:
        known = known.union(nan)
    return ValueSet(known.cuts, has_null=facts.null_count > 0)


def outcomes(condition: Expression, zones: ZoneSets) -> Outcomes:
    """Return which truth values a condition can have among a segment's rows."""
    if isinstance(condition, Literal):
        value = condition.value
        return Outcomes(true=value is True, false=value is False, null=value is None)
    truth = truth_of(condition)
    if truth is not None:
        return _outcomes_of_values(truth, zones.of(truth.term))
    if not isinstance(condition, Call) or condition.function not in ("and", "or", "not"):
        constant = zones.constant(condition)
        return _ANY_OUTCOME if constant is None else outcomes(constant, zones)
    parts = [outcomes(part, zones) for part in condition.arguments]
    if condition.function == "not":
        return Outcomes(true=parts[0].false, false=parts[0].true, null=parts[0].null)
    if condition.function == "and":
        return _all_of(parts)
    inverse = _all_of([Outcomes(true=p.false, false=p.true, null=p.null) for p in parts])
    return Outcomes(true=inverse.false, false=inverse.true, null=inverse.null)


def _outcomes_of_values(truth: Truth, values: ValueSet) -> Outcomes:
    if truth.defined is not ANYTHING and not values.is_within(truth.defined):
        return _ANY_OUTCOME  # the error of some row must not be lost
    return Outcomes(
        true=values.overlaps(truth.true),
        false=values.overlaps(truth.false),
        null=values.overlaps(truth.null),
    )


def _all_of(parts: list[Outcomes]) -> Outcomes:
    return Outcomes(
        true=all(part.true for part in parts),
        false=any(part.false for part in parts),
        null=any(part.null for part in parts) and all(part.true or part.null for part in parts),
    )


def simplify(
    conditions: Iterable[Expression], zones: ZoneSets
) -> tuple[tuple[Expression, ...], bool]:
    """Return the conditions that are not true of every row, and whether no row fulfils them all."""
    kept: list[Expression] = []
    for condition in conditions:
        found = outcomes(condition, zones)
        if not found.true:
            return (condition,), True
        if not found.is_always_true:
            kept += conjuncts(_narrowed(condition, zones))
    return tuple(kept), False


def _narrowed(condition: Expression, zones: ZoneSets) -> Expression:
    """Return a condition without alternatives that no row fulfils and demands that each does."""
    if not isinstance(condition, Call) or condition.function not in ("or", "and"):
        return condition
    is_or = condition.function == "or"
    parts = []
    for part in condition.arguments:
        found = outcomes(part, zones)
        if found.true if is_or else not found.is_always_true:
            parts.append(_narrowed(part, zones))
    if tuple(parts) == condition.arguments:
        return condition
    return canonical(Call(condition.type, condition.function, tuple(parts)))
