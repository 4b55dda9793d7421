"""Which computed values are exact for every row of a segment, or one value in each bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.algebra.aggregates.aggregate_rewrites import is_null, values_of_choice
from projseg.algebra.expressions.coercion import is_decimal, is_integral, scale_of
from projseg.algebra.expressions.evaluate import evaluate, may_fail
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Nulls, Order, never
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.algebra.proofs.filter_proofs import ZoneSets
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import EvaluationError
from projseg.segment_format.arrow_arrays import array_of, primitive_array
from projseg.segment_format.logical_types import TIMESTAMP_NTZ

Bounds = tuple[Fraction, Fraction]

_DATE_CHARACTERS: Final = len("2024-01-31")
_DOUBLE_WHOLE_MAX: Final = 1 << 53
"""Up to here a double holds every whole number."""


def _is_exact_number(arrow_type: pa.DataType) -> bool:
    """Whether values of a type are integers or decimals."""
    return is_integral(arrow_type) or is_decimal(arrow_type)


def is_operation(expression: Expression) -> bool:
    """Whether it adds, subtracts, multiplies, negates or casts exact numbers to exact numbers."""
    return (
        isinstance(expression, Call)
        and expression.function in _OPERATIONS
        and _is_exact_number(expression.type)
        and all(_is_exact_number(argument.type) for argument in expression.arguments)
    )


def exact_bounds(expression: Expression, zones: ZoneSets) -> Bounds | None:
    """Return bounds on the values of an exact number in a segment.

    None if it is no such number, or some operation in it might overflow or round in some row.
    """
    if not _is_exact_number(expression.type):
        return None
    if isinstance(expression, Literal):
        value = expression.value
        return None if value is None else (_fraction(value), _fraction(value))
    if isinstance(expression, Call) and expression.function in ("case", "coalesce"):
        return _bounds_of_any(values_of_choice(expression), zones)
    if isinstance(expression, Call) and is_operation(expression):
        return _bounds_of_operation(expression, zones)
    return _known_bounds(expression, zones)


def has_exact_sum(expression: Expression, zones: ZoneSets, row_count: int) -> bool:
    """Whether a sum over rows of a segment is exact: the sum of the values, without rounding.

    Sums of exact numbers are exact; so are sums of such numbers cast to double, if no sum of
    `row_count` of them exceeds the integers that a double holds.
    """
    if not isinstance(expression, Call):
        return False
    if expression.function != "cast" or expression.type != pa.float64():
        return is_operation(expression) and exact_bounds(expression, zones) is not None
    (inner,) = expression.arguments
    bounds = exact_bounds(inner, zones)
    if bounds is None or scale_of(inner.type):
        return False
    return max(map(abs, bounds)) * row_count <= _DOUBLE_WHOLE_MAX


def is_sure(expression: Expression, zones: ZoneSets) -> bool:
    """Whether an expression raises for no row of a segment."""
    if not isinstance(expression, Call) or not may_fail(expression):
        return True
    if is_operation(expression):
        return exact_bounds(expression, zones) is not None
    if not FUNCTIONS[expression.function].may_fail(expression):
        return all(is_sure(argument, zones) for argument in expression.arguments)
    ends = zones.ends_of_only_column(expression)
    return ends is not None and is_ordered(expression) and _is_sure_between(expression, *ends)


def is_ordered(expression: Expression) -> bool:
    """Whether it rises, or falls, with one column, and is null only where that is."""
    if not isinstance(expression, Call):
        return isinstance(expression, Column)
    if (clock := _clock_of_prefix(expression)) is not None:
        return is_ordered(clock)
    record = FUNCTIONS[expression.function]
    varying = [
        (argument, order)
        for argument, order in zip(expression.arguments, record.order(expression), strict=True)
        if not isinstance(argument, Literal)
    ]
    if len(varying) != 1 or not keeps_values(expression):
        return False
    ((argument, order),) = varying
    return order != Order.NONE and is_ordered(argument)


def _clock_of_prefix(call: Call) -> Call | None:
    """Return the date that the first characters of the text of a timestamp show, or the clock.

    The characters rise with it from the year 0 to 9999, and pass from these to others in a bucket
    whose ends differ.
    """
    inner = call.arguments[0] if call.function == "substring" else None
    if not isinstance(inner, Call) or inner.function != "cast":
        return None
    numbers = [one.value for one in call.arguments[1:] if isinstance(one, Literal)]
    if not pa.types.is_timestamp(inner.arguments[0].type) or len(numbers) != 2:
        return None
    start, length = numbers
    if start not in (0, 1) or not isinstance(length, int):
        return None
    shown = pa.date32() if length <= _DATE_CHARACTERS else TIMESTAMP_NTZ
    return Call(shown, "cast", inner.arguments, inner.parameters)


def keeps_values(call: Call) -> bool:
    """Whether a function makes no null of arguments that are none."""
    record = FUNCTIONS[call.function]
    # Functions that raise promise nothing of nulls to proofs, but those with an order make none.
    has_order = any(order != Order.NONE for order in record.order(call))
    is_raising = record.null_only_from_null is never and has_order
    return record.nulls == Nulls.FROM_ANY and (is_raising or record.null_only_from_null(call))


@lru_cache(maxsize=4096)
def _is_sure_between(expression: Expression, low: object, high: object) -> bool:
    """Whether it raises for neither end: what an ordered function raises for lies beyond an end."""
    (column,) = {node for node in expression.walk() if isinstance(node, Column)}
    try:
        found = evaluate(expression, {column.name: array_of([low, high], column.type)}, 2)
    except EvaluationError:
        return False
    return int(found.null_count) == 0


def _fraction(value: object) -> Fraction:
    assert isinstance(value, int | Decimal), "exact numbers are integers and decimals"
    return Fraction(value)


def _bounds_of_operation(call: Call, zones: ZoneSets) -> Bounds | None:
    parts = [exact_bounds(argument, zones) for argument in call.arguments]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or _scale_needed(call) > scale_of(call.type):
        return None
    low, high = _OPERATIONS[call.function](known)
    least, largest = _limits(call.type)
    return (low, high) if least <= low and high <= largest else None


def _bounds_of_any(values: Sequence[Expression], zones: ZoneSets) -> Bounds | None:
    """Return bounds on expressions of one type, some of which may be the constant null."""
    found = [exact_bounds(value, zones) for value in values if not is_null(value)]
    known = [bounds for bounds in found if bounds is not None]
    if len(known) < len(found) or not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _scale_needed(call: Call) -> int:
    scales = [scale_of(argument.type) for argument in call.arguments]
    return sum(scales) if call.function == "*" else max(scales)


def _known_bounds(expression: Expression, zones: ZoneSets) -> Bounds:
    """Return bounds on what is no operation: those of its column, or those of its type."""
    least, largest = _limits(expression.type)
    found = zones.of(expression)
    if not found.cuts:  # every value is null
        return Fraction(0), Fraction(0)
    low, high = found.cuts[0], found.cuts[-1]
    if len(low) > 1:
        least = max(least, Fraction(low[1]))
    if len(high) > 1:
        # The cut after an integer is that before the next.
        largest = min(largest, Fraction(high[1]) - is_integral(expression.type))
    return least, largest


def _limits(arrow_type: pa.DataType) -> Bounds:
    if is_decimal(arrow_type):
        largest = Fraction(10**arrow_type.precision - 1, 10**arrow_type.scale)
        return -largest, largest
    limit = 1 << (int(arrow_type.bit_width) - 1)
    return Fraction(-limit), Fraction(limit - 1)


def _sum(parts: list[Bounds]) -> Bounds:
    (low, high), (other_low, other_high) = parts
    return low + other_low, high + other_high


def _difference(parts: list[Bounds]) -> Bounds:
    (low, high), (other_low, other_high) = parts
    return low - other_high, high - other_low


def _product(parts: list[Bounds]) -> Bounds:
    first, second = parts
    corners = [one * other for one in first for other in second]
    return min(corners), max(corners)


def _negation(parts: list[Bounds]) -> Bounds:
    ((low, high),) = parts
    return -high, -low


_OPERATIONS: Final[dict[str, Callable[[list[Bounds]], Bounds]]] = {
    "+": _sum,
    "-": _difference,
    "*": _product,
    "negative": _negation,
    "cast": lambda parts: parts[0],
}


# Whether an expression of a time has one value in each bucket, computed from the bucket's start.
#
# That of one which rises or falls with the time is decided by its values at the ends of buckets.

_BUCKETS_MAX: Final = 1 << 16


def ordered_parts(expression: Expression, moment: Column) -> Iterator[Expression]:
    """Yield the largest parts of an expression that rise or fall with a time, but not itself."""
    if not isinstance(expression, Call):
        return
    if expression.columns == {moment.name} and is_ordered(expression):
        yield expression
        return
    for argument in expression.arguments:
        yield from ordered_parts(argument, moment)


@lru_cache(maxsize=4096)
def is_steady(expression: Expression, buckets: Granularity, low: int, end: int) -> bool:
    """Whether an ordered expression has in each bucket one value, that at the bucket's start.

    Times from `low`, before `end`, count, in microseconds.
    """
    if (end - low) // max(buckets.length_micros, 1) > _BUCKETS_MAX:
        return False
    begins, starts = buckets.pieces(low, end)
    ends = np.append(begins[1:], end) - 1
    (moment,) = {node for node in expression.walk() if isinstance(node, Column)}
    times = primitive_array(np.concatenate([begins, ends, starts]).astype(np.int64))
    columns = {moment.name: times.cast(moment.type)}
    try:
        found = evaluate(expression, columns, len(times))
    except EvaluationError:
        return False
    count = len(begins)
    first = found.slice(0, count)
    return bool(
        first.equals(found.slice(count, count)) and first.equals(found.slice(2 * count, count))
    )
