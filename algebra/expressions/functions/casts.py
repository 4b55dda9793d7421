"""Casts between scalar types, as Spark's ANSI mode does them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.blocks import number_steps as steps
from projseg.algebra.expressions.catalyst_call import ANY, spark_call
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
    decimals,
    rounded,
    scale_of,
    unscaled,
)
from projseg.algebra.expressions.functions.double_digits import (
    DOUBLE_BITS,
    DOUBLE_POWER_MAX,
    double_to_decimal,
)
from projseg.algebra.expressions.functions.scalar_function import (
    Nulls,
    Order,
    ScalarFunction,
    Spelling,
    Writer,
    zone_in_parameters,
)
from projseg.algebra.expressions.functions.text_casts import parse_text, to_text
from projseg.algebra.expressions.functions.time.time_floor import without_implied_floor
from projseg.algebra.expressions.inverses import inverse_of_cast
from projseg.algebra.expressions.sql_words import sql_type
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.time.duration import DAY, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_name, zone_table
from projseg.errors import EvaluationError
from projseg.kernels.decimals.wide_arithmetic import Rounding, rescale
from projseg.segment_format.arrow_arrays import (
    WIDE,
    are_at_least,
    as_wide,
    halves,
    primitive_array,
    scalar_of,
)
from projseg.segment_format.logical_types import (
    DECIMAL_DIGITS_MAX,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    type_name,
)

_LIMITS: Final = {pa.int8(): 1 << 7, pa.int16(): 1 << 15, pa.int32(): 1 << 31, pa.int64(): 1 << 63}


# Spark keeps decimals of at most so many digits as longs.
_LONG_DIGITS_MAX: Final = 18
_PRODUCT_DIGITS: Final = 34  # of Scala's products of decimals
_BIGINT_LEAST: Final = -(1 << 63)


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
        source = _doubles_of_decimals(array) if is_decimal(array.type) else array
        return source.cast(wanted, safe=False)
    if is_decimal(array.type):
        return _whole_of_decimal(array, wanted)
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


def _doubles_of_decimals(array: pa.Array) -> pa.Array:
    """Return the nearest doubles. Where both are exact, one division rounds once; else a text does.

    Arrow multiplies doubles to convert a decimal, which rounds twice.
    """
    low, high = unscaled(array).T
    valid = valid_mask(array, len(array))
    is_exact = (low >> 63 == high) & (abs(low) <= 1 << DOUBLE_BITS) & (low != _BIGINT_LEAST)
    is_exact &= array.type.scale <= DOUBLE_POWER_MAX
    quick = primitive_array(low / 10.0 ** min(array.type.scale, DOUBLE_POWER_MAX), valid)
    if np.all(is_exact | ~valid):
        return quick
    rest = primitive_array(~is_exact)
    texts = array.filter(rest).cast(pa.string())
    return pc.replace_with_mask(quick, rest, texts.cast(pa.float64()))


def _whole_of_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Drop the fraction; Spark casts a wide decimal to int by way of its nearest double."""
    if array.type.precision > _LONG_DIGITS_MAX and wanted != pa.int64():
        return _whole_of_double(_number(array, pa.float64()), wanted)
    return rounded(array, wanted, Rounding.TOWARDS_ZERO)


def _to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return double_to_decimal(array, wanted) if is_floating(array.type) else rounded(array, wanted)


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
        micros, is_too_large = _micros_of_decimals(array)
        valid &= ~is_too_large
        if is_too_large.any():
            raise _too_large(array.type, wanted)
    inside = (micros >= MIN_MICROS) & (micros < MAX_MICROS)
    if not np.all(inside | ~valid):
        raise _too_large(array.type, wanted)
    return from_integers(np.where(inside, micros, 0).astype(np.int64), valid, wanted)


def _micros_of_decimals(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return (microseconds, which pass 64 bits) of seconds; the rest of a microsecond is dropped.

    Before, they are rounded half to even to 34 digits, as Scala rounds products of decimals.
    """
    valid, values = valid_mask(array, len(array)), unscaled(array)
    wide = values.view(WIDE).reshape(-1)
    for dropped in range(1, DECIMAL_DIGITS_MAX - _PRODUCT_DIGITS + 1):
        least = 10 ** (_PRODUCT_DIGITS + dropped - 1)
        is_long = valid & (are_at_least(wide, least) | ~are_at_least(wide, 1 - least))
        if is_long.any():
            few, _ = rescale(values, Rounding.HALF_EVEN, (dropped, dropped), 1 << 127, is_long)
            values = np.where(is_long[:, None], few, values)
    scale = scale_of(array.type)
    powers = max(scale - 6, 0), max(6 - scale, 0)
    micros, failures = rescale(values, Rounding.TOWARDS_ZERO, powers, 1 << 63, valid)
    return micros[:, 0], failures != 0


def _number_of_timestamp(
    array: pa.Array, micros: NDArray[np.int64], wanted: pa.DataType
) -> pa.Array:
    valid = valid_mask(array, len(array))
    if is_integral(wanted):
        return _number(from_integers(micros // SECOND, valid, pa.int64()), wanted)
    if is_decimal(wanted):
        exact = decimals(halves(as_wide(micros)), pa.decimal128(19, 6), valid)
        return rounded(exact, wanted)
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
            Spelling(
                "unix_seconds", _build_unix_seconds, 1, 1, catalyst=spark_call("UnixSeconds", ANY)
            ),
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
