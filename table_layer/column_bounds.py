"""Bounds of a column as a manifest keeps them, and as values of the column's type.

| type | stored as |
|---|---|
| boolean, integers | integer |
| date, timestamp, timestamp_ntz | integer: days, microseconds since 1970 |
| decimal | integer: the value without its point |
| float, double | number; text `Infinity`, `-Infinity` |
| string | text of at most 64 bytes of UTF-8 |
| binary | hexadecimal text of at most 64 bytes |

Both texts sort as the values do. A longer bound is cut: the lower end to a prefix, the upper end
to the least text of that length above all its continuations; the bounds are then inexact.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Final

import pyarrow as pa

from projseg.table_layer.limits import BOUND_BYTES_MAX
from projseg.table_layer.manifest import Bound

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_INFINITIES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}
_BY_TEXT: Final = {text: value for value, text in _INFINITIES.items()}
_EXACT: Final = Context(prec=76)
_LAST_CHARACTER: Final = "\U0010ffff"


def encode_bounds(
    minimum: object, maximum: object, arrow_type: pa.DataType
) -> tuple[Bound, Bound, bool]:
    """Return (minimum, maximum, whether both are exact) in stored form.

    Parameters
    ----------
    minimum, maximum : bool, int, float, Decimal, str, bytes, date, datetime or None
        Values of the column's type; None for no bound. Not NaN.
    arrow_type : pa.DataType
        The column's type.
    """
    low, high = _encode(minimum, arrow_type), _encode(maximum, arrow_type)
    exact = True
    if isinstance(minimum, bytes) and len(minimum) > BOUND_BYTES_MAX:
        low, exact = minimum[:BOUND_BYTES_MAX].hex(), False
    elif isinstance(minimum, str) and _prefix(minimum) != minimum:
        low, exact = _prefix(minimum), False
    if isinstance(maximum, bytes) and len(maximum) > BOUND_BYTES_MAX:
        high, exact = _bytes_above(maximum[:BOUND_BYTES_MAX]), False
    elif isinstance(maximum, str) and _prefix(maximum) != maximum:
        high, exact = _text_above(_prefix(maximum)), False
    return low, high, exact


def decode_bound(stored: Bound, arrow_type: pa.DataType) -> object:
    """Return a stored bound as a value of the type, or None if there is none or it has no meaning.

    Timestamps are aware datetimes in UTC, timestamp_ntz naive ones. A bound outside what Python's
    type can hold is none: pruning then keeps the segment.
    """
    types = pa.types
    if isinstance(stored, str):
        if types.is_string(arrow_type):
            return stored
        if types.is_floating(arrow_type):
            return _BY_TEXT.get(stored)
        return _from_hex(stored) if types.is_binary(arrow_type) else None
    if types.is_floating(arrow_type):
        return None if stored is None else float(stored)
    return _decode_integer(stored, arrow_type) if isinstance(stored, int) else None


def _decode_integer(stored: int, arrow_type: pa.DataType) -> object:
    types = pa.types
    if types.is_boolean(arrow_type):
        return stored != 0
    if types.is_integer(arrow_type):
        return stored
    if types.is_decimal(arrow_type):
        return Decimal(stored).scaleb(-arrow_type.scale, _EXACT)
    return _decode_time(stored, arrow_type)


def _decode_time(stored: int, arrow_type: pa.DataType) -> object:
    try:
        if pa.types.is_date(arrow_type):
            return _EPOCH_DAY + timedelta(days=stored)
        if not pa.types.is_timestamp(arrow_type):
            return None
        moment = _EPOCH + timedelta(microseconds=stored)
    except OverflowError:
        return None
    return moment if arrow_type.tz is None else moment.replace(tzinfo=UTC)


def _encode(value: object, arrow_type: pa.DataType) -> Bound:
    stored: Bound = None
    match value:
        case float():
            stored = _INFINITIES.get(value, value + 0.0)
        case bytes():
            stored = value.hex()
        case str():
            stored = value
        case Decimal():
            stored = int(value.scaleb(arrow_type.scale, _EXACT))
        case datetime():
            stored = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
        case date():
            stored = (value - _EPOCH_DAY).days
        case int():
            stored = int(value)
    return stored


def _prefix(text: str) -> str:
    """Return the longest prefix of whole characters that fits."""
    return text.encode()[:BOUND_BYTES_MAX].decode(errors="ignore")


def _text_above(prefix: str) -> str | None:
    shortened = prefix.rstrip(_LAST_CHARACTER)
    if not shortened:
        return None
    following = ord(shortened[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # surrogates are no characters
        following = 0xE000
    return shortened[:-1] + chr(following)


def _bytes_above(prefix: bytes) -> str | None:
    shortened = prefix.rstrip(b"\xff")
    if not shortened:
        return None
    return (shortened[:-1] + bytes([shortened[-1] + 1])).hex()


def _from_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
