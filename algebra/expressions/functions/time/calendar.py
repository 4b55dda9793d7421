"""Moves along the calendar, distances between dates, and conversions from and to numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks import number_steps as steps
from projseg.algebra.expressions.blocks.block_builder import Form
from projseg.algebra.expressions.catalyst_call import (
    ANY,
    NO_DOUBLE,
    CatalystCall,
    failing_call,
    spark_call,
)
from projseg.algebra.expressions.coercion import (
    bad_expression,
    cast_to,
    is_floating,
    is_integral,
    is_numeric,
)
from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    doubles,
    from_integers,
    integers,
    overflow,
    require_type,
    valid_mask,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import unscaled
from projseg.algebra.expressions.functions.scalar_function import (
    Evaluator,
    NoBlocks,
    Nulls,
    Order,
    Orders,
    ScalarFunction,
    Spelling,
    Writer,
    always,
    never,
    ordered,
    rising,
)
from projseg.algebra.expressions.functions.time.time_fields import first_of_month, months_since_1970
from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.time.duration import DAY, SECOND, Span
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_table
from projseg.errors import EvaluationError
from projseg.kernels.decimals.wide_arithmetic import Rounding, rescale
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ


def add_interval(argument: Expression, span: Span, zone: str) -> Expression:
    """Return the node of a date or timestamp moved by an interval constant.

    A date moved by hours becomes a timestamp, and a text moved by days or hours stays one, as in
    Spark.
    """
    if argument.type == pa.string() and not span.months:
        moved = add_interval(cast_to(argument, TIMESTAMP, zone), span, zone)
        return cast_to(moved, pa.string(), zone)
    if argument.type == pa.string() or (argument.type == pa.date32() and span.clock_micros):
        argument = cast_to(argument, TIMESTAMP, zone)
    kinds = (pa.date32(), TIMESTAMP, TIMESTAMP_NTZ)
    require_type(argument.type in kinds, "+ INTERVAL", argument, "a date or timestamp")
    size = (span.months, span.days, span.clock_micros)
    if not any(size):
        return argument
    parameters = (*size, zone) if argument.type == TIMESTAMP else size
    return Call(argument.type, "add_interval", (argument,), parameters)


def date_arithmetic(function: str, left: Expression, right: Expression, zone: str) -> Expression:
    """Return the node of `date + days`, `days + date` or `date - days`, days a whole number."""
    if function == "+" and left.type != pa.date32():
        left, right = right, left
    if left.type != pa.date32() or not is_integral(right.type):
        raise bad_expression(f"a date '{function}' something needs whole days or an INTERVAL")
    return _move_days((left, right), zone, 1 if function == "+" else -1)


def _move_days(arguments: Sequence[Expression], zone: str, direction: int) -> Expression:
    date = cast_to(arguments[0], pa.date32(), zone)
    days = arguments[1]
    is_days = is_integral(days.type) or days.type in (pa.string(), pa.null())
    require_type(is_days, "date_add", days, "whole days")
    days = cast_to(days, pa.int32(), zone)
    function = "date_add" if direction == 1 else "date_sub"
    return Call(pa.date32(), function, (date, days))


def _build_datediff(arguments: tuple[Expression, ...], zone: str) -> Expression:
    dates = tuple(cast_to(argument, pa.date32(), zone) for argument in arguments)
    return Call(pa.int32(), "datediff", dates)


def _build_add_months(arguments: tuple[Expression, ...], zone: str) -> Expression:
    date = cast_to(arguments[0], pa.date32(), zone)
    return Call(pa.date32(), "add_months", (date, cast_to(arguments[1], pa.int32(), zone)))


def _build_last_day(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return Call(pa.date32(), "last_day", (cast_to(arguments[0], pa.date32(), zone),))


def _from_number(function: str, catalyst: tuple[CatalystCall, ...]) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        number = arguments[0]
        is_good = is_integral(number.type) or number.type == pa.null()
        if function == "timestamp_seconds" and is_numeric(number.type) and not is_good:
            return Call(TIMESTAMP, function, (number,))
        require_type(is_good, function, number, "a whole number")
        return Call(TIMESTAMP, function, (cast_to(number, pa.int64(), zone),))

    return Spelling(function, build, 1, 1, catalyst=catalyst)


def _to_number(function: str, expression: str) -> Spelling:
    def build(arguments: tuple[Expression, ...], zone: str) -> Expression:
        return Call(pa.int64(), function, (_instant(arguments[0], zone),))

    return Spelling(function, build, 1, 1, catalyst=spark_call(expression, ANY))


def _instant(argument: Expression, zone: str) -> Expression:
    """Return the timestamp that is counted since 1970; a timestamp_ntz counts by its own clock."""
    return cast_to(argument, TIMESTAMP, "UTC" if argument.type == TIMESTAMP_NTZ else zone)


def _build_unix_timestamp(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build the seconds since 1970, cut towards 1970; a timestamp_ntz counts by its own clock."""
    argument = arguments[0]
    if argument.type != TIMESTAMP_NTZ:
        argument = cast_to(argument, TIMESTAMP, zone)
    return Call(pa.int64(), "unix_timestamp", (argument,))


def _moved_by_months(days: NDArray[np.int64], months: Any) -> NDArray[np.int64]:
    """Return days (int64[n], since 1970) moved by months; a day past the month's end becomes it."""
    old = months_since_1970(days)
    new = old + months
    first = first_of_month(new)
    length = first_of_month(new + 1) - first
    return np.asarray(first + np.minimum(days - first_of_month(old), length - 1), dtype=np.int64)


def in_range(values: NDArray[np.int64], call: Call, valid: NDArray[np.bool_]) -> pa.Array:
    """Return times, int64[n], as an array of the call's type.

    Raises PROJSEG_EVALUATION_OVERFLOW if a time that is not null lies outside years 1 to 9999.
    """
    unit = DAY if call.type == pa.date32() else 1
    inside = (values >= MIN_MICROS // unit) & (values < MAX_MICROS // unit)
    if not np.all(inside | ~valid):
        raise overflow(f"'{call.function}' gives a time outside years 1 to 9999")
    return from_integers(values, valid, call.type)


def _add_interval(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    months, days, micros = (int(str(part)) for part in call.parameters[:3])
    values = integers(arguments[0], row_count)
    valid = valid_mask(arguments[0], row_count)
    if pa.types.is_date32(call.type):
        return in_range(_moved_by_months(values, months) + days, call, valid)
    zone = str(call.parameters[3]) if len(call.parameters) > 3 else "UTC"
    for step_months, step_days in ((months, 0), (0, days)):
        if step_months or step_days:
            values = moved_by_calendar(values, step_months, step_days, zone)
    return in_range(values + micros, call, valid)


def moved_by_calendar(
    micros: NDArray[np.int64],
    months: int | NDArray[np.int64],
    days: int | NDArray[np.int64],
    zone: str,
) -> NDArray[np.int64]:
    """Return instants moved by a zone's clock, each with its own offset from UTC if possible.

    Instants are int64[n], UTC microseconds; months are added before days.
    """
    table = zone_table(zone, MAX_MICROS)
    local = table.to_local(micros)
    moved = _moved_by_months(local // DAY, months) + days
    return table.to_utc(moved * DAY + local % DAY, local - micros)


def _date_add(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    left, right = (integers(argument, row_count) for argument in arguments)
    moved = left + right if call.function == "date_add" else left - right
    return in_range(moved, call, all_valid(arguments, row_count))


def _add_months(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    days, months = (integers(argument, row_count) for argument in arguments)
    months = np.clip(months, -240_000, 240_000)
    return in_range(_moved_by_months(days, months), call, all_valid(arguments, row_count))


def _datediff(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    left, right = (integers(argument, row_count) for argument in arguments)
    return from_integers(left - right, all_valid(arguments, row_count), call.type)


def _last_day(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    days = integers(arguments[0], row_count)
    last = first_of_month(months_since_1970(days) + 1) - 1
    return from_integers(last, valid_mask(arguments[0], row_count), call.type)


def _micros_of(unit: int) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        values = integers(arguments[0], row_count)
        limited = np.clip(values, MIN_MICROS // unit - 1, MAX_MICROS // unit)
        return in_range(limited * unit, call, valid_mask(arguments[0], row_count))

    return evaluate


def _timestamp_seconds(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return the times of seconds; NaN and the infinities have none, a decimal must be exact."""
    kind = call.arguments[0].type
    if is_integral(kind):
        return _micros_of(SECOND)(call, arguments, row_count)
    valid = valid_mask(arguments[0], row_count)
    if is_floating(kind):
        valid = valid & np.isfinite(seconds := doubles(arguments[0], row_count))
        with np.errstate(over="ignore"):
            return in_range(_limited(np.where(valid, seconds, 0.0) * SECOND), call, valid)
    values = unscaled(as_array(arguments[0], row_count))
    below, above = max(kind.scale - 6, 0), max(6 - kind.scale, 0)
    whole, _ = rescale(values, Rounding.TOWARDS_ZERO, (below, below), 1 << 127, valid)
    if np.any(valid[:, None] & (whole != values)):
        problem = "timestamp_seconds met parts of a microsecond; round the decimal to 6 digits"
        raise EvaluationError("PROJSEG_EVALUATION_BAD_ARGUMENT", problem)
    micros, failures = rescale(whole, Rounding.TOWARDS_ZERO, (below, above), 1 << 63, valid)
    return in_range(np.where(failures != 0, MAX_MICROS, micros[:, 0]), call, valid)


def _limited(micros: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(np.clip(micros, MIN_MICROS - SECOND, MAX_MICROS), dtype=np.int64)


def _seconds_order(call: Call) -> tuple[Order, ...]:
    # NaN and the infinities have no time.
    return (Order.NONE if is_floating(call.arguments[0].type) else Order.RISES,)


def _units_of(unit: int) -> Evaluator:
    def evaluate(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
        values = integers(arguments[0], row_count) // unit
        return from_integers(values, valid_mask(arguments[0], row_count), call.type)

    return evaluate


def _unix_timestamp(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    micros = integers(arguments[0], row_count)
    seconds = np.where(micros < 0, -(-micros // SECOND), micros // SECOND)
    return from_integers(seconds, valid_mask(arguments[0], row_count), call.type)


def _add_interval_order(call: Call) -> tuple[Order, ...]:
    """Rise where each step (months, days, exact time) rises.

    Months cut days at the new month's end but keep the time of day, so the evening of the 30th may
    land after the morning of the 31st. A clock that skips readings moves those past later ones.
    """
    months, days, _ = (int(str(part)) for part in call.parameters[:3])
    is_fixed = len(call.parameters) < 4 or len(zone_table(str(call.parameters[3])).starts) == 1
    is_kept = pa.types.is_date32(call.type) or (not months and (not days or is_fixed))
    return (Order.RISES if is_kept else Order.NONE,)


def _add_interval_text(call: Call, write: Writer) -> str:
    months, days, micros = (int(str(part)) for part in call.parameters[:3])
    return f"({write(call.arguments[0])} + INTERVAL '{Span(months, days, micros).text}')"


def _add_interval_zone(call: Call) -> str | None:
    return str(call.parameters[3]) if len(call.parameters) > 3 else None


def _raising(
    evaluate: Evaluator,
    order: Orders,
    *spellings: Spelling,
    in_blocks: Form | NoBlocks = NoBlocks.COLUMNS,
) -> ScalarFunction:
    """Return the record of a function that raises for times outside years 1 to 9999."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=order,
    )


def _sure(
    evaluate: Evaluator,
    order: Orders,
    *spellings: Spelling,
    in_blocks: Form | NoBlocks = NoBlocks.COLUMNS,
    may_fail: Callable[[Call], bool] = never,
) -> ScalarFunction:
    """Return the record of a function that never raises and has a value for all values."""
    return ScalarFunction(
        spellings=spellings,
        evaluate=evaluate,
        in_blocks=in_blocks,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=always,
        may_fail=may_fail,
        order=order,
    )


def _of_days(function: str, direction: int, expression: str, *aliases: str) -> Spelling:
    catalyst = failing_call(expression, ANY, ANY)
    return Spelling(
        function, lambda a, z: _move_days(a, z, direction), 2, 2, aliases, catalyst=catalyst
    )


_FALLS_IN_SECOND: Final = ordered(Order.RISES, Order.FALLS)

FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "add_interval": ScalarFunction(
        evaluate=_add_interval,
        in_blocks=NoBlocks.COLUMNS,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=never,
        may_fail=always,
        order=_add_interval_order,
        text=_add_interval_text,
        zone=_add_interval_zone,
    ),
    "date_add": _raising(
        _date_add, rising, _of_days("date_add", 1, "DateAdd", "dateadd"), in_blocks=steps.later_date
    ),
    "date_sub": _raising(
        _date_add, _FALLS_IN_SECOND, _of_days("date_sub", -1, "DateSub"), in_blocks=steps.later_date
    ),
    "datediff": _sure(
        _datediff,
        _FALLS_IN_SECOND,
        Spelling(
            "datediff",
            _build_datediff,
            2,
            2,
            aliases=("date_diff",),
            catalyst=spark_call("DateDiff", ANY, ANY),
        ),
        in_blocks=steps.days_between,
    ),
    "add_months": _raising(
        _add_months,
        rising,
        Spelling(
            "add_months", _build_add_months, 2, 2, catalyst=failing_call("AddMonths", ANY, ANY)
        ),
    ),
    "last_day": _sure(
        _last_day,
        rising,
        Spelling("last_day", _build_last_day, 1, 1, catalyst=spark_call("LastDay", ANY)),
    ),
    "timestamp_seconds": _raising(
        _timestamp_seconds,
        _seconds_order,
        _from_number("timestamp_seconds", failing_call("SecondsToTimestamp", NO_DOUBLE)),
    ),
    "timestamp_millis": _raising(
        _micros_of(1000),
        rising,
        _from_number("timestamp_millis", failing_call("MillisToTimestamp", ANY)),
    ),
    "timestamp_micros": _raising(
        _micros_of(1),
        rising,
        _from_number("timestamp_micros", failing_call("MicrosToTimestamp", ANY)),
    ),
    # These cannot fail, but stored hashes contain conditions in an order that assumed they may.
    "unix_timestamp": _sure(
        _unix_timestamp,
        rising,
        Spelling("unix_timestamp", _build_unix_timestamp, 1, 1, aliases=("to_unix_timestamp",)),
        may_fail=always,
    ),
    "unix_millis": _sure(
        _units_of(1000), rising, _to_number("unix_millis", "UnixMillis"), may_fail=always
    ),
    "unix_micros": _sure(
        _units_of(1), rising, _to_number("unix_micros", "UnixMicros"), may_fail=always
    ),
}
