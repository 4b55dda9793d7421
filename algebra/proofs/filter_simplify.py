"""Decide from a segment's facts whether a condition is true of every row, of none or of some."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.proofs.integer_ranges import values_of_sum, without_widening
from projseg.algebra.proofs.predicate_truth import truth_of
from projseg.algebra.proofs.segment_facts import ColumnFacts, SegmentFacts
from projseg.algebra.proofs.value_set import (
    ANY_VALUE,
    ANYTHING,
    NOTHING,
    NULL_ONLY,
    ValueSet,
    floored,
    only,
    values_between,
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

    def of(self, term: Expression) -> ValueSet:
        """Return a set that holds every value of a term; anything, if little is known of it."""
        if term not in self._by_term:
            self._by_term[term] = self._compute(term)
        return self._by_term[term]

    def _compute(self, term: Expression) -> ValueSet:
        if isinstance(term, Column):
            facts = self._facts.columns.get(term.name)
            return column_values(facts, term.type, self._facts.row_count)
        if isinstance(term, Call) and term.function == "time_floor":
            return floored(self.of(term.arguments[0]), term.arguments[0].type, term.parameters[0])
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
        values = zones.of(truth.term)
        return Outcomes(
            true=values.overlaps(truth.true),
            false=values.overlaps(truth.false),
            null=values.overlaps(truth.null),
        )
    if not isinstance(condition, Call) or condition.function not in ("and", "or", "not"):
        return _ANY_OUTCOME
    parts = [outcomes(part, zones) for part in condition.arguments]
    if condition.function == "not":
        return Outcomes(true=parts[0].false, false=parts[0].true, null=parts[0].null)
    if condition.function == "and":
        return _all_of(parts)
    inverse = _all_of([Outcomes(true=p.false, false=p.true, null=p.null) for p in parts])
    return Outcomes(true=inverse.false, false=inverse.true, null=inverse.null)


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
    kept = []
    for condition in conditions:
        found = outcomes(condition, zones)
        if not found.true:
            return (condition,), True
        if not found.is_always_true:
            kept.append(condition)
    return tuple(kept), False
