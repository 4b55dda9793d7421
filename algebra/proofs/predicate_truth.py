"""Find for which values of its term a predicate is true, and which interval bounds on time leave.

A term is the column or expression that a predicate compares with constants. If it is a function
whose inverse is known, what it is computed from becomes the term: `to_date(t) = DATE '2024-05-01'`
is true of the times of a day. Conditions on the time column become an interval, and an interval
conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.tree import (
    Call,
    Column,
    Cut,
    Expression,
    Literal,
    end_of_prefix,
    micros_datetime,
)
from projseg.algebra.proofs.value_set import (
    ANY_VALUE,
    ANYTHING,
    NULL_ONLY,
    ValueSet,
    any_of,
    only,
    preimage,
    values_between,
)
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS
from projseg.memory.forks import cached_property

_COMPARISONS: Final = frozenset(("=", "!=", "<", "<=", ">", ">=", "<=>"))


class Truth(msgspec.Struct, frozen=True, dict=True):
    """The disjoint sets of a term's values for which a predicate over it is true and false.

    It is true, false or null for the values in `defined`, and raises for others.
    """

    term: Expression
    true: ValueSet
    false: ValueSet
    defined: ValueSet = ANYTHING

    @cached_property
    def null(self) -> ValueSet:
        """The values for which the predicate is null."""
        return self.true.union(self.false).complement().intersection(self.defined)


@lru_cache(maxsize=8192)
def truth_of(predicate: Expression) -> Truth | None:
    """Return the truth of a predicate over a single term; None for other predicates.

    The term is the innermost from which the predicate's own can be inverted.
    """
    truth = stated_truth(predicate)
    while truth is not None and (inner := _of_argument(truth)) is not None:
        truth = inner
    return truth


def _of_argument(truth: Truth) -> Truth | None:
    """Return the truth over what its term is computed from, if that is known exactly."""
    if not isinstance(truth.term, Call):
        return None
    true, false = preimage(truth.term, truth.true), preimage(truth.term, truth.false)
    defined = preimage(truth.term, truth.defined)
    if true is None or false is None or defined is None:
        return None
    return Truth(truth.term.arguments[0], true, false, defined)


@lru_cache(maxsize=8192)
def stated_truth(predicate: Expression) -> Truth | None:
    """Return the truth of a predicate over the term that it compares, as it is written."""
    if not isinstance(predicate, Call):
        return _truth_of_term(predicate) if isinstance(predicate, Column) else None
    if predicate.function in _COMPARISONS:
        return _comparison(predicate)
    truth = _TRUTHS.get(predicate.function)
    return None if truth is None else truth(predicate)


def _truth_of_term(term: Expression) -> Truth | None:
    true = only(True, term.type)
    return None if true is None else Truth(term, true, true.complement().without_null())


def _connected(predicate: Call) -> Truth | None:
    """Return the truth of AND or OR, whose operands must be over one term."""
    parts = [truth_of(part) for part in predicate.arguments]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or len({part.term for part in found}) != 1:
        return None
    true, false, defined = found[0].true, found[0].false, found[0].defined
    for part in found[1:]:
        if predicate.function == "and":
            true, false = true.intersection(part.true), false.union(part.false)
        else:
            true, false = true.union(part.true), false.intersection(part.false)
        defined = defined.intersection(part.defined)
    return Truth(found[0].term, true, false, defined)


def _negation(predicate: Call) -> Truth | None:
    inner = truth_of(predicate.arguments[0])
    return None if inner is None else Truth(inner.term, inner.false, inner.true, inner.defined)


def _comparison(predicate: Call) -> Truth | None:
    left, right = predicate.arguments  # canonical: a constant stands on the right
    function = predicate.function
    if not isinstance(right, Literal):
        return None
    if function == "<=>":
        return _null_safe(left, right.value)
    true = _compared(function, right.value, left.type)
    if true is None:
        return None
    false = true.complement().without_null()
    return Truth(left, false, true) if function == "!=" else Truth(left, true, false)


def _null_safe(left: Expression, value: object) -> Truth | None:
    """Return the truth of `x <=> constant` or `condition IS TRUE`, which are never null."""
    inner = truth_of(left) if isinstance(left, Call) else None
    if inner is not None and isinstance(value, bool):
        true = inner.true if value else inner.false
        return Truth(inner.term, true, inner.defined.minus(true), inner.defined)
    found = NULL_ONLY if value is None else only(value, left.type)
    return None if found is None else Truth(left, found, found.complement())


def _compared(function: str, value: object, arrow_type: pa.DataType) -> ValueSet | None:
    if function in ("=", "!="):
        return only(value, arrow_type)
    if function in ("<", "<="):
        return values_between(None, value, arrow_type, with_high=function == "<=")
    return values_between(value, None, arrow_type, with_low=function == ">=")


def _membership(predicate: Call) -> Truth | None:
    term, *options = predicate.arguments  # canonical: constants, and no null
    true = any_of([option.value for option in options if isinstance(option, Literal)], term.type)
    return None if true is None else Truth(term, true, true.complement().without_null())


def _is_null(predicate: Call) -> Truth | None:
    (term,) = predicate.arguments
    return Truth(term, NULL_ONLY, ANY_VALUE)


def _is_nan(predicate: Call) -> Truth | None:
    (term,) = predicate.arguments
    true = only(math.nan, term.type)
    return None if true is None else Truth(term, true, true.complement())


def _like(predicate: Call) -> Truth | None:
    term, pattern = predicate.arguments
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    body = pattern.value.rstrip("%")
    if any(special in body for special in "%_\\"):
        return None
    is_prefix = body != pattern.value
    true = prefixed(body) if is_prefix else only(body, term.type)
    return None if true is None else Truth(term, true, true.complement().without_null())


def _starts_with(predicate: Call) -> Truth | None:
    term, prefix = predicate.arguments
    if not isinstance(prefix, Literal) or not isinstance(prefix.value, str):
        return None
    true = prefixed(prefix.value)
    return Truth(term, true, true.complement().without_null())


def prefixed(prefix: str) -> ValueSet:
    """Return the set of strings that begin with a prefix."""
    return ValueSet(((1, prefix, 0), end_of_prefix(prefix))) if prefix else ANY_VALUE


_TRUTHS: Final[dict[str, Callable[[Call], Truth | None]]] = {
    "and": _connected,
    "or": _connected,
    "not": _negation,
    "in": _membership,
    "is_null": _is_null,
    "isnan": _is_nan,
    "like": _like,
    "startswith": _starts_with,
}


def split_time_bounds(
    condition: Expression | None, time_column: str | None, schema: pa.Schema
) -> tuple[Interval | None, tuple[Expression, ...]]:
    """Return the interval that some conjuncts of a filter express exactly, and the others."""
    if condition is None:
        return None, ()
    parts = tuple(conjuncts(condition))
    if time_column is None:
        return None, parts
    column = Column(schema.field(time_column).type, time_column)
    found: Interval | None = None
    rest = []
    for part in parts:
        bounds = _bounds(part, column)
        if bounds is None:
            rest.append(part)
        elif found is None:
            found = bounds
        else:
            found = intersection(found, bounds)
    return found, tuple(rest)


def intersection(one: Interval | None, other: Interval | None) -> Interval | None:
    """Return the times that are in both intervals, None for all; empty where they do not meet."""
    if one is None or other is None:
        return one or other
    return one.intersect(other) or Interval(one.start_us, one.start_us)


def _bounds(part: Expression, column: Column) -> Interval | None:
    """Return the interval that a condition on the time column expresses exactly, else None."""
    truth = truth_of(part)
    if truth is None or truth.term != column or truth.defined != ANYTHING:
        return None
    if truth.true.has_null or len(truth.true.cuts) != 2:
        return None
    start, end = (cut_micros(cut, column.type) for cut in truth.true.cuts)
    return Interval(start, end) if start <= end else None


def cut_micros(cut: Cut, arrow_type: pa.DataType) -> int:
    """Return the first instant at or after a cut between times or dates."""
    if len(cut) == 1:
        return MIN_MICROS if cut[0] == 0 else MAX_MICROS
    unit = DAY if pa.types.is_date32(arrow_type) else 1
    return min(max(int(cut[1]) * unit, MIN_MICROS), MAX_MICROS)


def interval_conditions(interval: Interval, column: Expression) -> tuple[Call, ...]:
    """Return the conditions that a time or date lies in an interval."""
    conditions = []
    if interval.start_us > MIN_MICROS:
        conditions.append(
            Call(pa.bool_(), ">=", (column, time_literal(interval.start_us, column.type)))
        )
    if interval.end_us < MAX_MICROS:
        conditions.append(
            Call(pa.bool_(), "<", (column, time_literal(interval.end_us, column.type)))
        )
    return tuple(conditions)


def time_literal(micros: int, arrow_type: pa.DataType) -> Literal:
    """Return a bound on a timestamp, timestamp_ntz or date; a date's is rounded up to a day."""
    if pa.types.is_date32(arrow_type):
        days = -(-micros // DAY)
        return Literal(arrow_type, date(1970, 1, 1) + timedelta(days=days))
    return Literal(arrow_type, micros_datetime(micros, arrow_type))
