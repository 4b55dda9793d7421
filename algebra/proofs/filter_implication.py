"""A small, sound prover of whether a condition is true of every row that fulfils some others.

It reasons with sets of values of one term, nulls, AND and OR. It may fail to find a proof that
exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.evaluate import may_fail
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Nulls
from projseg.algebra.expressions.tree import TRUE, Call, Expression, Literal
from projseg.algebra.proofs.predicate_truth import stated_truth, truth_of
from projseg.algebra.proofs.value_set import ANYTHING, NOTHING, ValueSet

_CASES_MAX: Final = 64
"""Combinations of disjuncts that one proof may try, so that planning time stays bounded."""


class Premises:
    """Conditions that are true of all rows, and what follows from them.

    Parameters
    ----------
    conditions : iterable of Expression
        Boolean expressions; each is true, not merely not false.
    """

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

    def _known(self, term: Expression) -> ValueSet:
        """Return the values that a term may have."""
        known = self._sets.get(term, ANYTHING)
        return known.without_null() if self.is_not_null(term) else known

    def _prove(self, goal: Expression) -> bool:
        if goal in self.conditions or goal == TRUE or self.is_contradiction:
            return True
        tested = _tested_for_null(goal)
        if tested is not None and not may_fail(tested) and self.is_not_null(tested):
            return True
        truth = truth_of(goal)
        if truth is not None:
            return self._known(truth.term).is_within(truth.true)
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
        return any(self._known(term).is_within(found) for term, found in true_sets.items())

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


def _tested_for_null(condition: Expression) -> Expression | None:
    """Return the expression that a condition says not to be null; None of other conditions."""
    inner = condition.children[0] if condition.children else None
    is_negation = isinstance(condition, Call) and condition.function == "not"
    if not is_negation or not isinstance(inner, Call) or inner.function != "is_null":
        return None
    return inner.arguments[0]
