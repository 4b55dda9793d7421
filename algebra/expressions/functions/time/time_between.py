"""How many whole units of a zone's clock lie between two times, counted as Java counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    from_integers,
    integers,
    word_of,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Nulls,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    unordered,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.time.time_fields import first_of_month, months_since_1970
from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.time.period import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, zone_table
from projseg.segment_format.layout.logical_types import TIMESTAMP

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
    "timestampdiff": ScalarFunction(
        spellings=(Spelling("timestampdiff", _build_timestampdiff, 3, 3),),
        evaluate=_timestampdiff,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=never,
        order=unordered,
        text=_timestampdiff_text,
        zone=zone_in_parameters,
    ),
}
