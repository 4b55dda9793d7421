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
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache, partial
from typing import Final

import pyarrow as pa

from projseg.table_layer.metadata.metadata_limits import BOUND_BYTES_MAX
from projseg.table_layer.metadata.segment_entry import Bound

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

    Bounds are values of the column's type, not NaN; None for no bound.
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


@lru_cache(maxsize=4096)
def bound_decoder(arrow_type: pa.DataType) -> Callable[[Bound], object]:
    """Return a function that turns a stored bound into a value of the type.

    It returns None for no bound, for one without a meaning, and for one that Python's type cannot
    hold: pruning then keeps the segment. Timestamps are aware datetimes in UTC, timestamp_ntz naive
    ones.
    """
    types = pa.types
    decode: Callable[[Bound], object] = _nothing
    if types.is_string(arrow_type):
        decode = _text
    elif types.is_floating(arrow_type):
        decode = _float
    elif types.is_binary(arrow_type):
        decode = _binary
    elif types.is_boolean(arrow_type):
        decode = _boolean
    elif types.is_integer(arrow_type):
        decode = partial(_integer, end=1 << arrow_type.bit_width - 1)
    elif types.is_decimal(arrow_type):
        decode = partial(_decimal, scale=arrow_type.scale)
    elif types.is_date(arrow_type):
        decode = _date
    elif types.is_timestamp(arrow_type):
        epoch = _EPOCH if arrow_type.tz is None else _EPOCH.replace(tzinfo=UTC)
        decode = partial(_moment, epoch=epoch)
    return decode


def _nothing(_stored: Bound) -> None:
    return None


def _text(stored: Bound) -> str | None:
    return stored if isinstance(stored, str) else None


def _float(stored: Bound) -> float | None:
    if isinstance(stored, str):
        return _BY_TEXT.get(stored)
    return None if stored is None else float(stored)


def _binary(stored: Bound) -> bytes | None:
    return _from_hex(stored) if isinstance(stored, str) else None


def _integer(stored: Bound, end: int) -> int | None:
    return stored if isinstance(stored, int) and -end <= stored < end else None


def _boolean(stored: Bound) -> bool | None:
    return stored != 0 if isinstance(stored, int) else None


def _decimal(stored: Bound, scale: int) -> Decimal | None:
    return Decimal(stored).scaleb(-scale, _EXACT) if isinstance(stored, int) else None


def _date(stored: Bound) -> date | None:
    try:
        return _EPOCH_DAY + timedelta(days=stored) if isinstance(stored, int) else None
    except OverflowError:
        return None


def _moment(stored: Bound, epoch: datetime) -> datetime | None:
    try:
        return epoch + timedelta(microseconds=stored) if isinstance(stored, int) else None
    except OverflowError:
        return None


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
