"""Turn bounds on the time column from conditions of a filter into an interval, and back."""

from __future__ import annotations

import datetime

import pyarrow as pa

from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.tree import Call, Column, Cut, Expression, Literal
from projseg.algebra.proofs.predicate_truth import truth_of
from projseg.algebra.proofs.value_set import ANYTHING
from projseg.algebra.time.duration import DAY
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS

_EPOCH = datetime.datetime(1970, 1, 1)


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
        return Literal(arrow_type, _EPOCH.date() + datetime.timedelta(days=days))
    moment = _EPOCH + datetime.timedelta(microseconds=micros)
    return Literal(arrow_type, moment.replace(tzinfo=datetime.UTC) if arrow_type.tz else moment)
