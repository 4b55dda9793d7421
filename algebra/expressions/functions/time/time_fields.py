"""Fields of dates and times: year to second, weekdays, and EXTRACT.

Each field is a function of the coarsest floor of time that determines it, so that a projection that
stores this floor, or a finer one, can serve it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import ANY, spark_call
from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    from_integers,
    integers,
    valid_mask,
    word_of,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Inverse,
    NoBlocks,
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    ordered,
    unordered,
    written_as_call,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.time.time_floor import time_floor, without_implied_floor
from projseg.algebra.expressions.inverses import rising
from projseg.algebra.expressions.tree import Call, Cut, Expression, Literal
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, numbers_to_arrow

_DATE_FIELDS: Final[dict[str, str]] = {
    "year": "P1Y",
    "quarter": "P3M",
    "month": "P1M",
    "day": "P1D",
    "dayofweek": "P1D",
    "weekday": "P1D",
    "dayofyear": "P1D",
    "weekofyear": "P1W",
    "yearofweek": "P1W",
}
"""From a field of a date to the period of the coarsest floor that determines it."""

_CLOCK_FIELDS: Final[dict[str, str]] = {"hour": "PT1H", "minute": "PT1M", "second": "PT1S"}
"""From a field of the time of day to the period of the coarsest floor that determines it."""

_EXTRACT: Final[dict[str, tuple[str, ...]]] = {
    "year": ("year", "y", "years", "yr", "yrs"),
    "yearofweek": ("yearofweek",),
    "quarter": ("quarter", "qtr"),
    "month": ("month", "mon", "mons", "months"),
    "weekofyear": ("week", "w", "weeks"),
    "day": ("day", "d", "days"),
    "dayofweek": ("dayofweek", "dow"),
    "dayofweek_iso": ("dayofweek_iso", "dow_iso"),
    "dayofyear": ("doy",),
    "hour": ("hour", "h", "hours", "hr", "hrs"),
    "minute": ("minute", "m", "min", "mins", "minutes"),
    "second": ("second", "s", "sec", "seconds", "secs"),
}
_FIELD_BY_WORD: Final = {word: field for field, words in _EXTRACT.items() for word in words}


def _time_field(field: str, argument: Expression, zone: str) -> Expression:
    """Return the node of one field of a date or timestamp."""
    if field in _CLOCK_FIELDS:
        if argument.type != TIMESTAMP_NTZ:
            argument = cast_to(argument, TIMESTAMP, zone)
        return _clock_field(field, argument, zone)
    if argument.type in (TIMESTAMP, TIMESTAMP_NTZ):
        clock = zone if argument.type == TIMESTAMP else "UTC"
        argument = time_floor(argument, floor_of_field(field, clock))
    date = cast_to(argument, pa.date32(), zone)
    return Call(pa.int32(), field, (time_floor(date, Granularity.parse(_DATE_FIELDS[field])),))


def _clock_field(field: str, argument: Expression, zone: str) -> Expression:
    clock = zone if argument.type == TIMESTAMP else "UTC"
    floored = time_floor(argument, floor_of_field(field, clock))
    parameters = (clock,) if argument.type == TIMESTAMP else ()
    return Call(pa.int32(), field, (floored,), parameters)


def floor_of_field(field: str, zone: str) -> Granularity:
    """Return the coarsest floor that determines a field of what the zone's clock shows."""
    period = _DATE_FIELDS.get(field) or _CLOCK_FIELDS[field]
    return replace(Granularity.parse(period, zone), by_clock=True)


def extract(word: str, argument: Expression, zone: str) -> Expression:
    """Return the node of `EXTRACT(word FROM argument)`; InvalidInputError for an unknown field."""
    field = _FIELD_BY_WORD.get(word.casefold())
    if field is None:
        known = ", ".join(_EXTRACT)
        raise bad_expression(f"EXTRACT does not know the field '{word}'; use {known}")
    if field == "dayofweek_iso":
        weekday = _time_field("weekday", argument, zone)
        return Call(pa.int32(), "+", (weekday, Literal(pa.int32(), 1)))
    if field == "second":
        return second_with_fraction(argument, zone)
    return _time_field(field, argument, zone)


def second_with_fraction(argument: Expression, zone: str) -> Expression:
    """Return the node of the seconds within the minute with microseconds, as decimal(8,6)."""
    if argument.type != TIMESTAMP_NTZ:
        argument = cast_to(argument, TIMESTAMP, zone)
    parameters = (zone,) if argument.type == TIMESTAMP else ()
    return Call(pa.decimal128(8, 6), "second_with_fraction", (argument,), parameters)


def _local(call: Call, argument: Datum, row_count: int) -> NDArray[np.int64]:
    micros = integers(argument, row_count)
    if not call.parameters or not len(micros):
        return micros
    return zone_table(str(call.parameters[0]), int(micros.max())).to_local(micros)


def _clock(unit: int, modulus: int) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        local = _local(call, arguments[0], row_count)
        valid = valid_mask(arguments[0], row_count)
        return from_integers(local // unit % modulus, valid, call.type)

    return evaluate


def _second_with_fraction(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    local = _local(call, arguments[0], row_count)
    valid = valid_mask(arguments[0], row_count)
    return numbers_to_arrow(local % MINUTE, call.type, None if valid.all() else valid)


def _date_field(compute: Callable[[NDArray[np.int64]], NDArray[Any]]) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        days = integers(arguments[0], row_count)
        valid = valid_mask(arguments[0], row_count)
        return from_integers(compute(days).astype(np.int64), valid, call.type)

    return evaluate


def months_since_1970(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of months from 1970-01 to each day: int64[n] from int64[n]."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_of_month(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first day of each month since 1970-01: int64[n] from int64[n]."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _first_of_year(days: NDArray[np.int64]) -> NDArray[np.int64]:
    return (
        days.astype("datetime64[D]")
        .astype("datetime64[Y]")
        .astype("datetime64[D]")
        .astype(np.int64)
    )


def _thursday(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the Thursday of each day's week; its year is the ISO year of the week."""
    return days - (days + 3) % 7 + 3


def _first_of_calendar_year(call: Call, year: int, after: int) -> Cut:
    del call, after  # years are whole, so no cut lies after one
    return (1, int(first_of_month(np.array([(year - 1970) * 12]))[0]), 0)


def _first_of_iso_year(call: Call, year: int, after: int) -> Cut:
    """Return the cut before the Monday of the week that has the year's first Thursday."""
    january = _first_of_calendar_year(call, year, after)[1]
    return (1, january - (january + 3) % 7 + (7 if (january + 3) % 7 > 3 else 0), 0)


def _without_floor(call: Call) -> Expression:
    """Return the argument of a time field without the floor that binding the text adds again."""
    period = _DATE_FIELDS.get(call.function) or _CLOCK_FIELDS[call.function]
    inner = call.arguments[0]
    if isinstance(inner, Call) and inner.function == "cast":
        stripped = without_implied_floor(inner.arguments[0], period)
        return inner if stripped is inner.arguments[0] else stripped
    return without_implied_floor(inner, period)


def _text(call: Call, write: Writer) -> str:
    return f"{call.function}({write(_without_floor(call))})"


def _date_zone(call: Call) -> str | None:
    """Return the zone of a date field whose text is over the timestamp; None for others."""
    inner = call.arguments[0]
    stripped = _without_floor(call)
    is_zoned = stripped is not inner and stripped.type == TIMESTAMP
    return str(inner.parameters[0]) if is_zoned and isinstance(inner, Call) else None


def _of_date(
    field: str,
    expression: str,
    compute: Callable[[NDArray[np.int64]], NDArray[Any]],
    order: Order = Order.NONE,
    inverse: Inverse | None = None,
    *,
    aliases: tuple[str, ...] = (),
) -> ScalarFunction:
    return ScalarFunction(
        spellings=(_spelling(field, expression, *aliases),),
        evaluate=_date_field(compute),
        in_blocks=NoBlocks.BUCKETS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=ordered(order),
        inverse=inverse,
        text=_text,
        zone=_date_zone,
    )


def _of_clock(
    evaluate: Evaluator, text: Callable[[Call, Writer], str], *spellings: Spelling
) -> ScalarFunction:
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=NoBlocks.BUCKETS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=text,
        zone=zone_in_parameters,
    )


def _spelling(field: str, expression: str, *aliases: str) -> Spelling:
    catalyst = spark_call(expression, ANY)
    return Spelling(
        field, lambda a, z: _time_field(field, a[0], z), 1, 1, aliases, catalyst=catalyst
    )


def _build_date_part(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return extract(word_of(arguments, 0, "the field of date_part"), arguments[1], zone)


_RISES: Final = Order.RISES

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "year": _of_date(
        "year",
        "Year",
        lambda d: months_since_1970(d) // 12 + 1970,
        _RISES,
        rising(_first_of_calendar_year),
    ),
    "quarter": _of_date("quarter", "Quarter", lambda d: months_since_1970(d) % 12 // 3 + 1),
    "month": _of_date("month", "Month", lambda d: months_since_1970(d) % 12 + 1),
    "day": _of_date(
        "day",
        "DayOfMonth",
        lambda d: d - first_of_month(months_since_1970(d)) + 1,
        aliases=("dayofmonth",),
    ),
    "dayofweek": _of_date("dayofweek", "DayOfWeek", lambda d: (d + 4) % 7 + 1),
    "weekday": _of_date("weekday", "WeekDay", lambda d: (d + 3) % 7),
    "dayofyear": _of_date("dayofyear", "DayOfYear", lambda d: d - _first_of_year(d) + 1),
    "weekofyear": _of_date(
        "weekofyear", "WeekOfYear", lambda d: (_thursday(d) - _first_of_year(_thursday(d))) // 7 + 1
    ),
    "yearofweek": _of_date(
        "yearofweek",
        "YearOfWeek",
        lambda d: months_since_1970(_thursday(d)) // 12 + 1970,
        _RISES,
        rising(_first_of_iso_year),
    ),
    "hour": _of_clock(_clock(HOUR, DAY // HOUR), _text, _spelling("hour", "Hour")),
    "minute": _of_clock(_clock(MINUTE, HOUR // MINUTE), _text, _spelling("minute", "Minute")),
    "second": _of_clock(_clock(SECOND, MINUTE // SECOND), _text, _spelling("second", "Second")),
    "second_with_fraction": _of_clock(
        _second_with_fraction,
        written_as_call,
        Spelling("second_with_fraction", lambda a, z: second_with_fraction(a[0], z), 1, 1),
        # date_part builds other fields too; it is here because this field has no other spelling.
        Spelling("date_part", _build_date_part, 2, 2, aliases=("datepart",)),
    ),
}
