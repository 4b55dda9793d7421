"""Canonical time: a floor of a floor becomes one floor, and a date the date of a day's floor."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from projseg.algebra.expressions.coercion import is_lossless
from projseg.algebra.expressions.functions.time.time_floor import granularity_of
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.period import DAY, WEEK
from projseg.algebra.time.refinement import always_refines
from projseg.algebra.time.time_zones import is_fixed, zone_table
from projseg.segment_format.layout.logical_types import TIMESTAMP, TIMESTAMP_NTZ


def canonical_floor(call: Call) -> Expression:
    """Return a floor merged with a floor below it, and moved inside casts where that is equal."""
    inner, granularity = call.arguments[0], granularity_of(call)
    if granularity.is_none or (call.type == pa.date32() and _keeps_days(granularity)):
        return inner
    if not isinstance(inner, Call):
        return call
    if inner.function == "time_floor":
        return _floor_of_floor(call, inner, granularity)
    if inner.function == "cast":
        return _floor_of_cast(call, inner, granularity)
    return call


def canonical_cast(call: Call) -> Expression:
    """Return a date as the date of a day's floor, and two lossless casts in a row as one."""
    inner = call.arguments[0]
    if isinstance(inner, Literal):  # a day outside years 1 to 9999, left to raise on its rows
        return call
    if call.type == pa.date32() and inner.type in (TIMESTAMP, TIMESTAMP_NTZ):
        zone = str(call.parameters[0]) if call.parameters else "UTC"
        if (plain := _date_below_cast(inner, zone)) is not None:
            return plain
        day = Granularity(micros=DAY, timezone=zone, by_clock=True)
        if isinstance(inner, Call) and inner.function == "time_floor":
            floored = granularity_of(inner)
            if floored == day or always_refines(day, floored):
                return call
        floor = Call(inner.type, "time_floor", (inner,), (day,))
        return Call(call.type, "cast", (floor,), call.parameters)
    if isinstance(inner, Call) and inner.function == "cast":
        source = inner.arguments[0]
        if is_lossless(source.type, inner.type) and is_lossless(inner.type, call.type):
            return Call(call.type, "cast", (source,), call.parameters)
    return call


def _date_below_cast(inner: Expression, zone: str) -> Expression | None:
    """Return the date of a time that was cast from a date or timestamp_ntz; None of others."""
    if not isinstance(inner, Call) or inner.function != "cast":
        return None
    source = inner.arguments[0]
    if inner.type == TIMESTAMP and inner.parameters != (zone,):
        return None
    if source.type == pa.date32():
        return source if zone_table(zone).has_plain_midnights else None
    if source.type == TIMESTAMP_NTZ and len(zone_table(zone).starts) == 1:
        return Call(pa.date32(), "cast", (source,))
    return None


def _keeps_days(granularity: Granularity) -> bool:
    return granularity.micros > 0 and DAY % granularity.micros == 0 and granularity.origin == 0


def _floor_of_floor(call: Call, inner: Call, granularity: Granularity) -> Expression:
    if always_refines(granularity_of(inner), granularity):
        return Call(call.type, "time_floor", inner.arguments, call.parameters)
    if always_refines(granularity, granularity_of(inner)):
        return inner
    return call


def _floor_of_cast(call: Call, inner: Call, granularity: Granularity) -> Expression:
    """Move a floor inside a cast between date, timestamp and timestamp_ntz, where that is equal."""
    source = inner.arguments[0]
    zone = str(inner.parameters[0]) if inner.parameters else "UTC"
    if call.type == pa.date32() and source.type in (TIMESTAMP, TIMESTAMP_NTZ):
        if not _is_calendar_unit(granularity):
            return call
        clock = zone if source.type == TIMESTAMP else "UTC"
        moved = replace(granularity, timezone=clock, by_clock=True)
    elif source.type == pa.date32() and _same_clock(call, granularity, zone):
        if not _keeps_midnights(granularity):
            return call
        moved = replace(granularity, timezone="UTC")
    elif source.type == TIMESTAMP_NTZ and len(zone_table(zone).starts) == 1:
        if not _same_clock(call, granularity, zone):
            return call
        moved = replace(granularity, timezone="UTC")
    else:
        return call
    floor = Call(source.type, "time_floor", (source,), (moved,))
    return Call(call.type, "cast", (floor,), inner.parameters)


def _is_calendar_unit(granularity: Granularity) -> bool:
    """Whether it is of days, weeks or months with their usual starts, which no clock skips."""
    is_unit = bool(granularity.months) or granularity.micros in (DAY, WEEK)
    return is_unit and granularity.has_default_origin


def _keeps_midnights(granularity: Granularity) -> bool:
    """Whether the floor of the first instant of a day is always the first instant of a day."""
    is_of_days = bool(granularity.months) or granularity.micros % DAY == 0
    if is_fixed(granularity.timezone):
        return is_of_days or _keeps_days(granularity)
    return is_of_days and zone_table(granularity.timezone).has_plain_midnights


def _same_clock(call: Call, granularity: Granularity, zone: str) -> bool:
    return call.type == TIMESTAMP_NTZ or granularity.timezone == zone
