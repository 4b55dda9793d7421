"""Casts from values to text as Spark writes them, and from text as Spark's ANSI mode reads it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions.coercion import is_decimal, is_floating, is_integral
from projseg.algebra.expressions.functions.datum import (
    doubles,
    from_integers,
    integers,
    overflow,
    texts_too_large,
    valid_mask,
)
from projseg.algebra.expressions.functions.decimal_arithmetic import decimals, unscaled
from projseg.algebra.time.duration import DAY, HOUR, MINUTE, SECOND
from projseg.algebra.time.time_zones import MAX_MICROS, MIN_MICROS, zone_name, zone_table
from projseg.errors import EvaluationError, InvalidInputError
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import (
    array_of,
    filled_values,
    primitive_array,
    primitive_values,
    scalar_of,
    text_array,
    text_buffers,
)
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, type_name


def to_text(array: pa.Array, zone: str) -> pa.Array:
    """Return each value's text, as `CAST(x AS STRING)` gives it.

    Raises PROJSEG_EVALUATION_BAD_CAST if a binary value is not UTF-8 text.
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
        return _texts_of_decimals(array)
    return array.cast(pa.string())


def _texts_of_decimals(array: pa.Array) -> pa.Array:
    with late_import:
        from projseg.kernels.decimals.decimal_texts import decimal_texts
    valid = valid_mask(array, len(array))
    written = decimal_texts(unscaled(array), array.type.scale, valid)
    if written is None:
        raise texts_too_large(len(array))
    return text_array(*written, pa.string(), None if valid.all() else valid)


def _without_zeros(text: pa.Array) -> pa.Array:
    """Drop trailing zeros of a fraction of a second, and a point with nothing after it."""
    return pc.replace_substring_regex(text, r"\.?0+$|(\.\d*?)0+$", r"\1")


def _floats(array: pa.Array) -> pa.Array:
    """Write Arrow's shortest digits as Java does; of the least floats, Java writes two."""
    with late_import:
        from projseg.kernels.decimals.float_texts import java_texts
    valid = valid_mask(array, len(array))
    written = java_texts(*text_buffers(array.cast(pa.string())), valid)
    if written is None:
        raise texts_too_large(len(array))
    texts = text_array(*written, pa.string(), None if valid.all() else valid)
    sizes = abs(doubles(array, len(array)))
    are_least = valid & (sizes < _LEAST_FLOATS[array.type]) & (sizes > 0)
    if not are_least.any():
        return texts
    rows = primitive_array(are_least)
    encoded = array.filter(rows).dictionary_encode()
    number = np.float32 if array.type == pa.float32() else np.float64
    least = [_with_two_digits(number(value)) for value in encoded.dictionary.to_pylist()]
    return pc.replace_with_mask(texts, rows, array_of(least, pa.string()).take(encoded.indices))


def _with_two_digits(value: np.floating[Any]) -> str:
    """Return the shortest digits that read back, the nearest two of them if one would do."""
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    nearest = f"{float(value):.1e}"
    if text.lstrip("-")[1:4] == ".0e" and type(value)(nearest) == value:
        text = nearest
    mantissa, exponent = text.split("e")
    return f"{mantissa}E{int(exponent)}"


_LEAST_FLOATS: Final = {pa.float64(): 1e-320, pa.float32(): 1e-42}
"""Below, floats are so far apart that one digit may read back where two are nearer."""
_WHITESPACE: Final = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER: Final = r"^[+-]?[0-9]+$"
_BLANKS: Final = r"[\x00-\x20\x7F]*"
_DIGITS: Final = r"(\p{Nd}+(\.\p{Nd}*)?|\.\p{Nd}+)"
_NUMBER: Final = rf"^{_BLANKS}[+-]?{_DIGITS}([eE][+-]?\p{{Nd}}+)?{_BLANKS}$"
_DOUBLE: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
_PLAIN_DOUBLE: Final = r"^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
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

    Raises EvaluationError if a text does not stand for a value of the type.
    """
    if wanted == pa.binary():
        return array.cast(pa.binary())
    if len(array) == 0 or array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    if is_decimal(wanted):
        return _decimals(array, wanted)
    trimmed = pc.utf8_trim(array, _WHITESPACE)
    if pa.types.is_timestamp(wanted):
        return _timestamps(trimmed, wanted, zone)
    readers = (
        (is_integral, _integers),
        (is_floating, _doubles),
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
        (pa.types.is_boolean, f"(?i)^({'|'.join((*_TRUE, *_FALSE))})$"),
        (pa.types.is_date32, _DATE_ONLY),
        (pa.types.is_timestamp, _TIMESTAMP),
    )
    shape = next((shape for is_kind, shape in shapes if is_kind(wanted)), "")
    found = pc.match_substring_regex(pc.utf8_trim(array, _WHITESPACE), shape)
    return filled_values(found, True)


def _decimals(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    values, readings = _read_decimals(text, wanted)
    is_none = readings == 2
    if is_none.any() and not pc.all(pc.string_is_ascii(text)).as_py():
        is_other = is_none & filled_values(pc.match_substring_regex(text, _NUMBER), False)
        if is_other.any():
            plain = _with_plain_digits(text.filter(primitive_array(is_other)))
            values[is_other], readings[is_other] = _read_decimals(plain, wanted)
            is_none = readings == 2
    failed = np.flatnonzero(is_none if is_none.any() else readings)
    if len(failed):
        first = text[int(failed[0])].as_py().strip(_WHITESPACE)
        too_large = overflow(f"{first[:80]} does not fit {type_name(wanted)}")
        error = _refused(first, wanted) if is_none.any() else too_large
        error.rows = readings != 0
        raise error
    return decimals(values, wanted, valid_mask(text, len(text)))


def _read_decimals(
    text: pa.Array, wanted: pa.DataType
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    with late_import:
        from projseg.kernels.decimals.decimal_texts import read_decimals
    valid = valid_mask(text, len(text))
    return read_decimals(*text_buffers(text), valid, wanted.precision, wanted.scale)


def _with_plain_digits(text: pa.Array) -> pa.Array:
    """Return texts in which the digits of all scripts are those of ASCII."""
    offsets, content = text_buffers(text)
    for character in set(content[offsets[0] : offsets[-1]].tobytes().decode()):
        if not character.isascii() and character.isdecimal():
            text = pc.replace_substring(text, character, str(int(character)))
    return text


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
    with suppress(pa.ArrowInvalid):  # which knows no sign of positive numbers
        return text.cast(wanted)
    try:
        return pc.replace_substring_regex(text, r"^\+|^(-?)0+([0-9])", r"\1\2").cast(wanted)
    except pa.ArrowInvalid as error:
        raise overflow(f"a text is a number outside {type_name(wanted)}") from error


def _doubles(text: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pc.all(pc.match_substring_regex(text, _PLAIN_DOUBLE)).as_py() is not False:
        return text.cast(wanted)
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
    """Return a zone's name; UTC in letters that Java does not know is PROJSEG_UNKNOWN_TIME_ZONE."""
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
