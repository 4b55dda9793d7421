"""Casts from values to text as Spark writes them, and from text as Spark's ANSI mode reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import is_decimal, is_floating, is_integral
from projseg.algebra.expressions.functions.datum import (
    from_integers,
    integers,
    overflow,
    valid_mask,
)
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_name, zone_table
from projseg.errors import EvaluationError, InvalidInputError
from projseg.segment_format.arrow_arrays import (
    array_of,
    filled_values,
    primitive_array,
    primitive_values,
    scalar_of,
)
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, type_name


def to_text(array: pa.Array, zone: str) -> pa.Array:
    """Return each value's text, as `CAST(x AS STRING)` gives it.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_BAD_CAST, if a binary value is not UTF-8 text.
    """
    if array.type == TIMESTAMP:
        micros = integers(array, len(array))
        last = int(micros.max()) if len(micros) else 0
        local = zone_table(zone, last).to_local(micros)
        array = from_integers(local, valid_mask(array, len(array)), TIMESTAMP_NTZ)
    if array.type == TIMESTAMP_NTZ:
        return _without_zeros(array.cast(pa.string()))
    if is_floating(array.type):
        return _floats(array)
    if pa.types.is_binary(array.type):
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise EvaluationError(
                "PROJSEG_EVALUATION_BAD_CAST", "a binary value is not UTF-8 text"
            ) from error
    if pa.types.is_decimal(array.type):
        return _distinct(array)
    return array.cast(pa.string())


def _without_zeros(text: pa.Array) -> pa.Array:
    """Drop trailing zeros of a fraction of a second, and a point with nothing after it."""
    return pc.replace_substring_regex(text, r"\.?0+$|(\.\d*?)0+$", r"\1")


def _floats(array: pa.Array) -> pa.Array:
    """Use Arrow's shortest digits where Java writes no exponent, else write each distinct value."""
    sizes = pc.abs(array)
    bounds = (scalar_of(bound, array.type) for bound in (1e-3, 1e7))
    low, high = bounds
    is_plain = pc.and_(pc.greater_equal(sizes, low), pc.less(sizes, high))
    plain = pc.fill_null(is_plain, scalar_of(True, pa.bool_()))
    text = pc.replace_substring_regex(array.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(plain).as_py() is not False:
        return text
    return pc.if_else(plain, text, _distinct(pc.if_else(plain, scalar_of(None, array.type), array)))


def _distinct(array: pa.Array) -> pa.Array:
    encoded = array.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    texts: list[str | None]
    if pa.types.is_decimal(array.type):
        texts = [format(value, "f") for value in values]
    else:
        number = np.float32 if array.type == pa.float32() else np.float64
        texts = [None if v is None else _java_double(number(v)) for v in values]
    return array_of(texts, pa.string()).take(encoded.indices)


def _two_digits(value: np.floating[Any], mantissa: str, exponent: str) -> tuple[str, str]:
    """Return the nearest digits of two that read back, if there are, for the shortest of one."""
    nearest = f"{float(value):.1e}"
    if type(value)(nearest) != value:
        return mantissa, exponent
    nearer, exponent = nearest.split("e")
    return nearer, exponent


def _java_double(value: np.floating[Any]) -> str:
    """Return Java's `Double.toString`: the shortest digits that read back, with E from 1e7 on."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if np.signbit(value) else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        return str(np.format_float_positional(value, unique=True, trim="0"))
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    mantissa, exponent = text.split("e")
    if len(mantissa.lstrip("-")) == 3 and mantissa.endswith(".0"):
        mantissa, exponent = _two_digits(value, mantissa, exponent)
    return f"{mantissa}E{int(exponent)}"


_WHITESPACE: Final = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER: Final = r"^[+-]?[0-9]+$"
_NUMBER: Final = r"^[+-]?(\p{Nd}+(\.\p{Nd}*)?|\.\p{Nd}+)([eE][+-]?\p{Nd}+)?$"
_DOUBLE: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_SPECIAL: Final = r"(?i)^([+-]?inf(inity)?|nan)$"
_TRUE: Final = ("t", "true", "y", "yes", "1")
_FALSE: Final = ("f", "false", "n", "no", "0")
_EMPTY: Final = scalar_of("", pa.string())
_DATE: Final = r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_CLOCK: Final = (
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    r"(?:\.(?P<fraction>[0-9]*))?)?)?\s*(?P<zone>[A-Za-z+-].*)?"
)
_DATE_ONLY: Final = rf"^{_DATE}(?:[ T].*)?)?)?$"
_TIMESTAMP: Final = rf"^{_DATE}(?:[ T]{_CLOCK})?)?)?$"


def parse_text(array: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    """Return the values that the texts stand for; blanks around them are ignored.

    Raises
    ------
    EvaluationError
        If a text does not stand for a value of the type.
    """
    if wanted == pa.binary():
        return array.cast(pa.binary())
    if len(array) == 0 or array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    trimmed = pc.utf8_trim(array, _WHITESPACE)
    if pa.types.is_timestamp(wanted):
        return _timestamps(trimmed, wanted, zone)
    readers = (
        (is_integral, _integers),
        (is_floating, _doubles),
        (is_decimal, _decimals),
        (pa.types.is_boolean, _booleans),
        (pa.types.is_date32, _dates),
    )
    read = next(read for is_kind, read in readers if is_kind(wanted))
    return read(trimmed, wanted)


def may_be_written(array: pa.Array, wanted: pa.DataType) -> NDArray[np.bool_]:
    """Return bool[n], whether each text has the shape of a value of the type; a null may.

    `parse_text` raises for all others, and for texts such as a 30th of February.
    """
    shapes = (
        (is_integral, _INTEGER),
        (is_floating, f"{_DOUBLE}|{_SPECIAL}"),
        (is_decimal, _NUMBER),
        (pa.types.is_boolean, f"(?i)^({'|'.join((*_TRUE, *_FALSE))})$"),
        (pa.types.is_date32, _DATE_ONLY),
        (pa.types.is_timestamp, _TIMESTAMP),
    )
    shape = next((shape for is_kind, shape in shapes if is_kind(wanted)), "")
    found = pc.match_substring_regex(pc.utf8_trim(array, _WHITESPACE), shape)
    return filled_values(found, True)


def _decimals(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    _require(pc.match_substring_regex(text, _NUMBER), text, wanted)

    def convert(written: str | None) -> Decimal | None:
        if written is None:
            return None
        try:
            value = Decimal(written)
        except InvalidOperation as error:  # an exponent of twenty digits
            raise _refused(written, wanted) from error
        return _rounded(value, wanted)

    return _by_distinct(text, wanted, convert)


def double_to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return floats as decimals, by way of the shortest text of each as a double, as Spark does.

    NaN and the infinities become null.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_OVERFLOW, if a value has too many digits.
    """

    def convert(value: float | None) -> Decimal | None:
        is_number = value is not None and math.isfinite(value)
        return _rounded(Decimal(repr(value)), wanted) if is_number else None

    return _by_distinct(array, wanted, convert)


def _rounded(value: Decimal, wanted: pa.DataType) -> Decimal:
    context = Context(prec=400, rounding=ROUND_HALF_UP)
    if value.adjusted() > wanted.precision:
        raise overflow(f"{value} does not fit {type_name(wanted)}")
    rounded = value.quantize(Decimal(1).scaleb(-wanted.scale), context=context)
    if abs(rounded) >= Decimal(10) ** (wanted.precision - wanted.scale):
        raise overflow(f"{value} does not fit {type_name(wanted)}")
    return rounded


def _by_distinct(array: pa.Array, wanted: pa.DataType, convert: Callable[[Any], Any]) -> pa.Array:
    encoded = array.dictionary_encode()
    values = [convert(value) for value in encoded.dictionary.to_pylist()]
    return array_of(values, wanted).take(encoded.indices)


def _require(good: pa.Array, text: pa.Array, wanted: pa.DataType) -> None:
    if pc.all(good).as_py() is False:
        first = pc.filter(text, pc.invert(pc.fill_null(good, scalar_of(True, pa.bool_()))))[
            0
        ].as_py()
        raise _refused(first, wanted)


def _require_years(inside: NDArray[np.bool_], text: pa.Array, wanted: pa.DataType) -> None:
    outside = np.flatnonzero(~inside & valid_mask(text, len(text)))
    if len(outside):
        first = text[int(outside[0])].as_py()
        raise overflow(f"text '{first[:80]}' is a {type_name(wanted)} outside years 1 to 9999")


def _refused(text: str, wanted: pa.DataType) -> EvaluationError:
    return EvaluationError(
        "PROJSEG_EVALUATION_BAD_CAST",
        f"text '{text[:80]}' is no {type_name(wanted)}; use try_cast for null instead",
    )


def _integers(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    _require(pc.match_substring_regex(text, _INTEGER), text, wanted)
    try:
        return pc.replace_substring_regex(text, r"^\+|^(-?)0+([0-9])", r"\1\2").cast(wanted)
    except pa.ArrowInvalid as error:
        raise overflow(f"a text is a number outside {type_name(wanted)}") from error


def _doubles(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    special = pc.match_substring_regex(text, _SPECIAL)
    _require(pc.or_(special, pc.match_substring_regex(text, _DOUBLE)), text, wanted)
    plain = pc.replace_substring_regex(text, r"^\+", "")
    if pc.any(special).as_py():
        lower = pc.replace_substring_regex(pc.utf8_lower(plain), "infinity", "inf")
        plain = pc.if_else(special, lower, plain)
    digits = pc.replace_substring_regex(plain, r"([0-9.])[dDfF]$", r"\1")
    return digits.cast(wanted)


def _booleans(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    lower = pc.ascii_lower(text)
    true = pc.is_in(lower, value_set=array_of(_TRUE, pa.string()))
    known = pc.or_(true, pc.is_in(lower, value_set=array_of(_FALSE, pa.string())))
    _require(pc.or_(pc.is_null(text), known), text, wanted)
    return pc.if_else(pc.is_valid(text), true, scalar_of(None, pa.bool_()))


def _fields(text: pa.Array, pattern: str, wanted: pa.DataType) -> pa.StructArray:
    found = pc.extract_regex(text, pattern)
    _require(pc.or_(pc.is_null(text), pc.is_valid(found)), text, wanted)
    return found


def _field(found: pa.StructArray, name: str, default: int) -> NDArray[np.int64]:
    column = pc.struct_field(found, name)
    written = pc.if_else(pc.equal(column, _EMPTY), scalar_of(str(default), pa.string()), column)
    return integers(pc.replace_substring_regex(written, r"^\+", "").cast(pa.int64()), len(found))


def _days(found: pa.StructArray, text: pa.Array, wanted: pa.DataType) -> NDArray[np.int64]:
    year, month, day = _field(found, "year", 1), _field(found, "month", 1), _field(found, "day", 1)
    months = (year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)
    _require(pc.or_(pc.is_null(text), primitive_array(good)), text, wanted)
    _require_years((year >= 1) & (year <= 9999), text, wanted)
    return first + day - 1


def _dates(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    found = _fields(text, _DATE_ONLY, wanted)
    return from_integers(_days(found, text, wanted), valid_mask(text, len(text)), wanted)


def _timestamps(text: pa.Array, wanted: pa.DataType, zone: str) -> pa.Array:
    found = _fields(text, _TIMESTAMP, wanted)
    hour, minute, second = (_field(found, name, 0) for name in ("hour", "minute", "second"))
    in_clock = (hour < 24) & (minute < 60) & (second < 60)
    _require(pc.or_(pc.is_null(text), primitive_array(in_clock)), text, wanted)
    fraction = pc.utf8_slice_codeunits(pc.struct_field(found, "fraction"), 0, 6)
    micros = integers(
        pc.utf8_rpad(pc.fill_null(fraction, _EMPTY), 6, "0").cast(pa.int64()), len(text)
    )
    local = _days(found, text, wanted) * DAY + hour * HOUR + minute * MINUTE
    local = local + second * SECOND + micros
    valid = valid_mask(text, len(text))
    result = _in_zones(local, pc.struct_field(found, "zone"), zone, text)
    if wanted != TIMESTAMP:  # a zone that is written must be one, and means nothing
        return from_integers(local, valid, wanted)
    _require_years((result >= MIN_MICROS) & (result < MAX_MICROS), text, wanted)
    return from_integers(result, valid, wanted)


def _java_zone(name: str) -> str:
    """Return a zone's name unless it is UTC in letters that Java does not know.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_TIME_ZONE.
    """
    letters = re.match("[A-Za-z]*", name.strip())
    found = letters[0] if letters else ""
    if found.upper() in ("Z", "UTC", "GMT", "UT") and found != found.upper():
        raise InvalidInputError("PROJSEG_UNKNOWN_TIME_ZONE", f"time zone '{name}' is not known")
    return name


def _in_zones(
    local: NDArray[np.int64], zones: pa.Array, default: str, text: pa.Array
) -> NDArray[np.int64]:
    """Return the instants of clock readings, each in the zone its text names, else the default."""
    encoded = pc.fill_null(zones, _EMPTY).dictionary_encode()
    ids = primitive_values(encoded.indices)
    result = local.copy()
    for index, name in enumerate(encoded.dictionary.to_pylist()):
        rows = ids == index
        try:
            known = zone_name(_java_zone(name)) if name else default
            table = zone_table(known, int(local[rows].max()))
        except InvalidInputError as error:
            first = text.filter(primitive_array(rows))[0].as_py()
            raise _refused(first, TIMESTAMP) from error
        result[rows] = table.to_utc(local[rows])
    return result
