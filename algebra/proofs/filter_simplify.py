"""Decide from a segment's facts whether a condition is true of every row, of none or of some."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.canonical import canonical, conjuncts
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, order_key
from projseg.algebra.proofs.predicate_truth import Truth, truth_of
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
    """The values that terms can have in one segment.

    Parameters
    ----------
    facts : SegmentFacts
        The facts of the segment.
    """

    def __init__(self, facts: SegmentFacts) -> None:
        self._facts = facts
        self._by_term: dict[Expression, ValueSet] = {}
        self._ends: dict[str, tuple[int, int] | None] = {}

    def of(self, term: Expression) -> ValueSet:
        """Return a set that holds every value of a term; anything, if little is known of it."""
        if term not in self._by_term:
            self._by_term[term] = self._compute(term)
        return self._by_term[term]

    def constant(self, expression: Expression) -> Literal | None:
        """Return the one value that an expression of a time has; None if it may have several."""
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
            return column_values(facts, term.type, self._facts.row_count)
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


def column_values(facts: ColumnFacts | None, arrow_type: pa.DataType, row_count: int) -> ValueSet:
    """Return a set that holds all of a column's values in a segment of `row_count` rows."""
    if row_count == 0:
        return NOTHING
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
