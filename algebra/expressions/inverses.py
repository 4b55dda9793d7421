"""For which arguments the value of a cast, or of a function of numbers, lies after a cut.

See `scalar_function.Inverse`. Inverses of floors of time and of texts stand beside the functions.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import ceil, floor, inf
from typing import Any, Final

import numpy as np
import pyarrow as pa

from projseg.algebra.expressions.coercion import is_datetime, is_decimal, is_floating, is_integral
from projseg.algebra.expressions.functions.scalar_function import Inverse
from projseg.algebra.expressions.tree import BOTTOM, TOP, Call, Cut
from projseg.algebra.time.duration import DAY, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, is_fixed, zone_table
from projseg.segment_format.logical_types import TIMESTAMP

_BEFORE_NAN: Final[Cut] = (1, (True, 0.0), 0)
_BIGINT_LIMIT: Final = 1 << 63
# Spark casts wider decimals to int by way of doubles.
_LONG_DIGITS_MAX: Final = 18

_Cuts = tuple[Cut, ...]


def rising(start_of: Callable[[Call, Any, int], Cut | None]) -> Inverse:
    """Return the inverse of a function that rises and has a value for every argument.

    `start_of` maps a cut among the values to that among the arguments.
    """

    def inverse(call: Call, cut: Cut) -> _Cuts | None:
        if len(cut) == 1:
            return (BOTTOM, TOP) if cut == BOTTOM else ()
        start = start_of(call, cut[1], cut[2])
        return None if start is None else () if start == TOP else (start, TOP)

    return inverse


def whole(*, is_floor: bool) -> Inverse:
    """Return the inverse of floor or ceil."""

    def inverse(call: Call, cut: Cut) -> _Cuts | None:
        if is_floating(call.arguments[0].type):
            return _whole_of_double(cut, is_floor)
        return of_decimal(call, cut)

    def start_of(call: Call, key: Any, after: int) -> Cut:
        least = floor(key) + 1 if after else ceil(key)
        return (1, Decimal(least), 0) if is_floor else (1, Decimal(least - 1), 1)

    of_decimal = rising(start_of)
    return inverse


def _whole_of_double(cut: Cut, is_floor: bool) -> _Cuts:
    """Invert floor or ceil to bigint, which is 0 for NaN and raises where it overflows."""
    if cut == TOP:
        return ()
    least = -_BIGINT_LIMIT if cut == BOTTOM else max(cut[1], -_BIGINT_LIMIT)
    low, is_after = (least, 0) if is_floor else (least - 1, 1)
    cuts = _between((1, (False, low), is_after), (1, (False, _BIGINT_LIMIT), 0))
    return (*cuts, _BEFORE_NAN, TOP) if least <= 0 else cuts


def inverse_of_cast(call: Call, cut: Cut) -> _Cuts | None:
    """Return for which numbers or times a cast lies after a cut."""
    source, wanted = call.arguments[0].type, call.type
    if is_datetime(source) and is_datetime(wanted):
        if len(cut) == 1:
            return (BOTTOM, TOP) if cut == BOTTOM else ()
        reading = cut[1] * (DAY if wanted == pa.date32() else 1)
        return _cast_of_time(call, reading) if MIN_MICROS < reading < MAX_MICROS else None
    if is_integral(wanted):
        return _cast_to_whole(source, wanted, cut)
    return _cast_of_whole(source, wanted, cut) if is_integral(source) else None


def _cast_of_time(call: Call, reading: int) -> _Cuts | None:
    """Invert a cast between dates, instants and readings of a clock; `reading` is in micros."""
    source, wanted = call.arguments[0].type, call.type
    zone = str(call.parameters[0]) if call.parameters else "UTC"
    table = zone_table(zone, reading + 2 * DAY)
    if source == TIMESTAMP:
        return (*((1, edge, 0) for edge in table.instants_showing(reading)), TOP)
    if wanted != TIMESTAMP:
        return ((1, -(-reading // DAY) if source == pa.date32() else reading, 0), TOP)
    if source == pa.date32():
        days = reading // DAY + np.arange(-2, 4)
        is_late = table.first_shown(days * DAY) >= reading
        return ((1, int(days[np.argmax(is_late)]), 0), TOP)
    return ((1, reading + int(table.offsets[0]), 0), TOP) if is_fixed(zone) else None


def _limit(arrow_type: pa.DataType) -> int:
    return 1 << (int(arrow_type.bit_width) - 1)


def _cast_to_whole(source: pa.DataType, wanted: pa.DataType, cut: Cut) -> _Cuts | None:
    limit = _limit(wanted)
    if is_integral(source):
        return _exactly(cut, -limit, limit)
    if cut == TOP:
        return ()
    least = -limit if cut == BOTTOM else max(cut[1], -limit)
    if source == TIMESTAMP:
        return _between((1, least * SECOND, 0), (1, limit * SECOND, 0))
    # The fraction is dropped, so that -0.5 and 0.5 both become 0.
    low, is_after = (least, 0) if least > 0 else (least - 1, 1)
    if is_floating(source):
        # The largest bigint is compared as a double, which is one more.
        is_closed = int(limit == _BIGINT_LIMIT)
        return _between((1, (False, low), is_after), (1, (False, limit), is_closed))
    if is_decimal(source) and (source.precision <= _LONG_DIGITS_MAX or wanted == pa.int64()):
        return _between((1, Decimal(low), is_after), (1, Decimal(limit), 0))
    return None


def _exactly(cut: Cut, lowest: int, end: int) -> _Cuts:
    """Invert a cast that keeps the number and raises below `lowest` and from `end` on."""
    if cut == TOP:
        return ()
    least = lowest if cut == BOTTOM else max(floor(cut[1]) + 1 if cut[2] else ceil(cut[1]), lowest)
    return _between((1, least, 0), (1, end, 0))


def _cast_of_whole(source: pa.DataType, wanted: pa.DataType, cut: Cut) -> _Cuts | None:
    if is_floating(wanted):
        return _cast_to_double(source, wanted, cut)
    if is_decimal(wanted):
        digits = wanted.precision - wanted.scale
        return _exactly(cut, -(10**digits) + 1, 10**digits)
    return _seconds_to_time(cut) if wanted == TIMESTAMP else None


def _cast_to_double(source: pa.DataType, wanted: pa.DataType, cut: Cut) -> _Cuts:
    if len(cut) == 1:
        return (BOTTOM, TOP) if cut == BOTTOM else ()
    (is_nan, bound), after = cut[1], cut[2]
    if is_nan or bound == inf:
        return ()
    low, high = -_limit(source), _limit(source)
    while low < high:
        middle = (low + high) // 2
        value = float(np.float32(np.int64(middle))) if wanted == pa.float32() else float(middle)
        if value > bound or (value == bound and not after):
            high = middle
        else:
            low = middle + 1
    return () if low == _limit(source) else ((1, low, 0), TOP)


def _seconds_to_time(cut: Cut) -> _Cuts:
    if cut == TOP:
        return ()
    least = MIN_MICROS if cut == BOTTOM else max(cut[1], MIN_MICROS)
    return _between((1, -(-least // SECOND), 0), (1, MAX_MICROS // SECOND, 0))


def _between(start: Cut, end: Cut) -> _Cuts:
    return (start, end) if start < end else ()
