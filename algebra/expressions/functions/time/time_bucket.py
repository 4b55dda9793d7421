"""Spark's `time_bucket`: steps from an origin, by the session's clock if they have days or months.

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
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.datum import (
    Datum,
    integers,
    literal_of,
    valid_mask,
)
from projseg.algebra.expressions.functions.scalar_function import (
    NoBlocks,
    Nulls,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    rising,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.time.calendar import in_range, moved_by_calendar
from projseg.algebra.expressions.functions.time.time_floor import (
    as_timestamp,
    origin_micros,
    positive_granularity,
    time_floor,
)
from projseg.algebra.expressions.text.duration_text import Span, parse_interval
from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.time.clock_cut import months_of
from projseg.algebra.time.period import DAY
from projseg.algebra.time.time_zones import MAX_MICROS, zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.segment_format.layout.logical_types import TIMESTAMP


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


def _text(call: Call, write: Writer) -> str:
    months, micros, origin = (int(str(part)) for part in call.parameters[:3])
    size = Span(months, micros // DAY, micros % DAY).text
    origin_text = f"TIMESTAMP '{np.datetime64(origin, 'us')}Z'"
    return f"time_bucket(INTERVAL '{size}', {write(call.arguments[0])}, {origin_text})"


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "time_bucket": ScalarFunction(
        spellings=(Spelling("time_bucket", _build_time_bucket, 2, 3),),
        evaluate=_time_bucket,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=rising,
        text=_text,
        zone=zone_in_parameters,
    )
}
