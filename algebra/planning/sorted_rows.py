"""What reading a projection of rows costs: its order leaves only some pages to look at.

The figures are guesses, as no file is opened for planning: how much of the order's first columns a
filter leaves, from the least and greatest value of the segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa

from projseg.algebra.aggregates.state_columns import stored_column
from projseg.algebra.expressions.canonical import conjuncts
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, order_key
from projseg.algebra.planning.match_one_projection import Match
from projseg.algebra.planning.source_cost import BYTE_WORK, ReadShape, selectivity
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.segment_facts import ColumnFacts, ProjectionFacts, SegmentFacts
from projseg.segment_format.footer import ROW_NUMBER
from projseg.segment_format.format_limits import PAGE_ROWS_MAX

_SORT_WORK: Final = 16
"""Byte-equivalents of bringing a row back into the order of the base rows."""
_TIME_WORK: Final = 3.0
_BUCKET_WORK: Final = 1.0
"""For each row whose time or bucket is compared, as the rows are not in order of time."""
_LOWER: Final = (">", ">=")
_UPPER: Final = ("<", "<=")


def page_share(match: Match, facts: SegmentFacts, time_share: float) -> float:
    """Return the share of a projection's rows in pages that its order does not rule out."""
    spec, share = match.spec, 1.0
    conditions = conjuncts(match.filter)
    for expression in spec.order:
        stored = spec.column_by_expression[expression]
        is_time = isinstance(expression, Column) and expression.name == spec.time_column
        own = [one for one in conditions if one.columns == {stored.name} and _is_of_order(one)]
        if not own and not is_time:
            break
        known = facts.columns.get(expression.name) if isinstance(expression, Column) else None
        share *= _share(own, known) * (time_share if is_time else 1.0)
        if not any(isinstance(one, Call) and one.function in ("=", "is_null") for one in own):
            break
    return min(1.0, share + PAGE_ROWS_MAX / max(facts.row_count, 1))


def sorted_cost(
    shape: ReadShape,
    stored: ProjectionFacts,
    pages: float,
    time_share: float,
    *,
    needs_row_numbers: bool,
    is_put_back: bool,
) -> int:
    """Return the cost of reading a projection of rows, at least 1 so that base rows win a tie.

    It is higher if rows are matched with the base rows, or returned in their order.
    """
    work = _SORT_WORK if is_put_back else 0
    if needs_row_numbers:
        work += stored.column_bytes.get(ROW_NUMBER, 0) // max(stored.row_count, 1) + 1
    kept = min(pages, shape.selectivity * time_share)
    read = shape.cost_of_sorted(
        stored.row_count, stored.column_bytes, stored.byte_count, examined=pages, kept=kept
    )
    return 1 + read + round(kept * work * stored.row_count)


def time_cost(spec: ProjectionSpec, stored: ProjectionFacts, pages: float) -> int:
    """Return the cost of comparing the times or buckets of rows, 0 if they are in order of time."""
    time = spec.time_grouping
    column = None if time is None else stored_column(spec.grouping[time.index].expression).name
    if column is None or spec.stored_order[0] == column:
        return 0
    work = stored.row_count * (_TIME_WORK if spec.holds_rows else _BUCKET_WORK)
    return round(pages * (work + BYTE_WORK * stored.column_bytes.get(column, stored.byte_count)))


def bucket_columns(spec: ProjectionSpec) -> frozenset[str]:
    """Return the names of a projection's stored columns of buckets of time."""
    named = () if spec.holds_rows else spec.grouping
    return frozenset(
        stored_column(one.expression).name
        for one in named
        if pa.types.is_timestamp(one.expression.type) and not isinstance(one.expression, Column)
    )


def _is_of_order(condition: Expression) -> bool:
    """Whether the values that fulfil a condition on a column are next to each other, or few."""
    if not isinstance(condition, Call) or not isinstance(condition.arguments[0], Column):
        return False
    if condition.function != "like":
        return condition.function in ("=", "in", "is_null", *_LOWER, *_UPPER)
    pattern = condition.arguments[1]
    return isinstance(pattern, Literal) and str(pattern.value)[:1] not in ("%", "_", "")


def _share(conditions: Sequence[Expression], known: ColumnFacts | None) -> float:
    """Return the expected share of rows for which conditions on one column are true."""
    ranges = [c for c in conditions if _bound(c) is not None]
    rest = [c for c in conditions if c not in ranges]
    share = 1.0
    for condition in rest:
        share *= min(selectivity((condition,)), _point_share(condition, known))
    return share * (_range_share(ranges, known) if ranges else 1.0)


def _point_share(condition: Expression, known: ColumnFacts | None) -> float:
    """Return the share of one value, or of a few, were all values of a whole type as frequent."""
    if known is None or not isinstance(condition, Call) or condition.function not in ("=", "in"):
        return 1.0
    low, high = (order_key(v, condition.arguments[0].type) for v in (known.minimum, known.maximum))
    if not isinstance(low, int) or not isinstance(high, int):
        return 1.0
    return (len(condition.arguments) - 1) / max(high - low + 1, 1)


def _range_share(conditions: Sequence[Expression], known: ColumnFacts | None) -> float:
    """Return the share of the span from the least to the greatest value that ranges leave."""
    guess = min(selectivity((condition,)) for condition in conditions)
    if known is None:
        return guess
    (column,) = {c.arguments[0] for c in conditions if isinstance(c, Call)}
    ends = [_number(order_key(v, column.type)) for v in (known.minimum, known.maximum)]
    if ends[0] is None or ends[1] is None or ends[1] <= ends[0]:
        return guess
    low, high = first, last = ends[0], ends[1]
    for condition in conditions:
        bound = _bound(condition)
        assert bound is not None, "the caller has looked"
        function, value = bound
        low = max(low, value) if function in _LOWER else low
        high = min(high, value) if function in _UPPER else high
    return max(high - low, 0.0) / (last - first)


def _bound(condition: Expression) -> tuple[str, float] | None:
    """Return the comparison of a column with a number, None if a condition is no such thing."""
    if not isinstance(condition, Call) or condition.function not in (*_LOWER, *_UPPER):
        return None
    left, right = condition.arguments  # canonical: a constant stands on the right
    if not isinstance(left, Column) or not isinstance(right, Literal):
        return None
    value = _number(order_key(right.value, left.type))
    return None if value is None else (condition.function, value)


def _number(key: object) -> float | None:
    """Return the `order_key` of a number or a time as a double, else None."""
    if isinstance(key, tuple):
        (is_nan, key) = key
        if is_nan:
            return None
    return float(key) if isinstance(key, int | float | Decimal) else None
