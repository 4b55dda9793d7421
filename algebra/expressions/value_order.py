"""The order of values of one type, and cuts, which are places between values.

Order is Spark's: NaN after all numbers and equal to itself, -0.0 equal to 0.0, strings by code
point.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

Cut: TypeAlias = tuple[Any, ...]
"""BOTTOM, TOP, or (1, key, is after): just before the value of an `order_key`, or just after it."""
BOTTOM: Final[Cut] = (0,)
TOP: Final[Cut] = (2,)

_FIRST_SURROGATE: Final = 0xD800  # no string holds a surrogate
_AFTER_SURROGATES: Final = 0xE000
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def cut_at(value: object, arrow_type: pa.DataType, *, after: bool) -> Cut | None:
    """Return the cut just before or just after a value; None if it is not of the type.

    For integers, dates and timestamps the cut after a value is the cut before the next one, so
    that `> 3` and `>= 4` are the same set.
    """
    key = order_key(value, arrow_type)
    if key is None:
        return None
    if isinstance(key, int):
        return (1, key + after, 0)
    return (1, key, int(after))


def end_of_prefix(prefix: str) -> Cut:
    """Return the cut after all strings that begin with a prefix."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return TOP
    following = ord(kept[-1]) + 1
    if following == _FIRST_SURROGATE:
        following = _AFTER_SURROGATES
    return (1, kept[:-1] + chr(following), 0)


def order_key(value: object, arrow_type: pa.DataType) -> Any:
    """Return a key that sorts as Spark sorts `value`; None if the value is not of the type.

    It is an int for booleans, integers, dates (days) and timestamps (microseconds), and
    (is NaN, value) for float and double; decimals, strings and binaries are their own keys.
    """
    for is_kind, key_of in _KEYS:
        if is_kind(arrow_type):
            return key_of(value)
    return None


def _boolean_key(value: object) -> Any:
    return int(value) if isinstance(value, bool) else None


def _integer_key(value: object) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _decimal_key(value: object) -> Any:
    return Decimal(value) if isinstance(value, int | Decimal) else None


def _text_key(value: object) -> Any:
    return value if isinstance(value, str) else None


def _binary_key(value: object) -> Any:
    return value if isinstance(value, bytes) else None


def _float_key(value: object) -> Any:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return (True, 0.0) if math.isnan(value) else (False, value)


def _timestamp_key(value: object) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, datetime.datetime):
        return None
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def _date_key(value: object) -> Any:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        return None
    return (value - _EPOCH.date()).days


_KEYS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[object], Any]], ...]] = (
    (pa.types.is_boolean, _boolean_key),
    (pa.types.is_integer, _integer_key),
    (pa.types.is_floating, _float_key),
    (pa.types.is_decimal, _decimal_key),
    (pa.types.is_timestamp, _timestamp_key),
    (pa.types.is_date32, _date_key),
    (pa.types.is_string, _text_key),
    (pa.types.is_binary, _binary_key),
)
