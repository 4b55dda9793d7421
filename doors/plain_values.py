"""Values as JSON knows them, for what people read: the shell's answers and the page's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final


def plain_value(value: Any) -> Any:
    """Return a value as JSON knows it: times in ISO 8601, decimals, bytes and NaN as text."""
    return next((plain(value) for kind, plain in _PLAIN if isinstance(value, kind)), value)


def plain_float(value: float) -> float | str:
    """Return a number that JSON has, or the text NaN, Infinity or -Infinity."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def plain_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping as a JSON object."""
    return {str(key): plain_value(item) for key, item in value.items()}


def _plain_list(value: Iterable[Any]) -> list[Any]:
    return [plain_value(item) for item in value]


_PLAIN: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...]] = (
    (datetime, lambda value: value.isoformat().replace("+00:00", "Z")),
    (date, date.isoformat),
    (Decimal, str),
    (bytes, bytes.hex),
    (float, plain_float),
    (Mapping, plain_mapping),
    ((list, tuple), _plain_list),
)
