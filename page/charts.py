"""Charts of an answer: a line over times, or bars of few values; what SVG needs to draw them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from projseg.page.query_view import cell_text, is_number

WIDTH: Final = 900
_LINE_HEIGHT: Final = 160
_BAR_HEIGHT: Final = 18
_LABEL_WIDTH: Final = 220
_VALUE_WIDTH: Final = 140
_LABEL_CHARACTERS: Final = 30
_BARS_MAX: Final = 50
_CHARTS_MAX: Final = 3
_LEAST_POINTS: Final = 2
_LARGEST: Final = 1e300  # whose differences are numbers, too


class Bar(NamedTuple):
    """A value's bar, and where its texts stand."""

    y: int
    x: float
    width: float
    label: str
    value: str


class Chart(NamedTuple):
    """A chart of one column: bars, or paths of SVG, one for each run of rows without a gap.

    Zero lies at `zero` from above for a line and from the left for bars; `low`, `high`, `first` and
    `last` are the ends of a line's axes.
    """

    title: str
    height: int
    paths: list[str]
    bars: list[Bar]
    zero: float
    low: str = ""
    high: str = ""
    first: str = ""
    last: str = ""


def charts(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]) -> list[Chart]:
    """Return charts of the first columns of numbers over the first column.

    There is none unless that is a time or has few values, and each is that of one row.
    """
    if len(rows) < _LEAST_POINTS or len({repr(row[0]) for row in rows}) < len(rows):
        return []
    by, kind = columns[0]
    is_line = kind in ("date", "timestamp", "timestamp_ntz")
    if not is_line and len(rows) > _BARS_MAX:
        return []
    found = []
    for place, (name, type_) in enumerate(columns[1:], 1):
        numbers = [_finite(row[place]) for row in rows]
        if is_number(type_) and any(one is not None for one in numbers):
            labels = [row[0] for row in rows]
            draw = _line if is_line else _bars
            found.append(draw(f"{name} by {by}", labels, numbers))
    return found[:_CHARTS_MAX]


def _line(title: str, times: Sequence[str | None], numbers: Sequence[float | None]) -> Chart:
    pairs = [
        (_seconds(one), one, number) for one, number in zip(times, numbers, strict=True) if one
    ]
    pairs.sort(key=lambda pair: pair[0])
    low, high = _range(numbers)
    start, end = pairs[0][0], pairs[-1][0]
    across, up = WIDTH / max(end - start, 1), _LINE_HEIGHT / (high - low)
    paths: list[str] = []
    path = ""
    for second, _, number in pairs:
        if number is None:
            paths, path = [*paths, path], ""
            continue
        x, y = (second - start) * across, (high - number) * up
        # A point alone is a line to itself, whose round ends show it.
        path += f"L{x:.1f} {y:.1f}" if path else f"M{x:.1f} {y:.1f}h0"
    return Chart(
        title,
        _LINE_HEIGHT,
        [one for one in [*paths, path] if one],
        [],
        round(high * up, 1),
        _text(low),
        _text(high),
        cell_text(pairs[0][1]),
        cell_text(pairs[-1][1]),
    )


def _bars(title: str, labels: Sequence[Any], numbers: Sequence[float | None]) -> Chart:
    low, high = _range(numbers)
    scale = (WIDTH - _LABEL_WIDTH - _VALUE_WIDTH) / (high - low)
    zero = _LABEL_WIDTH - low * scale
    bars = []
    for place, (label, number) in enumerate(zip(labels, numbers, strict=True)):
        width = 0.0 if number is None else abs(number) * scale
        x = zero - width if number is not None and number < 0 else zero
        text = "NULL" if label is None else cell_text(label)
        if len(text) > _LABEL_CHARACTERS:
            text = f"{text[: _LABEL_CHARACTERS - 1]}…"
        value = "" if number is None else _text(number)
        bars.append(Bar(place * _BAR_HEIGHT, round(x, 1), round(width, 1), text, value))
    return Chart(title, len(bars) * _BAR_HEIGHT, [], bars, round(zero, 1))


def _range(numbers: Sequence[float | None]) -> tuple[float, float]:
    """Return the ends of an axis, which has 0 on it."""
    found = [one for one in numbers if one is not None]
    low, high = min(0.0, *found), max(0.0, *found)
    return (low, high) if high > low else (0.0, 1.0)


def _finite(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) <= _LARGEST else None


def _text(number: float) -> str:
    return f"{number:,.0f}" if number == round(number) else f"{number:,.6g}"


def _seconds(text: str) -> float:
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
