"""Floors of time: every SQL spelling becomes `time_floor(x)` with a Granularity."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa

from projseg.algebra.expressions.catalyst_call import ANY, CONSTANT, spark_call
from projseg.algebra.expressions.coercion import bad_expression, cast_to, is_datetime
from projseg.algebra.expressions.functions.datum import (
    Datum,
    from_integers,
    integers,
    require_type,
    valid_mask,
    word_of,
)
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
)
from projseg.algebra.expressions.tree import (
    BOTTOM,
    TOP,
    Call,
    Cut,
    Expression,
    Literal,
    datetime_micros,
    is_timestamp,
)
from projseg.algebra.time.bucket_order import changes_of_side, keeps_order
from projseg.algebra.time.duration import DAY, parse_interval
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, is_fixed, zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.segment_format.logical_types import TIMESTAMP

_UNITS: Final[dict[str, str]] = {
    "year": "P1Y",
    "yyyy": "P1Y",
    "yy": "P1Y",
    "quarter": "P3M",
    "month": "P1M",
    "mm": "P1M",
    "mon": "P1M",
    "week": "P1W",
    "day": "P1D",
    "dd": "P1D",
    "hour": "PT1H",
    "minute": "PT1M",
    "second": "PT1S",
    "millisecond": "PT0.001S",
    "microsecond": "PT0.000001S",
}
_UNIT_OF_PERIOD: Final = {
    "P1Y": "YEAR",
    "P3M": "QUARTER",
    "P1M": "MONTH",
    "P1W": "WEEK",
    "P1D": "DAY",
    "PT1H": "HOUR",
    "PT1M": "MINUTE",
    "PT1S": "SECOND",
}
_UNITS_WITHIN_A_DATE: Final = frozenset({"P1D", "PT1H", "PT1M", "PT1S"})
_DATE_UNITS: Final = frozenset({"year", "yyyy", "yy", "quarter", "month", "mm", "mon", "week"})


def time_floor(argument: Expression, granularity: Granularity) -> Expression:
    """Return the node of a floor, which has the argument's type.

    A date or timestamp_ntz belongs to no zone, so for these `granularity` must be in UTC.
    """
    return Call(argument.type, "time_floor", (argument,), (granularity,))


def granularity_of(call: Call) -> Granularity:
    """Return the granularity of a time_floor."""
    granularity = call.parameters[0]
    assert isinstance(granularity, Granularity)
    return granularity


def _date_of(argument: Expression, zone: str) -> Expression:
    """Return the node of a value's date."""
    return cast_to(argument, pa.date32(), zone)


def _build_date_trunc(arguments: tuple[Expression, ...], zone: str) -> Expression:
    unit = word_of(arguments, 0, "the unit of date_trunc")
    period = _UNITS.get(unit.casefold())
    if period is None:
        raise bad_expression(
            f"date_trunc does not know the unit '{unit}'; use {_known_units(_UNITS)}"
        )
    return time_floor(cast_to(arguments[1], TIMESTAMP, zone), Granularity.parse(period, zone))


def _build_trunc(arguments: tuple[Expression, ...], zone: str) -> Expression:
    unit = word_of(arguments, 1, "the unit of trunc")
    if unit.casefold() not in _DATE_UNITS:
        raise bad_expression(
            f"trunc does not know the unit '{unit}'; use {_known_units(_DATE_UNITS)}"
        )
    date = _date_of(arguments[0], zone)
    return time_floor(date, Granularity.parse(_UNITS[unit.casefold()]))


def _known_units(units: Any) -> str:
    short = {"yyyy", "yy", "mon", "mm", "dd"}
    return ", ".join(sorted(set(units) - short))


def _build_timestamp_floor(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build Druid's `timestamp_floor(x, period[, origin[, zone]])`, which keeps the type of x."""
    argument = arguments[0]
    if argument.type == pa.string():
        argument = cast_to(argument, TIMESTAMP, zone)
    require_type(is_datetime(argument.type), "timestamp_floor", argument, "a date or timestamp")
    period = word_of(arguments, 1, "the period of timestamp_floor")
    own_zone = len(arguments) > 3 and not _is_null(arguments[3])
    named = word_of(arguments, 3, "the zone of timestamp_floor") if own_zone else zone
    clock = named if argument.type == TIMESTAMP else "UTC"
    granularity = Granularity.parse(period, clock)
    if len(arguments) > 2 and not _is_null(arguments[2]):
        granularity = granularity.with_origin(origin_micros(arguments[2], argument.type))
    return time_floor(argument, granularity)


def _is_null(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.value is None


def origin_micros(origin: Expression, arrow_type: pa.DataType) -> int:
    """Return the origin, a constant, in UTC microseconds.

    A date's or timestamp_ntz's reading counts as UTC; a type that does not fit is refused.
    """
    if not isinstance(origin, Literal) or not is_timestamp(origin.type):
        raise bad_expression("the origin of a time floor must be a timestamp constant")
    if arrow_type != TIMESTAMP and origin.type == TIMESTAMP:
        raise bad_expression("the origin of a floor without a zone must be a TIMESTAMP_NTZ")
    assert isinstance(origin.value, datetime)
    return datetime_micros(origin.value)


def _build_window(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build `window(x, size[, slide[, start]]).start`; windows are aligned to 1970 in UTC."""
    argument = as_timestamp(arguments[0], "window", zone)
    texts = [word_of(arguments, i, "a window's size") for i in range(1, len(arguments))]
    spans = [parse_interval(text) for text in texts]
    if any(span.months for span in spans):
        raise bad_expression("a window's size has days or less, not months")
    if len(spans) > 1 and spans[1] != spans[0]:
        raise bad_expression("only tumbling windows give one start for a row: slide = size")
    granularity = positive_granularity("window", 0, spans[0].micros, "UTC")
    shift = spans[2].micros if len(spans) > 2 else 0
    return time_floor(argument, Granularity(micros=granularity.micros, origin=shift))


def as_timestamp(argument: Expression, function: str, zone: str) -> Expression:
    """Return a timestamp or timestamp_ntz unchanged, and a text or date as a timestamp."""
    if argument.type in (pa.string(), pa.date32()):
        return cast_to(argument, TIMESTAMP, zone)
    require_type(is_timestamp(argument.type), function, argument, "a timestamp")
    return argument


def positive_granularity(function: str, months: int, micros: int, zone: str) -> Granularity:
    """Return the granularity of a positive interval, of either months or exact units."""
    if months < 0 or micros < 0 or bool(months) == bool(micros):
        raise bad_expression(
            f"the size of {function} must be positive, of months or of exact units"
        )
    return Granularity(months, micros, 0, zone)


def _evaluate_floor(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return the start of each value's bucket."""
    granularity = granularity_of(call)
    values = integers(arguments[0], row_count)
    valid = valid_mask(arguments[0], row_count)
    if pa.types.is_date32(call.type):
        return from_integers(granularity.floor(values * DAY) // DAY, valid, call.type)
    return from_integers(np.asarray(granularity.floor(values)), valid, call.type)


def without_implied_floor(expression: Expression, period: str) -> Expression:
    """Return the argument of a floor that binding the text of a call around it adds again.

    Other expressions are returned unchanged. `period` is that of the floor which the call implies.
    """
    if not isinstance(expression, Call) or expression.function != "time_floor":
        return expression
    granularity = granularity_of(expression)
    is_period = granularity.period_text == period and granularity.has_default_origin
    is_implied = is_period and (granularity.by_clock or is_fixed(granularity.timezone))
    return expression.arguments[0] if is_implied else expression


def _text(call: Call, write: Writer) -> str:
    granularity = granularity_of(call)
    argument, period = write(call.arguments[0]), granularity.period_text
    unit = _UNIT_OF_PERIOD.get(period) if granularity.has_default_origin else None
    if unit is not None and call.type == TIMESTAMP:
        return f"date_trunc('{unit}', {argument})"
    if unit is not None and call.type == pa.date32() and period not in _UNITS_WITHIN_A_DATE:
        return f"trunc({argument}, '{unit}')"
    if granularity.has_default_origin:
        return f"timestamp_floor({argument}, '{period}')"
    return f"timestamp_floor({argument}, '{period}', {_origin_text(granularity, call.type)})"


def _origin_text(granularity: Granularity, arrow_type: pa.DataType) -> str:
    local = np.array([granularity.origin], dtype=np.int64)
    if arrow_type != TIMESTAMP:
        return f"TIMESTAMP_NTZ '{np.datetime64(granularity.origin, 'us')}'"
    instant = zone_table(granularity.timezone, granularity.origin).to_utc(local)[0]
    return f"TIMESTAMP '{np.datetime64(int(instant), 'us')}Z'"


def _zone(call: Call) -> str | None:
    return granularity_of(call).timezone if call.type == TIMESTAMP else None


def _order(call: Call) -> tuple[Order, ...]:
    return (Order.RISES if keeps_order(granularity_of(call)) else Order.NONE,)


def _inverse(call: Call, cut: Cut) -> tuple[Cut, ...] | None:
    """Return for which times the bucket starts after a cut; not known of the oldest times."""
    granularity, unit = granularity_of(call), DAY if call.type == pa.date32() else 1
    if len(cut) == 1:
        return (BOTTOM, TOP) if cut == BOTTOM else ()
    start = cut[1] * unit
    if granularity.is_all or start <= MIN_MICROS:
        return None
    if start >= MAX_MICROS:
        return ()
    edges = changes_of_side(granularity, start)
    return (*((1, -(-edge // unit), 0) for edge in edges), TOP)


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "time_floor": ScalarFunction(
        spellings=(
            Spelling(
                "date_trunc",
                _build_date_trunc,
                2,
                2,
                catalyst=spark_call("TruncTimestamp", CONSTANT, ANY),
            ),
            Spelling("trunc", _build_trunc, 2, 2, catalyst=spark_call("TruncDate", ANY, CONSTANT)),
            Spelling(
                "timestamp_floor",
                _build_timestamp_floor,
                2,
                4,
                aliases=("time_floor",),
                druid_names=("timestamp_floor",),
            ),
        ),
        evaluate=_evaluate_floor,
        in_blocks=NoBlocks.BUCKETS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=_order,
        inverse=_inverse,
        canonical_folds_null=True,
        text=_text,
        zone=_zone,
    )
}
WINDOW_START: Final = Spelling("window", _build_window, 2, 4)
