"""Casts between scalar types, as Spark's ANSI mode does them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks import number_steps as steps
from projseg.algebra.expressions.coercion import (
    cast_to,
    is_datetime,
    is_decimal,
    is_floating,
    is_integral,
    is_lossless,
    is_numeric,
)
from projseg.algebra.expressions.functions.datum import (
    Datum,
    as_array,
    doubles,
    from_integers,
    integers,
    overflow,
    valid_mask,
    whole_numbers,
    word_of,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import (
    scaled,
    to_type,
    without_fraction,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.text_casts import (
    double_to_decimal,
    parse_text,
    to_text,
)
from projseg.algebra.expressions.functions.time.time_floor import without_implied_floor
from projseg.algebra.expressions.inverses import inverse_of_cast
from projseg.algebra.expressions.sql_words import sql_type
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.time.duration import DAY, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_name, zone_table
from projseg.errors import EvaluationError
from projseg.segment_format.arrow_arrays import primitive_array, scalar_of
from projseg.segment_format.logical_types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    arrow_to_numbers,
    type_name,
)

_LIMITS: Final = {pa.int8(): 1 << 7, pa.int16(): 1 << 15, pa.int32(): 1 << 31, pa.int64(): 1 << 63}


# Spark keeps decimals of at most so many digits as longs.
_LONG_DIGITS_MAX: Final = 18


def _evaluate_cast(call: Call, arguments: Sequence[Datum], row_count: int) -> pa.Array:
    """Return the argument's values in the call's type."""
    zone = str(call.parameters[0]) if call.parameters else "UTC"
    try:
        return _in_type(as_array(arguments[0], row_count), call.type, zone)
    except EvaluationError as error:
        if isinstance(call.arguments[0], Column):
            error.column = call.arguments[0].name
        raise


def _in_type(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    if array.type == pa.string():
        return parse_text(array, wanted, zone)
    if wanted in (pa.string(), pa.binary()):
        return to_text(array, zone).cast(wanted)
    if pa.types.is_boolean(wanted):
        zero = Decimal(0) if is_decimal(array.type) else 0
        return pc.not_equal(array, scalar_of(zero, array.type))
    if pa.types.is_boolean(array.type):
        return _from_boolean(array, wanted)
    if pa.types.is_temporal(array.type) or pa.types.is_temporal(wanted):
        return _temporal(array, wanted, zone)
    return _number(array, wanted)


def _from_boolean(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return _number(array.cast(pa.int8()), wanted)


def _number(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if is_decimal(wanted):
        return _to_decimal(array, wanted)
    if is_floating(wanted):
        # Arrow multiplies doubles to convert a decimal; converting its text rounds only once.
        source = array.cast(pa.string()) if is_decimal(array.type) else array
        via = pa.float64() if is_decimal(array.type) else wanted
        return source.cast(via, safe=False).cast(wanted, safe=False)
    if is_decimal(array.type):
        valid = valid_mask(array, len(array))
        return _whole_of_decimal(array, wanted, valid)
    if is_floating(array.type):
        return _whole_of_double(array, wanted)
    try:
        return array.cast(wanted)
    except pa.ArrowInvalid as error:
        raise _too_large(array.type, wanted) from error


def _too_large(source: pa.DataType, wanted: pa.DataType) -> Exception:
    if wanted == TIMESTAMP:
        return overflow(f"a {type_name(source)} is a timestamp outside years 1 to 9999")
    return overflow(f"a {type_name(source)} value does not fit {type_name(wanted)}")


def _whole_of_double(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Drop the fraction. As in Java, the largest bigint is compared as a double, which is 2**63."""
    valid = valid_mask(array, len(array))
    values = np.where(valid, doubles(array, len(array)), 0.0)
    limit = _LIMITS[wanted]
    whole = np.trunc(values)
    if not np.all((whole >= -limit) & (whole <= float(limit - 1))):
        raise _too_large(array.type, wanted)
    return from_integers(whole_numbers(whole), valid, wanted)


def _whole_of_decimal(array: pa.Array, wanted: pa.DataType, valid: NDArray[np.bool_]) -> pa.Array:
    """Drop the fraction; Spark casts a wide decimal to int by way of its nearest double."""
    if array.type.precision > _LONG_DIGITS_MAX and wanted != pa.int64():
        return _whole_of_double(_number(array, pa.float64()), wanted)
    unscaled, _ = arrow_to_numbers(array)
    whole = without_fraction(unscaled.astype(object), array.type.scale)
    limit = _LIMITS[wanted]
    if not np.all((whole >= -limit) & (whole < limit)):
        raise _too_large(array.type, wanted)
    return from_integers(whole.astype(np.int64), valid, wanted)


def _to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if is_floating(array.type):
        return double_to_decimal(array, wanted)
    valid = valid_mask(array, len(array))
    if is_integral(array.type):
        return to_type(integers(array, len(array)), 0, wanted, valid)
    unscaled, _ = arrow_to_numbers(array)
    return to_type(unscaled, array.type.scale, wanted, valid)


def _temporal(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    source = array.type
    valid = valid_mask(array, len(array))
    if not pa.types.is_temporal(source):
        return _timestamp_of_number(array, wanted)
    values = integers(array, len(array))
    if not pa.types.is_temporal(wanted):
        return _number_of_timestamp(array, values, wanted)
    last = int(values.max()) if len(values) else 0
    if pa.types.is_date32(source):
        local = values * DAY
        if wanted == TIMESTAMP:
            local = zone_table(zone, last * DAY).first_shown(local)
        return from_integers(local, valid, wanted)
    if source == TIMESTAMP and len(values):
        values = zone_table(zone, last).to_local(values)
    if pa.types.is_date32(wanted):
        return from_integers(values // DAY, valid, wanted)
    if wanted == TIMESTAMP and len(values):
        values = zone_table(zone, last).to_utc(values)
    return from_integers(values, valid, wanted)


def _timestamp_of_number(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    valid = valid_mask(array, len(array))
    micros: NDArray[Any]
    if is_floating(array.type):
        with np.errstate(over="ignore"):
            micros = np.nan_to_num(doubles(array, len(array)) * SECOND, nan=np.inf)
    else:
        unscaled, _ = arrow_to_numbers(array)
        scale = array.type.scale if is_decimal(array.type) else 0
        micros = without_fraction(scaled(_rounded_by_java(unscaled), 6), scale)
    inside = (micros >= MIN_MICROS) & (micros < MAX_MICROS)
    if not np.all(inside | ~valid):
        raise _too_large(array.type, wanted)
    return from_integers(np.where(inside, micros, 0).astype(np.int64), valid, wanted)


def _rounded_by_java(unscaled: NDArray[Any]) -> NDArray[Any]:
    """Return decimals rounded half to even to 34 digits, as Scala rounds products of decimals."""
    if unscaled.dtype != object:
        return unscaled
    context = Context(prec=34, rounding=ROUND_HALF_EVEN)
    rounded = [int(context.create_decimal(int(value))) for value in unscaled]
    return np.array(rounded, dtype=object)


def _number_of_timestamp(
    array: pa.Array, micros: NDArray[np.int64], wanted: pa.DataType
) -> pa.Array:
    valid = valid_mask(array, len(array))
    if is_integral(wanted):
        return _number(from_integers(micros // SECOND, valid, pa.int64()), wanted)
    if is_decimal(wanted):
        return to_type(micros, 6, wanted, valid)
    return primitive_array(micros / SECOND, valid).cast(wanted)


def _may_fail(call: Call) -> bool:
    source, wanted = call.arguments[0].type, call.type
    is_of_times = pa.types.is_temporal(source) and pa.types.is_temporal(wanted)
    is_text = wanted == pa.string() and source != pa.binary()
    return not (is_of_times or is_text or is_lossless(source, wanted))


def _is_null_only_from_null(call: Call) -> bool:
    """Whether it makes no null: only NaN and the infinities become null, as decimals."""
    return not (is_floating(call.arguments[0].type) and is_decimal(call.type))


def _order(call: Call) -> tuple[Order, ...]:
    return (Order.RISES if _keeps_order(call) else Order.NONE,)


def _keeps_order(call: Call) -> bool:
    """Whether the value rises with the argument: rounding and cutting fractions keep order."""
    source, wanted = call.arguments[0].type, call.type
    if is_numeric(wanted):
        return is_numeric(source) or pa.types.is_boolean(source) or source == TIMESTAMP
    if is_numeric(source):
        return bool(wanted == TIMESTAMP)
    if not (is_datetime(source) and is_datetime(wanted)):
        return False
    if TIMESTAMP not in (source, wanted):
        return True
    zone = zone_table(str(call.parameters[0]))
    if source == TIMESTAMP:
        return zone.shows_dates_in_order if pa.types.is_date32(wanted) else not zone.goes_back
    return pa.types.is_date32(source) or not zone.goes_ahead


def _text(call: Call, write: Writer) -> str:
    inner = call.arguments[0]
    if pa.types.is_date32(call.type):
        inner = without_implied_floor(inner, "P1D")
    return f"CAST({write(inner)} AS {sql_type(call.type)})"


def _spelling(name: str, wanted: pa.DataType, *aliases: str) -> Spelling:
    return Spelling(name, lambda a, z: cast_to(a[0], wanted, z), 1, 1, aliases)


def _build_unix_seconds(arguments: tuple[Expression, ...], zone: str) -> Expression:
    argument = arguments[0]
    clock = "UTC" if argument.type == TIMESTAMP_NTZ else zone
    return cast_to(cast_to(argument, TIMESTAMP, clock), pa.int64(), zone)


def _build_convert_timezone(arguments: tuple[Expression, ...], zone: str) -> Expression:
    """Build what the clock of another zone shows when that of the first shows a reading."""
    reading = cast_to(arguments[-1], TIMESTAMP_NTZ, zone)
    zones = [
        zone_name(word_of(arguments, place, "the time zone of convert_timezone"))
        for place in range(len(arguments) - 1)
    ]
    return cast_to(cast_to(reading, TIMESTAMP, [zone, *zones][-2]), TIMESTAMP_NTZ, zones[-1])


FUNCTIONS: Final[dict[str, ScalarFunction]] = {
    "cast": ScalarFunction(
        spellings=(
            _spelling("to_date", pa.date32(), "date"),
            _spelling("to_timestamp", TIMESTAMP, "timestamp", "to_timestamp_ltz"),
            _spelling("to_timestamp_ntz", TIMESTAMP_NTZ),
            _spelling("string", pa.string()),
            _spelling("boolean", pa.bool_()),
            _spelling("tinyint", pa.int8()),
            _spelling("smallint", pa.int16()),
            _spelling("int", pa.int32()),
            _spelling("bigint", pa.int64()),
            _spelling("float", pa.float32()),
            _spelling("double", pa.float64()),
            _spelling("decimal", pa.decimal128(10, 0)),
            _spelling("binary", pa.binary()),
            Spelling("convert_timezone", _build_convert_timezone, 2, 3),
            Spelling("unix_seconds", _build_unix_seconds, 1, 1),
        ),
        evaluate=_evaluate_cast,
        in_blocks=steps.cast,
        nulls=Nulls.FROM_ANY,
        null_only_from_null=_is_null_only_from_null,
        may_fail=_may_fail,
        order=_order,
        inverse=inverse_of_cast,
        parts_zeros=lambda call: call.type == pa.string(),
        text=_text,
        zone=zone_in_parameters,
    )
}
