"""Casts from text to values, which raise where Spark's ANSI mode does."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
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
from projseg.algebra.time.period import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_name, zone_table
from projseg.errors import EvaluationError, InvalidInputError
from projseg.segment_format.layout.logical_types import TIMESTAMP, type_name
from projseg.segment_format.vectors.arrow_arrays import (
    array_of,
    filled_values,
    primitive_array,
    primitive_values,
    scalar_of,
)

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
    return _by_distinct(text, wanted, lambda written: _rounded(Decimal(written), wanted))


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
        "PROJSEG_EVALUATION_BAD_CAST", f"text '{text[:80]}' is not a {type_name(wanted)}"
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
