"""Dates and timestamps made of fields, whole units between two, and steps from an origin.

The last are Spark's `time_bucket`: steps by the session's clock if they have days or months.

Where the clock is changed, steps differ from floors. A step starts at one instant: if the clock
shows the start twice, at the one with the origin's offset from UTC, else at the earlier one. All
instants until the next start belong to the step, also if the clock shows an earlier reading again.
If no start falls on a change, which is so of most steps in most zones, steps equal floors and the
node is a `time_floor`, which stored buckets that are finer can serve. Otherwise the node is a
`time_bucket`, which can be computed only from the times themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.catalyst_call import ANY, failing_call
from projseg.algebra.expressions.coercion import bad_expression, cast_to
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    from_integers,
    integers,
    literal_of,
    valid_mask,
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
from projseg.algebra.expressions.functions.time.calendar import in_range, moved_by_calendar
from projseg.algebra.expressions.functions.time.time_fields import first_of_month, months_since_1970
from projseg.algebra.expressions.functions.time.time_floor import (
    as_timestamp,
    origin_micros,
    positive_granularity,
    time_floor,
)
from projseg.algebra.expressions.tree import Call, Expression, Literal
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND, Span, parse_interval
from projseg.algebra.time.time_zones import MAX_MICROS, zone_name, zone_table
from projseg.algebra.time.zoned_buckets import Granularity, months_of
from projseg.errors import EvaluationError
from projseg.segment_format.arrow_arrays import filled_values, scalar_of
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

_SECONDS: Final = pa.decimal128(16, 6)
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


def _build_time_bucket(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build `time_bucket(interval, x[, origin])`; days and months follow the session's clock."""
    argument = as_timestamp(arguments[1], "time_bucket", zone)
    span = parse_interval(str(literal_of(arguments, 0, "the size of time_bucket")))
    is_zoned = argument.type == TIMESTAMP
    by_clock = is_zoned and (bool(span.months) or span.micros >= DAY)
    granularity = positive_granularity(
        "time_bucket", span.months, span.micros, zone if by_clock else "UTC"
    )
    origin = int(zone_table(zone).to_utc(np.zeros(1, dtype=np.int64))[0]) if is_zoned else 0
    if len(arguments) > 2:
        origin = origin_micros(arguments[2], argument.type)
    granularity = granularity.with_origin(origin)
    if not by_clock or _is_floor(granularity, origin):
        return time_floor(argument, granularity)
    return Call(TIMESTAMP, "time_bucket", (argument,), (span.months, span.micros, origin, zone))


def _is_floor(granularity: Granularity, origin: int) -> bool:
    """Whether every step from the origin starts where the floor of its instants starts."""
    table = zone_table(granularity.timezone)
    if len(table.starts) == 1:
        return True
    if granularity.micros % DAY:
        return False
    own_offset = table.offsets[table.index_of(np.array([origin]))]
    after, before = table.shown_from[1:], table.starts[1:] + table.offsets[:-1]
    first, end = np.minimum(after, before), np.maximum(after, before)
    last_start = granularity.cut.floor(end - 1)
    takes_second = (table.offsets[1:] == own_offset) | (not granularity.by_clock)
    begins_again = (after < before) & (last_start == first) & takes_second
    return not bool(np.any((last_start > first) | begins_again))


def _time_bucket(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    months, size, origin = (int(str(part)) for part in call.parameters[:3])
    zone = str(call.parameters[3])
    valid = valid_mask(arguments[0], row_count)
    values = np.where(valid, integers(arguments[0], row_count), origin)

    def start_of(steps: NDArray[np.int64]) -> NDArray[np.int64]:
        begin = np.full(len(steps), origin, dtype=np.int64)
        if months:
            return moved_by_calendar(begin, steps * months, 0, zone)
        # Steps are whole days, rounded towards the origin, by the clock; the rest is exact time.
        days = np.sign(steps) * (np.abs(steps) * size // DAY)
        rest = steps * size - days * DAY
        return np.asarray(moved_by_calendar(begin, 0, days, zone) + rest, dtype=np.int64)

    if months:
        table = zone_table(zone, MAX_MICROS)
        from_origin = months_of(table.to_local(values)) - months_of(
            table.to_local(np.array([origin], dtype=np.int64))
        )
        steps = from_origin // months
        steps -= start_of(steps) > values
    else:
        steps = (values - origin) // size
        while np.any(is_late := start_of(steps) > values):
            steps -= is_late
        while np.any(is_early := start_of(steps + 1) <= values):
            steps += is_early
    return in_range(start_of(steps), call, valid)


def _time_bucket_text(call: Call, write: Writer) -> str:
    months, micros, origin = (int(str(part)) for part in call.parameters[:3])
    size = Span(months, micros // DAY, micros % DAY).text
    origin_text = f"TIMESTAMP '{np.datetime64(origin, 'us')}Z'"
    return f"time_bucket(INTERVAL '{size}', {write(call.arguments[0])}, {origin_text})"


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "make_date": _raising(
        _make_date,
        rising,
        Spelling(
            "make_date",
            _build_make_date,
            3,
            3,
            catalyst=failing_call("MakeDate", ANY, ANY, ANY, failOnError="true"),
        ),
    ),
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
    "time_bucket": ScalarFunction(
        spellings=(Spelling("time_bucket", _build_time_bucket, 2, 3),),
        evaluate=_time_bucket,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=rising,
        text=_time_bucket_text,
        zone=zone_in_parameters,
    ),
}
