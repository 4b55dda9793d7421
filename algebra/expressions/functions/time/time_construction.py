"""Dates and timestamps made of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    from_integers,
    integers,
    literal_of,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    Nulls,
    Orders,
    ScalarFunction,
    Spelling,
    always,
    never,
    rising,
    unordered,
)
from projseg.algebra.expressions.functions.time.calendar import in_range
from projseg.algebra.expressions.functions.time.time_fields import first_of_month
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.time.period import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import zone_name
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
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=order,
    )


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "make_date": _raising(_make_date, rising, Spelling("make_date", _build_make_date, 3, 3)),
    "make_timestamp_ntz": _raising(
        _make_timestamp_ntz,
        unordered,
        Spelling("make_timestamp_ntz", _build_make_timestamp_ntz, 6, 6),
        Spelling("make_timestamp", _build_make_timestamp, 6, 7, aliases=("make_timestamp_ltz",)),
    ),
}
