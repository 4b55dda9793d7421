"""Fields of dates and times: year to second, weekdays, and EXTRACT.

Each reads its time through the coarsest floor that determines it, so that whatever stores that
floor, or a finer one, can serve it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.rule import (
    Datum,
    Evaluator,
    Rule,
    from_integers,
    integers,
    literal_of,
    valid_mask,
)
from projseg.algebra.expressions.functions.time_floor import time_floor
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.period import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import zone_table
from projseg.segment_format.types import TIMESTAMP, TIMESTAMP_NTZ, numbers_to_arrow

DATE_FIELDS: Final[dict[str, str]] = {
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
"""Field of a date -> the floor that determines it."""

CLOCK_FIELDS: Final[dict[str, str]] = {"hour": "PT1H", "minute": "PT1M", "second": "PT1S"}
"""Field of a timestamp's clock -> the floor that determines it."""

_SPELLINGS: Final[dict[str, str]] = {
    "dayofmonth": "day",
    **{name: name for name in (*DATE_FIELDS, *CLOCK_FIELDS)},
}
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


def time_field(field: str, argument: Expression, zone: str) -> Expression:
    """Return the node of one field of a date or timestamp.

    Raises
    ------
    InvalidInputError
        If the argument has no such field.
    """
    if field in CLOCK_FIELDS:
        if argument.type != TIMESTAMP_NTZ:
            argument = cast_to(argument, TIMESTAMP, zone)
        return _clock_field(field, argument, zone)
    if argument.type in (TIMESTAMP, TIMESTAMP_NTZ):
        clock = zone if argument.type == TIMESTAMP else "UTC"
        argument = time_floor(argument, floor_of_field(field, clock))
    date = cast_to(argument, pa.date32(), zone)
    return Call(pa.int32(), field, (time_floor(date, Granularity.parse(DATE_FIELDS[field])),))


def _clock_field(field: str, argument: Expression, zone: str) -> Expression:
    clock = zone if argument.type == TIMESTAMP else "UTC"
    floored = time_floor(argument, floor_of_field(field, clock))
    parameters = (clock,) if argument.type == TIMESTAMP else ()
    return Call(pa.int32(), field, (floored,), parameters)


def floor_of_field(field: str, zone: str) -> Granularity:
    """Return the coarsest floor of a time that tells a field, by what the zone's clock shows."""
    period = DATE_FIELDS.get(field) or CLOCK_FIELDS[field]
    return replace(Granularity.parse(period, zone), by_clock=True)


def extract(word: str, argument: Expression, zone: str) -> Expression:
    """Return the node of `EXTRACT(word FROM argument)`.

    Raises
    ------
    InvalidInputError
        If the word names no field that projseg knows.
    """
    field = _FIELD_BY_WORD.get(word.casefold())
    if field is None:
        known = ", ".join(_EXTRACT)
        raise bad_expression(f"EXTRACT does not know the field '{word}'; use {known}")
    if field == "dayofweek_iso":
        weekday = time_field("weekday", argument, zone)
        return Call(pa.int32(), "+", (weekday, Literal(pa.int32(), 1)))
    if field == "second":
        return second_with_fraction(argument, zone)
    return time_field(field, argument, zone)


def second_with_fraction(argument: Expression, zone: str) -> Expression:
    """Return the node of the seconds of the minute with their microseconds: decimal(8,6)."""
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
    """Return months from 1970-01 to the month of each day."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_of_month(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the day, since 1970, on which each month starts."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _first_of_year(days: NDArray[np.int64]) -> NDArray[np.int64]:
    return (
        days.astype("datetime64[D]")
        .astype("datetime64[Y]")
        .astype("datetime64[D]")
        .astype(np.int64)
    )


def _thursday(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the Thursday of each day's week: its year is the ISO year."""
    return days - (days + 3) % 7 + 3


EVALUATORS: Final[dict[str, Evaluator]] = {
    "year": _date_field(lambda d: months_since_1970(d) // 12 + 1970),
    "quarter": _date_field(lambda d: months_since_1970(d) % 12 // 3 + 1),
    "month": _date_field(lambda d: months_since_1970(d) % 12 + 1),
    "day": _date_field(lambda d: d - first_of_month(months_since_1970(d)) + 1),
    "dayofweek": _date_field(lambda d: (d + 4) % 7 + 1),
    "weekday": _date_field(lambda d: (d + 3) % 7),
    "dayofyear": _date_field(lambda d: d - _first_of_year(d) + 1),
    "weekofyear": _date_field(lambda d: (_thursday(d) - _first_of_year(_thursday(d))) // 7 + 1),
    "yearofweek": _date_field(lambda d: months_since_1970(_thursday(d)) // 12 + 1970),
    "hour": _clock(HOUR, DAY // HOUR),
    "minute": _clock(MINUTE, HOUR // MINUTE),
    "second": _clock(SECOND, MINUTE // SECOND),
    "second_with_fraction": _second_with_fraction,
}


def _field_rule(field: str) -> Rule:
    return Rule(lambda a, z: time_field(field, a[0], z), 1, 1)


def _build_date_part(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return extract(str(literal_of(arguments, 0, "the field of date_part")), arguments[1], zone)


RULES: Final[dict[str, Rule]] = {
    **{name: _field_rule(field) for name, field in _SPELLINGS.items()},
    "date_part": Rule(_build_date_part, 2, 2),
    "datepart": Rule(_build_date_part, 2, 2),
    "second_with_fraction": Rule(lambda a, z: second_with_fraction(a[0], z), 1, 1),
}
