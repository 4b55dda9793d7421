"""Dates and timestamps made of their fields, and whole units of time between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    from_integers,
    integers,
    literal_of,
    word_of,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
    Nulls,
    Orders,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    rising,
    unordered,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.time.calendar import in_range
from projseg.algebra.expressions.functions.time.time_fields import first_of_month, months_since_1970
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.time.period import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, zone_name, zone_table
from projseg.errors import EvaluationError
from projseg.segment_format.layout.logical_types import TIMESTAMP, TIMESTAMP_NTZ
from projseg.segment_format.vectors.arrow_arrays import filled_values, scalar_of

_SECONDS: Final = pa.decimal128(16, 6)


def _build_make_date(arguments: tuple[Expression, ...], zone: str) -> Expression:
    numbers = tuple(cast_to(argument, pa.int32(), zone) for argument in arguments)
    return Call(pa.date32(), "make_date", numbers)


def _make_date(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    year, month, day = (integers(argument, row_count) for argument in arguments)
    valid = all_valid(arguments, row_count)
    months = (year - 1970) * 12 + month - 1
    first, following = first_of_month(months), first_of_month(months + 1)
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)
    if not np.all(good | ~valid):
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT", "make_date met a year, month or day that is no date"
        )
    return in_range(first + day - 1, call, valid)


def _build_make_timestamp_ntz(arguments: tuple[Expression, ...], zone: str) -> Expression:
    fields = [cast_to(argument, pa.int32(), zone) for argument in arguments[:5]]
    seconds = cast_to(arguments[5], _SECONDS, zone)
    return Call(TIMESTAMP_NTZ, "make_timestamp_ntz", (*fields, seconds))


def _build_make_timestamp(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build the clock's reading, and the instant at which a zone's clock shows it."""
    reading = _build_make_timestamp_ntz(arguments[:6], zone)
    if arguments[6:]:
        if isinstance(arguments[6], Literal) and arguments[6].value is None:
            return Literal(TIMESTAMP, None)
        zone = zone_name(str(literal_of(arguments, 6, "the time zone of make_timestamp")))
    return cast_to(reading, TIMESTAMP, zone)


def _make_timestamp_ntz(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    date = Call(pa.date32(), "make_date", call.arguments[:3])
    valid = all_valid(arguments, row_count)
    first = [pc.if_else(valid, as_array(one, row_count), None) for one in arguments[:3]]
    days = integers(_make_date(date, first, row_count), row_count)
    hour, minute = (integers(argument, row_count) for argument in arguments[3:5])
    micros = _decimal_micros(arguments[5], row_count)
    good = (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60)
    good &= (micros >= 0) & (micros <= 60 * SECOND)
    if not np.all(good | ~valid):
        raise EvaluationError(
            "PROJSEG_EVALUATION_BAD_ARGUMENT",
            "make_timestamp met an hour, minute or second that no clock shows",
        )
    return from_integers(days * DAY + hour * HOUR + minute * MINUTE + micros, valid, call.type)


def _decimal_micros(seconds: Datum, row_count: int) -> NDArray[np.int64]:
    """Return decimals of six digits behind the point as millionths, int64[n]; null as 0."""
    millionths = pc.multiply(as_array(seconds, row_count), scalar_of(SECOND, pa.decimal128(8, 0)))
    return filled_values(millionths.cast(pa.int64()), 0)


def _raising(evaluate: Evaluator, order: Orders, *spellings: Spelling) -> ScalarFunction:
    """Return the record of a function that raises for fields that no calendar or clock has."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=order,
    )


_PACKED_MONTH: Final = 32
_MONTHS: Final = {
    unit: months * _PACKED_MONTH for unit, months in (("MONTH", 1), ("QUARTER", 3), ("YEAR", 12))
}
_UNITS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": SECOND,
    "MINUTE": MINUTE,
    "HOUR": HOUR,
    "DAY": DAY,
    "WEEK": 7 * DAY,
}


def _build_timestampdiff(arguments: tuple[Expression, ...], zone: str) -> Expression:
    unit = word_of(arguments, 0, "the unit of timestampdiff").upper()
    if unit not in _UNITS | _MONTHS:
        known = ", ".join(_UNITS | _MONTHS)
        raise bad_expression(f"timestampdiff does not know the unit '{unit}'; use {known}")
    times = tuple(cast_to(argument, TIMESTAMP, zone) for argument in arguments[1:])
    return Call(pa.int64(), "timestampdiff", times, (unit, zone))


def _timestampdiff(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return how many whole units of a zone's clock lie between times."""
    unit, zone = map(str, call.parameters)
    table = zone_table(zone, MAX_MICROS)
    start, end = (table.to_local(integers(argument, row_count)) for argument in arguments)
    distance = _packed_days(start, end) if unit in _MONTHS else end - start
    size = (_UNITS | _MONTHS)[unit]
    whole = np.sign(distance) * (np.abs(distance) // size)
    return from_integers(whole, all_valid(arguments, row_count), call.type)


def _packed_days(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the days between times on a calendar of months of 32 days, as Java counts months.

    The last day counts if its time of day is not before that of the first.
    """
    first, last = start // DAY, end // DAY
    direction = np.sign(last - first)
    is_short = direction * np.sign(end % DAY - start % DAY) < 0
    return _packed(last - np.where(is_short, direction, 0)) - _packed(first)


def _packed(days: NDArray[np.int64]) -> NDArray[np.int64]:
    months = months_since_1970(days)
    return months * _PACKED_MONTH + days - first_of_month(months)


def _timestampdiff_text(call: Call, write: Writer) -> str:
    return f"timestampdiff({call.parameters[0]}, {', '.join(map(write, call.arguments))})"


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "make_date": _raising(_make_date, rising, Spelling("make_date", _build_make_date, 3, 3)),
    "make_timestamp_ntz": _raising(
        _make_timestamp_ntz,
        unordered,
        Spelling("make_timestamp_ntz", _build_make_timestamp_ntz, 6, 6),
        Spelling("make_timestamp", _build_make_timestamp, 6, 7, aliases=("make_timestamp_ltz",)),
    ),
    "timestampdiff": ScalarFunction(
        spellings=(Spelling("timestampdiff", _build_timestampdiff, 3, 3),),
        evaluate=_timestampdiff,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=_timestampdiff_text,
        zone=zone_in_parameters,
    ),
}
